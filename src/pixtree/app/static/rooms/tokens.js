// Tokens: three ways side by side; and, where the server has a model, what it makes of the photo.

import { $, fillSlider, notice, number, segments, setSlider } from "../controls.js";
import { createModelViews } from "./model_views.js";
import { createObjectView } from "./object_view.js";
import { createTrio } from "./trio.js";

const [LEAST, MOST, START] = [16, 1024, 196];
const VIEWS = { compare: "Compare", attention: "Attention", blocks: "Merging", similarity: "Alike", object: "Object" };
const HINTS = {
  compare: "All three have as many tokens, or nearly so. Decibels compare their mean colours with the photo.",
  attention: "The class token attends to the regions in full colour, in the last block.",
  blocks: "Tokens that mean nearly the same merge from block to block.",
  similarity: "Click a place in the photo: tokens like the one there keep their colour.",
};

export function tokensRoom(stage, app) {
  const state = { count: START, view: "compare", fill: "photo", block: 1 };
  const trio = createTrio(app);
  const views = createModelViews(stage, app);
  const object = createObjectView(stage, app, () => show());
  const slider = $("token-slider");
  let isAsked = false;

  const room = {
    zooms: true,
    open() {
      trio.forget();
      views.forget();
      object.forget();
      isAsked = false;
      $("answers-block").hidden = true;
      state.view = "compare";
      view.set("compare");
      showAmount();
    },
    async enter() {
      $("token-views-block").hidden = !app.about?.model;
      $("answers-title").textContent = `Prediction of ${app.about?.model ?? "the model"}`;
      show();
      if (app.about?.model && !views.model() && (await views.ask())) {
        state.block = views.model().counts.length;
        if (app.room === room) show();
      }
    },
    leave() {
      $("trio").hidden = true;
      stage.element.dataset.trio = "false";
      stage.resize();
    },
    draw() {
      if (state.view === "object") object.draw();
      else if (isReady()) views.draw(state.view, state);
    },
    release(point, event, moved) {
      if (point && !moved) room.click(point);
    },
    click([column, row]) {
      if (state.view !== "similarity" || !isReady()) return;
      views.choose(column, row);
      stage.redraw();
    },
    state,
    found: trio.found,
    model: views.model,
    object: object.found,
  };

  const isReady = () => views.model() !== null && state.view !== "compare" && state.view !== "object";

  function show() {
    const compares = state.view === "compare";
    room.zooms = !compares;
    $("trio").hidden = !compares;
    stage.element.dataset.trio = String(compares);
    stage.resize();
    $("token-hint").textContent = HINTS[state.view] ?? object.hint();
    $("token-fill-block").hidden = !(compares || state.view === "blocks");
    $("object-block").hidden = state.view !== "object";
    showAmount();
    if (compares && !isAsked) { isAsked = true; trio.ask(state.count); }
    if (state.view === "object") { object.use(); object.ask(state.count); }
    if (isReady()) views.use(state.view, state.block);
    stage.redraw();
  }

  // The slider counts tokens, or, where tokens merge, blocks.

  const counts = () => views.model()?.counts ?? [START];
  const isBlocks = () => state.view === "blocks";

  function showAmount(moveSlider = true) {
    const tokens = isBlocks() ? counts()[state.block - 1] : state.count;
    $("token-amount").hidden = state.view === "similarity" || (state.view === "object" && !object.cutsRegions());
    $("token-count").value = number(tokens);
    $("token-count").readOnly = isBlocks();
    $("token-unit").textContent = isBlocks() ? `tokens after block ${state.block}` : "tokens";
    $("token-least").textContent = isBlocks() ? "first block" : number(LEAST);
    $("token-most").textContent = isBlocks() ? "last block" : number(MOST);
    Object.assign(slider, isBlocks() ? { min: 1, max: counts().length } : { min: 0, max: 1000 });
    slider.setAttribute("aria-valuetext", `${tokens} ${$("token-unit").textContent}`);
    if (moveSlider) setSlider(slider, isBlocks() ? state.block : Math.round((1000 * Math.log(state.count / LEAST)) / Math.log(MOST / LEAST)));
  }

  function setCount(count) {
    state.count = Math.min(Math.max(Math.round(count), LEAST), MOST);
    isAsked = false;
  }

  slider.addEventListener("input", () => {
    fillSlider(slider);
    if (isBlocks()) { state.block = Number(slider.value); views.use("blocks", state.block); } else setCount(LEAST * (MOST / LEAST) ** (slider.value / 1000));
    showAmount(false);
    if (isReady()) stage.redraw();
  });
  slider.addEventListener("change", show);
  $("token-count").addEventListener("change", () => {
    const wanted = Number($("token-count").value.replace(/[^0-9]/g, ""));
    if (!wanted) notice(`a number of tokens is from ${LEAST} to ${number(MOST)}; type one of them`);
    setCount(wanted || state.count);
    show();
  });
  const view = segments($("token-view"), VIEWS, "compare", (name) => { state.view = name; show(); });
  segments($("token-fill"), { photo: "Photo", mean: "Mean", random: "Random" }, "photo", (fill) => {
    state.fill = fill;
    trio.show(fill);
    stage.redraw();
  });
  return room;
}
