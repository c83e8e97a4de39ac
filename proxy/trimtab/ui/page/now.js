// Now: requests as they happen, totals since the start, and the health of what the proxy depends on.

import { get } from "./api.js";
import { empty, fill, h } from "./dom.js";
import { count, edits, ms, percent, several, time, usd } from "./format.js";
import { term } from "./terms.js";

const ROWS = 200;
const STATUS_MS = 2000;
const GOOD = ["passed", "shaped", "observed", "bypassed", "unmanaged", "planned", "stored", "unparsed"];

export function now(main, { exchanges }) {
  const totals = h("dl", { class: "cards", "aria-label": "Totals since the start" });
  const health = h("ul", { class: "health", "aria-label": "Health" });
  const body = h("tbody");
  const list = h("div");
  let held = false;
  const hold = h(
    "button",
    {
      type: "button",
      "aria-pressed": "false",
      onclick: () => {
        held = !held;
        hold.setAttribute("aria-pressed", String(held));
        if (!held) rows();
      },
    },
    "Hold",
  );

  const frame = h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Newest requests" },
    h(
      "table",
      { class: "requests" },
      h("caption", { class: "unseen" }, "Newest requests, the newest first"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          [
            ["Time"],
            ["Model"],
            [term("outcome", "Outcome")],
            [term("original", "Original"), " → ", term("sent", "sent"), " of ", term("budget", "budget")],
            [term("cached", "Cached")],
            [term("edits", "Edits")],
            [term("duration", "ms"), " (", term("overhead", "ours"), ")"],
            ["See"],
          ].map((cell, i) => h("th", { scope: "col", class: [3, 4, 6].includes(i) && "number" }, cell)),
        ),
      ),
      body,
    ),
  );

  function rows() {
    if (held) return;
    if (!exchanges.length) {
      return fill(
        list,
        empty(
          "No request yet",
          "Point the base_url of a client at ",
          h("code", {}, `${location.origin}/v1`),
          ", or watch the recorded run: ",
          h("code", {}, "trimtab demo --ui"),
          ".",
        ),
      );
    }
    if (!frame.isConnected) fill(list, frame);
    // Rows that are there stay where they are, so that a link in one of them keeps the focus.
    const last = Number(body.firstElementChild?.dataset.number ?? 0);
    body.prepend(
      ...exchanges
        .slice(-ROWS)
        .filter((each) => each.number > last || !body.childElementCount)
        .reverse()
        .map(line),
    );
    while (body.childElementCount > ROWS) body.lastElementChild.remove();
  }

  async function status() {
    try {
      const found = await get("/status");
      fill(totals, cards(found.totals));
      fill(health, checks(found));
    } catch {
      /* the state above says that nothing answers */
    }
  }

  fill(
    main,
    h("section", { "aria-label": "Totals and health" }, totals, health),
    h(
      "section",
      { "aria-labelledby": "newest" },
      h("div", { class: "row" }, h("h2", { id: "newest" }, "Requests"), hold),
      list,
    ),
  );
  rows();
  status();
  const timer = setInterval(() => document.visibilityState === "visible" && status(), STATUS_MS);
  return { seen: rows, close: () => clearInterval(timer) };
}

function line(each) {
  const outcome = h(
    "span",
    { class: `outcome ${GOOD.includes(each.outcome) ? "good" : "bad"}` },
    each.outcome.replace("_", " "),
  );
  const link = each.conversation
    ? h(
        "a",
        {
          href: `#conversation/${each.conversation}/${each.number}`,
          "aria-label": `Conversation of request ${each.number}`,
        },
        "window",
      )
    : null;
  const text = each.has_text
    ? h("a", { href: `#compare/${each.number}`, "aria-label": `Request ${each.number} before and after` }, "text")
    : null;
  const cells = [
    time(each.ended_at),
    each.model || each.path,
    [outcome, each.error_code && ` ${each.error_code}`],
    size(each),
    each.cached === null ? "–" : `${count(each.cached)} · ${percent(each.cached, each.prompt)}`,
    edits(each.edits) + (each.summary === "none" ? "" : `, summary ${each.summary}`),
    `${ms(each.duration_ms)} (${ms(each.overhead_ms)})`,
    [link, link && text && " · ", text],
  ];
  const row = h(
    "tr",
    { "data-number": String(each.number) },
    cells.map((cell, i) =>
      h(i ? "td" : "th", { scope: i ? null : "row", class: [3, 4, 6].includes(i) && "number" }, cell),
    ),
  );
  return row;
}

/** Original → sent of budget, with a bar: the budget is the whole of it. */
function size(each) {
  if (!each.original) return "–";
  const bar = h("span", { class: "fill", "aria-hidden": "true" }, h("span"));
  bar.firstChild.style.width = `${Math.min(100, (each.sent / Math.max(1, each.budget)) * 100)}%`;
  return [h("span", {}, `${count(each.original)} → ${count(each.sent)} of ${count(each.budget)}`), bar];
}

function cards(of) {
  const saved = of.original - of.sent;
  const bad = Object.entries(of.outcomes).filter(([name]) => !GOOD.includes(name));
  return [
    card(
      "Requests",
      count(of.requests),
      bad.length ? bad.map(([name, number]) => `${count(number)} ${name.replace("_", " ")}`).join(", ") : "none failed",
    ),
    card(term("original", "Came in"), count(of.original), "tokens"),
    card(term("sent", "Sent"), count(of.sent), `tokens, ${percent(of.sent, of.original)} of what came`),
    card(term("saved", "Not sent"), count(saved), of.saved_usd > 0 ? `tokens, ${usd(of.saved_usd)} net` : "tokens"),
    card(term("cached", "From the cache"), percent(of.cached, of.cacheable), `${count(of.cached)} tokens`),
    of.summary_in
      ? card(term("summaries", "For summaries"), count(of.summary_in + of.summary_out), "tokens read and written")
      : null,
  ];
}

const card = (name, value, more) =>
  h("div", { class: "card" }, h("dt", {}, name), h("dd", {}, h("b", {}, value), " ", h("small", {}, more)));

function checks(of) {
  const upstreams = of.upstreams.map((each) => {
    const bad = each.status !== null && (each.status === 0 || each.status >= 500);
    const last =
      each.status === null
        ? "not called yet"
        : each.status === 0
          ? "did not answer"
          : `answered ${each.status} at ${time(each.at)}`;
    return check(
      bad ? "bad" : each.status === null ? "off" : "good",
      `Upstream ${each.name}`,
      `${last}; ${several(each.failed, "failure")} in ${several(each.calls, "call")}`,
    );
  });
  const redis =
    of.redis === null
      ? check("off", "Redis", "not configured: this process keeps its own")
      : check(of.redis === "up" ? "good" : "bad", "Redis", of.redis === "up" ? "answers" : "does not answer");
  const made = of.summaries;
  const summaries =
    made.state === "off"
      ? check("off", "Summaries", "off: removed messages leave a note")
      : check(
          made.failed ? "bad" : "good",
          "Summaries",
          `${several(made.calls, "newest call")}, ${count(made.failed)} failed${made.last_reason ? `: ${made.last_reason}` : ""}`,
        );
  const load = check(
    of.draining ? "bad" : "good",
    `Trimtab ${of.version}`,
    of.draining ? "stopping" : `${several(of.in_flight, "request")} in flight`,
  );
  return [load, ...upstreams, redis, summaries];
}

const check = (state, name, text) => h("li", { class: state }, h("b", {}, name), " ", text);
