// Drawing with WebGL2: labels and edges are textures, so that another cut is one number and a table of colours.

const VERTEX = `#version 300 es
void main() { gl_Position = vec4(vec2(gl_VertexID == 1 ? 3 : -1, gl_VertexID == 2 ? 3 : -1), 0, 1); }`;

const FRAGMENT = `#version 300 es
precision highp float; precision highp int; precision highp usampler2D; precision highp sampler2D;
uniform sampler2D photo; uniform usampler2D labels; uniform usampler2D edges; uniform sampler2D table; uniform usampler2D mask;
uniform vec2 size, origin; uniform float scale, canvasHeight, lineWidth, lineStrength, halo, dimmed;
uniform int fill, reach; uniform uint count, current; uniform vec3 accent;
out vec4 colour;

// Distance in picture pixels from p to the nearest pixel edge that is a boundary of the cut with count regions.
float boundary(vec2 p, ivec2 pixel, ivec2 last) {
  float nearest = 9.0;
  for (int dy = -reach; dy <= reach; dy++) for (int dx = -reach; dx <= reach; dx++) {
    ivec2 q = pixel + ivec2(dx, dy);
    if (q.x < 0 || q.y < 0 || q.x > last.x || q.y > last.y) continue;
    uvec2 edge = texelFetch(edges, q, 0).rg;
    vec2 from = p - vec2(q);
    if (edge.r <= count) nearest = min(nearest, length(vec2(from.x - 1.0, max(max(-from.y, from.y - 1.0), 0.0))));
    if (edge.g <= count) nearest = min(nearest, length(vec2(max(max(-from.x, from.x - 1.0), 0.0), from.y - 1.0)));
  }
  return nearest;
}

uint maskAt(vec2 p, ivec2 last) { return texelFetch(mask, clamp(ivec2(floor(p)), ivec2(0), last), 0).r; }

const vec2 ROUND[8] = vec2[8](vec2(1, 0), vec2(0.7, 0.7), vec2(0, 1), vec2(-0.7, 0.7), vec2(-1, 0), vec2(-0.7, -0.7), vec2(0, -1), vec2(0.7, -0.7));

vec3 selected(vec3 shown, vec2 p, ivec2 last) {
  uint here = maskAt(p, last);
  float half_width = 0.75 * lineWidth / scale;
  bool rim = false, other = false;
  for (int step = 0; step < 8; step++) {
    uint there = maskAt(p + half_width * ROUND[step], last);
    if (there != here) { if (there == current || here == current) rim = true; else other = true; }
  }
  float grey = dot(shown, vec3(0.299, 0.587, 0.114));
  if (here == 0u) shown = mix(shown, mix(vec3(grey), vec3(dimmed), 0.62), 0.86);
  if (other) shown = vec3(1.0);
  if (rim) shown = accent;
  return shown;
}

void main() {
  vec2 p = (vec2(gl_FragCoord.x, canvasHeight - gl_FragCoord.y) - origin) / scale;
  if (p.x < 0.0 || p.y < 0.0 || p.x >= size.x || p.y >= size.y) { colour = vec4(0.0); return; }
  ivec2 pixel = ivec2(p), last = ivec2(size) - 1;
  vec3 shown = texture(photo, p / size).rgb;
  uint label = texelFetch(labels, pixel, 0).r;
  vec4 entry = texelFetch(table, ivec2(label & 255u, label >> 8u), 0);
  if (fill == 1) shown = entry.rgb;
  if (fill == 3) { // as bright as the table says
    float grey = dot(shown, vec3(0.299, 0.587, 0.114));
    shown = mix(mix(vec3(grey), vec3(dimmed), 0.72), shown, entry.r);
  }
  if (entry.a > 0.5) shown = mix(shown, accent, 0.45);
  if (lineStrength > 0.0) {
    float from_line = boundary(p, pixel, last) * scale - 0.5 * lineWidth; // in device pixels
    shown *= 1.0 - 0.38 * lineStrength * clamp(1.0 - from_line / halo, 0.0, 1.0); // a soft shadow, so that lines show on white, too
    shown = mix(shown, vec3(1.0), lineStrength * clamp(0.5 - from_line, 0.0, 1.0));
  }
  if (fill == 2) shown = selected(shown, p, last);
  colour = vec4(shown, 1.0);
}`;

