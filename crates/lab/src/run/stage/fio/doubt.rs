//! What makes the numbers of points doubtful, beside what the host did meanwhile.

use fsage_model::disk::DiskTime;
use fsage_model::fio::{FioPoint, FioResult, Settled};
use fsage_model::quantity::{as_f64, share};
use fsage_model::warning::{CPU_BOUND, LATE_REPLIES, Warning, WarningKind};

/// A device that would not come to rest.
pub(super) fn still_busy(point: &str, settled: Settled) -> Option<Warning> {
    let message = || {
        format!(
            "{point}: the device was still busy before it, after {:.1} s",
            as_f64(settled.elapsed_ns) / 1e9
        )
    };
    (!settled.quiet).then(|| Warning { kind: WarningKind::StillBusy, message: message() })
}

/// Requests in flight at the ends of a point, beyond which its rate is not that of its time.
const MOST_AT_ENDS: f64 = 0.05;

/// A point that is too short for what it has in flight.
pub(super) fn short(result: &FioResult) -> Option<Warning> {
    let share = result.share_at_ends().filter(|share| *share > MOST_AT_ENDS)?;
    let message = format!(
        "{}: requests in flight at its ends are {:.0} % of what it counted: give it more `runtime`, or a shorter `round`",
        result.point,
        share * 100.0
    );
    Some(Warning { kind: WarningKind::ShortPoint, message })
}

/// Threads of fio that did nothing but compute, or as many as the host has CPUs.
pub(super) fn cpu_bound(result: &FioResult, cpus: u32) -> Option<Warning> {
    let threads = result.point.jobs().min(cpus.max(1));
    let all_ns = result.runtime_ns.saturating_mul(u64::from(threads));
    let busy = share(result.user_ns.saturating_add(result.system_ns), all_ns);
    (busy >= CPU_BOUND).then(|| {
        let message =
            format!("{}: fio's threads were on the CPU for {:.0} % of the time", result.point, busy * 100.0);
        Warning { kind: WarningKind::CpuBound, message }
    })
}

/// A modelled drive that was busy for longer than its model says, of all points in one sentence. Idle time passes on no
/// drive's clock, so that what passed on it is what the requests needed.
pub(super) fn late_replies(stage: &str, results: &[FioResult]) -> Option<Warning> {
    let late = |result: &FioResult| {
        let used = result.disk.as_ref().filter(|used| used.time == DiskTime::Real && used.elapsed_ns > 0)?;
        let busy_ns = result.device?.busy_ms.saturating_mul(1_000_000);
        let times = share(busy_ns, used.elapsed_ns);
        (times > LATE_REPLIES).then(|| (times, result.point.clone()))
    };
    let found: Vec<(f64, FioPoint)> = results.iter().filter_map(late).collect();
    let (worst, point) = found.iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
    let message = format!(
        "stage {stage}: at {} of {} points the modelled drive was busy for longer than its model says, {worst:.1} times as long at {point}",
        found.len(),
        results.len(),
    );
    Some(Warning { kind: WarningKind::LateReplies, message })
}

#[cfg(test)]
mod tests {
    use fsage_model::disk::DiskUse;
    use fsage_model::fio::{DeviceCounts, FioLatency, FioSample};

    use super::*;

    fn result(point: FioPoint) -> FioResult {
        FioResult { runtime_ns: 1_000_000, ..FioResult::empty(point) }
    }

