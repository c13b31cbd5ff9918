// The small tree: cuts, ancestors and colours. Inner node r is the one that the cut with r + 2 regions opens last, so that the cut
// with n regions opens the nodes 0 … n − 2; the regions of the finest cut are the nodes N − 1 … 2N − 2. Parents come first.

const NONE = 65535;

export function treeOf(header, arrays) {
  return { ...arrays, height: header.height, width: header.width, regions: header.regions, levels: header.levels, hue: hues(arrays, header.regions) };
}

// The node that is the region of every node below it, in the cut with n regions. One pass over 2N − 1 numbers.
export function cut(tree, n, region = new Uint16Array(tree.parent.length)) {
  const { parent } = tree;
  const opened = n - 1;
  for (let node = 0; node < parent.length; node++) {
    const above = parent[node];
    region[node] = above === NONE || above < opened ? node : region[above];
  }
  return region;
}

// Nodes from a region of the finest cut up to the root.
export function branch(tree, label) {
  const nodes = [];
  for (let node = tree.regions - 1 + label; node !== NONE; node = tree.parent[node]) nodes.push(node);
  return nodes;
}

// Counts of regions between which a node is a region of the cut: from the first to the last.
export function lifetime(tree, node) {
  const first = tree.parent[node] === NONE ? 1 : tree.parent[node] + 2;
  return [first, node < tree.regions - 1 ? node + 1 : tree.regions];
}

// RGBA per region of the finest cut, alpha 255 where the region is the one to light up.
export function colourTable(tree, region, fill, lit, table) {
  const { regions } = tree;
  const colours = fill === "random" ? tree.hue : tree.colour;
  for (let label = 0; label < regions; label++) {
    const node = region[regions - 1 + label];
    table[4 * label] = colours[3 * node];
    table[4 * label + 1] = colours[3 * node + 1];
    table[4 * label + 2] = colours[3 * node + 2];
    table[4 * label + 3] = node === lit ? 255 : 0;
  }
  return table;
}

// A soft colour per node. The larger child keeps its parent's, so that moving the slider changes little at a time.
function hues({ parent, area }, regions) {
  const larger = new Uint16Array(regions).fill(NONE);
  for (let node = 1; node < parent.length; node++) {
    const above = parent[node];
    if (larger[above] === NONE || area[node] > area[larger[above]]) larger[above] = node;
  }
  const colours = new Uint8Array(3 * parent.length);
  for (let node = 0; node < parent.length; node++) {
    const above = parent[node];
    if (above !== NONE && larger[above] === node) colours.copyWithin(3 * node, 3 * above, 3 * above + 3);
    else colours.set(softColour(node), 3 * node);
  }
  return colours;
}

export function softColour(number) {
  const turn = (number * 0.61803398875 + 0.07) % 1; // the golden ratio keeps successive hues apart
  const deep = (number * 0.754877666) % 1;
  return [0, 1, 2].map((channel) => Math.round(202 - 74 * deep + (46 + 12 * deep) * Math.cos(2 * Math.PI * (turn + channel / 3))));
}
