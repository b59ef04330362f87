//! Any lines are events or nothing, and any events add up to figures that keep their ranges.

#![no_main]

use fsage_engine::measure::requests::{Collector, parse};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut collector = Collector::new(8, u64::MAX - 8);
    for line in text.lines() {
        // The fuzzer need not find the name of the event first.
        for line in [line.to_owned(), format!("x-1 [000] ..... 1.000001: block_rq_issue: 7,0 {line}")] {
            if let Some(event) = parse(&line) {
                collector.add(&event);
            }
        }
    }
    let summary = collector.finish(0, false);
    for metric in summary.metrics() {
        assert!(metric.value.is_finite() && metric.value >= 0.0, "{metric:?}");
        assert!(!metric.name.ends_with("score") || metric.value <= 1.0, "{metric:?}");
        assert!(!metric.name.ends_with("share") || metric.value <= 1.0, "{metric:?}");
    }
});
