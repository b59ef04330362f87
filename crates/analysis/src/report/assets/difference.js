// Ratios with their intervals for one metric; the table below follows the choice.
fsage.charts.differences = {
  draw(state) {
    document.querySelectorAll("#difference-table tbody tr").forEach((tr) => { tr.hidden = tr.dataset.group !== state.metric; });
    const found = fsage.data.differences.filter((d) => d.metric === state.metric);
    const look = fsage.look(), dark = fsage.dark();
    const colours = { worse: dark ? "#ff9b66" : "#b8460b", better: dark ? "#53d3a6" : "#007a55", differs: dark ? "#7db8f5" : "#1f5fa8", "one-run": look.soft, "no-evidence": look.soft };
    const words = { worse: "worse", better: "better", differs: "differs", "one-run": "in this run only", "no-evidence": "no evidence" };
    const symbols = { worse: "triangle-right", better: "triangle-left", differs: "diamond", "one-run": "circle", "no-evidence": "circle-open" };
    const traces = Object.keys(words).map((finding) => {
      const part = found.filter((d) => d.finding === finding);
      return {
        x: part.map((d) => d.ratio), y: part.map((d) => d.label), name: words[finding], mode: "markers", type: "scatter", showlegend: part.length > 0,
        marker: { color: colours[finding], size: 10, symbol: symbols[finding] },
        error_x: { type: "data", symmetric: false, array: part.map((d) => (d.high ?? d.ratio) - d.ratio), arrayminus: part.map((d) => d.ratio - (d.low ?? d.ratio)), color: colours[finding], thickness: 2, width: 5 },
        customdata: part.map((d) => [fsage.significant(d.low), fsage.significant(d.high), d.n, d.basis, fsage.markup`${d.survives ? "" : fsage.markup`<br>not significant after correction`}${d.zeros ? fsage.markup`<br>${d.zeros} pair(s) with a zero left out` : ""}`]),
        hovertemplate: fsage.markup`×%{x:,.3r} [%{customdata[0]}, %{customdata[1]}]<br>%{customdata[2]} pair(s), %{customdata[3]}%{customdata[4]}<extra></extra>`,
      };
    });
    const axis = fsage.ratios(found.flatMap((d) => [d.low ?? d.ratio, d.high ?? d.ratio]), fsage.narrow() ? innerWidth - 220 : innerWidth - 620);
    const layout = fsage.layout({
      height: Math.max(220, found.length * 30 + 150), margin: { l: 20, r: 20, t: 60, b: 56 },
      xaxis: fsage.axis({ ...axis, title: { text: "ratio (first ÷ second, log scale)", standoff: 8 } }),
      yaxis: fsage.axis({ categoryorder: "array", categoryarray: found.map((d) => d.label).reverse(), type: "category", range: [-0.7, found.length - 0.3], ...(fsage.narrow() ? { tickfont: { size: 10 } } : {}) }),
      shapes: [{ type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: { color: look.text, width: 1, dash: "dot" } }],
    });
    return { traces, layout };
  },
  csv() {
    return [["metric", "compared", "ratio", "low", "high", "pairs", "zeros_left_out", "interval", "finding", "survives_correction"],
      ...fsage.data.differences.map((d) => [d.metric, d.label, d.ratio, d.low, d.high, d.n, d.zeros, d.basis, d.finding, d.survives])];
  },
};
