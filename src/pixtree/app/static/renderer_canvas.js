// Drawing without WebGL2: every pixel of the picture is painted by a loop, then the picture is scaled.

export function canvasRenderer(canvas) {
  const context = canvas.getContext("2d");
  const picture = document.createElement("canvas");
  const painter = picture.getContext("2d", { willReadFrequently: true });
  let photo, shown, labels, edges, table, mask;

  return {
    kind: "canvas",
    setPhoto(bitmap) {
      [picture.width, picture.height] = [bitmap.width, bitmap.height];
      painter.drawImage(bitmap, 0, 0);
      photo = painter.getImageData(0, 0, bitmap.width, bitmap.height).data;
      shown = painter.createImageData(bitmap.width, bitmap.height);
      mask = new Uint8Array(bitmap.width * bitmap.height);
    },
    setPartition(newLabels, newEdges) { [labels, edges] = [newLabels, newEdges]; },
    setTable(newTable) { table = newTable; },
    setMask(newMask) { mask = newMask; },
    draw(view, look) {
      paint(shown.data, { photo, labels, edges, table, mask, width: picture.width }, look);
      painter.putImageData(shown, 0, 0);
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, canvas.width, canvas.height);
      const scale = view.scale * view.ratio;
      context.imageSmoothingEnabled = scale < 3;
      context.setTransform(scale, 0, 0, scale, view.x * view.ratio, view.y * view.ratio);
      context.drawImage(picture, 0, 0);
    },
  };
}

function paint(out, { photo, labels, edges, table, mask, width }, look) {
  const accent = look.accent.map((value) => 255 * value);
  const dimmed = look.dark ? 15 : 245;
  for (let place = 0, byte = 0; place < labels.length; place++, byte += 4) {
    const entry = 4 * labels[place];
    const coloured = look.fill === "mean" || look.fill === "random";
    const lit = table[entry + 3] > 0 ? 0.45 : 0;
    const line = edges[2 * place] <= look.count || edges[2 * place + 1] <= look.count ? look.lineStrength : 0;
    const rim = look.fill === "selection" && isRim(mask, place, width);
    const grey = look.fill === "selection" && !mask[place] ? 0.33 * (photo[byte] + photo[byte + 1] + photo[byte + 2]) : -1;
    for (let channel = 0; channel < 3; channel++) {
      let value = coloured ? table[entry + channel] : photo[byte + channel];
      if (look.fill === "brightness") {
        const pale = 0.093 * (photo[byte] + photo[byte + 1] + photo[byte + 2]) + 0.72 * dimmed;
        value = pale + (table[entry] / 255) * (value - pale);
      }
      value += lit * (accent[channel] - value);
      value += line * (255 - value);
      if (grey >= 0) value += 0.86 * (grey + 0.62 * (dimmed - grey) - value);
      out[byte + channel] = rim ? accent[channel] : value;
    }
    out[byte + 3] = 255;
  }
}

function isRim(mask, place, width) {
  const here = mask[place];
  return [1, -1, width, -width].some((step) => (mask[place + step] ?? here) !== here);
}
