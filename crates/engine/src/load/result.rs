//! Adds up what the threads did.

use std::collections::BTreeMap;

use fsage_model::load::{LatencySummary, LoadResult, LoadSpec, StopReason};
use fsage_model::operation::OperationKind;
use fsage_model::quantity::share;
use fsage_model::workload::UtilisationSpec;
use fsage_sys::clock::CpuTime;

use super::LoadError;
use super::probe::Prober;
use super::setup::TestDirectory;
use super::tally::Tally;

/// How a load ended.
#[derive(Debug, Clone, Copy)]
pub struct Ending {
    pub reason: StopReason,
    pub before_materialise: Option<u64>,
    pub materialise_ns: u64,
    /// Every live file was written in place, or need not be.
    pub materialised: bool,
}

/// What the load took, probes, pauses, looks, upkeep and materialising left out.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    pub elapsed_ns: u64,
    /// Of the whole process.
    pub cpu: CpuTime,
}

/// The result but for what only the workloads know: digest, live files and bytes.
pub fn assemble(
    spec: &LoadSpec,
    test_directory: &TestDirectory,
    prober: &Prober,
    tallies: &[Tally],
    spent: Spent,
    latency: BTreeMap<OperationKind, LatencySummary>,
    ending: Ending,
) -> Result<LoadResult, LoadError> {
    test_directory.sync()?;
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let operations = sum(|tally| tally.operations);
    let failed = failures(tallies);
    let succeeded = OperationKind::ALL
        .into_iter()
        .map(|kind| (kind, tallies.iter().map(|tally| tally.succeeded[kind as usize]).sum::<u64>()))
        .filter(|(_, count)| *count > 0)
        .collect();
    Ok(LoadResult {
        operations,
        missed: sum(|tally| tally.missed),
        elapsed_ns: spent.elapsed_ns,
        digest_caveats: caveats(spec, &failed, ending),
        failed,
        failed_without_inode: sum(|tally| tally.without_inode),
        succeeded,
        bytes_written: sum(|tally| tally.bytes_written),
        bytes_read: sum(|tally| tally.bytes_read),
        cpu_user_ns: spent.cpu.user_ns,
        cpu_sys_ns: spent.cpu.sys_ns,
        device_bytes_written: prober.device_bytes_now(),
        device_bytes_before_materialise: ending.before_materialise,
        materialise_ns: ending.materialise_ns,
        materialised: ending.materialised,
        probes: 0,
        probe_ns: 0,
        digest: String::new(),
        stopped_by: ending.reason,
        latency,
        layout: prober.scan()?,
        free_space: prober.free_space_now(),
        overhead_ns_per_operation: share(spent.cpu.user_ns, operations),
        files: 0,
        live_bytes: 0,
        disk: None,
        pace: spec.pace,
    })
}

fn failures(tallies: &[Tally]) -> BTreeMap<String, u64> {
    let mut failed = BTreeMap::new();
    for tally in tallies {
        for (errno, count) in (0..).zip(tally.failed).filter(|(_, count)| *count > 0) {
            *failed.entry(fsage_sys::errno::name(errno).to_owned()).or_default() += count;
        }
    }
    failed
}

/// Why the digest may differ from that of the same load elsewhere.
fn caveats(spec: &LoadSpec, failed: &BTreeMap<String, u64>, ending: Ending) -> Vec<String> {
    let mut caveats = Vec::new();
    for (errno, count) in failed {
        caveats.push(format!("{count} operations failed with {errno}"));
    }
    if spec.workload.drift().is_some_and(|drift| drift.like.is_some()) {
        caveats.push("the share of files that grow was steered by the measured layout".to_owned());
    }
    if spec.workload.is_steered() {
        caveats.push("the mix was steered by the volume's fullness".to_owned());
    }
    if let Some(UtilisationSpec::Maintain { .. }) = spec.workload.utilisation() {
        caveats.push("files may have been deleted by utilisation upkeep".to_owned());
    }
    if !ending.materialised {
        caveats.push("the data of the live files was not written: asked twice to stop".to_owned());
    }
    match ending.reason {
        StopReason::Operations | StopReason::Bytes | StopReason::Ended => {}
        StopReason::Seconds => caveats.push("stopped by the clock".to_owned()),
        StopReason::Full => caveats.push("stopped when the volume was full".to_owned()),
        StopReason::Inodes => caveats.push("stopped when the volume had no inode left".to_owned()),
        StopReason::Age => caveats.push("stopped by the measured age".to_owned()),
        StopReason::Asked => caveats.push("stopped when asked".to_owned()),
    }
    caveats
}