    /// The reports of 64 reads of 4 MiB in flight on a disk of 32 of them per second: the first completions come late, and all that
    /// is in flight at the end comes at once.
    #[test]
    fn what_is_in_flight_at_the_ends_is_not_in_the_rate() {
        const LARGE: u64 = 4 << 20;
        let sample = |at_ms, interval_ms, operations| FioSample {
            at_ms,
            interval_ms,
            operations,
            bytes: operations * LARGE,
        };
        let mut samples = vec![sample(1_000, 1_000, 8)];
        samples.extend((1..=16).map(|n| sample(1_000 + 250 * n, 250, 8)));
        samples.push(sample(5_600, 600, 63));
        let operations: u64 = samples.iter().map(|one| one.operations).sum();
        let read = FioLatency { operations, bytes: operations * LARGE, ..FioLatency::default() };
        let deep = point(r#"{"rw": "read", "bs": "4MiB", "iodepth": 64}"#);
        let timed = FioResult {
            runtime_ns: 5_600_000_000,
            planned_ns: 5_000_000_000,
            read,
            samples,
            ..FioResult::empty(deep)
        };
        assert!((timed.iops() - 32.0).abs() < 1e-9 && (timed.bandwidth() / 32.0 - 4_194_304.0).abs() < 1e-3);
        assert_eq!(short(&timed), None);
        // Without reports of the time between, the rate is that of everything, and said to be doubtful.
        let blind = FioResult { samples: Vec::new(), ..timed.clone() };
        assert!(blind.iops() > 35.0, "{}", blind.iops());
        let said = short(&blind).unwrap();
        assert!(said.kind == WarningKind::ShortPoint && said.message.contains("are 32 % of"), "{said:?}");
        // Small requests are no doubt, and of older records nothing is known.
        let small = point(r#"{"rw": "read", "iodepth": 64}"#);
        assert_eq!(short(&FioResult { point: small, ..blind.clone() }), None);
        assert_eq!(short(&FioResult { planned_ns: 0, ..blind }), None);
    }

    fn point(keys: &str) -> FioPoint {
        let stage: fsage_model::study::FioStage = serde_json::from_str(keys).unwrap();
        stage.points().remove(0)
    }

    #[test]
    fn threads_are_bound_by_the_cpu_when_all_of_them_are() {
        let one =
            FioResult { user_ns: 300_000, system_ns: 600_000, ..result(point(r#"{"rw": "randread"}"#)) };
        let said = cpu_bound(&one, 4).unwrap();
        assert_eq!(said.kind, WarningKind::CpuBound);
        assert!(said.message.ends_with("on the CPU for 90 % of the time"), "{}", said.message);
        assert_eq!(cpu_bound(&FioResult { user_ns: 299_000, ..one.clone() }, 4), None);
        // The same time of two threads, of jobs or of streams.
        for keys in [r#"{"rw": "randread", "numjobs": 2}"#, r#"{"rw": "read", "files": 2}"#] {
            let two = FioResult { point: point(keys), ..one.clone() };
            assert_eq!(cpu_bound(&two, 4), None, "{keys}");
            assert!(cpu_bound(&two, 1).is_some(), "{keys}: on one CPU there is no more");
        }
        assert_eq!(cpu_bound(&FioResult { runtime_ns: 0, ..one }, 4), None);
    }

    #[test]
    fn late_replies_are_told_once_for_all_points_with_the_worst() {
        let of = |bs: &str, busy_ms: u64, model_ms: u64| {
            let disk =
                DiskUse { time: DiskTime::Real, elapsed_ns: model_ms * 1_000_000, ..DiskUse::default() };
            let device = DeviceCounts { busy_ms, ..DeviceCounts::default() };
            let point = point(&format!(r#"{{"rw": "randread", "bs": "{bs}"}}"#));
            FioResult { disk: Some(disk), device: Some(device), ..result(point) }
        };
        let results = [of("4KiB", 300, 100), of("8KiB", 111, 100), of("16KiB", 109, 100), of("32KiB", 9, 0)];
        let said = late_replies("fio", &results).unwrap();
        assert_eq!(said.kind, WarningKind::LateReplies);
        let wanted = "stage fio: at 2 of 4 points the modelled drive was busy for longer than its model says, 3.0 times as long \
                      at randread-4k-";
        assert!(said.message.starts_with(wanted), "{}", said.message);
        assert_eq!(late_replies("fio", &results[2..]), None);
        assert_eq!(late_replies("fio", &[result(point(r#"{"rw": "read"}"#))]), None, "a device of the host");
        let model = results.map(|result| {
            let disk = result.disk.map(|disk| DiskUse { time: DiskTime::Model, ..disk });
            FioResult { disk, ..result }
        });
        assert_eq!(late_replies("fio", &model), None);
    }
}
