// Models: what each takes, where that is known from, and what was learned.

import { get } from "./api.js";
import { empty, failed, fill, h, loading, table } from "./dom.js";
import { count, factor } from "./format.js";
import { term } from "./terms.js";

const EVERY_MS = 5000;

export function models(main) {
  const body = h("div", {}, loading());
  fill(main, h("h2", {}, "Models"), body);
  let text = "";

  async function load() {
    try {
      const { models: found } = await get("/models");
      if (JSON.stringify(found) === text) return;
      text = JSON.stringify(found);
      fill(
        body,
        found.length
          ? shown(found)
          : empty("No model yet", "Models appear here when they are asked for, or named in the configuration."),
      );
    } catch (error) {
      text = "";
      fill(body, failed(error, load));
    }
  }

  load();
  const timer = setInterval(() => document.visibilityState === "visible" && load(), EVERY_MS);
  return { close: () => clearInterval(timer) };
}

function shown(found) {
  const head = [
    "Model",
    term("upstream", "Upstream"),
    term("window", "Window"),
    term("answer", "Longest answer"),
    term("usable", "Input"),
    term("source", "Source"),
    "Learned",
    term("factor", "Factor"),
    term("price", "$ per million"),
  ];
  return table(
    "Models, their limits and where they are known from",
    head,
    found.map((each) => [
      each.model || "(none named)",
      each.upstream,
      count(each.context_size),
      count(each.max_output_tokens),
      count(each.usable),
      [`${each.source}${each.detail ? `: ${each.detail}` : ""}`, !each.trusted && h("small", {}, " (a guess)")],
      each.learned
        ? `an overflow: ${count(each.context_size)} in place of ${count(each.stated_size)} (${each.stated_source})`
        : "–",
      factor(each.factor),
      each.input_usd === null
        ? "–"
        : [each.input_usd, each.output_usd, each.cached_usd].map((price) => price ?? "–").join(" / "),
    ]),
    [2, 3, 4, 7],
  );
}
