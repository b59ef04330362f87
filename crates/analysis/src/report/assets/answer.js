// Slowdown factors: a panel for each device, a row for each measure, a mark for each file system.
fsage.charts.answer = {
  draw() {
    const { panels, rows, points } = fsage.data.answer;
    const systems = fsage.data.file_systems;
    const look = fsage.look();
    const traces = [];
    const named = new Set();
    panels.forEach((panel, p) => systems.forEach((system, index) => {
      const part = points.filter((point) => point.panel === p && point.file_system === index);
      if (!part.length) return;
      const colour = fsage.dark() ? system.ink.dark : system.ink.light;
      const id = p ? p + 1 : "";
      // Side by side within a measure's band.
      const shift = (index - (systems.length - 1) / 2) * Math.min(0.24, 0.72 / systems.length);
      traces.push({
        type: "scatter", mode: "markers", xaxis: `x${id}`, yaxis: `y${id}`, name: system.name, legendgroup: system.name, showlegend: !named.has(index),
        x: part.map((point) => point.ratio), y: part.map((point) => point.row + shift),
        marker: { color: part.map((point) => (point.sure ? colour : look.card)), line: { color: colour, width: 2 }, size: 9, symbol: system.ink.symbol },
        error_x: { type: "data", symmetric: false, array: part.map((point) => (point.high ?? point.ratio) - point.ratio), arrayminus: part.map((point) => point.ratio - (point.low ?? point.ratio)), color: colour, thickness: 1.8, width: 4 },
        customdata: part.map((point) => [rows[point.row], fsage.significant(point.ratio), point.low == null ? "no interval" : `[${fsage.significant(point.low)}, ${fsage.significant(point.high)}]`, point.n, point.finding]),
        hovertemplate: fsage.markup`%{customdata[0]}: ×%{customdata[1]} %{customdata[2]}<br>%{customdata[3]} pair(s), %{customdata[4]}<extra>${system.name}, ${panel}</extra>`,
      });
      named.add(index);
    }));
    const ends = points.flatMap((point) => [point.low ?? point.ratio, point.high ?? point.ratio]);
    const columns = fsage.columns(panels.length);
    const axis = fsage.ratios(ends, (Math.min(innerWidth, 1500) - (fsage.narrow() ? 190 : 460)) / columns);
    // On a phone a long title takes two lines, and begins above the names of the measures.
    const title = (panel) => {
      const end = panel.indexOf(" (model");
      return (fsage.narrow() || columns > 2) && panel.length > 36 && end > 0 ? fsage.markup`${panel.slice(0, end)}<br>${panel.slice(end + 1)}` : panel;
    };
    const grid = fsage.grid(panels.length,
      { ...axis, title: { text: fsage.narrow() ? "slowdown" : "slowdown (log scale)", standoff: 6 } },
      { tickvals: rows.map((_, i) => i), ticktext: rows, range: [rows.length - 0.5, -0.5], zeroline: false }, panels.map(title));
    const { layout } = grid;
    layout.shapes = panels.map((_, p) => ({ type: "line", x0: 1, x1: 1, xref: `x${p ? p + 1 : ""}`, y0: 0, y1: 1, yref: `y${p ? p + 1 : ""} domain`, line: { color: look.text, width: 1, dash: "dot" } }));
    layout.annotations.forEach((text) => { Object.assign(text, fsage.narrow() ? { xshift: -100, font: { size: 11.5 } } : { font: { size: 12.5 } }); });
    const top = fsage.narrow() ? 104 : 64;
    const height = grid.rows * (Math.max(110, rows.length * 12 * systems.length + 50) + (fsage.narrow() ? 60 : 46)) + top + 6;
    return { traces, layout: fsage.layout({ ...layout, height, margin: { l: 20, r: 16, t: top, b: 50 } }) };
  },
  csv() {
    const { panels, rows, points } = fsage.data.answer;
    return [["measure", "file_system", "where", "times_as_long", "low", "high", "pairs", "finding"],
      ...points.map((point) => [rows[point.row], fsage.data.file_systems[point.file_system].name, panels[point.panel], point.ratio, point.low, point.high, point.n, point.finding])];
  },
};
