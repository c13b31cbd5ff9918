// What a model makes of the photo: attention on regions, token trees block by block, and tokens that are alike.

import { askArrays } from "../api.js";
import { $, guarded } from "../controls.js";
import { partitionEdges } from "../edges.js";
import { cut, softColour } from "../tree.js";

export function createModelViews(stage, app) {
  let model = null;
  let tree, region, patches, attention, patchColours;
  let token = null;

  return {
    model: () => model,
    forget() { [model, token] = [null, null]; },

    async ask() {
      const wanted = (tree = app.tree);
      const found = await app.busy(() => guarded(() => askArrays("model", {})));
      if (!found || wanted !== app.tree) return false;
      model = { ...found.header, ...found.arrays, tokens: found.arrays.attention.length };
      region = new Uint16Array(tree.parent.length);
      patches = perPixel((column, row) => patchAt(column, row));
      attention = nodeMeans(model.attention);
      patchColours = meansOfPhoto(patches, model.tokens);
      showAnswers(model);
      return true;
    },

    // The labels that a view draws with.
    use(view, block) {
      const labels = view === "attention" ? tree.labels : view === "similarity" ? patches : patches.map((patch) => labelOf(block, patch));
      const edges = view === "attention" ? tree.edges : partitionEdges({ labels, width: tree.width, height: tree.height });
      stage.renderer.setPartition(labels, edges);
    },

    draw(view, { count, block, fill }) {
      const look = { ...app.look(), count: 1, lineStrength: 0, lineWidth: 1 };
      if (view === "attention") {
        cut(tree, Math.min(count, tree.regions), region);
        const values = Array.from({ length: tree.regions }, (_, label) => attention[region[tree.regions - 1 + label]]);
        stage.renderer.setTable(brightness(values.map(Math.sqrt))); // few tokens get most of it
        stage.renderer.draw(stage.view, { ...look, fill: "brightness", count, lineStrength: 0.35 });
      } else if (view === "similarity") {
        const chosen = token ?? model.attention.indexOf(Math.max(...model.attention));
        stage.renderer.setTable(brightness(model.similarity.subarray(chosen * model.tokens, (chosen + 1) * model.tokens), chosen));
        stage.renderer.draw(stage.view, { ...look, fill: "brightness" });
      } else {
        stage.renderer.setTable(blockColours(block, fill));
        stage.renderer.draw(stage.view, { ...look, fill, lineStrength: fill === "photo" ? 0.9 : 0.35 });
      }
    },

    choose(column, row) { token = patchAt(column, row); },
  };

  function patchAt(column, row) {
    const [rows, columns] = model.grid;
    return Math.floor((row * rows) / tree.height) * columns + Math.floor((column * columns) / tree.width);
  }

  function labelOf(block, patch) {
    return model.blocks[(block - 1) * model.tokens + patch];
  }

  function perPixel(labelAt) {
    const labels = new Uint16Array(tree.width * tree.height);
    for (let row = 0, place = 0; row < tree.height; row++) for (let column = 0; column < tree.width; column++, place++) labels[place] = labelAt(column, row);
    return labels;
  }

  // Means over every node of the tree of a value per patch: sums from the finest regions upwards.
  function nodeMeans(values) {
    const sums = new Float64Array(tree.parent.length);
    for (let place = 0; place < patches.length; place++) sums[tree.regions - 1 + tree.labels[place]] += values[patches[place]];
    for (let node = sums.length - 1; node > 0; node--) sums[tree.parent[node]] += sums[node];
    return sums.map((sum, node) => sum / tree.area[node]);
  }

  function meansOfPhoto(labels, count) {
    const canvas = Object.assign(document.createElement("canvas"), { width: tree.width, height: tree.height });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(app.bitmap, 0, 0);
    const { data } = context.getImageData(0, 0, tree.width, tree.height);
    const sums = new Float64Array(4 * count); // R, G, B and pixels
    for (let place = 0; place < labels.length; place++) {
      for (let channel = 0; channel < 3; channel++) sums[4 * labels[place] + channel] += data[4 * place + channel];
      sums[4 * labels[place] + 3] += 1;
    }
    return sums;
  }

  // A colour per token after a block: the mean of the patches in it, or a soft one.
  function blockColours(block, fill) {
    const sums = new Float64Array(4 * model.tokens);
    for (let patch = 0; patch < model.tokens; patch++) for (let part = 0; part < 4; part++) sums[4 * labelOf(block, patch) + part] += patchColours[4 * patch + part];
    const table = tableFor(model.tokens);
    for (let label = 0; label < model.counts[block - 1]; label++) {
      const colour = fill === "random" ? softColour(label) : [0, 1, 2].map((channel) => sums[4 * label + channel] / sums[4 * label + 3]);
      table.set(colour, 4 * label);
    }
    return table;
  }

  // Values as brightness, the smallest dark and the largest bright; one label may be lit.
  function brightness(values, lit = -1) {
    const [low, high] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
    const table = tableFor(values.length);
    values.forEach((value, label) => { table[4 * label] = 255 * ((value - low) / (high - low || 1)); });
    if (lit >= 0) table[4 * lit + 3] = 255;
    return table;
  }
}

function showAnswers({ answers, coarseAnswers, compute }) {
  $("answers").replaceChildren(...answers.map(({ name, share }) => {
    const [item, words, bar] = ["li", "span", "i"].map((tag) => document.createElement(tag));
    words.textContent = share < 0.01 ? "< 1 %" : `${(100 * share).toFixed(0)} %`;
    bar.style.setProperty("--share", `${100 * share}%`);
    item.append(name, words, bar);
    return item;
  }));
  const [best] = coarseAnswers;
  $("coarse-answer").textContent = `With merged tokens, at ${Math.round(100 * compute)} % of the compute: ${best.name}, ${Math.round(100 * best.share)} %.`;
  $("answers-block").hidden = false;
}

function tableFor(labels) {
  return new Uint8Array(1024 * Math.ceil(labels / 256));
}
