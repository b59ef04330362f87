//! Gives back what a killed run left behind.

use std::path::{Path, PathBuf};

use fsage_engine::protocol::{FailureKind, Reply, Request};

use super::error::LeaseError;
use super::journal::Journal;
use super::record::{Lease, LeaseRecord};
use super::registry;
use crate::target::{Session, Target, TargetError};

/// How long a process may take to leave a system call after it was killed.
const END_PROCESS_MS: u64 = 30_000;

/// What cleaning one store did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CleanSummary {
    /// Leases that were given back, in order of doing.
    pub released: Vec<Lease>,
    /// Leases of an earlier boot that ended with it.
    pub expired: Vec<Lease>,
    /// Leases that could not be given back and why; they stay in the journal.
    pub failed: Vec<(Lease, String)>,
    /// Lines of the journal that could not be read.
    pub damaged_lines: usize,
}

/// What became of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreOutcome {
    /// It was cleaned, as far as `failed` is empty.
    Cleaned(CleanSummary),
    /// It is in use: by whom.
    InUse(String),
    /// It could not be looked at: why.
    Failed(String),
}

/// One store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreReport {
    /// The store.
    pub store: PathBuf,
    /// What became of it.
    pub outcome: StoreOutcome,
}

/// What `fsage clean` did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// Every store that was asked for, or that has open leases.
    pub stores: Vec<StoreReport>,
}

impl CleanReport {
    /// Whether nothing of ours is left behind in any store.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.stores.iter().all(|store| match &store.outcome {
            StoreOutcome::Cleaned(summary) => summary.failed.is_empty(),
            StoreOutcome::InUse(_) | StoreOutcome::Failed(_) => false,
        })
    }
}

/// Gives back every outstanding lease of `journal` but `session`'s own process: processes first, then all
/// others from the last taken to the first. Each step is tried whatever became of the others.
///
/// # Errors
/// The journal cannot be written, or the agent is lost; what was not reached is still outstanding.
pub fn clean(session: &mut Session, journal: &mut Journal) -> Result<CleanSummary, LeaseError> {
    let mut summary = CleanSummary { damaged_lines: journal.damaged_lines(), ..CleanSummary::default() };
    let own = session.identity().clone();
    let records: Vec<LeaseRecord> = journal.outstanding().to_vec();
    let (processes, others): (Vec<_>, Vec<_>) =
        records.into_iter().rev().partition(|record| matches!(record.lease, Lease::Process { .. }));
    for record in processes.into_iter().chain(others) {
        let id = Journal::id_of(&record);
        if record.lease == (Lease::Process { pid: own.pid, start_ticks: own.start_ticks }) {
            continue;
        }
        let survives = matches!(record.lease, Lease::File { .. } | Lease::Directory { .. });
        if record.boot_id != own.boot_id && !survives {
            journal.release(id)?;
            summary.expired.push(record.lease);
            continue;
        }
        match give_back(session, &record.lease) {
            Ok(()) => {
                journal.release(id)?;
                summary.released.push(record.lease);
            }
            Err(error) if error.is_lost() => return Err(error.into()),
            Err(error) => summary.failed.push((record.lease, chain(&error))),
        }
    }
    Ok(summary)
}

fn give_back(session: &mut Session, lease: &Lease) -> Result<(), TargetError> {
    let request = match lease.clone() {
        Lease::File { path } => Request::RemoveFile { file: path },
        Lease::Directory { path } => Request::RemoveDirectory { directory: path },
        Lease::Loop { file } => Request::LoopDetach { file },
        Lease::Mount { point } => Request::Unmount { point },
        Lease::Setting { path, old, new } => Request::Restore { path, old, new },
        Lease::Process { pid, start_ticks } => {
            Request::EndProcess { pid, start_ticks, timeout_ms: END_PROCESS_MS }
        }
        Lease::ControlGroup { path } => Request::RemoveControlGroup { path },
    };
    session.call(request, &mut |_| {}).map(|_: Reply| ())
}

/// An error with its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// `fsage clean [STORE…]`: cleans each store, or with none every store that has open leases on this host.
/// Agents are started only where there is something to release.
///
/// # Errors
/// No agent can be started.
pub fn clean_stores(stores: &[PathBuf]) -> Result<CleanReport, LeaseError> {
    let mut stores = stores.to_vec();
    if stores.is_empty() {
        stores = registry::stores();
        stores.retain(|store| !registry::forget_missing(store));
        stores.sort();
        stores.dedup();
    }
    let mut report = CleanReport::default();
    for store in stores {
        let outcome = match clean_store(&store) {
            Ok(summary) => StoreOutcome::Cleaned(summary),
            Err(LeaseError::Locked { by, .. }) => StoreOutcome::InUse(by),
            Err(LeaseError::Target(error)) if error.kind() == FailureKind::Missing => {
                return Err(error.into());
            }
            Err(error) => StoreOutcome::Failed(chain(&error)),
        };
        report.stores.push(StoreReport { store, outcome });
    }
    Ok(report)
}

fn clean_store(store: &Path) -> Result<CleanSummary, LeaseError> {
    let mut journal = Journal::open(store)?;
    if journal.outstanding().is_empty() {
        registry::remove(journal.store());
        return Ok(CleanSummary { damaged_lines: journal.damaged_lines(), ..CleanSummary::default() });
    }
    let mut session = Target::local()?;
    let own = journal.attach(&session)?;
    let summary = clean(&mut session, &mut journal)?;
    drop(session);
    journal.release(own)?;
    Ok(summary)
}
