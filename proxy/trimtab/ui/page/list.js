// A list of any length: only the rows in view are in the page, so ten thousand take no longer than ten. Rows have one
// height. The browser scrolls it, with keys too; screen readers hear the place of a row and how many there are.

import { h } from "./dom.js";

const SPARE = 8; // rows above and below the view

/** A list of `size` rows, `row(i)` makes the content of one, `height` is in pixels. */
export function list(label, size, height, row) {
  const space = h("div", { class: "space", role: "list", "aria-label": label });
  const frame = h("div", { class: "rows", tabindex: "0", role: "region", "aria-label": label }, space);
  space.style.height = `${size * height}px`;
  const shown = new Map();

  function render() {
    const first = Math.max(0, Math.floor(frame.scrollTop / height) - SPARE);
    const last = Math.min(size, Math.ceil((frame.scrollTop + frame.clientHeight) / height) + SPARE);
    for (const [i, made] of shown) {
      if (i < first || i >= last) {
        made.remove();
        shown.delete(i);
      }
    }
    const before = (i) => {
      // rows stand in their order, for those who move through them with keys
      for (let next = i + 1; next < last; next++) if (shown.has(next)) return shown.get(next);
      return null;
    };
    for (let i = first; i < last; i++) {
      if (shown.has(i)) continue;
      const made = h(
        "div",
        { class: "listed", role: "listitem", "aria-posinset": String(i + 1), "aria-setsize": String(size) },
        row(i),
      );
      made.style.transform = `translateY(${i * height}px)`;
      made.style.height = `${height}px`;
      space.insertBefore(made, before(i));
      shown.set(i, made);
    }
  }

  let asked = false;
  const soon = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      render();
    });
  };
  frame.addEventListener("scroll", soon, { passive: true });
  new ResizeObserver(soon).observe(frame);
  return { element: frame, show: (i) => frame.scrollTo({ top: Math.max(0, i * height - frame.clientHeight / 3) }) };
}
