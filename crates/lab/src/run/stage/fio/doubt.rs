//! What makes the numbers of points doubtful, beside what the host did meanwhile.

use fsage_model::disk::{LATE, WAITING};
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

/// Threads of fio that did nothing but compute.
pub(super) fn cpu_bound(result: &FioResult) -> Option<Warning> {
    let threads = result.runtime_ns.saturating_mul(u64::from(result.point.jobs()));
    let busy = share(result.user_ns.saturating_add(result.system_ns), threads);
    (busy >= CPU_BOUND).then(|| {
        let message =
            format!("{}: fio's threads were on the CPU for {:.0} % of the time", result.point, busy * 100.0);
        Warning { kind: WarningKind::CpuBound, message }
    })
}

/// Replies of a modelled drive that came later than its model says, of all points in one sentence.
pub(super) fn late_replies(stage: &str, results: &[FioResult]) -> Option<Warning> {
    let late = |result: &FioResult| {
        let used = result.disk.as_ref()?;
        let (late_ns, waiting_ns) = used.counter(LATE).zip(used.counter(WAITING))?;
        (late_ns > waiting_ns * LATE_REPLIES).then(|| (late_ns / waiting_ns, result.point.clone()))
    };
    let found: Vec<(f64, FioPoint)> = results.iter().filter_map(late).collect();
    let (worst, point) = found.iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
    let message = format!(
        "stage {stage}: at {} of {} points the modelled drive replied later than it should, by {:.0} % of its own time \
         at {point}",
        found.len(),
        results.len(),
        worst * 100.0
    );
    Some(Warning { kind: WarningKind::LateReplies, message })
}

#[cfg(test)]
mod tests {
    use fsage_model::disk::{DiskCounter, DiskTime, DiskUse};
    use fsage_model::fio::{FioEnd, FioLatency};

    use super::*;

    fn result(point: FioPoint) -> FioResult {
        FioResult {
            point,
            file: String::new(),
            end: FioEnd::Time,
            runtime_ns: 1_000_000,
            elapsed_ns: 0,
            read: FioLatency::default(),
            write: FioLatency::default(),
            read_percentiles: Vec::new(),
            write_percentiles: Vec::new(),
            user_ns: 0,
            system_ns: 0,
            context_switches: 0,
            samples: Vec::new(),
            device: None,
            disk: None,
            settled: None,
            warnings: Vec::new(),
            kept: false,
        }
    }

    fn point(keys: &str) -> FioPoint {
        let stage: fsage_model::study::FioStage = serde_json::from_str(keys).unwrap();
        stage.points().remove(0)
    }

    #[test]
    fn threads_are_bound_by_the_cpu_when_all_of_them_are() {
        let one =
            FioResult { user_ns: 300_000, system_ns: 600_000, ..result(point(r#"{"rw": "randread"}"#)) };
        let said = cpu_bound(&one).unwrap();
        assert_eq!(said.kind, WarningKind::CpuBound);
        assert!(said.message.ends_with("on the CPU for 90 % of the time"), "{}", said.message);
        assert_eq!(cpu_bound(&FioResult { user_ns: 299_000, ..one.clone() }), None);
        // The same time of two threads, of jobs or of streams.
        for keys in [r#"{"rw": "randread", "numjobs": 2}"#, r#"{"rw": "read", "files": 2}"#] {
            assert_eq!(cpu_bound(&FioResult { point: point(keys), ..one.clone() }), None, "{keys}");
        }
        assert_eq!(cpu_bound(&FioResult { runtime_ns: 0, ..one }), None);
    }

    #[test]
    fn late_replies_are_told_once_for_all_points_with_the_worst() {
        let of = |bs: &str, late: u64, waiting: u64| {
            let counters = vec![DiskCounter::sum(LATE, "ns", late), DiskCounter::sum(WAITING, "ns", waiting)];
            let disk = Some(DiskUse { time: DiskTime::Real, counters, ..DiskUse::default() });
            FioResult { disk, ..result(point(&format!(r#"{{"rw": "randread", "bs": "{bs}"}}"#))) }
        };
        let results = [of("4KiB", 30, 100), of("8KiB", 11, 100), of("16KiB", 9, 100), of("32KiB", 0, 0)];
        let said = late_replies("fio", &results).unwrap();
        assert_eq!(said.kind, WarningKind::LateReplies);
        let wanted = "stage fio: at 2 of 4 points the modelled drive replied later than it should, by 30 % of its own time at \
                      randread-4k-";
        assert!(said.message.starts_with(wanted), "{}", said.message);
        assert_eq!(late_replies("fio", &results[2..]), None);
        assert_eq!(late_replies("fio", &[result(point(r#"{"rw": "read"}"#))]), None, "a device of the host");
    }
}
