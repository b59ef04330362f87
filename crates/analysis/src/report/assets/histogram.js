// Sizes by powers of two at the end, file systems over each other, a panel for each context.
const histogram = (what) => ({
  draw(state) {
    const { data } = fsage;
    const shown = data.ages.filter((trial) => trial[what]);
    const buckets = shown.flatMap((trial) => trial[what].count.map((n, i) => (n ? i : null)).filter((i) => i !== null));
    const [first, last] = [Math.min(...buckets, 12), Math.max(...buckets, 13)];
    const rows = Array.from({ length: last - first + 1 }, (_, i) => first + i);
    const named = new Set();
    const traces = shown.map((trial) => {
      const values = rows.map((row) => trial[what][state.what][row] ?? 0);
      const total = values.reduce((a, b) => a + b, 0) || 1;
      const ink = fsage.ink(trial);
      const name = data.file_systems[trial.file_system].name;
      const id = trial.panel ? trial.panel + 1 : "";
      const y = values.map((v) => (state.unit === "share" ? (100 * v) / total : v));
      const say = state.what === "bytes" ? fsage.size : fsage.short;
      const trace = {
        x: rows, y, customdata: values.map((v, i) => [fsage.bucket(rows[i]), fsage.bucket(rows[i] + 1), say(v), fsage.significant((100 * v) / total)]),
        xaxis: `x${id}`, yaxis: `y${id}`, mode: "lines+markers", name, legendgroup: name, showlegend: !named.has(name),
        line: { shape: "hvh", color: ink.colour, width: 2, dash: ink.dash }, marker: { size: 5, symbol: ink.symbol, color: ink.colour },
        fill: state.scale === "log" ? "none" : "tozeroy", fillcolor: fsage.fade(ink.colour, 0.08),
        hovertemplate: fsage.markup`%{customdata[0]} to %{customdata[1]}: %{customdata[2]} (%{customdata[3]} %)<extra>${trial.label}</extra>`,
      };
      named.add(name);
      return trace;
    });
    const ticks = rows.filter((row) => row % (rows.length > 12 ? 4 : 2) === 0);
    const noun = { extents: "extents", files: "files", free_extents: "free extents" }[what];
    const quantity = state.what === "bytes" ? `bytes in ${noun}` : noun;
    const unit = state.unit === "share" ? `share of ${quantity} (%)` : state.what === "bytes" ? `${quantity} (B)` : `number of ${noun}`;
    const { layout, rows: lines } = fsage.grid(data.panels.length,
      { title: { text: `size of ${noun} (at least)`, standoff: 8 }, tickvals: ticks, ticktext: ticks.map(fsage.bucket), range: [first - 0.6, last + 0.6] },
      { title: { text: unit, standoff: 8 }, type: state.scale, ...range(traces, state.scale) },
      data.panels);
    return { traces, layout: fsage.layout({ ...layout, height: lines * 300 + 110, margin: { l: 70, r: 16, t: 70, b: 56 } }) };
  },
  csv() {
    const rows = [["trial", "size_bytes_from", "count", "bytes"]];
    for (const trial of fsage.data.ages) {
      trial[what]?.count.forEach((count, i) => { if (count) rows.push([trial.label, 2 ** i, count, trial[what].bytes[i]]); });
    }
    return rows;
  },
});
// Plotly's own range overlooks steps in matched panels.
function range(traces, scale) {
  const values = traces.flatMap((trace) => trace.y).filter((v) => v > 0);
  const [low, high] = [Math.min(...values, 1), Math.max(...values, 1)];
  return scale === "log" ? fsage.decades({ range: [Math.log10(low) - 0.1, Math.log10(high) + 0.1] }) : { range: [0, high * 1.06] };
}

fsage.charts.extents = histogram("extents");
fsage.charts.files = histogram("files");
fsage.charts.free_extents = histogram("free_extents");
