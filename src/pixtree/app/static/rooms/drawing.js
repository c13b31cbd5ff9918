// Drawing: the photo as SVG. A quick draft comes first, the refined drawing after it.

import { ask, save } from "../api.js";
import { $, bytes, fillSlider, guarded, notice, number, say, segments, setSlider } from "../controls.js";

const BUDGETS = {
  paths: { least: 5, most: 5000, start: 800, words: (value) => number(value) },
  points: { least: 200, most: 100000, start: 12000, words: (value) => number(value) },
  bytes: { least: 2000, most: 1000000, start: 80000, words: bytes },
};

export function drawingRoom(stage, app) {
  const state = { budget: "paths", amounts: null, look: "detailed", wipe: 0.5, url: null, svg: null, asked: 0, stale: true };
  const [image, wipe] = [$("vector"), $("wipe")];
  let tree;

  const room = {
    zooms: true,
    open(newTree) {
      tree = newTree;
      state.amounts = Object.fromEntries(Object.entries(BUDGETS).map(([name, { start }]) => [name, start]));
      Object.assign(state, { svg: null, stale: true, wipe: 0.5 });
      image.hidden = true;
      showAmount();
    },
    enter() {
      stage.renderer.setPartition(tree.labels, tree.edges);
      stage.element.classList.add("grab");
      wipe.hidden = false;
      if (state.stale) request();
      else image.hidden = false;
      stage.redraw();
    },
    leave() {
      stage.element.classList.remove("grab");
      image.hidden = wipe.hidden = true;
    },
    draw() {
      const { view, renderer } = stage;
      renderer.setTable(new Uint8Array(1024 * Math.ceil(tree.regions / 256)));
      renderer.draw(view, { ...app.look(), fill: "photo" });
      const [width, height] = [view.width * view.scale, view.height * view.scale];
      Object.assign(image.style, { left: `${view.x}px`, top: `${view.y}px`, width: `${width}px`, height: `${height}px` });
      const compares = $("compare").checked && state.svg !== null;
      const at = compares ? Math.min(Math.max(state.wipe * stage.element.clientWidth, view.x), view.x + width) : view.x;
      image.style.clipPath = `inset(0 0 0 ${Math.max(0, at - view.x)}px)`;
      wipe.hidden = !compares;
      const [top, bottom] = [Math.max(view.y, 0), Math.min(view.y + height, stage.element.clientHeight)];
      Object.assign(wipe.style, { left: `${at}px`, top: `${top}px`, height: `${bottom - top}px` });
      wipe.setAttribute("aria-valuenow", String(Math.round((100 * (at - view.x)) / width)));
    },
    press: () => stage.element.classList.add("grabbing"),
    release: () => stage.element.classList.remove("grabbing"),
    state,
  };

  const range = () => BUDGETS[state.budget];
  const amount = () => state.amounts[state.budget];

  function showAmount(moveSlider = true) {
    const { least, most, words } = range();
    $("amount").value = state.budget === "bytes" ? words(amount()) : number(amount());
    $("amount-unit").textContent = state.budget === "bytes" ? "" : state.budget;
    $("amount-least").textContent = words(least);
    $("amount-most").textContent = words(most);
    $("amount-slider").setAttribute("aria-valuetext", `${words(amount())} ${state.budget}`);
    if (moveSlider) setSlider($("amount-slider"), Math.round((1000 * Math.log(amount() / least)) / Math.log(most / least)));
  }

  function setAmount(value, moveSlider) {
    const { least, most } = range();
    const digits = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1); // two digits are enough for a slider
    const rounded = moveSlider ? Math.round(value) : Math.round(value / digits) * digits;
    state.amounts[state.budget] = Math.min(Math.max(rounded, least), most);
    showAmount(moveSlider);
  }

  // The newest wish counts: an answer to an older one is dropped, and the refined drawing follows its draft.
  async function request() {
    const mine = ++state.asked;
    state.stale = true;
    const query = { [state.budget]: amount(), look: state.look };
    await app.busy(() => guarded(async () => {
      await fetchDrawing({ ...query, fast: true }, mine);
      if (mine === state.asked) await fetchDrawing(query, mine);
    }));
  }

  async function fetchDrawing(query, mine) {
    const answer = await ask("drawing", query);
    const text = await answer.blob();
    if (mine !== state.asked) return;
    const before = state.url;
    state.url = URL.createObjectURL(text);
    state.svg = text;
    state.stale = false;
    state.isRefined = !query.fast;
    image.src = state.url;
    await image.decode().catch(() => {});
    if (before) URL.revokeObjectURL(before);
    if (app.room === room) image.hidden = false;
    const header = (name) => Number(answer.headers.get(`x-pixtree-${name}`));
    $("psnr").textContent = `${header("psnr").toFixed(1)} dB`;
    $("svg-bytes").textContent = bytes(header("bytes"));
    $("svg-paths").textContent = number(header("paths"));
    $("svg-points").textContent = number(header("points"));
    $("get-svg").disabled = false;
    if (!query.fast) say(`Drawing of ${header("paths")} paths, ${bytes(header("bytes"))}, ${header("psnr").toFixed(1)} decibels`);
    stage.redraw();
  }

  $("amount-slider").addEventListener("input", () => {
    const { least, most } = range();
    fillSlider($("amount-slider"));
    setAmount(least * (most / least) ** ($("amount-slider").value / 1000), false);
  });
  $("amount-slider").addEventListener("change", request);
  $("amount").addEventListener("change", () => {
    const text = $("amount").value.replace(/[, ]/g, "").toLowerCase();
    const value = Number.parseFloat(text) * (text.endsWith("mb") ? 1e6 : text.endsWith("kb") ? 1e3 : 1);
    if (!(value > 0)) notice(`a budget is a number of ${state.budget}; type one`);
    else { setAmount(value, true); request(); }
    showAmount();
  });
  segments($("budget"), { paths: "Paths", points: "Points", bytes: "Bytes" }, "paths", (budget) => { state.budget = budget; showAmount(); request(); });
  const looks = { detailed: "Detail", smooth: "Smooth", poster: "Poster", icon: "Icon", sketch: "Sketch" };
  segments($("drawing-look"), looks, "detailed", (look) => { state.look = look; request(); });
  $("compare").addEventListener("change", () => stage.redraw());
  $("get-svg").addEventListener("click", () => state.svg && save(state.svg, "drawing.svg"));

  // The handle between before and after

  function moveWipe(event) {
    state.wipe = stage.local(event)[0] / stage.element.clientWidth;
    stage.redraw();
  }
  wipe.addEventListener("pointerdown", (event) => { wipe.setPointerCapture(event.pointerId); event.stopPropagation(); });
  wipe.addEventListener("pointermove", (event) => { if (wipe.hasPointerCapture(event.pointerId)) { event.stopPropagation(); moveWipe(event); } });
  wipe.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -0.05, ArrowRight: 0.05, Home: -1, End: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    state.wipe = Math.min(Math.max(state.wipe + step, 0), 1);
    stage.redraw();
  });
  return room;
}
