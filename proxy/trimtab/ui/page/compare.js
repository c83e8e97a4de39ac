// Before and after: what came and what goes out, side by side, message by message, with the settings of the policy as
// controls. A kept request is shown as it was sent; with a changed setting, as it would have been.

import { get, plan } from "./api.js";
import { empty, failed, fill, h, loading } from "./dom.js";
import { count, edits as listed, percent, several } from "./format.js";
import { list } from "./list.js";
import { marked, readable } from "./message.js";
import { term } from "./terms.js";

const ROW = 76;
const GONE = ["dropped", "summarized"];
const SETTINGS = [
  ["context_size", { min: 1, step: 1 }],
  ["target", { min: 0, max: 1, step: 0.05 }],
  ["keep_share", { min: 0, max: 1, step: 0.05 }],
  ["clear_batch", { min: 1, step: 1 }],
  ["keep_recent", { min: 0, step: 1 }],
  ["pin_share", { min: 0, max: 1, step: 0.05 }],
  ["extract_share", { min: 0, max: 1, step: 0.01 }],
  ["result_extract", { min: 0, step: 10 }],
  ["max_message_chars", { min: 1, step: 1000 }],
];

export function compare(main, { exchanges, argument }) {
  const out = h("div", { class: "comparison", "aria-busy": "false" });
  const pasted = h("textarea", {
    id: "body",
    rows: "5",
    spellcheck: "false",
    placeholder: '{"model": "…", "messages": [ … ]}',
  });
  const kept = h("select", { id: "kept", onchange: () => (location.hash = `compare/${kept.value}`) });
  const file = h("input", {
    type: "file",
    id: "file",
    accept: ".json,.gz,application/json",
    onchange: () => open(file.files[0]),
  });
  const inputs = new Map(
    SETTINGS.map(([name, limits]) => [
      name,
      h("input", { type: "number", id: `set-${name}`, ...text(limits), oninput: later }),
    ]),
  );
  const reset = h(
    "button",
    {
      type: "button",
      onclick: () => {
        inputs.forEach((input) => (input.value = ""));
        ask();
      },
    },
    "Settings as in force",
  );
  let body = null;
  let number = Number(argument) || null;
  let asking = null;
  let timer = 0;

  function choices() {
    const texts = exchanges
      .filter((each) => each.has_text)
      .slice(-50)
      .reverse();
    fill(
      kept,
      h("option", { value: "" }, texts.length ? "choose one" : "none: set text = true in [ui]"),
      texts.map((each) =>
        h(
          "option",
          { value: String(each.number), selected: each.number === number },
          `${each.number}: ${each.model}, ${count(each.original)} tokens`,
        ),
      ),
    );
  }

  async function open(chosen) {
    if (!chosen) return;
    const stream = chosen.name.endsWith(".gz")
      ? chosen.stream().pipeThrough(new DecompressionStream("gzip"))
      : chosen.stream();
    try {
      take(await new Response(stream).text());
    } catch {
      fill(out, failed(new Error("This file cannot be read. It must be JSON, or JSON compressed by gzip.")));
    }
  }

  function take(json) {
    const trimmed = json.trim();
    number = null;
    body = trimmed.startsWith("[") ? `{"messages":${trimmed}}` : trimmed;
    try {
      JSON.parse(body);
    } catch (error) {
      return fill(out, failed(new Error(`This is not JSON: ${error.message}`)));
    }
    ask();
  }

  function changed() {
    const given = [...inputs]
      .filter(([, input]) => input.value !== "" && input.checkValidity())
      .map(([name, input]) => [name, input.valueAsNumber]);
    const { context_size, ...shaping } = Object.fromEntries(given);
    return { ...(context_size && { context_size }), ...(Object.keys(shaping).length && { shaping }) };
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(ask, 300);
  }

  async function ask() {
    if (body === null && number === null) return fill(out, start());
    asking?.abort();
    asking = new AbortController();
    const rest = changed();
    out.setAttribute("aria-busy", "true");
    if (!out.querySelector(".rows")) fill(out, loading());
    try {
      const asSent = number !== null && !Object.keys(rest).length;
      const found = asSent
        ? await get(`/exchanges/${number}/text`, asking.signal)
        : await plan(body, number === null ? rest : { number, ...rest }, asking.signal);
      for (const [name, input] of inputs) input.placeholder = String(found.shaping[name] ?? found.plan.context_size);
      fill(out, result(found, asSent));
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(out, failed(error, ask));
    }
    out.setAttribute("aria-busy", "false");
  }

  fill(
    main,
    h("h2", {}, "Before and after"),
    h(
      "div",
      { class: "sides" },
      h(
        "form",
        {
          class: "controls",
          "aria-label": "What to plan",
          onsubmit: (event) => {
            event.preventDefault();
            take(pasted.value);
          },
        },
        h("label", { for: "kept" }, "A kept request"),
        kept,
        h("label", { for: "file" }, "A file (JSON, or gzip)"),
        file,
        h("label", { for: "body" }, "Or a request, pasted"),
        pasted,
        h("button", {}, "Plan it"),
        h(
          "fieldset",
          {},
          h("legend", {}, "Settings to try"),
          SETTINGS.map(([name]) =>
            h(
              "div",
              { class: "setting" },
              h("label", { for: `set-${name}` }, name.replaceAll("_", " ")),
              term(name, "?", `What is ${name.replaceAll("_", " ")}?`),
              inputs.get(name),
            ),
          ),
          reset,
        ),
      ),
      out,
    ),
  );
  choices();
  ask();
  return { seen: choices, close: () => asking?.abort() };
}

