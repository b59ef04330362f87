// Free space by extent size over the run: heat map or surface, one trial or two beside each other.
fsage.webgl = (() => {
  try {
    const canvas = document.createElement("canvas");
    // The part of the library that draws with it has to be unpacked.
    return "DecompressionStream" in window && Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
  } catch { return false; }
});

fsage.charts.free = {
  draw(state, figure) {
    const shown = [state.left, state.right].filter((i) => i !== "none").map((i) => fsage.data.ages[i]);
    const surface = state.view === "surface" && !fsage.printing && fsage.webgl();
    note(figure, shown, state.view === "surface" && !surface && !fsage.printing);
    const bytes = state.what === "bytes";
    const first = Math.min(...shown.map((trial) => trial.free.first));
    const last = Math.max(...shown.map((trial) => trial.free.first + trial.free.count.length - 1));
    const rows = Array.from({ length: last - first + 1 }, (_, i) => first + i);
    let largest = 1;
    for (const trial of shown) for (const row of trial.free[state.what]) for (const v of row) if (v > largest) largest = v;
    const top = Math.log10(largest + 1);
    // Extents are counted from 1 in tens; bytes from a block of 4 KiB in steps of 16.
    const steps = Array.from({ length: 14 }, (_, i) => (bytes ? 4096 * 16 ** i : 10 ** i)).filter((v) => Math.log10(v + 1) <= top);
    const tickvals = steps.map((v) => Math.log10(v + 1));
    const floor = bytes ? Math.min(3, top - 1) : 0;
    const say = bytes ? fsage.size : fsage.short;
    const bar = { title: { text: bytes ? "free bytes" : "free extents", side: "right" }, tickvals, ticktext: steps.map((v) => (bytes ? fsage.bucket(Math.log2(v)) : say(v))), thickness: 14, outlinewidth: 0, len: 0.9, ...(fsage.narrow() ? { orientation: "h", x: 0.5, y: 0, yref: "container", yanchor: "bottom", thickness: 10 } : {}) };
    const ticks = rows.filter((row) => row % (rows.length > 14 ? 4 : 2) === 0);
    const sizes = { tickvals: ticks, ticktext: ticks.map(fsage.bucket) };
    const traces = shown.map((trial, i) => {
      const values = rows.map((row) => trial.free[state.what][row - trial.free.first] ?? trial.free.operations.map(() => 0));
      // In the heat map nothing is drawn where there is nothing; a surface needs a floor.
      const z = values.map((row) => row.map((v) => (v ? Math.log10(v + 1) : surface ? floor : null)));
      const text = values.map((row, r) => row.map((v, c) => `${fsage.bucket(rows[r])}: ${say(v)}${bytes ? "" : " extents"}${within(trial.free, bytes, rows[r], c)}`));
      const bounds = surface ? { cmin: floor, cmax: top } : { zmin: floor, zmax: top };
      const common = { x: trial.free.operations, y: rows, z, text, ...bounds, colorscale: "Viridis", showscale: i === shown.length - 1, colorbar: bar, name: trial.label };
      return surface
        ? { ...common, type: "surface", scene: `scene${i ? 2 : ""}`, contours: { z: { show: false } }, hovertemplate: fsage.markup`%{text}<br>after %{x:,} operations<extra></extra>` }
        : { ...common, type: "heatmap", xaxis: `x${i ? 2 : ""}`, yaxis: `y${i ? 2 : ""}`, hovertemplate: fsage.markup`%{text}<br>after %{x:,} operations<extra></extra>` };
    });
    const titles = shown.map((trial) => trial.label);
    const layout = surface ? scenes(shown, titles, sizes, bytes, { tickvals: bar.tickvals, ticktext: bar.ticktext }) : maps(shown, titles, sizes, rows);
    return { traces, layout };
  },
  csv(state) {
    const rows = [["trial", "operations", "used_share", "extent_bytes_from", "free_extents", "free_bytes", "free_extents_median", "free_extents_min", "probes"]];
    for (const i of [state.left, state.right]) {
      if (i === "none") continue;
      const { label, free } = fsage.data.ages[i];
      free.operations.forEach((operations, column) => free.count.forEach((row, r) =>
        rows.push([label, operations, free.used[column], 2 ** (free.first + r), row[column], free.bytes[r][column], free.count_median?.[r][column] ?? row[column], free.count_min?.[r][column] ?? row[column], free.merged])));
    }
    return rows;
  },
};

// Where a column stands for several probes, its cell is the largest of them.
const within = (free, bytes, row, column) => {
  const r = row - free.first;
  if (bytes || !free.count_min?.[r]) return "";
  return ` at most (median ${fsage.short(free.count_median[r][column])}, at least ${fsage.short(free.count_min[r][column])}, of ${free.merged} probes)`;
};

function maps(shown, titles, sizes, rows) {
  const grid = fsage.grid(shown.length, { title: { text: "operations done", standoff: 8 } }, { title: { text: "size of free extents (at least)", standoff: 8 }, ...sizes, range: [rows[0] - 0.5, rows[rows.length - 1] + 0.5] }, titles);
  return fsage.layout({ ...grid.layout, height: grid.rows * 380 + (fsage.narrow() ? 150 : 90), margin: { l: 78, r: 10, t: 40, b: fsage.narrow() ? 116 : 56 } });
}

function scenes(shown, titles, sizes, bytes, heights) {
  const look = fsage.look();
  const axis = { gridcolor: look.grid, color: look.text, backgroundcolor: "rgba(0,0,0,0)" };
  const stacked = fsage.narrow();
  const layout = { height: (stacked ? shown.length : 1) * 520 + 40, margin: { l: 0, r: 10, t: 40, b: 10 }, annotations: [] };
  shown.forEach((_, i) => {
    const part = [i / shown.length, (i + 1) / shown.length];
    const domain = stacked ? { x: [0, 1], y: [1 - part[1], 1 - part[0]] } : { x: part, y: [0, 1] };
    layout[`scene${i ? 2 : ""}`] = {
      domain, camera: { eye: { x: -1.6, y: -1.9, z: 1.1 } }, aspectratio: { x: 1.3, y: 1.1, z: 0.7 },
      xaxis: { ...axis, title: { text: "operations" } }, yaxis: { ...axis, title: { text: "extent size" }, ...sizes },
      zaxis: { ...axis, title: { text: bytes ? "free bytes" : "free extents" }, ...heights },
    };
    layout.annotations.push({ text: fsage.markup`<b>${titles[i]}</b>`, xref: "paper", yref: "paper", x: stacked ? 0 : part[0], y: stacked ? 1 - part[0] : 1, xanchor: "left", yanchor: "bottom", showarrow: false, font: { size: 13 } });
  });
  return fsage.layout(layout);
}

function note(figure, shown, missing) {
  const caveats = shown.filter((trial) => trial.free.caveat).map((trial) => `${trial.label}: ${trial.free.caveat}.`);
  const fallback = missing ? ["This browser cannot draw in 3-D (no WebGL), so the heat map is shown instead."] : [];
  fsage.note(figure, fallback, caveats);
}
