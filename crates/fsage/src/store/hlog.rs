//! `latency.hlog`: the HdrHistogram interval log (format 1.2) of a trial, one line a kind of operation and
//! probe, tag = the kind's name (`STAGE.kind` when the trial has several stages). Values are nanoseconds.
//! Readable by HdrHistogram's and HistogramLogAnalyzer's own tools.

use std::fmt::Write as _;

use fsage_engine::load::Probe;

use super::format::StageRecord;

/// The whole file as text. `started_s` is the trial's start in seconds since the epoch.
#[must_use]
pub fn text(started_s: u64, started: &str, stages: &[StageRecord]) -> String {
    let mut text =
        String::from("#[fsage latency in ns, one tag an operation]\n#[Histogram log format version 1.2]\n");
    // Time stamps of the lines count from here.
    let _ = writeln!(text, "#[BaseTime: 0.000 (seconds since epoch)]");
    let _ = writeln!(text, "#[StartTime: {started_s}.000 (seconds since epoch), {started}]");
    text.push_str(
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
    );
    for stage in stages {
        let StageRecord::Age { name, probes, .. } = stage;
        for line in probes.iter().flat_map(|p: &Probe| &p.interval_log) {
            match line.strip_prefix("Tag=") {
                Some(rest) if stages.len() > 1 => {
                    let _ = writeln!(text, "Tag={name}.{}", rest.trim_end());
                }
                _ => {
                    let _ = writeln!(text, "{}", line.trim_end());
                }
            }
        }
    }
    text
}