const text = (limits) => Object.fromEntries(Object.entries(limits).map(([name, value]) => [name, String(value)]));

const start = () =>
  empty(
    "Nothing to compare yet",
    "Choose a kept request, open a file, or paste the JSON of a request. Nothing is sent to a model.",
  );

function result(found, asSent) {
  const { plan: made, messages } = found;
  const only = h("input", { type: "checkbox", onchange: () => rows() });
  const holder = h("div");
  const byStage = {};
  for (const edit of made.edits) byStage[edit.stage] = (byStage[edit.stage] ?? 0) + 1;
  const title = h(
    "p",
    { class: "total", role: "status" },
    h("b", {}, `${count(made.tokens.original)} → ${count(made.tokens.sent)} tokens`),
    ` of a budget of ${count(made.budget)} (${percent(made.tokens.sent, made.budget)}), ${count(found.bytes_before)} → ${count(found.bytes_after)} bytes. `,
    asSent ? "As it was sent. " : "As it would be sent. ",
    found.unchanged ? "The bytes are those received." : `Edits: ${listed(byStage)}.`,
    !made.fits && h("strong", {}, " It does not fit: this request would be refused, or tried."),
  );

  function rows() {
    const shown = only.checked
      ? messages.filter((each) => each.index === null || each.stage || each.after !== null)
      : messages;
    const made = list("Messages before and after", shown.length, ROW, (i) => pair(shown[i]));
    made.element.classList.add("pairs");
    fill(holder, shown.length ? made.element : h("p", {}, "No message was edited."));
  }

  rows();
  return [
    title,
    h(
      "div",
      { class: "row" },
      h("label", { class: "check" }, only, " only what was edited"),
      h("span", {}, several(messages.length, "message")),
    ),
    h("div", { class: "heads", "aria-hidden": "true" }, h("b", {}, "Before"), h("b", {}, "After")),
    holder,
  ];
}

function pair(each) {
  const gone = GONE.includes(each.stage);
  const state = gone ? "gone" : each.after !== null || each.stage ? "edited" : "";
  const place = each.index === null ? (each.kind === "summary" ? "in the gap" : "added") : `message ${count(each.index + 1)}`;
  const why = each.stage ? `${each.stage}: ${each.reason}` : each.index === null ? each.reason : "sent as it came";
  const left = each.before === null ? null : readable(each.before);
  const right = gone ? null : readable(each.after ?? each.before);
  return h(
    "button",
    { type: "button", class: `pair ${state}`, onclick: () => details(each, place, why) },
    h(
      "span",
      { class: "about" },
      h("i", { class: `swatch ${each.kind}`, "aria-hidden": "true" }),
      `${place} · ${each.kind} · ${each.stage || each.index === null ? `${count(each.tokens_before)} → ${count(each.tokens_after)}` : count(each.tokens_before)} tokens · ${why}`,
    ),
    h("span", { class: "side before" }, left === null ? "–" : left.slice(0, 300)),
    h("span", { class: "side after" }, right === null ? "not sent" : right.slice(0, 300)),
  );
}

/** One message in full, as text or as the JSON that came and went. */
function details(each, place, why) {
  const json = h("input", { type: "checkbox", onchange: () => show() });
  const body = h("div", { class: "sides whole" });
  const gone = GONE.includes(each.stage);

  function show() {
    const as = (raw) => (json.checked ? raw : readable(raw));
    const before = each.before === null ? "" : as(each.before);
    const after = gone ? "" : as(each.after ?? each.before);
    const [left, right] = marked(before, after);
    fill(
      body,
      h(
        "section",
        { "aria-label": "Before" },
        h("h4", {}, `Before: ${several(each.tokens_before, "token")}`),
        h("pre", { tabindex: "0", class: "before" }, left),
      ),
      h(
        "section",
        { "aria-label": "After" },
        h("h4", {}, `After: ${several(each.tokens_after, "token")}`),
        h("pre", { tabindex: "0", class: "after" }, right),
      ),
    );
  }

  show();
  const dialog = h(
    "dialog",
    { class: "message-dialog", "aria-label": `${place}, before and after`, onclose: () => dialog.remove() },
    h(
      "div",
      { class: "row" },
      h("h3", {}, `${place}: ${why}`),
      h("label", { class: "check" }, json, " as JSON"),
      h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
    ),
    body,
  );
  document.body.append(dialog);
  dialog.showModal();
}
