// Select: clicks and strokes become masks. Every object has its marks, a history of them, and a name.

import { askArrays, download } from "../api.js";
import { $, fillSlider, guarded, say, segments } from "../controls.js";

export function selectRoom(stage, app) {
  const state = { objects: [], current: 0, isInside: true, radius: 10, stroke: null, pointer: null, isAsking: false };
  let tree, combined, waiting;

  const room = {
    zooms: true,
    open(newTree) {
      tree = newTree;
      combined = new Uint8Array(tree.width * tree.height);
      Object.assign(state, { objects: [fresh(1)], current: 0, stroke: null, isAsking: false });
      waiting = null;
      list();
    },
    enter() {
      stage.marks.hidden = false;
      stage.renderer.setPartition(tree.labels, tree.edges);
      stage.renderer.setTable(new Uint8Array(1024 * Math.ceil(tree.regions / 256)));
      combine();
      guarded(() => askArrays("select", {}, body({ marks: [] }))); // the tree is ready before the first click
    },
    leave() {
      stage.marks.hidden = true;
    },
    draw() {
      const hasMask = state.objects.some((object) => object.mask);
      const fill = hasMask ? "selection" : "photo";
      stage.renderer.draw(stage.view, { ...app.look(), fill, current: state.current + 1, lineWidth: 1.6 });
    },
    drawMarks,
    press(point, event) {
      if (!point || event.button > 2) return;
      state.stroke = { inside: event.button === 2 ? false : state.isInside !== event.altKey, radius: 0, points: [[point[1], point[0]]] };
      stage.redrawMarks();
    },
    drag(point, event) {
      room.hover(point, event);
      if (!state.stroke || !point) return;
      const [row, column] = state.stroke.points.at(-1);
      const isFar = Math.hypot(point[1] - row, point[0] - column) * stage.view.scale > (state.stroke.points.length > 1 ? 3 : 6);
      if (!isFar || state.stroke.points.length >= 2000) return;
      state.stroke.radius = state.radius;
      state.stroke.points.push([point[1], point[0]]);
      stage.redrawMarks();
    },
    release() {
      if (state.stroke) add(state.stroke);
      state.stroke = null;
    },
    cancel() {
      state.stroke = null;
      stage.redrawMarks();
    },
    hover(point, event) {
      state.pointer = point && event?.pointerType !== "touch" ? point : stage.cursor && point;
      stage.redrawMarks();
    },
    click(point) {
      add({ inside: state.isInside, radius: 0, points: [[point[1], point[0]]] });
    },
    state,
  };

  const object = () => state.objects[state.current];

  function fresh(number) {
    return { name: `Object ${number}`, marks: [], undone: [], mask: null, area: 0 };
  }

  function add(mark) {
    object().marks.push(mark);
    object().undone = [];
    update();
  }

  // One request at a time: marks that come meanwhile go with the next one.
  async function update() {
    list();
    stage.redrawMarks();
    const wanted = object();
    if (state.isAsking) { waiting = wanted; return; }
    state.isAsking = true;
    const start = performance.now();
    const marks = wanted.marks;
    const found = marks.length ? await guarded(() => askArrays("select", {}, body({ marks }))) : { arrays: { mask: null }, header: { area: 0 } };
    state.isAsking = false;
    if (found && state.objects.includes(wanted)) {
      wanted.mask = found.header.area ? found.arrays.mask : null;
      wanted.area = found.header.area;
      combine();
      requestAnimationFrame(() => { state.maskIn = performance.now() - start; });
      list();
      say(`${wanted.name}: ${share(wanted)} of the photo`);
    }
    const next = waiting;
    waiting = null;
    if (next && next === object()) update();
  }

  // All masks as one map of numbers; the current object lies above the others.
  function combine() {
    combined.fill(0);
    const order = [...state.objects.keys()].filter((one) => one !== state.current);
    for (const one of [...order, state.current]) {
      const { mask } = state.objects[one];
      if (mask) for (let place = 0; place < mask.length; place++) if (mask[place]) combined[place] = one + 1;
    }
    stage.renderer.setMask(combined);
    stage.redraw();
  }

  const share = ({ area }) => `${((100 * area) / (tree.width * tree.height)).toPrecision(2)} %`;

  function list() {
    $("object-name").value = object().name;
    $("undo").disabled = !object().marks.length;
    $("redo").disabled = !object().undone.length;
    $("clear").disabled = !object().marks.length;
    const hasMask = state.objects.some((one) => one.mask);
    for (const id of ["get-masks", "get-objects"]) $(id).disabled = !hasMask;
    $("objects").replaceChildren(...state.objects.map((one, index) => {
      const row = document.createElement("div");
      row.className = "object";
      row.dataset.current = String(index === state.current);
      const [name, words, remove] = ["button", "span", "button"].map((tag) => document.createElement(tag));
      Object.assign(name, { type: "button", className: "name", textContent: one.name });
      name.setAttribute("role", "radio");
      name.setAttribute("aria-checked", String(index === state.current));
      name.addEventListener("click", () => choose(index));
      Object.assign(words, { className: "share", textContent: one.mask ? share(one) : "" });
      Object.assign(remove, { type: "button", className: "remove", textContent: "×" });
      remove.setAttribute("aria-label", `Remove ${one.name}`);
      remove.addEventListener("click", () => drop(index));
      row.append(name, words, remove);
      return row;
    }));
  }

  function choose(index) {
    state.current = index;
    list();
    combine();
  }

  function drop(index) {
    state.objects.splice(index, 1);
    if (!state.objects.length) state.objects.push(fresh(1));
    choose(Math.min(state.current > index ? state.current - 1 : state.current, state.objects.length - 1));
  }

  function undo() {
    if (object().marks.length) { object().undone.push(object().marks.pop()); update(); }
  }

  function redo() {
    if (object().undone.length) { object().marks.push(object().undone.pop()); update(); }
  }

  // Marks: dots and strokes, filled for inside, hollow for outside; and the brush around the pointer.
  function drawMarks() {
    const { view, marks: canvas } = stage;
    const context = canvas.getContext("2d");
    const css = getComputedStyle(document.documentElement).getPropertyValue("--accent");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    const place = ([row, column]) => [view.x + (column + 0.5) * view.scale, view.y + (row + 0.5) * view.scale];
    for (const mark of [...object().marks, ...(state.stroke ? [state.stroke] : [])]) {
      if (mark.points.length > 1) stroke(context, mark, mark.points.map(place), css);
      else dot(context, mark, place(mark.points[0]), css);
    }
    if (state.pointer && !state.stroke) {
      const [x, y] = place([state.pointer[1], state.pointer[0]]);
      context.beginPath();
      context.arc(x, y, Math.max(3, state.radius * view.scale), 0, 7);
      context.lineWidth = 1.5;
      context.strokeStyle = "rgb(255 255 255 / 85%)";
      context.shadowColor = "rgb(0 0 0 / 60%)";
      context.shadowBlur = 4;
      context.stroke();
      context.shadowBlur = 0;
    }
  }

  function dot(context, mark, [x, y], accent) {
    context.beginPath();
    context.arc(x, y, 7, 0, 7);
    context.fillStyle = mark.inside ? accent : "#17181c";
    context.lineWidth = 2.5;
    context.strokeStyle = "#fff";
    context.fill();
    context.stroke();
    context.beginPath();
    context.moveTo(x - 3, y);
    context.lineTo(x + 3, y);
    if (mark.inside) { context.moveTo(x, y - 3); context.lineTo(x, y + 3); }
    context.lineWidth = 1.8;
    context.stroke();
  }

  function stroke(context, mark, line, accent) {
    context.beginPath();
    line.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.lineCap = context.lineJoin = "round";
    context.lineWidth = Math.max(2, 2 * mark.radius * stage.view.scale);
    context.globalAlpha = mark === state.stroke ? 0.6 : 0.28;
    context.strokeStyle = mark.inside ? accent : "#17181c";
    context.stroke();
    context.globalAlpha = 1;
  }

  segments($("side"), { inside: "Inside", outside: "Outside" }, "inside", (side) => { state.isInside = side === "inside"; });
  $("brush").addEventListener("input", showBrush);
  function showBrush() {
    state.radius = Number($("brush").value);
    $("brush-text").textContent = `${2 * state.radius} px`;
    fillSlider($("brush"));
  }
  showBrush();
  $("undo").addEventListener("click", undo);
  $("redo").addEventListener("click", redo);
  $("clear").addEventListener("click", () => { Object.assign(object(), { marks: [], undone: object().marks.reverse() }); update(); });
  $("object-name").addEventListener("input", () => {
    object().name = $("object-name").value;
    $("objects").children[state.current].querySelector(".name").textContent = object().name;
  });
  $("add-object").addEventListener("click", () => { state.objects.push(fresh(state.objects.length + 1)); choose(state.objects.length - 1); });
  addEventListener("keydown", (event) => {
    if (app.room !== room || !(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || event.target.matches("input:not([type=range])")) return;
    event.preventDefault();
    (event.shiftKey ? redo : undo)();
  });
  const taken = () => state.objects.filter((one) => one.marks.length).map(({ name, marks }) => ({ name, marks }));
  for (const [id, format] of [["get-masks", "masks"], ["get-objects", "coco"]]) {
    $(id).addEventListener("click", () => app.busy(() => guarded(() => download("objects", {}, body({ objects: taken(), format })))));
  }
  return room;
}

function body(value) {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) };
}
