//! `latency.hlog`: the HdrHistogram interval log of a trial, one line a kind of operation and probe, tag = the
//! kind's name (`STAGE.kind` when the trial has several stages). Values are nanoseconds. The header is that of
//! [`fsage_engine::latency::interval_log`]. Readable by HdrHistogram's and HistogramLogAnalyzer's own tools.

use std::time::{Duration, UNIX_EPOCH};

use fsage_engine::latency::interval_log;
use fsage_engine::load::Probe;

use super::format::StageRecord;

/// The whole file as text. `started_s` is the trial's start in seconds since the epoch, from which the lines'
/// time stamps count.
#[must_use]
pub fn text(started_s: u64, stages: &[StageRecord]) -> String {
    let mut lines = Vec::new();
    let loads = stages.iter().filter(|stage| stage.load().is_some()).count();
    for stage in stages {
        for line in stage.probes().iter().flat_map(|p: &Probe| &p.interval_log) {
            lines.push(match line.strip_prefix("Tag=") {
                Some(rest) if loads > 1 => format!("Tag={}.{}", stage.name(), rest.trim_end()),
                _ => line.trim_end().to_owned(),
            });
        }
    }
    interval_log(UNIX_EPOCH + Duration::from_secs(started_s), lines.iter().map(String::as_str))
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
}
