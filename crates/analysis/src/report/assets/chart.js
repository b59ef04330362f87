// What all charts share: state of the controls, look, drawing when they come into view, print.
// A chart registers `fsage.charts.KIND = { draw(plot, state, figure), csv(state) }`.

fsage.ink = (trial) => {
  const ink = fsage.data.file_systems[trial.file_system].ink;
  return { colour: fsage.dark() ? ink.dark : ink.light, symbol: ink.symbol, dash: ink.dash };
};

fsage.fade = (hex, share) => {
  const n = parseInt(hex.slice(1), 16);
  return `rgba(${n >> 16},${(n >> 8) & 255},${n & 255},${share})`;
};

fsage.narrow = () => !fsage.printing && innerWidth < 700;

fsage.look = () => {
  const dark = fsage.dark();
  return {
    text: dark ? "#c9d2dd" : "#2b3542", soft: dark ? "#8d99a8" : "#6b7683",
    grid: dark ? "#2b3441" : "#e6eaef", line: dark ? "#465263" : "#b9c2cc", card: dark ? "#1a2029" : "#ffffff",
  };
};

fsage.axis = (more) => {
  const look = fsage.look();
  return { gridcolor: look.grid, linecolor: look.line, zerolinecolor: look.grid, tickcolor: look.line, showline: true, ticks: "outside", ticklen: 4, automargin: true, exponentformat: "none", separatethousands: true, ...more };
};

fsage.legend = { orientation: "h", x: 0, xanchor: "left", y: 1, yanchor: "top", yref: "container", bgcolor: "rgba(0,0,0,0)" };

fsage.layout = (more) => {
  const look = fsage.look();
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, Liberation Sans, sans-serif", size: 12.5, color: look.text },
    margin: { l: 60, r: 16, t: 44, b: 50 }, hovermode: "closest",
    hoverlabel: { bgcolor: look.card, bordercolor: look.line, font: { color: look.text } },
    legend: { ...fsage.legend },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: look.soft, activecolor: look.text },
    ...more,
  };
};

