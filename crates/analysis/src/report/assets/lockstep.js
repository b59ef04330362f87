// Volumes driven in lock-step: cost of reading and of writing by round, free space by round.
fsage.lockstep = {
  dashes: ["solid", "dash", "dot", "dashdot", "longdash"],
  panels: () => [...new Set(fsage.data.lockstep.map((run) => run.panel))],
  // One line or cloud for each run and volume; `part` gives what is drawn.
  lines(pick, unit, over, state) {
    const panels = fsage.lockstep.panels();
    const traces = [];
    const named = new Set();
    for (const run of fsage.data.lockstep) {
      const system = fsage.data.file_systems[run.file_system];
      const colour = fsage.dark() ? system.ink.dark : system.ink.light;
      const id = panels.indexOf(run.panel) ? panels.indexOf(run.panel) + 1 : "";
      pick(run).forEach((series, volume) => {
        const name = `${system.name}, ${run.volumes[volume]}`;
        for (const part of series) {
          const first = part.mode !== "markers" && !named.has(name);
          if (first) named.add(name);
          traces.push({
            ...part, xaxis: `x${id}`, yaxis: `y${id}`, name, legendgroup: name, showlegend: first,
            line: { color: colour, width: 2.2, dash: fsage.lockstep.dashes[volume % 5] },
            marker: { color: part.mode === "markers" ? fsage.fade(colour, 0.28) : colour, size: part.mode === "markers" ? 4 : 6, symbol: ["circle", "circle-open", "diamond-open"][volume % 3] },
            hovertemplate: fsage.markup`%{y:,.3r} ${unit} at round %{x}<extra>${run.label}, ${run.volumes[volume]}</extra>`,
          });
        }
      });
    }
    const { layout, rows } = fsage.grid(panels.length,
      { title: { text: "round", standoff: 8 }, rangemode: "tozero" },
      { title: { text: over, standoff: 8 }, type: state.scale, ...(state.scale === "log" ? fsage.decades({}) : { rangemode: "tozero" }) },
      panels);
    // Media are far apart: each panel has its own axis.
    panels.forEach((_, i) => { const axis = layout[`yaxis${i ? i + 1 : ""}`]; delete axis.matches; axis.showticklabels = true; });
    // Many lines have a wide legend: it begins below the buttons.
    const height = rows * 380 + 156;
    const legend = { ...fsage.legend, y: 1 - 28 / height };
    return { traces, layout: fsage.layout({ ...layout, legend, height, margin: { l: 70, r: 16, t: 122, b: 56 } }) };
  },
};

fsage.charts.lockstep_read = {
  draw(state) {
    const of = (run) => run.measures.find((m) => m.name === state.measure);
    const unit = fsage.data.lockstep.map(of).find(Boolean)?.unit ?? "";
    const pick = (run) => (of(run)?.values ?? []).map((values) => [{ x: run.looks, y: values, type: "scatter", mode: "lines+markers" }]);
    return fsage.lockstep.lines(pick, unit, `${(state.measure ?? "").replaceAll("-", " ")} (${unit})`, state);
  },
  csv(state) {
    const rows = [["trial", "volume", "round", state.measure, "unit"]];
    for (const run of fsage.data.lockstep) {
      const measure = run.measures.find((m) => m.name === state.measure);
      measure?.values.forEach((values, volume) => values.forEach((v, i) => rows.push([run.label, run.volumes[volume], run.looks[i], v, measure.unit])));
    }
    return rows;
  },
};

fsage.charts.lockstep_write = {
  draw(state) {
    const smooth = (values) => values.map((_, i) => {
      const near = values.slice(Math.max(0, i - 4), i + 5).filter((v) => v != null);
      return near.length ? near.reduce((a, b) => a + b, 0) / near.length : null;
    });
    // Round 0 fills the volume: another thing, and not on the line.
    const pick = (run) => run.write.map((values) => {
      const [x, y] = [run.rounds.slice(1), values.slice(1)];
      return [{ x, y, type: "scatter", mode: "markers" }, { x, y: smooth(y), type: "scatter", mode: "lines" }];
    });
    const unit = fsage.data.lockstep.some((run) => run.model) ? "model s/GiB" : "s/GiB";
    return fsage.lockstep.lines(pick, unit, `writing (${unit})`, state);
  },
  csv() {
    const rows = [["trial", "volume", "round", "seconds_per_gib", "use_share"]];
    for (const run of fsage.data.lockstep) run.write.forEach((values, volume) => values.forEach((v, i) => rows.push([run.label, run.volumes[volume], run.rounds[i], v, run.used[volume][i]])));
    return rows;
  },
};

