// Gains of the options of a search by workload, as a heat map.
fsage.charts.search_workloads = {
  draw(state) {
    const found = fsage.data.searches[Number(state.place ?? 0)];
    const z = found.gains.map((row) => row.map((cell) => (cell ? 100 * Math.log1p(cell.gain) : null)));
    const top = Math.max(1, ...z.flat().filter((v) => v !== null).map(Math.abs));
    const percent = (share) => `${share > 0 ? "+" : ""}${(100 * share).toFixed(1)} %`;
    const interval = (cell) => (cell.low === null ? "" : `, 95 % interval ${percent(cell.low)} to ${percent(cell.high)}`);
    const text = found.gains.map((row) => row.map((cell) => (cell ? percent(cell.gain) : "–")));
    const hover = found.gains.map((row, r) => row.map((cell, c) => `${found.options[r]}, ${found.workloads[c]}: ${cell ? percent(cell.gain) + interval(cell) : "the runs do not tell"}`));
    // An interval that excludes 0 is drawn bold.
    const bold = (cell) => cell && cell.low !== null && (cell.low > 0 || cell.high < 0);
    const annotations = found.gains.flatMap((row, r) => row.map((cell, c) => ({
      x: c, y: r, showarrow: false, text: bold(cell) ? fsage.markup`<b>${text[r][c]}</b>` : text[r][c],
      font: { size: 12, color: cell && Math.abs(z[r][c]) > 0.6 * top ? "#ffffff" : fsage.look().text },
    })));
    const look = fsage.look();
    const ends = [-top, -top / 2, 0, top / 2, top];
    const traces = [{
      type: "heatmap", x: found.workloads.map((_, i) => i), y: found.options.map((_, i) => i), z, zmin: -top, zmax: top, xgap: 2, ygap: 2, hoverongaps: false,
      colorscale: [[0, "#b2432f"], [0.5, look.card], [1, "#1f6f8b"]],
      colorbar: { title: { text: "gain", side: "right" }, thickness: 14, outlinewidth: 0, tickvals: ends, ticktext: ends.map((v) => percent(Math.expm1(v / 100))) },
      customdata: hover, hovertemplate: fsage.markup`%{customdata}<extra></extra>`,
    }];
    const ticks = (names) => ({ tickvals: names.map((_, i) => i), ticktext: names });
    const layout = fsage.layout({
      annotations, height: 34 * found.options.length + 190, margin: { l: 120, r: 16, t: 30, b: 120 },
      xaxis: fsage.axis({ ...ticks(found.workloads), showgrid: false, tickangle: -35, zeroline: false }),
      yaxis: fsage.axis({ ...ticks(found.options), showgrid: false, autorange: "reversed", zeroline: false }),
    });
    return { traces, layout };
  },
  csv() {
    const rows = [["place", "option", "workload", "gain", "low", "high"]];
    for (const found of fsage.data.searches) {
      found.gains.forEach((row, r) => row.forEach((cell, c) => cell && rows.push([found.place, found.options[r], found.workloads[c], cell.gain, cell.low, cell.high])));
    }
    return rows;
  },
};