// Nothing on the page contacts a server: plotly.js 4 has a button for it, on unless told otherwise.
fsage.config = { displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: true, scrollZoom: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

// A bar with its interval for each of what was found: one measure of several cells (bar.rs).
fsage.bars = (found) => {
  const { words, unit } = found[0] ?? { words: "", unit: "" };
  const interval = (d) => (d.low === null ? "" : `, interval ${fsage.significant(d.low)} to ${fsage.significant(d.high)}`);
  const traces = fsage.data.file_systems.map((system, index) => {
    const part = found.filter((d) => d.file_system === index);
    const colour = fsage.dark() ? system.ink.dark : system.ink.light;
    return {
      type: "bar", orientation: "h", name: system.name, showlegend: part.length > 0, marker: { color: fsage.fade(colour, 0.6) },
      y: part.map((d) => found.indexOf(d)), x: part.map((d) => d.value),
      error_x: { type: "data", symmetric: false, array: part.map((d) => (d.high ?? d.value) - d.value), arrayminus: part.map((d) => d.value - (d.low ?? d.value)), color: fsage.look().text, thickness: 1.5, width: 5 },
      customdata: part.map((d) => [d.label, fsage.significant(d.value), interval(d), d.trials]),
      hovertemplate: fsage.markup`%{customdata[0]}: %{customdata[1]} ${unit}%{customdata[2]}, %{customdata[3]} trial(s)<extra></extra>`,
    };
  });
  const layout = fsage.layout({
    height: Math.max(220, 34 * found.length + 150), margin: { l: 20, r: 16, t: 60, b: 56 }, bargap: 0.35, barmode: "overlay",
    xaxis: fsage.axis({ title: { text: unit ? `${words} (${unit})` : words, standoff: 8 }, rangemode: "tozero" }),
    yaxis: fsage.axis({ tickvals: found.map((_, i) => i), ticktext: found.map((d) => d.label), range: [found.length - 0.5, -0.5], zeroline: false, ...(fsage.narrow() ? { tickfont: { size: 10 } } : {}) }),
  });
  return { traces, layout };
};

// What a table of them has.
fsage.bars.columns = ["file_system", "cell", "measure", "unit", "value", "low", "high", "trials"];
fsage.bars.row = (d) => [fsage.data.file_systems[d.file_system].name, d.label, d.words, d.unit, d.value, d.low, d.high, d.trials];

// How many of n panels stand side by side.
fsage.columns = (n) => fsage.narrow() ? 1 : Math.min(n, n === 4 ? 2 : 3);

// Positions of n panels in a grid with shared axes: returns axis definitions and titles.
fsage.grid = (n, xAxis, yAxis, titles) => {
  const columns = fsage.columns(n);
  const rows = Math.ceil(n / columns);
  const layout = { annotations: [] };
  const gapX = 0.035, gapY = rows > 1 ? 0.16 / rows + 0.04 : 0;
  const width = (1 - gapX * (columns - 1)) / columns, height = (1 - gapY * (rows - 1)) / rows;
  for (let i = 0; i < n; i += 1) {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const id = i ? i + 1 : "";
    const left = column * (width + gapX), top = 1 - row * (height + gapY);
    const lowest = row === rows - 1 || i + columns >= n;
    layout[`xaxis${id}`] = fsage.axis({ ...xAxis, domain: [left, left + width], anchor: `y${id}`, ...(i ? { matches: "x" } : {}), ...(lowest ? {} : { title: undefined }) });
    layout[`yaxis${id}`] = fsage.axis({ ...yAxis, domain: [Math.max(0, top - height), top], anchor: `x${id}`, ...(i ? { matches: "y" } : {}), ...(column ? { title: undefined, showticklabels: false } : {}) });
    if (titles[i]) layout.annotations.push({ text: fsage.markup`<b>${titles[i]}</b>`, xref: "paper", yref: "paper", x: left, xanchor: "left", y: top, yanchor: "bottom", align: "left", yshift: 4, showarrow: false, font: { size: 13 } });
  }
  return { layout, rows };
};

// Ticks of a logarithmic axis: 1, 2, 5 of each decade, in full.
fsage.decades = (more) => {
  const tickvals = [];
  for (let power = -4; power <= 12; power += 1) for (const digit of [1, 2, 5]) tickvals.push(digit * 10 ** power);
  return { tickvals, ticktext: tickvals.map(fsage.short), ...more };
};

// An axis of ratios over `width` pixels that holds the values and 1: of the ladders of ticks the finest whose labels do not touch.
fsage.ratios = (values, width) => {
  const known = values.filter((v) => v > 0);
  const [low, high] = [Math.min(...known, 0.95), Math.max(...known, 1.05)].map(Math.log10);
  const pad = Math.max(0.01, (high - low) * 0.06);
  const range = [low - pad, high + pad];
  const decades = (digits) => Array.from({ length: 13 }, (_, i) => digits.map((d) => d * 10 ** (i - 6))).flat();
  const steps = (step) => Array.from({ length: Math.round(2 / step) }, (_, i) => Number(((i + 1) * step).toFixed(4)));
  const ladders = [steps(0.01), steps(0.02), steps(0.05), steps(0.1), [...decades([1, 1.5, 2, 3, 4, 5, 7])], decades([1, 2, 3, 5]), decades([1, 2, 5]), decades([1, 3]), decades([1])];
  const place = (v) => ((Math.log10(v) - range[0]) / (range[1] - range[0])) * Math.max(120, width);
  const inside = (ladder) => ladder.filter((v) => Math.log10(v) >= range[0] && Math.log10(v) <= range[1]);
  const apart = (ticks) => ticks.every((v, i) => !i || place(v) - place(ticks[i - 1]) >= 20 + 7 * fsage.factor(v).length);
  // A ladder of small steps ends at 2, and does not do for what goes beyond.
  const reaches = (ladder) => ladder[ladder.length - 1] >= 10 ** Math.min(high, 6);
  const ticks = ladders.filter(reaches).map(inside).find(apart) ?? [1];
  return { type: "log", range, tickvals: ticks, ticktext: ticks.map(fsage.factor) };
};

fsage.factor = (value) => `×${Number(value.toPrecision(3))}`;

// Plotly reads markup in every text that it draws (tags with styles, links, entities), and texts come from stores that others
// wrote. What a chart hands over is therefore text, escaped in one place (`plain`), unless the chart itself wrote it as markup:
// fsage.markup`<b>${title}</b>`, where what stands in the gaps is text again.
class Markup {
  constructor(text) { this.text = text; }
}

const escaped = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);

// In a template `%{...}` stands for a value, so a text's own `%` is escaped too.
fsage.markup = (own, ...gaps) => new Markup(own.reduce((all, part, i) => {
  const gap = gaps[i - 1];
  return all + (gap instanceof Markup ? gap.text : escaped(String(gap)).replaceAll("%", "&#37;")) + part;
}));

const plain = (value) => {
  if (typeof value === "string") return escaped(value);
  if (value instanceof Markup) return value.text;
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, own]) => [key, plain(own)]));
  return value;
};

fsage.bucket = (power) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  return `${2 ** (power % 10)} ${units[Math.floor(power / 10)] ?? "?"}`;
};

// Numbers as the rest of the page has them (crates/model/src/number.rs): thousands by commas, three significant digits, decimals below 1.
fsage.grouped = (value) => Math.round(value).toLocaleString("en");

fsage.significant = (value) => {
  if (value == null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 999.5) return fsage.grouped(value);
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.01 || size === 0 ? 2 : 4);
};

// On axes and in counts: whole numbers without decimals.
fsage.short = (value) => (Number.isInteger(value) ? fsage.grouped(value) : Number.isFinite(value) && Math.abs(value) < 1 ? String(Number(value.toPrecision(3))) : fsage.significant(value));

