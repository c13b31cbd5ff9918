// The stage: one picture, its renderer, and pointers, wheel and keys turned into moves of the view or into marks of the room.

import { canvasRenderer } from "./renderer_canvas.js";
import { glRenderer } from "./renderer_gl.js";
import { createView } from "./view.js";

export function createStage(element, canvas, marks, kind) {
  const view = createView(element);
  const renderer = (kind !== "canvas" && glRenderer(canvas)) || canvasRenderer(canvas);
  const stage = { element, marks, view, renderer, room: null, cursor: null, timings: [], redraw, redrawMarks, resize, local };
  let asked = false;
  let whole = false;

  // Draw in the next frame: everything, or only what lies above the picture.
  function redraw() {
    whole = true;
    redrawMarks();
  }

  function redrawMarks() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      const start = performance.now();
      if (whole) stage.room?.draw();
      stage.room?.drawMarks?.();
      asked = whole = false;
      stage.timings.push(performance.now() - start);
      if (stage.timings.length > 4000) stage.timings.splice(0, 2000);
    });
  }

  function resize() {
    const { clientWidth: width, clientHeight: height } = element;
    if (!width || !height) return;
    view.ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const one of [canvas, marks]) {
      one.width = Math.round(width * view.ratio);
      one.height = Math.round(height * view.ratio);
    }
    if (view.fitted) view.fit();
    else view.pan(0, 0);
    redraw();
  }

  function local(event) {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  new ResizeObserver(resize).observe(element);
  listen(stage);
  return stage;
}

function listen(stage) {
  const { element, view } = stage;
  const pointers = new Map();
  let moved = 0;
  let pinch = null;

  element.addEventListener("contextmenu", (event) => event.preventDefault());
  element.addEventListener("wheel", (event) => {
    if (!stage.room?.zooms) return;
    event.preventDefault();
    view.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), ...stage.local(event));
    stage.redraw();
  }, { passive: false });

  element.addEventListener("pointerdown", (event) => {
    if (event.target.closest("[role=slider], button, input")) return;
    element.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, stage.local(event));
    moved = 0;
    if (pointers.size === 2) { pinch = spread(pointers); stage.room?.cancel?.(); }
    else if (pointers.size === 1) stage.room?.press?.(view.toPicture(...stage.local(event)), event);
  });
  element.addEventListener("pointermove", (event) => {
    const here = stage.local(event);
    const before = pointers.get(event.pointerId);
    if (!before) { stage.room?.hover?.(view.toPicture(...here), event); return; }
    pointers.set(event.pointerId, here);
    moved += Math.hypot(here[0] - before[0], here[1] - before[1]);
    if (pointers.size === 2 && pinch) {
      const now = spread(pointers);
      view.pan(now.x - pinch.x, now.y - pinch.y);
      view.zoom(now.length / pinch.length, now.x, now.y);
      pinch = now;
      stage.redraw();
    } else if (pointers.size === 1 && !pinch) {
      if (stage.room?.drag) stage.room.drag(view.toPicture(...here), event);
      else if (stage.room?.zooms) { view.pan(here[0] - before[0], here[1] - before[1]); stage.redraw(); }
    }
  });
  const up = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    const wasPinch = pinch !== null;
    if (pointers.size === 0) pinch = null;
    if (!wasPinch) stage.room?.release?.(view.toPicture(...stage.local(event)), event, moved > 5);
  };
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", (event) => { pointers.delete(event.pointerId); pinch = null; stage.room?.cancel?.(); });
  element.addEventListener("pointerleave", () => { if (!pointers.size) stage.room?.hover?.(null); });
  element.addEventListener("dblclick", () => { if (stage.room?.zooms && !stage.room.drag) { view.fit(); stage.redraw(); } });
  element.addEventListener("keydown", (event) => key(stage, event));
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// Plus, minus and 0 zoom; arrows move a cursor over the picture, faster with Shift; Enter and Space click there.
function key(stage, event) {
  const { view, element } = stage;
  if (event.target !== element || !stage.room?.zooms || event.ctrlKey || event.metaKey) return;
  const middle = [element.clientWidth / 2, element.clientHeight / 2];
  if (event.key === "+" || event.key === "=") view.zoom(1.25, ...middle);
  else if (event.key === "-") view.zoom(0.8, ...middle);
  else if (event.key === "0") view.fit();
  else if (event.key in ARROWS) {
    const step = (event.shiftKey ? 0.08 : 0.015) * Math.max(view.width, view.height);
    const [column, row] = stage.cursor ?? [view.width / 2, view.height / 2];
    const [dx, dy] = ARROWS[event.key];
    stage.cursor = [clamped(column + dx * step, view.width), clamped(row + dy * step, view.height)];
    stage.room.hover?.(stage.cursor.map(Math.floor));
  } else if ((event.key === "Enter" || event.key === " ") && stage.cursor) stage.room.click?.(stage.cursor.map(Math.floor), event);
  else return;
  event.preventDefault();
  stage.redraw();
}

function clamped(value, size) {
  return Math.min(Math.max(value, 0), size - 1);
}

function spread(pointers) {
  const [[ax, ay], [bx, by]] = [...pointers.values()];
  return { x: (ax + bx) / 2, y: (ay + by) / 2, length: Math.max(1, Math.hypot(ax - bx, ay - by)) };
}
