//! Typed warnings: what makes a number of a trial doubtful, in one sentence with the figures.

use std::collections::BTreeMap;
use std::time::Instant;

use fsage_model::disk::{DiskCpu, DiskTime, DiskUse};
use fsage_model::fio::HostCpu;
use fsage_model::load::{LatencySummary, LoadResult, WriteMode};
use fsage_model::number::grouped;
use fsage_model::operation::OperationKind;
use fsage_model::protocol::{HostActivity, HostFacts};
use fsage_model::quantity::{as_f64, share};
use fsage_model::size::Bytes;
use fsage_model::warning::Warning;
use fsage_model::warning::{CPU_BESIDE, CPU_BOUND, WarningKind};

use fsage_model::study::AgeStage;

/// Share of the host's CPU time taken by others that is worth a word.
const STOLEN: f64 = 0.02;
/// Samples below which a 99.9th percentile means little.
const FEW_SAMPLES: u64 = 1000;
/// Writes of others to the host's disks, as a share of ours, and in bytes, that are worth a word.
const OTHER_IO_SHARE: f64 = 0.25;
const OTHER_IO_BYTES: u64 = 64 << 20;
/// Share of the time that processes waited for memory which is worth a word.
const MEMORY_WAIT: f64 = 0.01;
/// Pages swapped that are.
const SWAPPED_PAGES: u64 = 256;
/// Change of the CPUs' mean frequency that is.
const FREQUENCY_CHANGE: f64 = 0.1;
/// Clock sources that cost no system call; others make every time stamp slow or coarse.
const GOOD_CLOCKS: [&str; 6] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen", "arch_sys_counter", "riscv_clocksource"];

/// Warnings about an `age` stage.
pub(super) fn of_age(
    stage: &AgeStage,
    result: &LoadResult,
    facts: &HostFacts,
    volume_bytes: u64,
    watch: Watch,
    after: HostActivity,
) -> Vec<Warning> {
    let own = [
        cpu_bound(stage, result),
        dropped(&format!("stage {}", stage.name), watch.before, after),
        few_samples(result),
        cache(stage, (result.disk.as_ref(), &result.latency), facts, volume_bytes),
        digest(result),
        estimate(result),
    ];
    let written = result.device_bytes_written.map(|bytes| Written { ours: bytes, of: bytes });
    own.into_iter().flatten().chain(watch.end(&format!("stage {}", stage.name), written, after)).collect()
}

/// The host before a stretch that is measured: what it does meanwhile may make a number unfit.
pub(super) struct Watch {
    before: HostActivity,
    since: Instant,
    /// Whether the stretch is timed by a virtual disk's clock, which the host's other work does not touch.
    model: bool,
}

/// Bytes that a stretch wrote, and what it did in bytes.
#[derive(Clone, Copy)]
pub(super) struct Written {
    /// What it wrote to the host's disks, at least.
    pub(super) ours: u64,
    /// What the writes of others are measured against.
    pub(super) of: u64,
}

impl Watch {
    /// Begins.
    pub(super) fn new(before: HostActivity, model: bool) -> Self {
        Self { before, since: Instant::now(), model }
    }

    /// CPU time of all that ran meanwhile; `None` where the kernel does not tell.
    pub(super) fn host_cpu(&self, after: &HostActivity) -> Option<HostCpu> {
        let elapsed_ns = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Some(HostCpu { busy_ns: after.busy_ns_since(&self.before)?, elapsed_ns })
    }

    /// What went on meanwhile; `written` is nothing where it is not known.
    pub(super) fn end(self, what: &str, written: Option<Written>, after: HostActivity) -> Vec<Warning> {
        let Self { before, since, model } = self;
        let elapsed_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        let memory = memory_pressure(elapsed_us, before, after);
        let wall = [
            stolen(before, after),
            written.and_then(|written| other_io(written, before, after)),
            swap(before, after),
            frequency(before, after),
            thermal(before, after),
        ];
        let wall = wall.into_iter().filter(|_| !model).flatten();
        let named = |warning: Warning| Warning { message: format!("{what}: {}", warning.message), ..warning };
        memory.into_iter().chain(wall).map(named).collect()
    }
}

fn memory_pressure(elapsed_us: u64, before: HostActivity, after: HostActivity) -> Option<Warning> {
    let waited = share(after.memory_wait_us.saturating_sub(before.memory_wait_us), elapsed_us);
    (waited >= MEMORY_WAIT).then(|| {
        let message = format!("processes waited for memory for {:.1} % of the time", waited * 100.0);
        warning(WarningKind::MemoryPressure, message)
    })
}

fn swap(before: HostActivity, after: HostActivity) -> Option<Warning> {
    let pages = after.swapped_pages.saturating_sub(before.swapped_pages);
    (pages >= SWAPPED_PAGES)
        .then(|| warning(WarningKind::Swap, format!("{} pages were swapped in or out", grouped(pages))))
}

