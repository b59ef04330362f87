// Latency over the run: dots, smoothed line and band for each trial, a panel for each context.
fsage.charts.latency = {
  draw(state) {
    const { data } = fsage;
    const traces = [];
    const named = new Set();
    for (const trial of data.ages) {
      const series = trial.latency?.kinds[state.operation];
      if (!series) continue;
      const ink = fsage.ink(trial);
      const name = data.file_systems[trial.file_system].name;
      const id = trial.panel ? trial.panel + 1 : "";
      const x = trial.latency[state.x];
      const base = { x, xaxis: `x${id}`, yaxis: `y${id}`, legendgroup: name, showlegend: false, connectgaps: false };
      if (state.band !== "none") {
        const [low, high] = state.band === "p99" ? [series.p50, series.p99] : [series.min, series.max];
        traces.push(...band(x, low, high).map((part) => ({ ...base, ...part, mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: fsage.fade(ink.colour, 0.13), hoverinfo: "skip" })));
      }
      if (state.points === "yes") {
        traces.push({ ...base, y: series.p50, mode: "markers", marker: { color: fsage.fade(ink.colour, 0.5), size: 4, symbol: ink.symbol }, name: trial.label, hovertemplate: fsage.markup`%{y:.4g} µs median<br>after %{x:,}<extra>${trial.label}</extra>` });
      }
      traces.push({ ...base, y: series.smooth, mode: "lines", line: { color: ink.colour, width: 2.2, dash: ink.dash }, name, showlegend: !named.has(name), hovertemplate: fsage.markup`%{y:.4g} µs smoothed<extra>${trial.label}</extra>` });
      named.add(name);
    }
    const over = state.x === "seconds" ? "seconds of load (s)" : "operations done";
    const { layout, rows } = fsage.grid(data.panels.length,
      { title: { text: over, standoff: 8 }, rangemode: "tozero" },
      { title: { text: `latency of ${state.operation.replaceAll("_", " ")} (µs)`, standoff: 8 }, type: state.scale, ...(state.scale === "log" ? fsage.decades({}) : { rangemode: "tozero" }) },
      data.panels);
    return { traces, layout: fsage.layout({ ...layout, height: rows * 360 + 100, margin: { l: 70, r: 16, t: 60, b: 56 } }) };
  },
  csv(state) {
    const rows = [["trial", "operations", "seconds", "operation", "min_us", "p50_us", "p99_us", "max_us", "smoothed_p50_us"]];
    for (const trial of fsage.data.ages) {
      const series = trial.latency?.kinds[state.operation];
      if (!series) continue;
      trial.latency.operations.forEach((operations, i) => rows.push([trial.label, operations, trial.latency.seconds[i], state.operation, series.min[i], series.p50[i], series.p99[i], series.max[i], series.smooth[i]]));
    }
    return rows;
  },
};

// Closed outlines between two lines; a gap in the data ends one and begins the next.
function band(x, low, high) {
  const parts = [];
  let start = -1;
  for (let i = 0; i <= x.length; i += 1) {
    const there = i < x.length && low[i] != null && high[i] != null;
    if (there && start < 0) start = i;
    if (!there && start >= 0) { if (i - start > 1) parts.push([start, i]); start = -1; }
  }
  // One trace for all parts: null separates outlines.
  const [xs, ys] = [[], []];
  for (const [from, to] of parts) {
    xs.push(...x.slice(from, to), ...x.slice(from, to).reverse(), null);
    ys.push(...high.slice(from, to), ...low.slice(from, to).reverse(), null);
  }
  return xs.length ? [{ x: xs, y: ys }] : [];
}
