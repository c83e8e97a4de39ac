// A conversation: its window as a picture, and for the chosen request every message, what became of it and why.

import { get } from "./api.js";
import { KINDS, chart } from "./chart.js";
import { empty, failed, fill, h, loading, table } from "./dom.js";
import { count, several, time } from "./format.js";
import { term } from "./terms.js";
import { windowOf } from "./window.js";

const EVERY_MS = 1000; // however many requests there are, the picture is made again once a second

export function conversation(main, { argument }) {
  const [name, number] = argument.split("/");
  const picker = h("select", { id: "which", onchange: () => (location.hash = `conversation/${picker.value}`) });
  const body = h("div", {}, loading());
  fill(
    main,
    h("div", { class: "row" }, h("h2", {}, "A conversation"), h("label", { for: "which" }, "Conversation "), picker),
    body,
  );
  const shown = new Conversation(body);
  let closed = false;
  let current = name;

  async function load() {
    try {
      const { conversations } = await get("/conversations");
      if (closed) return;
      if (!conversations.length) {
        return fill(
          body,
          empty(
            "No conversation yet",
            "A conversation appears here with its first request. To watch one: ",
            h("code", {}, "trimtab demo --ui"),
            ".",
          ),
        );
      }
      current ||= conversations[0].name;
      fill(
        picker,
        conversations.map((each) =>
          h(
            "option",
            { value: each.name, selected: each.name === current },
            `${each.model || "?"} · ${several(each.requests, "request")} · ${count(each.original)} tokens · ${time(each.ended_at)}`,
          ),
        ),
      );
      const found = await get(`/conversations/${encodeURIComponent(current)}`);
      if (!closed) shown.show(found.columns, Number(number) || null);
    } catch (error) {
      if (!closed) fill(body, failed(error, load));
    }
  }

  let timer = 0;
  load();
  return {
    seen: (news) => {
      if (timer || (current && !news.some((each) => each.conversation === current))) return;
      timer = setTimeout(async () => {
        await load();
        timer = 0;
      }, EVERY_MS);
    },
    close: () => {
      closed = true;
      clearTimeout(timer);
      shown.close();
    },
  };
}

class Conversation {
  constructor(body) {
    this.body = body;
    this.columns = [];
    this.follows = true; // the newest request stays chosen until another one is
  }

  close() {
    this.picture?.close();
  }

  show(columns, number) {
    const place =
      number && !this.columns.length ? columns.findIndex((column) => column.exchange.number === number) : -1;
    const chosen = this.columns[this.index]?.exchange.number;
    this.columns = columns;
    if (place >= 0) this.follows = place === columns.length - 1;
    const kept = columns.findIndex((column) => column.exchange.number === chosen);
    this.index = place >= 0 ? place : this.follows || kept < 0 ? columns.length - 1 : kept;
    this.frame();
    this.picture?.close();
    this.picture = chart(this.plot, columns, (i) => this.choose(i));
    if (this.toggle.checked) this.picture.withRemoved(true);
    this.slider.max = String(columns.length);
    this.figures();
    this.select();
  }

  frame() {
    if (this.plot?.isConnected) return;
    this.plot = h("div", { class: "plot" });
    this.slider = h("input", {
      type: "range",
      id: "request",
      min: "1",
      step: "1",
      oninput: () => this.choose(this.slider.valueAsNumber - 1),
    });
    this.toggle = h("input", { type: "checkbox", onchange: () => this.picture.withRemoved(this.toggle.checked) });
    this.chosen = h("section", { class: "chosen", "aria-label": "The chosen request" });
    this.all = h("details", {}, h("summary", {}, "All figures as a table"), h("div"));
    const legend = h(
      "ul",
      { class: "legend", "aria-label": "Kinds of tokens" },
      [...KINDS, "removed"].map((kind) =>
        h("li", {}, h("i", { class: `swatch ${kind}`, "aria-hidden": "true" }), term(kind)),
      ),
      h("li", {}, h("i", { class: "swatch budget", "aria-hidden": "true" }), term("budget")),
      h("li", {}, h("i", { class: "swatch cached", "aria-hidden": "true" }), term("cached")),
    );
    fill(
      this.body,
      legend,
      this.plot,
      h(
        "div",
        { class: "row" },
        h("label", { for: "request" }, "Request"),
        this.slider,
        h("label", { class: "check" }, this.toggle, " show what was removed"),
      ),
      this.chosen,
      this.all,
    );
  }

  choose(i) {
    this.index = i;
    this.follows = i === this.columns.length - 1;
    this.select();
  }

  select() {
    const { exchange } = this.columns[this.index];
    this.slider.value = String(this.index + 1);
    this.slider.setAttribute(
      "aria-valuetext",
      `request ${this.index + 1} of ${this.columns.length}: sent ${count(exchange.sent)} of ${count(exchange.budget)} tokens`,
    );
    this.picture.select(this.index);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.window(exchange.number), this.shownNumber === undefined ? 0 : 120);
  }

  async window(number) {
    if (this.shownNumber === number) return;
    this.shownNumber = number;
    try {
      const found = await get(`/exchanges/${number}`);
      if (this.shownNumber === number) fill(this.chosen, windowOf(found, this.columns[this.index], this.index + 1));
    } catch (error) {
      if (this.shownNumber === number)
        fill(
          this.chosen,
          failed(error, () => ((this.shownNumber = null), this.window(number))),
        );
    }
  }

  figures() {
    const head = ["Request", "Original", "Sent", "Budget", ...KINDS, "removed", "cached"];
    const rows = () =>
      this.columns.map(({ exchange, kinds, removed }, i) => [
        String(i + 1),
        count(exchange.original),
        count(exchange.sent),
        count(exchange.budget),
        ...KINDS.map((kind) => count(kinds[kind] ?? 0)),
        count(Object.values(removed).reduce((a, b) => a + b, 0)),
        count(exchange.cached),
      ]);
    const made = () =>
      this.all.open &&
      fill(
        this.all.lastChild,
        table(
          "Tokens of each request by kind",
          head,
          rows(),
          head.map((_, i) => i),
        ),
      );
    this.all.ontoggle = made;
    made();
  }
}
