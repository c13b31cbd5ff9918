// The object that stands out to the model: a mask over the photo, asked for again when a choice changes.

import { askArrays } from "../api.js";
import { $, guarded, number, say, segments } from "../controls.js";

const CUTS = { patches: "Square patches", regions: "Regions" };
const SIDES = { border: "Border", centre: "Centre", attention: "Attention", occlusion: "Occlusion" };
const RULES = {
  border: "the side that touches the border of the photo less",
  centre: "the side that is nearer to the centre of the photo",
  attention: "the side that the class token attends to more",
  occlusion: "the side without which the model is less sure of its answer",
};

export function createObjectView(stage, app, onChange) {
  const choice = { cut: "patches", side: "border", snap: true };
  let found = null;
  let asked = 0;
  let wanted = "";

  const view = {
    found: () => found,
    cutsRegions: () => choice.cut === "regions",
    forget() {
      asked += 1;
      [found, wanted] = [null, ""];
      $("object-share").textContent = "–";
    },

    // Ask for the mask of the present choices, unless it is there or on its way; the last answer counts.
    async ask(count) {
      const query = { side: choice.side, snap: choice.snap, ...(view.cutsRegions() ? { tokens: count } : {}) };
      const key = JSON.stringify(query);
      if (key === wanted) return;
      wanted = key;
      const mine = ++asked;
      const answer = await app.busy(() => guarded(() => askArrays("salient", query)));
      if (mine !== asked) return;
      if (!answer) { wanted = ""; return; } // refused: the notice says why, and another try may do
      found = { mask: answer.arrays.mask, area: answer.header.area };
      showShare();
      onChange();
    },

    use() {
      if (found) stage.renderer.setMask(found.mask);
    },

    draw() {
      stage.renderer.draw(stage.view, { ...app.look(), fill: found?.area ? "selection" : "photo", current: 1, lineWidth: 1.6 });
    },

    hint() {
      return `A cut of the model's tokens into two sides, without training. The object is ${RULES[choice.side]}.`;
    },
  };

  function showShare() {
    const share = (100 * found.area) / found.mask.length;
    const words = share ? `${share < 10 ? share.toPrecision(2) : number(share)} % of the photo` : "Nothing stands out";
    $("object-share").textContent = words;
    say(`Salient object: ${words}`);
  }

  segments($("object-cut"), CUTS, choice.cut, (cut) => { choice.cut = cut; onChange(); });
  segments($("object-side"), SIDES, choice.side, (side) => { choice.side = side; onChange(); });
  $("object-snap").addEventListener("change", () => { choice.snap = $("object-snap").checked; onChange(); });
  return view;
}