fn frequency(before: HostActivity, after: HostActivity) -> Option<Warning> {
    let (from, to) = (before.frequency_khz, after.frequency_khz);
    let change = share(from.abs_diff(to), from.max(to));
    (from > 0 && to > 0 && change > FREQUENCY_CHANGE).then(|| {
        let message = format!("the mean CPU frequency went from {} to {} MHz", from / 1000, to / 1000);
        warning(WarningKind::Frequency, message)
    })
}

fn thermal(before: HostActivity, after: HostActivity) -> Option<Warning> {
    let times = after.throttles.saturating_sub(before.throttles);
    (times > 0).then(|| {
        let message = format!("CPUs were throttled for their temperature {} times", grouped(times));
        warning(WarningKind::Thermal, message)
    })
}

const fn warning(kind: WarningKind, message: String) -> Warning {
    Warning { kind, message }
}

fn cpu_bound(stage: &AgeStage, result: &LoadResult) -> Option<Warning> {
    if let Some(used) = result.disk.as_ref().filter(|used| used.time == DiskTime::Model) {
        if used.cpu == DiskCpu::Serial {
            return None;
        }
        let beside = share(result.cpu_user_ns + result.cpu_sys_ns, used.elapsed_ns);
        return (beside >= CPU_BESIDE).then(|| {
            let message = format!(
                "stage {}: beside the model time the load was on the CPU for {:.0} % of as long, which is not in it",
                stage.name,
                beside * 100.0
            );
            warning(WarningKind::CpuBesideModel, message)
        });
    }
    let busy = share(result.cpu_user_ns + result.cpu_sys_ns, result.elapsed_ns * u64::from(stage.threads));
    (busy >= CPU_BOUND).then(|| {
        let system = share(result.cpu_sys_ns, result.cpu_user_ns + result.cpu_sys_ns);
        let message = format!(
            "stage {}: the load used {busy:.2} of a core per thread ({:.0} % in the kernel): latencies show the CPU more than the device",
            stage.name,
            system * 100.0
        );
        warning(WarningKind::CpuBound, message)
    })
}

/// A load that is never asked to forget, forgets nothing: what is read once more then was dropped by someone
/// else.
pub(super) fn dropped(what: &str, before: HostActivity, after: HostActivity) -> Option<Warning> {
    let drops = after.cache_drops.saturating_sub(before.cache_drops);
    (drops > 0).then(|| {
        let message = format!(
            "{what}: somebody else dropped the host's caches meanwhile: what they held was read again"
        );
        warning(WarningKind::CachesDropped, message)
    })
}

fn stolen(before: HostActivity, after: HostActivity) -> Option<Warning> {
    let ticks = |f: fn(&HostActivity) -> u64| f(&after).saturating_sub(f(&before));
    let stolen = share(ticks(|a| a.stolen_ticks), ticks(|a| a.total_ticks));
    (stolen >= STOLEN).then(|| {
        warning(
            WarningKind::StolenTime,
            format!("the hypervisor took {:.1} % of the CPU time for others", stolen * 100.0),
        )
    })
}

fn other_io(written: Written, before: HostActivity, after: HostActivity) -> Option<Warning> {
    let Written { ours, of } = written;
    let all = after.disk_bytes_written.saturating_sub(before.disk_bytes_written);
    let others = all.saturating_sub(ours);
    (others >= OTHER_IO_BYTES && as_f64(others) >= as_f64(of) * OTHER_IO_SHARE).then(|| {
        let message = format!(
            "{} were written to the host's disks beside the {} of the volume: others were busy",
            Bytes(others),
            Bytes(ours)
        );
        warning(WarningKind::OtherIo, message)
    })
}

fn few_samples(result: &LoadResult) -> Option<Warning> {
    let few: Vec<String> = result
        .latency
        .iter()
        .filter(|(_, l)| l.count < FEW_SAMPLES)
        .map(|(kind, l)| format!("{} ({})", kind.name(), l.count))
        .collect();
    (!few.is_empty()).then(|| {
        let message =
            format!("99.9th percentiles of {} are from fewer than {FEW_SAMPLES} samples", few.join(", "));
        warning(WarningKind::TooFewSamples, message)
    })
}

/// Where memory can hold the volume. In model time that is judged by what came of it: reads that the page cache
/// answers take no time of the medium, and where those of the medium are the most, memory did not matter.
fn cache(
    stage: &AgeStage,
    (disk, latency): (Option<&DiskUse>, &BTreeMap<OperationKind, LatencySummary>),
    facts: &HostFacts,
    volume_bytes: u64,
) -> Option<Warning> {
    let may = stage.write_mode != WriteMode::Direct && facts.memory_bytes > volume_bytes;
    let model = disk.is_some_and(|used| used.time == DiskTime::Model);
    let reads = [OperationKind::Read, OperationKind::RandomRead];
    let from_memory = reads.iter().any(|kind| latency.get(kind).is_some_and(|latency| latency.p50_ns == 0));
    (may && (!model || from_memory)).then(|| {
        if model {
            let message = format!(
                "stage {}: the median read took no time of the medium: it measures the page cache",
                stage.name
            );
            return warning(WarningKind::CacheTooLarge, message);
        }
        let message = format!(
            "memory ({}) can hold the whole volume ({}): reads mostly measure the page cache",
            Bytes(facts.memory_bytes),
            Bytes(volume_bytes)
        );
        warning(WarningKind::CacheTooLarge, message)
    })
}

