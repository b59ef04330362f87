// Points of fio: rates over a parameter, as a share of the bare device or as they are, and latency against rate.
fsage.device = {
  keys: { bs: "block size", depth: "depth", jobs: "jobs", files: "files", memory: "memory limit" },
  colour: (d) => { const ink = fsage.data.file_systems[d.file_system].ink; return fsage.dark() ? ink.dark : ink.light; },
  ink: (d) => fsage.data.file_systems[d.file_system].ink,
  name: (d) => fsage.data.file_systems[d.file_system].name,
  // What a panel holds equal: everything but the file system and the parameters in `free`.
  held(d, free) {
    const parts = [d.context, d.engine, d.direct ? "" : "buffered"];
    if (!free.includes("bs")) parts.push(fsage.size(d.bs));
    if (!free.includes("depth")) parts.push(`depth ${d.depth}`);
    if (!free.includes("jobs") && d.jobs > 1) parts.push(`${d.jobs} jobs`);
    if (!free.includes("files")) parts.push(d.files > 1 ? `${d.files} files` : "1 file");
    if (!free.includes("memory") && d.memory) parts.push(`${fsage.size(d.memory)} of memory`);
    return parts.filter(Boolean).join(", ");
  },
  // The order of panels: by the names and numbers in their titles, without the parameter along their axis.
  order(along) {
    const numbers = Object.keys(this.keys).filter((key) => key !== along);
    return (a, b) =>
      a.context.localeCompare(b.context) || a.engine.localeCompare(b.engine) || Number(b.direct) - Number(a.direct)
      || numbers.reduce((found, key) => found || (a[key] ?? 0) - (b[key] ?? 0), 0);
  },
  // Titles of panels side by side, in lines that fit above their panels.
  titles(panels) {
    const most = (Math.min(innerWidth, 1500) - (fsage.narrow() ? 120 : 460)) / fsage.columns(panels.length) / 7.6;
    return panels.map((title) => {
      const lines = [];
      for (const part of title.split(", ")) {
        const last = lines[lines.length - 1];
        if (last !== undefined && last.length + 2 + part.length <= most) lines[lines.length - 1] = `${last}, ${part}`;
        else lines.push(part);
      }
      return lines.slice(1).reduce((all, line) => fsage.markup`${all},<br>${line}`, lines[0]);
    });
  },
  // Percent: fine ticks around 100 where all are near it.
  percents(values) {
    const fine = Math.max(...values, 100) / Math.min(...values, 100) < 4;
    if (!fine) return fsage.decades({});
    const tickvals = [30, 40, 50, 60, 70, 80, 90, 100, 110, 125, 150, 200, 300];
    return { tickvals, ticktext: tickvals.map(String) };
  },
  // Powers of two along an axis of values.
  ticks(values, text) {
    const all = [...new Set(values)].sort((a, b) => a - b);
    const step = Math.ceil(all.length / 9);
    const kept = all.filter((_, i) => i % step === 0);
    return { tickvals: kept, ticktext: kept.map(text) };
  },
};

