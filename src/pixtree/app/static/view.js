// The view: where the picture lies on the stage, in CSS pixels; fit, zoom about a point, pan, and coordinates back to the picture.

const CLOSEST = 24;

export function createView(stage) {
  const view = {
    x: 0, y: 0, scale: 1, ratio: 1, width: 1, height: 1, fitted: true,
    fit() {
      const { clientWidth: width, clientHeight: height } = stage;
      view.scale = Math.min(width / view.width, height / view.height, 3);
      view.x = (width - view.width * view.scale) / 2;
      view.y = (height - view.height * view.scale) / 2;
      view.fitted = true;
    },
    zoom(factor, x, y) {
      const smallest = Math.min(stage.clientWidth / view.width, stage.clientHeight / view.height, 3);
      const scale = Math.min(Math.max(view.scale * factor, smallest), CLOSEST);
      if (scale <= smallest * 1.001) return view.fit();
      view.x = x - ((x - view.x) / view.scale) * scale;
      view.y = y - ((y - view.y) / view.scale) * scale;
      view.scale = scale;
      view.fitted = false;
      return view.pan(0, 0);
    },
    pan(dx, dy) { // a picture larger than the stage covers it; a smaller one stays in the middle
      view.x = held(view.x + dx, stage.clientWidth, view.width * view.scale);
      view.y = held(view.y + dy, stage.clientHeight, view.height * view.scale);
    },
    toPicture(x, y) { // (column, row) or null outside
      const column = Math.floor((x - view.x) / view.scale);
      const row = Math.floor((y - view.y) / view.scale);
      return column >= 0 && row >= 0 && column < view.width && row < view.height ? [column, row] : null;
    },
  };
  return view;
}

function held(start, room, length) {
  return length <= room ? (room - length) / 2 : Math.min(0, Math.max(room - length, start));
}