fsage.charts.lockstep_free = {
  draw(state, figure) {
    const run = fsage.data.lockstep[Number(state.run ?? 0)];
    const what = state.what ?? "bytes";
    const shown = run.free.map((looks, volume) => [volume, looks]).filter(([, looks]) => looks.some(Boolean));
    // As the paper: the beginning, a tenth, three tenths, the end; here whichever look is nearest.
    const last = run.looks[run.looks.length - 1];
    const nearest = (round) => run.looks.reduce((best, r, i) => (Math.abs(r - round) < Math.abs(run.looks[best] - round) ? i : best), 0);
    const moments = [...new Set([0, last / 10, (3 * last) / 10, last].map(nearest))];
    const ramp = fsage.dark() ? ["#39465a", "#3d7ea6", "#7cc4e0", "#f0ab2e"] : ["#c4cfdb", "#7fb3cf", "#0b6e99", "#d98c00"];
    const traces = [];
    const named = new Set(); // A volume without free space has no bar to name a moment by.
    let [low, high] = [63, 0];
    shown.forEach(([, looks]) => moments.forEach((m) => looks[m]?.[what].forEach((v, i) => { if (v) { low = Math.min(low, i); high = Math.max(high, i); } })));
    shown.forEach(([volume, looks], panel) => moments.forEach((moment, n) => {
      const found = looks[moment];
      if (!found) return;
      const id = panel ? panel + 1 : "";
      const buckets = found[what].slice(low, high + 1);
      const first = buckets.length > 0 && !named.has(moment);
      if (first) named.add(moment);
      traces.push({
        type: "bar", xaxis: `x${id}`, yaxis: `y${id}`, name: `round ${run.looks[moment]}`, legendgroup: String(moment), legendrank: n, showlegend: first,
        marker: { color: ramp[n % 4] }, x: buckets.map((_, i) => i), y: what === "bytes" ? buckets.map((v) => v / 2 ** 30) : buckets,
        customdata: buckets.map((v, i) => [fsage.bucket(low + i), what === "bytes" ? fsage.size(v) : `${v} extents`]),
        hovertemplate: fsage.markup`from %{customdata[0]}: %{customdata[1]}<extra>round ${run.looks[moment]}, ${run.volumes[volume]}</extra>`,
      });
    }));
    const every = Math.ceil((high - low + 1) / 8);
    const ticks = Array.from({ length: Math.max(0, high - low + 1) }, (_, i) => i).filter((i) => i % every === 0);
    const { layout, rows } = fsage.grid(shown.length,
      { title: { text: "extent size (at least)", standoff: 8 }, tickvals: ticks, ticktext: ticks.map((i) => fsage.bucket(low + i)) },
      { title: { text: what === "bytes" ? "free space (GiB)" : "free extents", standoff: 8 }, rangemode: "tozero" },
      shown.map(([volume]) => run.volumes[volume]));
    shown.forEach((_, i) => { const axis = layout[`yaxis${i ? i + 1 : ""}`]; delete axis.matches; axis.showticklabels = true; });
    // A volume with almost no free space has an axis of one MiB, not one of millionths of a GiB.
    const [least, top, name] = what === "bytes" ? [2 ** 20, 2 ** -10, "1 MiB"] : [1, 1, "1"];
    shown.forEach(([, looks], i) => {
      const most = Math.max(0, ...moments.flatMap((m) => looks[m]?.[what] ?? []));
      if (most < least) Object.assign(layout[`yaxis${i ? i + 1 : ""}`], { range: [0, top], tickvals: [0, top], ticktext: ["0", name] });
    });
    const caveats = run.caveats.map((caveat, volume) => caveat && `${run.volumes[volume]}, at the end: ${caveat}.`);
    fsage.note(figure, [], caveats);
    return { traces, layout: fsage.layout({ ...layout, barmode: "group", height: rows * 340 + 110, margin: { l: 70, r: 16, t: 70, b: 56 } }) };
  },
  csv() {
    const rows = [["trial", "volume", "round", "extent_bytes_from", "extents", "bytes"]];
    for (const run of fsage.data.lockstep) run.free.forEach((looks, volume) => looks.forEach((found, i) => found?.count.forEach((n, power) => n && rows.push([run.label, run.volumes[volume], run.looks[i], 2 ** power, n, found.bytes[power]]))));
    return rows;
  },
};
