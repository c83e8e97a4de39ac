// The window of one request: its tokens by kind, all messages in their order, what was removed and why, and the divider
// where the cut stands.

import { KINDS } from "./chart.js";
import { h, table } from "./dom.js";
import { count, edits, percent, several, time } from "./format.js";
import { list } from "./list.js";
import { term } from "./terms.js";

const ROW = 30;
const GONE = ["dropped", "summarized"];

/** What to show of a request: `found` is its window, `column` its column, `place` its number in the conversation. */
export function windowOf({ exchange, messages, cut }, column, place) {
  const title = h(
    "h3",
    {},
    `Request ${count(place)}: ${count(exchange.original)} → ${count(exchange.sent)} of ${count(exchange.budget)} tokens`,
  );
  const facts = h(
    "p",
    {},
    `${time(exchange.ended_at)} · ${exchange.model} · ${exchange.outcome} · edits: ${edits(exchange.edits)}`,
    exchange.cached === null ? "" : ` · ${percent(exchange.cached, exchange.prompt)} read from the cache`,
    exchange.prefix_break && ` · a new prefix: ${exchange.prefix_break}`,
    exchange.has_text && [" · ", h("a", { href: `#compare/${exchange.number}` }, "read it before and after")],
  );
  const kinds = h(
    "ul",
    { class: "kinds", "aria-label": "Tokens sent by kind" },
    KINDS.filter((kind) => column.kinds[kind]).map((kind) =>
      h(
        "li",
        {},
        h("i", { class: `swatch ${kind}`, "aria-hidden": "true" }),
        `${kind} `,
        h("b", {}, count(column.kinds[kind])),
      ),
    ),
  );
  if (!messages)
    return [title, facts, kinds, h("p", {}, "The messages of this request are no longer kept, only its figures.")];
  return [title, facts, kinds, strip(messages, cut), reasons(messages), messagesOf(messages, cut)];
}

/** All messages as one bar, in their order: height is nothing, width is tokens; pale is what did not go out. */
function strip(messages, cut) {
  const canvas = h("canvas", {
    class: "strip",
    role: "img",
    height: "28",
    "aria-label": "All messages in their order, as wide as they came; pale where they were removed",
  });
  requestAnimationFrame(() => {
    const style = getComputedStyle(document.documentElement);
    const width = (canvas.width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio)));
    const brush = canvas.getContext("2d");
    const whole = messages.reduce((sum, [, before, after]) => sum + Math.max(before, after), 0) || 1;
    let x = 0;
    messages.forEach(([kind, before, after], i) => {
      const wide = (Math.max(before, after) / whole) * width;
      brush.fillStyle = style.getPropertyValue(`--${kind}`);
      brush.globalAlpha = 0.22;
      brush.fillRect(x, 0, wide, 28);
      brush.globalAlpha = 1;
      brush.fillRect(x, 0, before ? wide * Math.min(1, after / before) : wide, 28);
      x += wide;
      if (cut && i === cut.index - 1) {
        brush.fillStyle = style.getPropertyValue("--ink");
        brush.fillRect(Math.min(width - 2, x), 0, 2, 28);
      }
    });
  });
  return canvas;
}

function reasons(messages) {
  const found = new Map();
  for (const [, before, after, stage, reason] of messages) {
    if (!stage) continue;
    const key = `${stage}\n${reason}`;
    const sum = found.get(key) ?? { stage, reason, messages: 0, tokens: 0 };
    sum.messages += 1;
    sum.tokens += before - after;
    found.set(key, sum);
  }
  if (!found.size) return h("p", {}, "Nothing was removed: all messages were sent as they came.");
  return table(
    "What was removed, and why",
    ["Stage", "Why", "Messages", "Tokens removed"],
    [...found.values()].map((each) => [term(each.stage), each.reason, count(each.messages), count(each.tokens)]),
    [2, 3],
  );
}

function messagesOf(messages, cut) {
  const rows = messages.map((message, i) => ({ message, i }));
  if (cut) rows.splice(cut.index, 0, { cut });
  const made = list("Messages of this request", rows.length, ROW, (i) =>
    rows[i].cut ? divider(rows[i].cut) : messageRow(rows[i]),
  );
  made.element.classList.add("messages");
  if (cut) requestAnimationFrame(() => made.show(cut.index));
  return made.element;
}

function messageRow({ message: [kind, before, after, stage, reason], i }) {
  const fate = !stage ? "sent as it came" : `${stage}: ${reason}`;
  return h(
    "div",
    { class: `message ${GONE.includes(stage) ? "gone" : stage ? "edited" : ""}` },
    h("span", { class: "number" }, count(i + 1)),
    h("span", {}, h("i", { class: `swatch ${kind}`, "aria-hidden": "true" }), kind),
    h("span", { class: "number" }, stage ? `${count(before)} → ${count(after)}` : count(before)),
    h("span", {}, fate),
  );
}

const KEPT_AS = { summary: "a summary", extract: "an extract", note: "a note", nothing: "nothing" };

function divider(cut) {
  return h(
    "div",
    { class: "divider" },
    `earlier: ${several(cut.messages, "message")}, kept as ${KEPT_AS[cut.kept_as]}${cut.tokens ? ` of ${several(cut.tokens, "token")}` : ""}`,
  );
}