fsage.charts.device = {
  draw(state) {
    const found = fsage.data.device.filter((d) => d.load === state.load);
    const show = state.show ?? (found.some((d) => d.share !== null) ? "share" : "iops");
    const over = state.over ?? "bs";
    const sized = over === "bs" || over === "memory";
    const value = { share: (d) => d.share === null ? null : 100 * d.share, iops: (d) => d.iops, bandwidth: (d) => d.bandwidth === null ? null : d.bandwidth / 1e6 }[show];
    const ends = { share: (d) => [d.low, d.high].map((v) => v === null ? null : 100 * v), iops: (d) => [d.iops_low, d.iops_high], bandwidth: () => [null, null] }[show];
    const unit = { share: "% of the bare device", iops: "operations/s", bandwidth: "MB/s" }[show];
    const drawn = found.filter((d) => value(d) !== null && value(d) > 0 && d[over] !== null);
    const panels = [...new Set([...drawn].sort(fsage.device.order(over)).map((d) => fsage.device.held(d, [over])))];
    const traces = [];
    const named = new Set();
    panels.forEach((panel, index) => {
      const id = index ? index + 1 : "";
      const here = drawn.filter((d) => fsage.device.held(d, [over]) === panel).sort((a, b) => a[over] - b[over]);
      if (show === "share") {
        const ends = here.map((d) => d[over]);
        const name = "bare device";
        traces.push({
          type: "scatter", mode: "lines", xaxis: `x${id}`, yaxis: `y${id}`, name, legendgroup: name, showlegend: !index,
          x: [Math.min(...ends), Math.max(...ends)], y: [100, 100], line: { color: fsage.look().soft, width: 1.5, dash: "dash" }, hoverinfo: "skip",
        });
      }
      for (const system of [...new Set(here.map((d) => d.file_system))].sort((a, b) => a - b)) {
        const own = here.filter((d) => d.file_system === system);
        const name = fsage.device.name(own[0]);
        const ink = fsage.device.ink(own[0]), colour = fsage.device.colour(own[0]);
        const first = !named.has(name);
        named.add(name);
        traces.push({
          type: "scatter", mode: "lines+markers", xaxis: `x${id}`, yaxis: `y${id}`, name, legendgroup: name, showlegend: first,
          x: own.map((d) => d[over]), y: own.map(value),
          error_y: { type: "data", symmetric: false, thickness: 1.2, width: 3, array: own.map((d) => { const e = ends(d)[1]; return e === null ? 0 : e - value(d); }),
            arrayminus: own.map((d) => { const e = ends(d)[0]; return e === null ? 0 : value(d) - e; }) },
          line: { color: colour, width: 2, dash: ink.dash }, marker: { color: colour, size: 7, symbol: ink.symbol },
          customdata: own.map((d) => [fsage.significant(value(d)), d.n, sized ? fsage.size(d[over]) : d[over]]),
          hovertemplate: fsage.markup`%{customdata[0]} ${unit} at ${fsage.device.keys[over]} %{customdata[2]}, n = %{customdata[1]}<extra>${name}</extra>`,
        });
      }
    });
    const text = sized ? fsage.size : String;
    const { layout, rows } = fsage.grid(Math.max(panels.length, 1),
      { title: { text: fsage.device.keys[over], standoff: 8 }, type: "log", ...fsage.device.ticks(drawn.map((d) => d[over]), text) },
      { title: { text: unit, standoff: 8 }, type: "log", ...(show === "share" ? fsage.device.percents(drawn.flatMap((d) => [value(d), ...ends(d)]).filter((v) => v > 0)) : fsage.decades({})) },
      fsage.device.titles(panels));
    const height = rows * 340 + 130;
    const legend = { ...fsage.legend, y: 1 - 28 / height };
    return { traces, layout: fsage.layout({ ...layout, legend, height, margin: { l: 70, r: 16, t: 112, b: 56 } }) };
  },
  csv() {
    const rows = [["file_system", "context", "load", "engine", "block_bytes", "depth", "jobs", "files", "direct", "memory_limit_bytes", "iops", "iops_low", "iops_high", "bytes_per_s", "mean_ns", "cpu_ns", "share_of_bare", "share_low", "share_high", "n"]];
    for (const d of fsage.data.device) {
      rows.push([fsage.device.name(d), d.context, d.load, d.engine, d.bs, d.depth, d.jobs, d.files, d.direct, d.memory, d.iops, d.iops_low, d.iops_high, d.bandwidth, d.mean_ns, d.cpu_ns, d.share, d.low, d.high, d.n]);
    }
    return rows;
  },
};

fsage.charts.device_latency = {
  draw(state) {
    const found = fsage.data.device.filter((d) => d.load === state.load && d.mean_ns > 0 && d.iops > 0);
    const panel = (d) => [d.context, d.engine, d.direct ? "" : "buffered", d.memory ? `${fsage.size(d.memory)} of memory` : ""].filter(Boolean).join(", ");
    const panels = [...new Set([...found].sort((a, b) => (a.memory ?? 0) - (b.memory ?? 0) || panel(a).localeCompare(panel(b))).map(panel))];
    const sizes = [...new Set(found.map((d) => d.bs))].sort((a, b) => a - b);
    const symbols = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon"];
    const traces = [];
    const named = new Set();
    panels.forEach((title, index) => {
      const id = index ? index + 1 : "";
      for (const system of [...new Set(found.map((d) => d.file_system))].sort((a, b) => a - b)) {
        for (const bs of sizes) {
          const own = found.filter((d) => panel(d) === title && d.file_system === system && d.bs === bs)
            .sort((a, b) => a.depth * a.jobs * a.files - b.depth * b.jobs * b.files || a.iops - b.iops);
          if (!own.length) continue;
          const name = `${fsage.device.name(own[0])}, ${fsage.size(bs)}`;
          const first = !named.has(name);
          named.add(name);
          traces.push({
            type: "scatter", mode: "lines+markers", xaxis: `x${id}`, yaxis: `y${id}`, name, legendgroup: name, showlegend: first,
            x: own.map((d) => d.iops), y: own.map((d) => d.mean_ns / 1e3),
            line: { color: fsage.device.colour(own[0]), width: 1.8, dash: fsage.device.ink(own[0]).dash },
            marker: { color: fsage.device.colour(own[0]), size: 7, symbol: symbols[sizes.indexOf(bs) % symbols.length] },
            customdata: own.map((d) => [fsage.significant(d.iops), fsage.significant(d.mean_ns / 1e3), fsage.device.held(d, ["bs"])]),
            hovertemplate: fsage.markup`%{customdata[0]} operations/s, %{customdata[1]} µs: %{customdata[2]}<extra>${name}</extra>`,
          });
        }
      }
    });
    const { layout, rows } = fsage.grid(Math.max(panels.length, 1),
      { title: { text: "operations/s", standoff: 8 }, type: "log", ...fsage.decades({}) },
      { title: { text: "mean latency (µs)", standoff: 8 }, type: "log", ...fsage.decades({}) },
      fsage.device.titles(panels));
    const height = rows * 380 + 160;
    const legend = { ...fsage.legend, y: 1 - 28 / height };
    return { traces, layout: fsage.layout({ ...layout, legend, height, margin: { l: 70, r: 16, t: 132, b: 56 } }) };
  },
  csv: () => fsage.charts.device.csv(),
};

