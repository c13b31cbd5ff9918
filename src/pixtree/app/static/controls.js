// Small controls that all rooms use.

export const $ = (id) => document.getElementById(id);

// A row of choices, as a group of radio buttons for the keyboard and for screen readers.
export function segments(element, choices, chosen, onChange) {
  const buttons = Object.entries(choices).map(([value, text]) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: text });
    button.setAttribute("role", "radio");
    button.dataset.value = value;
    button.addEventListener("click", () => choose(value));
    return button;
  });
  element.replaceChildren(...buttons);
  element.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length];
    next.focus();
    choose(next.dataset.value);
  };
  function show(value) {
    for (const button of buttons) {
      const isChosen = button.dataset.value === value;
      button.setAttribute("aria-checked", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
    }
  }
  function choose(value) {
    show(value);
    onChange(value);
  }
  show(chosen);
  return { set: show };
}

export function setSlider(slider, value) {
  slider.value = value;
  fillSlider(slider);
}

export function fillSlider(slider) {
  const share = (slider.value - slider.min) / (slider.max - slider.min || 1);
  slider.style.setProperty("--fill", `calc(${(100 * share).toFixed(2)}% + ${(12 - 24 * share).toFixed(1)}px)`);
}

let timer = 0;

// One sentence at the bottom of the page, for some seconds.
export function notice(sentence) {
  const element = $("notice");
  const text = sentence.endsWith(".") ? sentence : `${sentence}.`;
  element.textContent = text[0].toUpperCase() + text.slice(1);
  element.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { element.hidden = true; }, 7000);
}

// Words for screen readers only.
export function say(words) {
  $("said").textContent = words;
}

// Run a task and show its error, if any, as a notice; tasks that were given up say nothing.
export async function guarded(task) {
  try {
    return await task();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    notice(error.message);
    if (error instanceof TypeError) throw error; // a mistake of the page, which the console shall show
    return undefined;
  }
}

export const number = (value) => Math.round(value).toLocaleString("en");

export function bytes(value) {
  return value < 1e6 ? `${(value / 1e3).toFixed(value < 1e4 ? 1 : 0)} kB` : `${(value / 1e6).toFixed(2)} MB`;
}
