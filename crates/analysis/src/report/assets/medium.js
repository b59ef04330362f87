// Time of virtual media: a bar for each trial, split by component, a panel for each medium.
fsage.charts.medium = {
  draw(state) {
    const found = fsage.data.disk_times.filter((d) => d.what === state.part);
    const media = [...new Set(found.map((d) => d.medium))];
    const parts = [...new Set(found.flatMap((d) => Object.keys(d.parts)))];
    // Fixed places in one ramp, so that a part has the same colour in every panel and every choice.
    const known = ["command", "seek", "switch", "settle", "rotation", "transfer", "interface", "flash", "garbage", "program", "copy"];
    const order = (p) => { const i = known.findIndex((k) => p.startsWith(k)); return i < 0 ? known.length : i; };
    parts.sort((a, b) => order(a) - order(b) || a.localeCompare(b));
    const light = ["#7a8699", "#0b6e99", "#4aa3c7", "#7fc4b0", "#d98c00", "#4c8c3f", "#9aa5b1", "#3f7fbf", "#8557c7", "#c0392b", "#b5477e", "#555f6d"];
    const dark = ["#8e99ab", "#46a6d1", "#7cc4e0", "#8fd4c0", "#f0ab2e", "#7cbf6b", "#b3bdc8", "#72a8dd", "#ab88e0", "#e57368", "#d77fae", "#8a94a2"];
    const colour = (p) => (fsage.dark() ? dark : light)[order(p) % 12];
    const name = (d) => [fsage.data.file_systems[d.file_system].name, d.context].filter(Boolean).join(", ");
    const bars = [...new Set(found.map(name))];
    const largest = Math.max(...found.map((d) => Object.values(d.parts).reduce((a, b) => a + b, 0)), 1);
    const [scale, unit] = largest >= 120e9 ? [60e9, "min"] : largest >= 1e9 ? [1e9, "s"] : largest >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
    const share = state.show === "share";
    const traces = [];
    media.forEach((medium, index) => {
      const id = index ? index + 1 : "";
      for (const part of parts) {
        const rows = found.filter((d) => d.medium === medium && d.parts[part]);
        if (!rows.length) continue;
        const sum = (d) => Object.values(d.parts).reduce((a, b) => a + b, 0) || 1;
        traces.push({
          type: "bar", orientation: "h", xaxis: `x${id}`, yaxis: `y${id}`, name: part, legendgroup: part,
          showlegend: !traces.some((t) => t.name === part), marker: { color: colour(part) },
          y: rows.map((d) => bars.indexOf(name(d))), x: rows.map((d) => (share ? (100 * d.parts[part]) / sum(d) : d.parts[part] / scale)),
          customdata: rows.map((d) => [name(d), fsage.significant((100 * d.parts[part]) / sum(d)), fsage.significant(d.parts[part] / scale)]),
          hovertemplate: fsage.markup`%{customdata[0]}: ${part} %{customdata[2]} ${unit} (%{customdata[1]} %)<extra>${medium}</extra>`,
        });
      }
    });
    const { layout, rows } = fsage.grid(media.length,
      { title: { text: share ? "share of device time (%)" : `device time (${unit}, model)`, standoff: 8 }, rangemode: "tozero" },
      { tickvals: bars.map((_, i) => i), ticktext: bars, range: [bars.length - 0.5, -0.5], zeroline: false },
      media);
    // Many parts: the legend begins at the left edge, below the buttons.
    const height = rows * Math.max(220, bars.length * 34 + 120) + 108;
    const legend = { ...fsage.legend, xref: "container", y: 1 - 28 / height };
    return { traces, layout: fsage.layout({ ...layout, legend, barmode: "stack", bargap: 0.35, height, margin: { l: 20, r: 16, t: 108, b: 56 } }) };
  },
  csv() {
    const rows = [["part", "file_system", "medium", "trials", "component", "ns"]];
    for (const d of fsage.data.disk_times) {
      const head = [d.what, fsage.data.file_systems[d.file_system].name, d.medium, d.context];
      rows.push([...head, "elapsed", d.elapsed_ns]);
      for (const [part, ns] of Object.entries(d.parts)) rows.push([...head, part, ns]);
    }
    return rows;
  },
};
