// The picture of a conversation: a column a request, stacked by kind, under the line of the budget; below it the share
// that the upstream read from its cache. Drawn by uPlot; the figures are in the table below for those who cannot see it.

import { h } from "./dom.js";
import { compact, count, percent } from "./format.js";

export const KINDS = ["system", "tools", "task", "talk", "results", "extract", "summary"];
const SYNC = "conversation";

const tall = () => Math.round(Math.min(800, Math.max(300, innerHeight * 0.33)));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Draw `columns` into `element`; `chosen(i)` is called when one is clicked. Returns { select(i), withRemoved(bool), close() }. */
export function chart(element, columns, chosen) {
  const hovered = h("p", { class: "hovered", "aria-hidden": "true" });
  let plots = [];
  let selected = columns.length - 1;
  let removed = false;

  function draw() {
    plots.forEach((plot) => plot.destroy());
    const stack = h("div", { role: "img", "aria-label": described(columns) });
    const cache = h("div", {
      role: "img",
      "aria-label": "Share of the prompt that was read from the cache, by request",
    });
    element.replaceChildren(stack, hovered, cache);
    const width = Math.max(280, element.clientWidth);
    plots = [stacked(stack, width), cached(cache, width)];
  }

  const mark = {
    hooks: {
      drawClear: [
        (plot) => {
          const half = Math.max(2, plot.bbox.width / columns.length / 2);
          const x = plot.valToPos(selected + 1, "x", true);
          plot.ctx.fillStyle = colour("chosen");
          plot.ctx.fillRect(x - half, plot.bbox.top, half * 2, plot.bbox.height);
        },
      ],
      draw: [
        (plot) => {
          const x = plot.valToPos(selected + 1, "x", true);
          plot.ctx.fillStyle = colour("ink");
          plot.ctx.fillRect(x - devicePixelRatio / 2, plot.bbox.top, devicePixelRatio, plot.bbox.height);
        },
      ],
    },
  };

  function options(width, height, scales, series, axis) {
    const grid = { stroke: colour("line"), width: 1 };
    return {
      width,
      height,
      series,
      plugins: [mark],
      legend: { show: false },
      cursor: { sync: { key: SYNC }, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: false, range: () => [0.5, columns.length + 0.5] }, ...scales },
      axes: [
        {
          stroke: colour("soft"),
          grid: { show: false },
          ticks: { show: false },
          font: "12px system-ui",
          size: 26,
          incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500],
        },
        { stroke: colour("soft"), grid, ticks: { show: false }, font: "12px system-ui", size: 58, ...axis },
      ],
      hooks: {
        setCursor: [
          (plot) => {
            const column = columns[plot.cursor.idx];
            hovered.textContent = column ? figures(column, plot.cursor.idx + 1) : "";
          },
        ],
        ready: [
          (plot) =>
            plot.over.addEventListener("click", () => {
              const i = plot.cursor.idx;
              if (i !== null && i !== undefined) chosen(i);
            }),
        ],
      },
    };
  }

  function stacked(into, width) {
    const bars = uPlot.paths.bars({ size: [0.92, 60], gap: 0 });
    const layers = KINDS.map((kind) => ({ name: kind, of: (column) => column.kinds[kind] ?? 0 }));
    if (removed)
      layers.push({ name: "removed", of: (column) => Object.values(column.removed).reduce((a, b) => a + b, 0) });
    const totals = columns.map(() => 0);
    const cumulated = layers.map((layer) => columns.map((column, i) => (totals[i] += layer.of(column))));
    const series = layers.map((layer) => ({
      fill: colour(layer.name),
      width: 0,
      paths: bars,
      points: { show: false },
    }));
    const budget = {
      stroke: colour("budget"),
      width: 2,
      dash: [6, 4],
      points: { show: false },
      paths: uPlot.paths.stepped({ align: 1 }),
    };
    const data = [
      columns.map((_, i) => i + 1),
      ...cumulated.reverse(),
      columns.map((column) => column.exchange.budget || null),
    ];
    const most = Math.max(...totals, ...columns.map((column) => column.exchange.budget));
    return new uPlot(
      options(width, tall(), { y: { range: () => [0, most * 1.06] } }, [{}, ...series.reverse(), budget], {
        values: (_, ticks) => ticks.map(compact),
      }),
      data,
      into,
    );
  }

  function cached(into, width) {
    const shares = columns.map(({ exchange }) =>
      exchange.cached === null || !exchange.prompt ? null : exchange.cached / exchange.prompt,
    );
    const bars = uPlot.paths.bars({ size: [0.92, 60], gap: 0 });
    return new uPlot(
      options(
        width,
        92,
        { y: { range: () => [0, 1] } },
        [{}, { fill: colour("cached"), width: 0, paths: bars, points: { show: false } }],
        { values: (_, ticks) => ticks.map((tick) => percent(tick, 1)), incrs: [0.5, 1] },
      ),
      [columns.map((_, i) => i + 1), shares],
      into,
    );
  }

  draw();
  const resized = new ResizeObserver(() => {
    const width = Math.max(280, element.clientWidth);
    plots.forEach((plot) => plot.width !== width && plot.setSize({ width, height: plot.height }));
  });
  resized.observe(element);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", draw);
  return {
    select(i) {
      selected = i;
      plots.forEach((plot) => plot.redraw(false));
    },
    withRemoved(is) {
      removed = is;
      draw();
    },
    close() {
      resized.disconnect();
      scheme.removeEventListener("change", draw);
      plots.forEach((plot) => plot.destroy());
    },
  };
}

function figures({ exchange, kinds }, place) {
  const named = KINDS.filter((kind) => kinds[kind])
    .map((kind) => `${kind} ${count(kinds[kind])}`)
    .join(", ");
  const cached = exchange.cached === null ? "" : `; ${percent(exchange.cached, exchange.prompt)} from the cache`;
  return `Request ${count(place)}: ${count(exchange.original)} → ${count(exchange.sent)} of ${count(exchange.budget)}: ${named}${cached}`;
}

function described(columns) {
  const last = columns.at(-1).exchange;
  return (
    `${count(columns.length)} requests, stacked by kind of tokens. The newest came with ${count(last.original)} tokens and was sent with ` +
    `${count(last.sent)} of a budget of ${count(last.budget)}. All figures are in the table below.`
  );
}
