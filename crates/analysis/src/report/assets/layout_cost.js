// The cost of a measure over the layout score of what it read.
fsage.charts.layout_cost = {
  draw(state) {
    const points = fsage.data.layout_costs.filter((p) => p.measure === state.measure);
    const symbols = { aged: "circle", unaged: "circle-open", fresh: "x" };
    const unit = points[0]?.unit ?? "";
    const traces = [];
    fsage.data.file_systems.forEach((system, index) => {
      for (const name of new Set(points.map((p) => p.state))) {
        const part = points.filter((p) => p.file_system === index && p.state === name);
        if (!part.length) continue;
        const colour = fsage.dark() ? system.ink.dark : system.ink.light;
        traces.push({
          x: part.map((p) => p.score), y: part.map((p) => p.cost), name: `${system.name}, ${name}`, type: "scatter", mode: "markers",
          marker: { color: colour, size: 11, symbol: symbols[name] ?? "diamond", line: { color: colour, width: 2 } },
          text: part.map((p) => p.label), hovertemplate: fsage.markup`%{text}<br>score %{x:.3f}, %{y:,.3r} ${unit}<extra></extra>`,
        });
      }
    });
    const layout = fsage.layout({
      height: 460, margin: { l: 70, r: 16, t: 80, b: 56 },
      xaxis: fsage.axis({ title: { text: "dynamic layout score (1: every block follows the one before)", standoff: 8 } }),
      yaxis: fsage.axis({ title: { text: `${(state.measure ?? "").replaceAll("-", " ")} (${unit})`, standoff: 8 }, type: state.scale, ...(state.scale === "log" ? {} : { rangemode: "tozero" }) }),
    });
    return { traces, layout };
  },
  csv() {
    return [["trial", "file_system", "state", "measure", "dynamic_layout_score", "cost", "unit"],
      ...fsage.data.layout_costs.map((p) => [p.label, fsage.data.file_systems[p.file_system].name, p.state, p.measure, p.score, p.cost, p.unit])];
  },
};
