//! Typed warnings: what makes a number of a trial doubtful, in one sentence with the figures.

use fsage_model::load::{LoadResult, WriteMode};
use fsage_model::protocol::{HostActivity, HostFacts};
use fsage_model::quantity::{as_f64, share};
use fsage_model::size::Bytes;
use fsage_model::warning::Warning;
use fsage_model::warning::{CPU_BOUND, WarningKind};

use fsage_model::study::AgeStage;

/// Share of the host's CPU time taken by others that is worth a word.
const STOLEN: f64 = 0.02;
/// Samples below which a 99.9th percentile means little.
const FEW_SAMPLES: u64 = 1000;
/// Writes of others to the host's disks, as a share of ours, and in bytes, that are worth a word.
const OTHER_IO_SHARE: f64 = 0.25;
const OTHER_IO_BYTES: u64 = 64 << 20;
/// Clock sources that cost no system call; others make every time stamp slow or coarse.
const GOOD_CLOCKS: [&str; 6] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen", "arch_sys_counter", "riscv_clocksource"];

/// Warnings about an `age` stage.
pub(super) fn of_age(
    stage: &AgeStage,
    result: &LoadResult,
    facts: &HostFacts,
    volume_bytes: u64,
    before: HostActivity,
    after: HostActivity,
) -> Vec<Warning> {
    [
        cpu_bound(stage, result),
        stolen(before, after),
        other_io(result, before, after),
        dropped(stage, before, after),
        few_samples(result),
        cache(stage, facts, volume_bytes),
        digest(result),
        estimate(result),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const fn warning(kind: WarningKind, message: String) -> Warning {
    Warning { kind, message }
}

fn cpu_bound(stage: &AgeStage, result: &LoadResult) -> Option<Warning> {
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
fn dropped(stage: &AgeStage, before: HostActivity, after: HostActivity) -> Option<Warning> {
    let drops = after.cache_drops.saturating_sub(before.cache_drops);
    (drops > 0).then(|| {
        let name = &stage.name;
        let message = format!(
            "stage {name}: somebody else dropped the host's caches meanwhile: what they held was read again"
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

fn other_io(result: &LoadResult, before: HostActivity, after: HostActivity) -> Option<Warning> {
    let ours = result.device_bytes_written?;
    let all = after.disk_bytes_written.saturating_sub(before.disk_bytes_written);
    let others = all.saturating_sub(ours);
    (others >= OTHER_IO_BYTES && as_f64(others) >= as_f64(ours) * OTHER_IO_SHARE).then(|| {
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

fn cache(stage: &AgeStage, facts: &HostFacts, volume_bytes: u64) -> Option<Warning> {
    (stage.write_mode != WriteMode::Direct && facts.memory_bytes > volume_bytes).then(|| {
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
    let caveat = &result.free_space.as_ref()?.caveat;
    (!caveat.is_empty()).then(|| warning(WarningKind::FragmentationEstimate, format!("free space: {caveat}")))
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
}
