// Requests to the server. It keeps few pictures at a time; if ours is gone, it is sent again and the request repeated once.

import { unpacked } from "./format.js";

let file = null;
let id = null;

export async function about() {
  return (await checked(await request("/api/about"))).json();
}

export async function example(name) {
  return (await checked(await request(`/examples/${name}`))).blob();
}

// Send a picture; the top of its tree.
export async function grow(blob) {
  const answer = await checked(await request("/api/trees", { method: "POST", body: blob }));
  [file, id] = [blob, answer.headers.get("x-pixtree-id")];
  return unpacked(await answer.arrayBuffer());
}

export async function ask(path, query = {}, options = {}) {
  const send = () => request(`/api/trees/${id}/${path}?${new URLSearchParams(query)}`, options);
  let answer = await send();
  if (answer.status === 410 && file) {
    await grow(file);
    answer = await send();
  }
  return checked(answer);
}

export async function askArrays(path, query, options) {
  return unpacked(await (await ask(path, query, options)).arrayBuffer());
}

export async function download(path, query, options) {
  const answer = await ask(path, query, options);
  const name = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1] ?? "pixtree";
  save(await answer.blob(), name);
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function request(address, options) {
  try {
    return await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server cannot be reached; see whether pixtree demo still runs");
  }
}

async function checked(answer) {
  if (answer.ok) return answer;
  let sentence = `the server answered ${answer.status}; try again`;
  try { sentence = (await answer.json()).error ?? sentence; } catch { /* no JSON: the status says enough */ }
  throw new Error(sentence);
}