export function glRenderer(canvas) {
  const gl = canvas.getContext("webgl2", { alpha: true, antialias: false, premultipliedAlpha: true, preserveDrawingBuffer: false });
  if (!gl) return null;
  const program = linked(gl);
  gl.useProgram(program);
  const uniform = new Proxy({}, { get: (known, name) => (known[name] ??= gl.getUniformLocation(program, name)) });
  const units = {};
  for (const [unit, name] of ["photo", "labels", "edges", "table", "mask"].entries()) {
    units[name] = unit;
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, side, gl.CLAMP_TO_EDGE);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, name === "photo" ? gl.LINEAR : gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, name === "photo" ? gl.LINEAR_MIPMAP_LINEAR : gl.NEAREST);
    gl.uniform1i(uniform[name], unit);
  }
  gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
  const fill = (name, internal, width, height, format, type, values) => {
    gl.activeTexture(gl.TEXTURE0 + units[name]);
    gl.texImage2D(gl.TEXTURE_2D, 0, internal, width, height, 0, format, type, values);
  };
  let size = [1, 1];
  let rows = 0;

  return {
    kind: "webgl2",
    setPhoto(bitmap) {
      size = [bitmap.width, bitmap.height];
      gl.activeTexture(gl.TEXTURE0 + units.photo);
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE, bitmap);
      gl.generateMipmap(gl.TEXTURE_2D);
      this.setMask(new Uint8Array(size[0] * size[1]));
    },
    setPartition(labels, edges) {
      fill("labels", gl.R16UI, ...size, gl.RED_INTEGER, gl.UNSIGNED_SHORT, labels);
      fill("edges", gl.RG16UI, ...size, gl.RG_INTEGER, gl.UNSIGNED_SHORT, edges);
    },
    setTable(table) { // RGBA per label, in whole rows of 256
      gl.activeTexture(gl.TEXTURE0 + units.table);
      const wanted = table.length / 1024;
      if (wanted !== rows) gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, 256, (rows = wanted), 0, gl.RGBA, gl.UNSIGNED_BYTE, table);
      else gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, 256, rows, gl.RGBA, gl.UNSIGNED_BYTE, table);
    },
    setMask(mask) {
      fill("mask", gl.R8UI, ...size, gl.RED_INTEGER, gl.UNSIGNED_BYTE, mask);
    },
    draw(view, look) {
      const ratio = view.ratio;
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.uniform2f(uniform.size, ...size);
      gl.uniform2f(uniform.origin, view.x * ratio, view.y * ratio);
      gl.uniform1f(uniform.scale, view.scale * ratio);
      gl.uniform1f(uniform.canvasHeight, canvas.height);
      const lineWidth = Math.max(1, ratio * look.lineWidth);
      gl.uniform1f(uniform.lineWidth, lineWidth);
      // Edges are looked for as many pixels away as the line needs; its shadow is as wide as that allows.
      const scale = view.scale * ratio;
      const reach = Math.min(3, Math.max(1, Math.ceil((0.5 * lineWidth + 0.5) / scale - 0.01)));
      gl.uniform1i(uniform.reach, reach);
      gl.uniform1f(uniform.halo, Math.min(1.4, Math.max(0.5, reach * scale - 0.5 * lineWidth)));
      gl.uniform1f(uniform.lineStrength, look.lineStrength);
      gl.uniform1f(uniform.dimmed, look.dark ? 0.06 : 0.96);
      gl.uniform1i(uniform.fill, { photo: 0, mean: 1, random: 1, selection: 2, brightness: 3 }[look.fill]);
      gl.uniform1ui(uniform.count, look.count);
      gl.uniform1ui(uniform.current, look.current ?? 0);
      gl.uniform3f(uniform.accent, ...look.accent);
      gl.drawArrays(gl.TRIANGLES, 0, 3);
    },
  };
}

function linked(gl) {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(`the graphics program is refused: ${gl.getProgramInfoLog(program)}`);
  return program;
}
