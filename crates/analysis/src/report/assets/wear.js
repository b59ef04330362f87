// Daily use: a bar with its interval for each file system with its options.
fsage.charts.wear = {
  draw(state) {
    return fsage.bars(fsage.data.wear.filter((d) => d.measure === state.measure));
  },
  csv() {
    return [fsage.bars.columns, ...fsage.data.wear.map(fsage.bars.row)];
  },
};