fn digest(result: &LoadResult) -> Option<Warning> {
    (!result.digest_caveats.is_empty()).then(|| {
        let message = format!(
            "the tree need not be the same on other file systems: {}",
            result.digest_caveats.join("; ")
        );
        warning(WarningKind::DigestCaveat, message)
    })
}

fn estimate(result: &LoadResult) -> Option<Warning> {
    let free = result.free_space.as_ref().filter(|free| free.is_estimate)?;
    Some(warning(WarningKind::FragmentationEstimate, format!("free space: {}", free.caveat)))
}

/// A clock that makes time stamps slow or coarse.
pub(super) fn of_clock(facts: &HostFacts) -> Option<Warning> {
    let source = facts.features.get("clocksource")?;
    let name = source.split_ascii_whitespace().next().unwrap_or_default();
    (!name.is_empty() && !GOOD_CLOCKS.contains(&name)).then(|| {
        warning(
            WarningKind::Clock,
            format!("the kernel's clock source is {source}: each time stamp is slow and may be coarse"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let after = HostActivity { total_ticks: 1000, stolen_ticks: 35, ..HostActivity::default() };
        let found = stolen(HostActivity::default(), after).unwrap();
        assert_eq!(found.kind, WarningKind::StolenTime);
        assert!(found.message.contains("3.5 %"), "{}", found.message);
        assert!(stolen(after, after).is_none());
    }

    fn watched(after: HostActivity, model: bool, written: Option<Written>) -> Vec<WarningKind> {
        let before = HostActivity { frequency_khz: 2_000_000, ..HostActivity::default() };
        let mut watch = Watch::new(before, model);
        watch.since = Instant::now().checked_sub(std::time::Duration::from_secs(10)).unwrap();
        watch.end("measure grep", written, after).into_iter().map(|warning| warning.kind).collect()
    }

    #[test]
    fn every_condition_of_the_host_raises_its_warning_and_none_is_raised_for_nothing() {
        use WarningKind::{Frequency, MemoryPressure, OtherIo, StolenTime, Swap, Thermal};
        let quiet = HostActivity { total_ticks: 1000, frequency_khz: 1_900_000, ..HostActivity::default() };
        let nothing = Some(Written { ours: 0, of: 1 << 30 });
        assert_eq!(watched(quiet, false, nothing), []);
        let cases = [
            (HostActivity { stolen_ticks: 20, ..quiet }, StolenTime),
            (HostActivity { disk_bytes_written: 256 << 20, ..quiet }, OtherIo),
            (HostActivity { memory_wait_us: 200_000, ..quiet }, MemoryPressure),
            (HostActivity { swapped_pages: 256, ..quiet }, Swap),
            (HostActivity { frequency_khz: 1_700_000, ..quiet }, Frequency),
            (HostActivity { throttles: 1, ..quiet }, Thermal),
        ];
        for (after, kind) in cases {
            assert_eq!(watched(after, false, nothing), std::slice::from_ref(&kind));
            // A virtual disk's clock knows nothing of the host; its page cache does.
            let model = if kind == MemoryPressure { vec![kind] } else { Vec::new() };
            assert_eq!(watched(after, true, nothing), model);
        }
        // What the stretch wrote itself is no one else's, and less than a quarter of it is little.
        let busy = HostActivity { disk_bytes_written: 256 << 20, ..quiet };
        assert_eq!(watched(busy, false, Some(Written { ours: 256 << 20, of: 256 << 20 })), []);
        assert_eq!(watched(busy, false, Some(Written { ours: 0, of: 2 << 30 })), []);
        assert_eq!(watched(busy, false, None), []);
    }

    #[test]
    fn memory_larger_than_the_volume_is_judged_in_model_time_by_the_reads() {
        let stage: AgeStage = serde_json::from_str(r#"{"workload": {"kind": "drift"}}"#).unwrap();
        let facts = HostFacts { memory_bytes: 8 << 30, ..HostFacts::default() };
        let raised = |p50_ns: u64, time: Option<DiskTime>, volume_bytes: u64| {
            let summary = LatencySummary { count: 9, p50_ns, ..LatencySummary::default() };
            let disk = time.map(|time| DiskUse { time, ..DiskUse::default() });
            let latency = BTreeMap::from([(OperationKind::Read, summary)]);
            cache(&stage, (disk.as_ref(), &latency), &facts, volume_bytes).is_some()
        };
        let model = |p50_ns| raised(p50_ns, Some(DiskTime::Model), 1 << 30);
        assert_eq!((model(0), model(8_000_000)), (true, false));
        assert!(raised(8_000_000, None, 1 << 30) && raised(8_000_000, Some(DiskTime::Real), 1 << 30));
        assert!(!raised(0, None, 16 << 30));
    }
}
