// Pixel edges: for every pixel, the count of regions from which on its right and its lower edge are boundaries; NEVER inside regions.

export const NEVER = 65535;

export function treeEdges({ labels, width, height, regions, border_first: first, border_second: second, border_count: count }) {
  const counts = new Map();
  for (let border = 0; border < first.length; border++) counts.set(first[border] * regions + second[border], count[border]);
  return edgesBy(labels, width, height, (a, b) => counts.get(a < b ? a * regions + b : b * regions + a));
}

export function partitionEdges({ labels, width, height }) {
  return edgesBy(labels, width, height, () => 1);
}

function edgesBy(labels, width, height, countOf) {
  const edges = new Uint16Array(2 * labels.length).fill(NEVER);
  for (let y = 0, place = 0; y < height; y++) {
    for (let x = 0; x < width; x++, place++) {
      const label = labels[place];
      if (x + 1 < width && labels[place + 1] !== label) edges[2 * place] = countOf(label, labels[place + 1]);
      if (y + 1 < height && labels[place + width] !== label) edges[2 * place + 1] = countOf(label, labels[place + width]);
    }
  }
  return edges;
}
