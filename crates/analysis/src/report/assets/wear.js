// Daily use: a bar with its interval for each file system with its options.
fsage.charts.wear = {
  draw(state) {
    const found = fsage.data.wear.filter((d) => d.measure === state.measure);
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
  },
  csv() {
    return [["file_system", "cell", "measure", "unit", "value", "low", "high", "trials"],
      ...fsage.data.wear.map((d) => [fsage.data.file_systems[d.file_system].name, d.label, d.words, d.unit, d.value, d.low, d.high, d.trials])];
  },
};
