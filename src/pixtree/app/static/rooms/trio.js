// Three ways to as many tokens, side by side with the photo.

import { askArrays } from "../api.js";
import { $, guarded, number, say } from "../controls.js";
import { softColour } from "../tree.js";

const METHODS = { photo: "Photo", grid: "Square patches", slic: "SLIC", pixtree: "pixtree" };

export function createTrio(app) {
  let found = {};
  let asked = 0;
  let fill = "photo";
  $("trio").replaceChildren(...Object.entries(METHODS).map(([method, name]) => panel(method, name)));

  return {
    found: () => found,
    forget() {
      asked += 1;
      found = {};
      for (const canvas of $("trio").querySelectorAll("canvas")) delete canvas.dataset.drawn;
    },
    async ask(count) {
      const mine = ++asked;
      $("trio").dataset.tall = String(app.tree.height > 1.15 * app.tree.width);
      for (const canvas of $("trio").querySelectorAll("canvas")) {
        if (!canvas.dataset.drawn) Object.assign(canvas, { width: app.tree.width, height: app.tree.height }); // an empty frame
      }
      $("way-photo").querySelector("canvas").getContext("2d").drawImage(app.bitmap, 0, 0);
      await app.busy(() => Promise.all(["pixtree", "grid", "slic"].map((method) => guarded(async () => {
        const { header, arrays } = await askArrays("tokens", { method, count });
        if (mine !== asked) return;
        found[method] = { ...header, ...arrays };
        paint(method);
      }))));
      if (mine === asked && found.pixtree) say(`${found.pixtree.regions} tokens, ${found.pixtree.psnr.toFixed(1)} decibels`);
    },
    show(newFill) {
      fill = newFill;
      Object.keys(found).forEach(paint);
    },
  };

  function paint(method) {
    const { labels, width, height, colour, regions, psnr } = found[method];
    const figure = $(`way-${method}`);
    const canvas = figure.querySelector("canvas");
    Object.assign(canvas, { width, height });
    canvas.dataset.drawn = "true";
    figure.querySelector("span").textContent = `${number(regions)} tokens, ${psnr.toFixed(1)} dB`;
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(app.bitmap, 0, 0, width, height);
    const image = context.getImageData(0, 0, width, height);
    for (let place = 0; place < labels.length; place++) {
      const label = labels[place];
      if (fill === "random") image.data.set(softColour(label), 4 * place);
      else if (fill === "mean") image.data.set(colour.subarray(3 * label, 3 * label + 3), 4 * place);
      else if (isBoundary(labels, place, width)) for (let one = 4 * place; one < 4 * place + 3; one++) image.data[one] += 0.85 * (255 - image.data[one]);
    }
    context.putImageData(image, 0, 0);
  }
}

function panel(method, name) {
  const [figure, canvas, caption, title, words] = ["figure", "canvas", "figcaption", "strong", "span"].map((tag) => document.createElement(tag));
  Object.assign(figure, { id: `way-${method}`, className: method === "pixtree" ? "own" : "" });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", method === "photo" ? "The photo" : `The photo in tokens of ${name}`);
  title.textContent = name;
  caption.append(title, words);
  figure.append(canvas, caption);
  return figure;
}

function isBoundary(labels, place, width) {
  const label = labels[place];
  return ((place + 1) % width && labels[place + 1] !== label) || (place + width < labels.length && labels[place + width] !== label);
}
