// The server's binary answers: header, picture and arrays. See wire.py for the layout.

const TYPES = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };

export async function unpacked(buffer) {
  const view = new DataView(buffer);
  const text = new TextDecoder();
  if (text.decode(new Uint8Array(buffer, 0, 8)) !== "pixtree1") throw new Error("the server's answer is of another version; reload the page");
  const headLength = view.getUint32(8, true);
  const pictureLength = view.getUint32(12, true);
  const header = JSON.parse(text.decode(new Uint8Array(buffer, 16, headLength)));
  const picture = new Blob([new Uint8Array(buffer, 16 + headLength, pictureLength)], { type: "image/jpeg" });
  const stream = new Blob([new Uint8Array(buffer, 16 + headLength + pictureLength)]).stream();
  const body = await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
  const arrays = {};
  let place = 0;
  for (const { name, type, shape } of header.arrays) {
    const size = shape.reduce((product, side) => product * side, 1);
    arrays[name] = new TYPES[type](body, place, size);
    place += arrays[name].byteLength;
  }
  return { header, picture, arrays };
}
