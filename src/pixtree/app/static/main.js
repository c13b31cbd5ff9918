// The page: a photo comes in by file, drop, paste or example, and four rooms show it.

import { about, example, grow } from "./api.js";
import { $, guarded, notice, say } from "./controls.js";
import { treeEdges } from "./edges.js";
import { drawingRoom } from "./rooms/drawing.js";
import { regionsRoom } from "./rooms/regions.js";
import { selectRoom } from "./rooms/select.js";
import { tokensRoom } from "./rooms/tokens.js";
import { createStage } from "./stage.js";
import { treeOf } from "./tree.js";

const parameters = new URLSearchParams(location.search);
const stage = createStage($("stage"), $("canvas"), $("marks"), parameters.get("renderer"));
const app = { stage, tree: null, bitmap: null, room: null, about: null, busy, look, openPhoto };
const rooms = {
  regions: regionsRoom(stage, app), select: selectRoom(stage, app), drawing: drawingRoom(stage, app), tokens: tokensRoom(stage, app),
};
let working = 0;

// Themes

const dark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  return localStorage.getItem("pixtree-theme") ?? (dark.matches ? "dark" : "light");
}

function useTheme() {
  document.documentElement.dataset.theme = theme();
  stage.redraw();
}

// What all rooms hand to the renderer.
function look() {
  const isDark = document.documentElement.dataset.theme === "dark";
  return { dark: isDark, accent: isDark ? [0.56, 0.533, 1] : [0.31, 0.275, 0.898], lineWidth: 1, lineStrength: 0, count: 1 };
}

// Show that the server is asked, while a task runs.
async function busy(task) {
  working += 1;
  $("working").hidden = false;
  try {
    return await task();
  } finally {
    working -= 1;
    $("working").hidden = working === 0;
  }
}

async function openPhoto(blob, name = "The photo") {
  if (app.about && blob.size > app.about.uploadBytes) {
    notice(`a file may have at most ${Math.round(app.about.uploadBytes / 1048576)} MB, this one has ${(blob.size / 1048576).toFixed(1)}; make it smaller first`);
    return;
  }
  document.body.classList.add("loading");
  $("drop").querySelector(".drop-title").textContent = "Growing the tree …";
  const start = performance.now();
  const grown = await busy(() => guarded(() => grow(blob)));
  document.body.classList.remove("loading");
  $("drop").querySelector(".drop-title").textContent = "Drop a photo here";
  if (!grown) return;
  const bitmap = await createImageBitmap(grown.picture);
  const tree = treeOf(grown.header, grown.arrays);
  tree.edges = treeEdges(tree);
  Object.assign(app, { tree, bitmap });
  $("start").hidden = true;
  for (const id of ["work", "rooms", "open"]) $(id).hidden = false;
  Object.assign(stage.view, { width: tree.width, height: tree.height, fitted: true });
  stage.cursor = null;
  stage.element.style.setProperty("--aspect", tree.height / tree.width);
  stage.resize();
  stage.renderer.setPhoto(bitmap);
  for (const room of Object.values(rooms)) room.open(tree);
  enter(app.roomName ?? "regions");
  say(`${name}, ${tree.width} by ${tree.height} pixels, is open.`);
  requestAnimationFrame(() => requestAnimationFrame(() => { app.openedIn = performance.now() - start; }));
}

function enter(name) {
  app.room?.leave?.();
  Object.assign(app, { roomName: name, room: rooms[name] });
  stage.room = app.room;
  for (const tab of $("rooms").children) {
    const isHere = tab.dataset.room === name;
    tab.setAttribute("aria-selected", String(isHere));
    tab.tabIndex = isHere ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !isHere;
  }
  stage.element.dataset.room = name;
  app.room.enter();
}

function listenForRooms() {
  const tabs = [...$("rooms").children];
  for (const tab of tabs) tab.addEventListener("click", () => enter(tab.dataset.room));
  $("rooms").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
    next.focus();
    enter(next.dataset.room);
  });
}

function listenForPhotos() {
  const file = $("file");
  const choose = () => { file.value = ""; file.click(); };
  $("drop").addEventListener("click", choose);
  $("open").addEventListener("click", choose);
  file.addEventListener("change", () => { if (file.files[0]) openPhoto(file.files[0], file.files[0].name); });
  addEventListener("paste", (event) => {
    const pasted = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
    if (pasted) openPhoto(pasted, "The pasted photo");
    else if (!event.target.closest?.("input")) notice("no picture is in the clipboard; copy one first");
  });
  addEventListener("dragover", (event) => { event.preventDefault(); $("veil").hidden = false; });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("veil").hidden = true; });
  addEventListener("drop", (event) => {
    event.preventDefault();
    $("veil").hidden = true;
    const dropped = event.dataTransfer.files[0];
    if (dropped) openPhoto(dropped, dropped.name);
    else notice("a photo must be a file here; save it first, then drop it");
  });
}

async function showExamples() {
  app.about = await guarded(about);
  if (!app.about) return;
  $("examples").replaceChildren(...Object.entries(app.about.examples).map(([name, words]) => {
    const [item, button, image] = ["li", "button", "img"].map((tag) => document.createElement(tag));
    Object.assign(image, { src: `/examples/${name}?small=true`, alt: words, loading: "lazy" });
    button.type = "button";
    button.dataset.example = name;
    button.addEventListener("click", () => guarded(async () => openPhoto(await example(name), words)));
    button.append(image);
    item.append(button);
    return item;
  }));
}

$("theme").addEventListener("click", () => {
  localStorage.setItem("pixtree-theme", theme() === "dark" ? "light" : "dark");
  useTheme();
});
dark.addEventListener("change", useTheme);
useTheme();
listenForRooms();
listenForPhotos();
showExamples();
window.pixtree = { app, rooms }; // for the console and for tests
