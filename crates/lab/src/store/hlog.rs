//! `latency.hlog`: the HdrHistogram interval log of a trial, one line a kind of operation and probe, tag =
//! the kind's name (`STAGE.kind` when the trial has several ageing stages, which follow each other in time as
//! loads do, what came in between left out). Values are nanoseconds. The header is that of
//! [`fsage_engine::latency::interval_log`]. Readable by HdrHistogram's and HistogramLogAnalyzer's own tools.

use std::time::{Duration, UNIX_EPOCH};

use fsage_engine::latency::interval_log;
use fsage_model::load::Probe;
use fsage_model::quantity::as_f64;
use fsage_model::record::StageRecord;

/// The whole file as text. `started_s` is the trial's start in seconds since the epoch, from which the lines'
/// time stamps count.
#[must_use]
pub fn text(started_s: u64, stages: &[StageRecord]) -> String {
    let mut lines = Vec::new();
    let loads = stages.iter().filter(|stage| stage.load().is_some()).count();
    let mut earlier_s = 0.0;
    for stage in stages {
        for line in stage.probes().iter().flat_map(|p: &Probe| &p.interval_log) {
            let line = line.trim_end();
            let whole = (loads > 1).then(|| of_stage(line, stage.name(), earlier_s)).flatten();
            lines.push(whole.unwrap_or_else(|| line.to_owned()));
        }
        earlier_s += stage.load().map_or(0.0, |load| as_f64(load.elapsed_ns) / 1e9);
    }
    interval_log(UNIX_EPOCH + Duration::from_secs(started_s), lines.iter().map(String::as_str))
}

/// A line of one of several loads: `Tag=KIND,START,LENGTH,MAX,HISTOGRAM`, whose start counts from that
/// load's.
fn of_stage(line: &str, stage: &str, earlier_s: f64) -> Option<String> {
    let (kind, rest) = line.strip_prefix("Tag=")?.split_once(',')?;
    let (start, rest) = rest.split_once(',')?;
    let start_s = start.parse::<f64>().ok()? + earlier_s;
    Some(format!("Tag={stage}.{kind},{start_s:.3},{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_version_that_knows_tags_and_counts_from_the_start() {
        let log = text(1_700_000_000, &[]);
        assert!(log.contains("#[Histogram log format version 1.3]\n"), "{log}");
        assert!(log.contains("#[BaseTime: 1700000000.000 (seconds since epoch)]\n"), "{log}");
        assert!(log.contains("#[StartTime: 1700000000.000 (seconds since epoch)]\n"), "{log}");
    }

    #[test]
    fn several_loads_follow_each_other() {
        let line = "Tag=create,0.250,1.000,0.002,HISTFAAA=";
        assert_eq!(of_stage(line, "refill", 12.5).unwrap(), "Tag=refill.create,12.750,1.000,0.002,HISTFAAA=");
        assert_eq!(of_stage("0.250,1.000,0.002,HISTFAAA=", "refill", 1.0), None);
    }
}
