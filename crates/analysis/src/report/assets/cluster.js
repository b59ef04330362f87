// Hosts that share a volume: a bar for each file system, number of hosts and set of files.
fsage.charts.cluster = {
  draw(state) {
    return fsage.bars(fsage.data.cluster.filter((d) => d.load === state.load && d.measure === state.measure));
  },
  csv() {
    return [["load", ...fsage.bars.columns], ...fsage.data.cluster.map((d) => [d.load, ...fsage.bars.row(d)])];
  },
};
