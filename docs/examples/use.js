fsage.charts.use = {
  draw(state) {
    const traces = fsage.data.ages.filter((trial) => trial.free).map((trial) => {
      const ink = fsage.ink(trial);                    // the file system's own colour, light or dark
      const id = trial.panel ? trial.panel + 1 : "";
      return {
        x: trial.free.operations, y: trial.free.used.map((share) => 100 * share),
        xaxis: `x${id}`, yaxis: `y${id}`, mode: "lines", name: trial.label,
        line: { color: ink.colour, dash: ink.dash },
        hovertemplate: fsage.markup`%{y:.1f} % after %{x:,}<extra>${trial.label}</extra>`,
      };
    });
    // One panel for each context, axes shared, zoom linked; below each other on a phone.
    const { layout, rows } = fsage.grid(fsage.data.panels.length,
      { title: { text: "operations done" } },
      { title: { text: "use of the volume (%)" }, type: state.scale },
      fsage.data.panels);
    return { traces, layout: fsage.layout({ ...layout, height: rows * 300 + 100 }) };
  },
  csv() {                                              // an array of rows, the heading first
    const rows = [["trial", "operations", "used_share"]];
    for (const { label, free } of fsage.data.ages) {
      free?.operations.forEach((operations, i) => rows.push([label, operations, free.used[i]]));
    }
    return rows;
  },
};
