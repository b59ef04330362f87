// Ageing slowdown: ratios by measure and file system, and cost over layout score.
fsage.charts.age_cost = {
  draw(state) {
    const found = fsage.data.age_costs.filter((c) => c.against === (state.against ?? "unaged") && c.metric === c.measure);
    const measures = [...new Set(found.map((c) => c.measure))];
    const systems = fsage.data.file_systems;
    const look = fsage.look();
    const traces = systems.map((system, index) => {
      const part = found.filter((c) => c.file_system === index);
      const colour = fsage.dark() ? system.ink.dark : system.ink.light;
      // Side by side within a measure's band.
      const shift = (index - (systems.length - 1) / 2) * Math.min(0.22, 0.7 / systems.length);
      const sure = part.map((c) => c.finding !== "no-evidence");
      return {
        x: part.map((c) => c.ratio), y: part.map((c) => measures.indexOf(c.measure) - shift), name: system.name, type: "scatter", mode: "markers", showlegend: part.length > 0,
        marker: { color: part.map((_, i) => (sure[i] ? colour : look.card)), line: { color: colour, width: 2 }, size: 11, symbol: system.ink.symbol },
        error_x: { type: "data", symmetric: false, array: part.map((c) => (c.high ?? c.ratio) - c.ratio), arrayminus: part.map((c) => c.ratio - (c.low ?? c.ratio)), color: colour, thickness: 2, width: 5 },
        customdata: part.map((c) => [c.context ? `${c.measure}, ${c.context}` : c.measure, c.low ?? "–", c.high ?? "–", c.n, c.finding.replace("-", " ")]),
        hovertemplate: fsage.markup`%{customdata[0]}: ×%{x:.3g} [%{customdata[1]}, %{customdata[2]}]<br>%{customdata[3]} pair(s), %{customdata[4]}<extra>${system.name}</extra>`,
      };
    });
    const ends = found.flatMap((c) => [c.low ?? c.ratio, c.high ?? c.ratio, 1]).filter((v) => v > 0);
    const [low, high] = [Math.log10(Math.min(...ends, 0.9)), Math.log10(Math.max(...ends, 1.1))];
    const pad = Math.max(0.04, (high - low) * 0.08);
    const wide = high - low > 0.8;
    const ticks = wide ? [0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000] : [0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5];
    const near = ticks.filter((t) => Math.log10(t) >= low - pad && Math.log10(t) <= high + pad);
    const layout = fsage.layout({
      height: Math.max(240, measures.length * 62 + 150), margin: { l: 20, r: 20, t: 60, b: 56 },
      xaxis: fsage.axis({ type: "log", title: { text: "aged ÷ other (log scale)", standoff: 8 }, range: [low - pad, high + pad], ...(near.length > 2 ? { tickvals: near, ticktext: near.map((t) => `×${t}`) } : {}) }),
      yaxis: fsage.axis({ tickvals: measures.map((_, i) => i), ticktext: measures.map((m) => m.replaceAll("-", " ")), range: [measures.length - 0.5, -0.5], zeroline: false }),
      shapes: [{ type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: { color: look.text, width: 1, dash: "dot" } }],
    });
    return { traces, layout };
  },
  csv() {
    return [["measure", "metric", "file_system", "against", "where", "ratio", "low", "high", "pairs", "finding"],
      ...fsage.data.age_costs.map((c) => [c.measure, c.metric, fsage.data.file_systems[c.file_system].name, c.against, c.context, c.ratio, c.low, c.high, c.n, c.finding])];
  },
};

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
          text: part.map((p) => p.label), hovertemplate: fsage.markup`%{text}<br>score %{x:.3f}, %{y:.4g} ${unit}<extra></extra>`,
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
