// Regions: any cut of the tree, drawn by the page itself.

import { askArrays, download } from "../api.js";
import { $, fillSlider, guarded, notice, number, say, segments, setSlider } from "../controls.js";
import { partitionEdges } from "../edges.js";
import { branch, colourTable, cut, lifetime, softColour } from "../tree.js";

const START = 200;
const MOST_LABELS = 65536;
const THUMBNAIL = 96;

export function regionsRoom(stage, app) {
  const state = { by: "count", count: START, level: 0, criterion: "aicc", penalty: 1, fill: "photo", lit: null, clicked: null, other: null };
  let tree, region, table;
  const slider = $("slider");

  const room = {
    zooms: true,
    open(newTree) {
      tree = newTree;
      region = new Uint16Array(tree.parent.length);
      table = tableFor(tree.regions);
      Object.assign(state, { count: Math.min(START, tree.regions), lit: null, clicked: null, other: null });
      $("most").textContent = number(tree.regions);
      const shown = tree.levels.map((count, level) => [level, count]).filter(([, count]) => count <= MOST_LABELS);
      Object.assign($("level"), { min: shown[0][0], max: shown.at(-1)[0] });
      state.level = (shown.find(([, count]) => count <= 2000) ?? shown.at(-1))[0];
      setSlider($("level"), state.level);
      $("branch-block").hidden = true;
      by.set("count");
      setBy("count");
    },
    enter() {
      usePartition();
      stage.redraw();
    },
    draw() {
      const isTree = state.by === "count";
      if (isTree) colourTable(tree, cut(tree, state.count, region), state.fill, state.lit, table);
      stage.renderer.setTable(isTree ? table : otherTable());
      stage.renderer.draw(stage.view, {
        ...app.look(), fill: state.fill, count: isTree ? state.count : 1,
        lineStrength: $("lines").checked ? (state.fill === "photo" ? 0.9 : 0.55) : 0, lineWidth: 1,
      });
    },
    hover(point) {
      const lit = point === null ? null : regionAt(point);
      if (lit === state.lit) return;
      state.lit = lit;
      if (lit !== null) showFacts(lit);
      stage.redraw();
    },
    release(point, event, moved) {
      if (point && !moved && event.button === 0) room.click(point);
    },
    click(point) {
      state.lit = regionAt(point);
      showFacts(state.lit);
      state.clicked = tree.labels[point[1] * tree.width + point[0]];
      showBranch();
      stage.redraw();
    },
    regionTable: (count) => cut(tree, count).slice(tree.regions - 1), // the node of every label, for tests
    state,
  };

  const source = () => (state.by === "count" ? tree : state.other);

  function regionAt([column, row]) {
    const from = source();
    if (!from) return null;
    const label = from.labels[row * tree.width + column];
    return state.by === "count" ? cut(tree, state.count, region)[tree.regions - 1 + label] : label;
  }

  function usePartition() {
    const from = source();
    if (from) stage.renderer.setPartition(from.labels, from.edges);
  }

  function otherTable() {
    const { colour, table: own, regions } = state.other;
    for (let label = 0; label < regions; label++) {
      own.set(state.fill === "random" ? softColour(label) : colour.subarray(3 * label, 3 * label + 3), 4 * label);
      own[4 * label + 3] = label === state.lit ? 255 : 0;
    }
    return own;
  }

  // Counts

  const position = (count) => Math.round((1000 * Math.log(count)) / Math.log(Math.max(2, tree.regions)));

  function setCount(count, moveSlider = true) {
    state.count = Math.min(Math.max(1, Math.round(count)), tree.regions);
    state.lit = null;
    showCount(state.count);
    if (moveSlider) setSlider(slider, position(state.count));
    slider.setAttribute("aria-valuetext", `${state.count} regions`);
    markBranch();
    stage.redraw();
  }
  room.setCount = setCount;

  function showCount(count) {
    $("count").value = number(count);
    $("count-unit").textContent = count === 1 ? "region" : "regions";
  }

  slider.addEventListener("input", () => {
    fillSlider(slider);
    setCount(Math.max(2, tree.regions) ** (slider.value / 1000), false);
  });
  $("count").addEventListener("change", () => {
    const wanted = Number($("count").value.replace(/[^0-9]/g, ""));
    if (!wanted) notice(`a number of regions is from 1 to ${number(tree.regions)}; type one of them`);
    setCount(wanted || state.count);
  });
  $("count").addEventListener("keydown", (event) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!step || state.by !== "count") return;
    event.preventDefault();
    setCount(state.count + step * (event.shiftKey ? 10 : 1));
  });

  // Levels and criteria, which the server cuts

  const by = segments($("cut-by"), { count: "Count", level: "Level", criterion: "Criterion" }, "count", setBy);
  segments($("fill"), { photo: "Photo", mean: "Mean", random: "Random" }, "photo", (fill) => { state.fill = fill; stage.redraw(); });
  const criteria = { aic: "AIC", aicc: "AICc", bic: "BIC", cic: "CIC" };
  segments($("criterion"), criteria, "aicc", (name) => { state.criterion = name; askCut(); });
  $("lines").addEventListener("change", stage.redraw);
  $("level").addEventListener("input", () => { fillSlider($("level")); state.level = Number($("level").value); showWords(); });
  $("level").addEventListener("change", askCut);
  $("penalty").addEventListener("input", () => { fillSlider($("penalty")); state.penalty = 10 ** ($("penalty").value / 100); showWords(); });
  $("penalty").addEventListener("change", askCut);

  function setBy(name) {
    state.by = name;
    for (const one of ["count", "level", "criterion"]) $(`by-${one}`).hidden = one !== name;
    $("count").readOnly = name !== "count";
    state.lit = null;
    showWords();
    if (name === "count") { usePartition(); setCount(state.count); } else askCut();
  }

  function showWords() {
    fillSlider($("level"));
    fillSlider($("penalty"));
    $("level").setAttribute("aria-valuetext", `Level ${state.level} of ${tree.levels.length - 1}`);
    $("penalty-text").textContent = `× ${state.penalty.toPrecision(2)}`;
  }

  const query = () => ({
    count: () => ({ tokens: state.count }),
    level: () => ({ level: state.level }),
    criterion: () => ({ criterion: state.criterion, penalty: state.penalty.toFixed(4) }),
  })[state.by]();

  async function askCut() {
    const { by: asked, ...wanted } = { by: state.by, ...query() };
    const found = await app.busy(() => guarded(() => askArrays("cut", wanted)));
    if (!found || asked !== state.by || JSON.stringify(wanted) !== JSON.stringify(query())) return;
    const { header, arrays } = found;
    state.other = { ...arrays, ...header, width: tree.width, height: tree.height, table: tableFor(header.regions) };
    state.other.edges = partitionEdges(state.other);
    showCount(header.regions);
    say(`${header.regions} regions`);
    state.lit = null;
    if (app.room === room) usePartition();
    stage.redraw();
  }

  // Numbers of a region, and its branch

  function showFacts(node) {
    if (node === null) return;
    const from = source();
    const [red, green, blue] = from.colour.subarray(3 * node, 3 * node + 3);
    const hex = `#${[red, green, blue].map((value) => value.toString(16).padStart(2, "0")).join("")}`;
    const [top, left, bottom, right] = from.box.subarray(4 * node, 4 * node + 4);
    const rows = [
      ["Area", `${number(from.area[node])} px, ${((100 * from.area[node]) / (tree.width * tree.height)).toPrecision(2)} %`],
      ["Mean colour", hex, hex],
      ["Box", `${right - left} × ${bottom - top} at ${left}, ${top}`],
    ];
    if (state.by === "count") {
      const [first, last] = lifetime(tree, node);
      rows.splice(2, 0, ["Spread in Lab", from.spread[node].toFixed(1)]);
      rows.push(["Exists", `at ${number(first)} to ${number(last)} regions`]);
    }
    const list = document.createElement("dl");
    for (const [name, text, colour] of rows) {
      const [term, value] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      value.textContent = text;
      if (colour) {
        const swatch = document.createElement("span");
        swatch.className = "swatch";
        swatch.style.background = colour;
        value.prepend(swatch);
      }
      list.append(term, value);
    }
    $("region").replaceChildren(list);
  }

  // The ancestors of the clicked pixel, each at least half as large again as the one before.
  function showBranch() {
    const chain = [];
    for (const node of branch(tree, state.clicked)) {
      if (!chain.length || node === 0 || tree.area[node] >= 1.6 * tree.area[chain.at(-1)]) chain.push(node);
    }
    $("branch").replaceChildren(...chain.map((node) => {
      const button = document.createElement("button");
      const share = ((100 * tree.area[node]) / (tree.width * tree.height)).toPrecision(2);
      button.type = "button";
      button.dataset.node = node;
      button.setAttribute("aria-label", `Region of ${share} per cent of the photo`);
      const words = document.createElement("span");
      words.textContent = `${Number(share)} %`;
      button.append(thumbnail(node), words);
      button.addEventListener("click", () => { by.set("count"); setBy("count"); setCount(lifetime(tree, node)[0]); state.lit = node; showFacts(node); markBranch(); });
      return button;
    }));
    $("branch-block").hidden = false;
    markBranch();
  }

  function markBranch() {
    if (state.clicked === null) return;
    const current = cut(tree, state.count, region)[tree.regions - 1 + state.clicked];
    for (const button of $("branch").children) button.setAttribute("aria-current", String(Number(button.dataset.node) === current));
  }

  // The region in its surroundings, which are dimmed: a square about half as large again as its box.
  function thumbnail(node) {
    const [top, left, bottom, right] = tree.box.subarray(4 * node, 4 * node + 4);
    const side = Math.min(Math.max(1.5 * Math.max(right - left, bottom - top), 24), Math.max(tree.width, tree.height));
    const x = middle((left + right - side) / 2, tree.width - side);
    const y = middle((top + bottom - side) / 2, tree.height - side);
    const canvas = Object.assign(document.createElement("canvas"), { width: THUMBNAIL, height: THUMBNAIL });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(app.bitmap, x, y, side, side, 0, 0, THUMBNAIL, THUMBNAIL);
    const image = context.getImageData(0, 0, THUMBNAIL, THUMBNAIL);
    const inside = new Uint8Array(tree.parent.length);
    for (let one = 0; one < inside.length; one++) inside[one] = one === node || inside[tree.parent[one]] ? 1 : 0;
    for (let place = 0; place < THUMBNAIL * THUMBNAIL; place++) {
      const column = Math.floor(x + (((place % THUMBNAIL) + 0.5) * side) / THUMBNAIL);
      const row = Math.floor(y + ((Math.floor(place / THUMBNAIL) + 0.5) * side) / THUMBNAIL);
      const isOn = column >= 0 && row >= 0 && column < tree.width && row < tree.height;
      if (isOn && !inside[tree.regions - 1 + tree.labels[row * tree.width + column]]) image.data[4 * place + 3] = 60;
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  for (const format of ["png", "geojson", "coco"]) {
    $(`get-${format}`).addEventListener("click", () => app.busy(() => guarded(() => download("regions", { ...query(), format }))));
  }
  return room;
}

// Where a window starts: inside the picture, or, if it is larger than that, so that both have one centre.
function middle(start, room) {
  return room < 0 ? room / 2 : Math.min(Math.max(start, 0), room);
}

function tableFor(regions) {
  return new Uint8Array(1024 * Math.ceil(regions / 256));
}
