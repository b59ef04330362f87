// Latency over the run: dots, a smoothed line and a thin line above for each file system, a panel for each context.
fsage.charts.latency = {
  draw(state) {
    const { data } = fsage;
    const traces = [];
    const named = new Set();
    for (const cell of data.latencies) {
      const series = cell.latency.kinds[state.operation];
      if (!series) continue;
      const ink = fsage.ink(cell);
      const name = data.file_systems[cell.file_system].name;
      const label = cell.repeats > 1 ? `${name}, median of ${cell.repeats} repeats` : name;
      const id = cell.panel ? cell.panel + 1 : "";
      const base = { x: cell.latency[state.x], xaxis: `x${id}`, yaxis: `y${id}`, legendgroup: name, showlegend: false, connectgaps: false };
      if (state.points === "yes") {
        traces.push({ ...base, y: series.p50, mode: "markers", marker: { color: fsage.fade(ink.colour, 0.4), size: 4, symbol: ink.symbol }, name: label, hovertemplate: fsage.markup`%{y:,.3r} µs median<br>after %{x:,}<extra>${label}</extra>` });
      }
      if (state.also !== "none") {
        const what = state.also === "p99" ? "p99" : "largest";
        traces.push({ ...base, y: series[state.also], mode: "lines", line: { color: fsage.fade(ink.colour, 0.75), width: 1, dash: "dot" }, name: label, hovertemplate: fsage.markup`%{y:,.3r} µs ${what}<extra>${label}</extra>` });
      }
      traces.push({ ...base, y: series.smooth, mode: "lines", line: { color: ink.colour, width: 2.2, dash: ink.dash }, name, showlegend: !named.has(name), hovertemplate: fsage.markup`%{y:,.3r} µs smoothed<extra>${label}</extra>` });
      named.add(name);
    }
    const over = state.x === "seconds" ? "seconds of load (s)" : "operations done";
    const { layout, rows } = fsage.grid(data.panels.length,
      { title: { text: over, standoff: 8 }, rangemode: "tozero", ...(fsage.narrow() ? { nticks: 5 } : {}) },
      { title: { text: `latency of ${state.operation.replaceAll("_", " ")} (µs)`, standoff: 8 }, type: state.scale, ...(state.scale === "log" ? fsage.decades({}) : { rangemode: "tozero" }) },
      data.panels);
    return { traces, layout: fsage.layout({ ...layout, height: rows * 360 + 100, margin: { l: 70, r: 16, t: 60, b: 56 } }) };
  },
  csv(state) {
    const rows = [["file_system", "where", "repeats", "operations", "seconds", "operation", "min_us", "p50_us", "p99_us", "max_us", "smoothed_p50_us"]];
    for (const cell of fsage.data.latencies) {
      const series = cell.latency.kinds[state.operation];
      if (!series) continue;
      cell.latency.operations.forEach((operations, i) => rows.push([fsage.data.file_systems[cell.file_system].name, fsage.data.panels[cell.panel], cell.repeats, operations, cell.latency.seconds[i], state.operation, series.min[i], series.p50[i], series.p99[i], series.max[i], series.smooth[i]]));
    }
    return rows;
  },
};
