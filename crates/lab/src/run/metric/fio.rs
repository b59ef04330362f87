//! Numbers of the points of a `fio` stage, named after each point.

use fsage_model::fio::{FioLatency, FioRecord, FioResult};
use fsage_model::measure::Work;
use fsage_model::metric;
use fsage_model::quantity::share;

use super::{BETTER, List, WORSE};

/// Every point's.
pub(super) fn push(list: &mut List<'_>, fio: &FioRecord) {
    for result in &fio.results {
        // By the clock it does what it can in its time: the same job on the same bytes, though not as often.
        list.work = Some(Work { bytes: fio.bytes, files: u64::from(result.point.files), operations: 0 });
        point(list, result);
    }
    list.work = None;
}

fn point(list: &mut List<'_>, result: &FioResult) {
    let mut one = |number: &str, unit: &str, value: f64, worse: Option<bool>| {
        list.one(&metric::of_point(&result.point, number), unit, value, worse);
    };
    one(metric::IOPS, "1/s", result.iops(), BETTER);
    one(metric::BANDWIDTH, "bytes/s", result.bandwidth(), BETTER);
    one(metric::MEAN_NS, "ns", result.mean_ns(), WORSE);
    for (direction, found) in [("read", &result.read), ("write", &result.write)] {
        if found.operations > 0 {
            let FioLatency { p50_ns, p99_ns, p999_ns, max_ns, .. } = *found;
            for (statistic, value) in [
                (metric::P50_NS, p50_ns),
                (metric::P99_NS, p99_ns),
                (metric::P999_NS, p999_ns),
                (metric::MAX_NS, max_ns),
            ] {
                one(&format!("{direction}_{statistic}"), "ns", value, WORSE);
            }
        }
    }
    one(metric::CPU_NS, "ns", result.cpu_ns_per_operation(), WORSE);
    one(metric::CONTEXT_SWITCHES, "count", share(result.context_switches, result.operations()), WORSE);
}
