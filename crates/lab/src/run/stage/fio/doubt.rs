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
    use fsage_model::fio::DeviceCounts;

    use super::*;

    fn result(point: FioPoint) -> FioResult {
        FioResult { runtime_ns: 1_000_000, ..FioResult::empty(point) }
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
