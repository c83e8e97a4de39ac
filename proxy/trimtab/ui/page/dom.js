// Building the page. Text only ever becomes a text node, so nothing that comes from a conversation can become markup.

/** An element. `props`: attributes; `class`; functions are listeners (`onclick`); false, null and undefined are left out. */
export function h(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Put `children` in place of what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** A table with a caption for screen readers. `head` are texts or elements; numbers stand at the right. */
export function table(caption, head, rows, numeric = []) {
  const right = (i) => (numeric.includes(i) ? "number" : undefined);
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "unseen" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((cell, i) => h("th", { scope: "col", class: right(i) }, cell)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            row.map((cell, i) =>
              i === 0 ? h("th", { scope: "row", class: right(i) }, cell) : h("td", { class: right(i) }, cell),
            ),
          ),
        ),
      ),
    ),
  );
}

/** What stands where there is nothing to show: words, and what to do next. */
export function empty(title, ...text) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, ...text));
}

/** What stands where something failed. */
export function failed(error, again) {
  return h(
    "div",
    { class: "empty failed", role: "alert" },
    h("h2", {}, "This could not be loaded"),
    h("p", {}, error.message),
    again && h("button", { type: "button", onclick: again }, "Try again"),
  );
}

export function loading() {
  return h("p", { class: "loading", role: "status" }, "Loading …");
}