fsage.size = (bytes) => {
  let [value, unit] = [bytes || 0, 0];
  while (Math.abs(value) >= 1023.5 && unit < 6) [value, unit] = [value / 1024, unit + 1];
  const text = Number.isInteger(value) && Math.abs(value) < 999.5 ? String(value) : fsage.significant(value);
  return `${text} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit]}`;
};

// The line below a figure: what must be known first, what it always says, and what must be known beside.
fsage.note = (figure, before, after) => {
  const line = figure.querySelector("p.note");
  line.dataset.own ??= line.textContent;
  line.textContent = [...before, line.dataset.own, ...after].filter(Boolean).join(" ");
};

// The library in two parts: the 3-D one is unpacked and compiled when a chart first needs it.
const flat = Plotly;
let solid;
const unpack = async () => {
  const packed = Uint8Array.from(atob(document.getElementById("plotly-3d").textContent), (letter) => letter.charCodeAt(0));
  const text = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(Object.assign(document.createElement("script"), { textContent: text }));
  solid = window.Plotly;
  window.Plotly = flat;
};
let unpacking;
fsage.solid = () => (unpacking ??= unpack());

const isSolid = (traces) => traces.some((trace) => trace.type === "surface");

// Draws with the part of the library that has the traces. What the other part drew, and what was drawn for another arrangement of the
// panels (narrow, on paper), is removed first: the library keeps axes of panels that are gone, and a heat map on them stays empty.
const react = (plot, traces, layout, config) => {
  const library = isSolid(traces) ? solid : flat;
  const arrangement = `${fsage.narrow()} ${Boolean(fsage.printing)} ${Object.keys(layout).filter((key) => key.includes("axis")).length}`;
  if (plot.library && (plot.library !== library || plot.arrangement !== arrangement)) plot.library.purge(plot);
  plot.library = library;
  plot.arrangement = arrangement;
  library.react(plot, plain(traces), plain(layout), config);
};

const state = (figure) => {
  const values = {};
  figure.querySelectorAll("select[data-select]").forEach((s) => { values[s.dataset.select] = s.value; });
  figure.querySelectorAll('button[data-choice][aria-pressed="true"]').forEach((b) => { values[b.dataset.choice] = b.dataset.value; });
  return values;
};

const failed = (figure, plot, error) => {
  plot.classList.add("failed");
  plot.textContent = "This chart could not be drawn; its numbers are in the tables.";
  console.error(figure.id, error);
};

fsage.draw = (figure) => {
  const chart = fsage.charts[figure.dataset.chart];
  const plot = figure.querySelector(".plot");
  try {
    const { traces, layout } = chart.draw(state(figure), figure);
    if (isSolid(traces) && !solid) {
      figure.dataset.drawn = "yes"; // it will be, or says why not
      fsage.solid().then(() => fsage.draw(figure), (error) => failed(figure, plot, error));
      return;
    }
    plot.classList.remove("failed");
    plot.style.height = `${layout.height}px`;
    if (fsage.printing) layout.width = 690; // what fits on A4 and Letter at 96 dpi
    react(plot, traces, layout, { ...fsage.config, displayModeBar: fsage.narrow() ? false : "hover" });
  } catch (error) {
    failed(figure, plot, error);
  }
  figure.dataset.drawn = "yes";
};

fsage.redraw = () => document.querySelectorAll("figure.chart[data-drawn]").forEach(fsage.draw);

const lazy = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting && !entry.target.dataset.drawn) {
      lazy.unobserve(entry.target);
      fsage.draw(entry.target);
    }
  }
}, { rootMargin: "400px" });

fsage.start = () => {
  document.querySelectorAll("figure.chart").forEach((figure) => {
    figure.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button?.dataset.choice) {
        button.parentElement.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", b === button));
        fsage.draw(figure);
      }
      if (button && "csvChart" in button.dataset) {
        fsage.save(`${figure.id}.csv`, fsage.csv(fsage.charts[figure.dataset.chart].csv(state(figure))));
      }
    });
    figure.addEventListener("change", () => fsage.draw(figure));
    lazy.observe(figure);
  });
  // The others one by one while nothing else happens, so that scrolling finds them ready.
  const next = () => {
    const figure = document.querySelector("figure.chart:not([data-drawn])");
    if (!figure) return;
    lazy.unobserve(figure);
    fsage.draw(figure);
    setTimeout(next, 150);
  };
  setTimeout(next, 600);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", fsage.redraw);
  let narrow = fsage.narrow();
  addEventListener("resize", () => {
    if (narrow !== fsage.narrow()) { narrow = fsage.narrow(); fsage.redraw(); }
  });
  // Paper is light and shows every chart, visible or not.
  addEventListener("beforeprint", () => { fsage.printing = true; document.querySelectorAll("figure.chart").forEach(fsage.draw); });
  addEventListener("afterprint", () => { fsage.printing = false; fsage.redraw(); });
};
// Charts register before the document is complete.
addEventListener("DOMContentLoaded", fsage.start);