fsage.charts.device_percentiles = {
  // A percentile's place: the share of operations that lies beyond it, upside down, so that each nine has the same room.
  place: (percent) => 100 / (100 - percent),
  draw(state) {
    const { percent, curves } = fsage.data.percentiles;
    const found = curves.filter((d) => d.load === state.load && d.bs === Number(state.bs));
    const panel = (d) => [d.stage, fsage.device.held(d, ["bs"])].filter(Boolean).join(", ");
    const order = (a, b) => a.context.localeCompare(b.context) || a.stage.localeCompare(b.stage) || a.engine.localeCompare(b.engine) || a.depth - b.depth || a.jobs - b.jobs || a.files - b.files || a.memory - b.memory;
    const panels = [...new Set([...found].sort(order).map(panel))];
    const x = percent.map(this.place);
    const micro = (ns) => ns.map((v) => v / 1e3);
    const traces = [];
    const named = new Set();
    panels.forEach((title, index) => {
      const id = index ? index + 1 : "";
      const axes = { type: "scatter", mode: "lines", xaxis: `x${id}`, yaxis: `y${id}` };
      for (const d of found.filter((own) => panel(own) === title).sort((a, b) => a.file_system - b.file_system)) {
        const name = fsage.device.name(d), colour = fsage.device.colour(d);
        const own = x.slice(0, d.ns.length);
        if (d.low.length) {
          traces.push({ ...axes, legendgroup: name, showlegend: false, hoverinfo: "skip", fill: "toself", fillcolor: fsage.fade(colour, 0.14), line: { width: 0 },
            x: [...own, ...[...own].reverse()], y: micro([...d.high, ...[...d.low].reverse()]) });
        }
        const interval = (i) => d.low.length ? `, interval ${fsage.significant(d.low[i] / 1e3)} to ${fsage.significant(d.high[i] / 1e3)}` : "";
        traces.push({ ...axes, name, legendgroup: name, showlegend: !named.has(name), x: own, y: micro(d.ns),
          line: { color: colour, width: 2, dash: fsage.device.ink(d).dash },
          customdata: d.ns.map((ns, i) => [percent[i], fsage.significant(ns / 1e3), interval(i), d.n]),
          hovertemplate: fsage.markup`%{customdata[0]} % took at most %{customdata[1]} µs%{customdata[2]}, n = %{customdata[3]}<extra>${name}</extra>` });
        named.add(name);
      }
    });
    const ticks = [0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999];
    const { layout, rows } = fsage.grid(Math.max(panels.length, 1),
      { title: { text: "percentile", standoff: 8 }, type: "log", tickvals: ticks.map(this.place), ticktext: ticks.map(String) },
      { title: { text: "latency (µs)", standoff: 8 }, type: "log", ...fsage.decades({}) },
      fsage.device.titles(panels));
    const height = rows * 340 + 130;
    const legend = { ...fsage.legend, y: 1 - 28 / height };
    return { traces, layout: fsage.layout({ ...layout, legend, height, margin: { l: 70, r: 16, t: 112, b: 56 } }) };
  },
  csv() {
    const { percent, curves } = fsage.data.percentiles;
    const rows = [["file_system", "context", "stage", "load", "engine", "block_bytes", "depth", "jobs", "files", "direct", "memory_limit_bytes", "percentile", "latency_ns", "low_ns", "high_ns", "n"]];
    for (const d of curves) {
      d.ns.forEach((ns, i) => rows.push([fsage.device.name(d), d.context, d.stage, d.load, d.engine, d.bs, d.depth, d.jobs, d.files, d.direct, d.memory, percent[i], ns, d.low[i] ?? null, d.high[i] ?? null, d.n]));
    }
    return rows;
  },
};
