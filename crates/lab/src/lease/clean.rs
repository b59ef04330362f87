//! Releases the leftovers of an interrupted run.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fsage_model::protocol::FailureKind;

use super::error::LeaseError;
use super::journal::Journal;
use super::record::{Lease, LeaseRecord};
use super::{state, undo};
use crate::target::{Session, Target};

/// What cleaning one store did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CleanSummary {
    /// Leases that were released, in order of doing.
    pub released: Vec<Lease>,
    /// Leases of files and directories whose name another one has by now, and why it was left alone.
    pub left: Vec<(Lease, String)>,
    /// Leases of an earlier boot that ended with it.
    pub expired: Vec<Lease>,
    /// Leases that could not be released and why; they stay in the journal.
    pub failed: Vec<(Lease, String)>,
    /// Lines of the journal that no fsage can have written.
    pub damaged: Option<Damage>,
    /// A journal in the store itself, where anybody may have put it: nothing of it was acted upon.
    pub ignored: Option<PathBuf>,
}

/// What of a journal could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// How many lines.
    pub lines: usize,
    /// Of which file; it stays.
    pub journal: PathBuf,
}

/// What became of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreOutcome {
    /// It was cleaned, as far as `failed` is empty.
    Cleaned(CleanSummary),
    /// It is in use: by whom.
    InUse(String),
    /// It could not be inspected: why.
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
    /// Whether no store was named: then one in use is no rest of anything.
    pub everywhere: bool,
}

impl CleanReport {
    /// Whether nothing of ours is left behind in any store.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.stores.iter().all(|store| match &store.outcome {
            StoreOutcome::Cleaned(summary) => summary.failed.is_empty(),
            StoreOutcome::InUse(_) => self.everywhere,
            StoreOutcome::Failed(_) => false,
        })
    }
}

/// Releases every outstanding lease of `journal` but `session`'s own process: processes first, then all
/// others from the last taken to the first. Each step is tried whatever became of the others; but while a
/// process cannot be ended, everything else stays in the journal too.
///
/// # Errors
/// The journal cannot be written, or the agent is lost; what was not reached is still outstanding.
pub fn clean(session: &mut Session, journal: &mut Journal) -> Result<CleanSummary, LeaseError> {
    let mut summary = CleanSummary { damaged: damage(journal), ..CleanSummary::default() };
    let own = session.identity().clone();
    let mut unended = String::new();
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
        // What a process was doing when it was killed may still come true: look again once it is gone.
        let undone = if unended.is_empty() {
            undo::release_record(session, journal, &record)
        } else {
            undo::undo(session, journal, &record).map_err(LeaseError::from)
        };
        match undone {
            Ok(_) if !unended.is_empty() => {
                summary.failed.push((record.lease, format!("released, but {unended} may take it again")));
            }
            Ok(Some(why)) => summary.left.push((record.lease, why)),
            Ok(None) => summary.released.push(record.lease),
            Err(error) if session.is_lost() => return Err(error),
            Err(LeaseError::Target(error)) => {
                if let Lease::Process { pid, .. } = record.lease {
                    unended = format!("process {pid}");
                }
                summary.failed.push((record.lease, chain(&error)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(summary)
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

/// Whether all that [`clean_stores`] would clean was taken by this user, who can release what an ordinary
/// user could take. Nothing at all is nobody's.
///
/// # Errors
/// The directory for journals can be changed by others.
pub fn are_own(stores: &[PathBuf]) -> Result<bool, LeaseError> {
    let own: Vec<PathBuf> = state::journals()?.into_iter().filter_map(|found| found.store()).collect();
    let known = |store: &PathBuf| own.contains(&super::journal::spelled(store));
    Ok(!own.is_empty() && stores.iter().all(known))
}

/// `fsage clean [STORE…]`: cleans each store, or with none every store that has open leases on this host, but
/// for disks that are up. Agents are started only where there is something to release.
///
/// # Errors
/// No agent can be started, or the directory for journals can be changed by others.
pub fn clean_stores(stores: &[PathBuf]) -> Result<CleanReport, LeaseError> {
    let mut report = CleanReport { everywhere: stores.is_empty(), ..CleanReport::default() };
    if stores.is_empty() {
        for found in state::journals()? {
            let store = found.store().unwrap_or_else(|| found.path());
            // What a disk that is up has taken is no rest of anything.
            if super::disk::holds(&store).is_some() {
                continue;
            }
            let summary = match found.open() {
                Ok(mut journal) => clean_journal(&mut journal),
                // Its user has just given everything back.
                Err(LeaseError::Journal { source, .. }) if source.kind() == ErrorKind::NotFound => continue,
                Err(error) => Err(error),
            };
            match outcome(summary)? {
                StoreOutcome::Cleaned(summary) if summary == CleanSummary::default() => {}
                outcome => report.stores.push(StoreReport { store, outcome }),
            }
        }
        report.stores.sort_by(|one, other| one.store.cmp(&other.store));
        return Ok(report);
    }
    for store in stores {
        let outcome = outcome(clean_store(store))?;
        report.stores.push(StoreReport { store: store.clone(), outcome });
    }
    Ok(report)
}

fn outcome(summary: Result<CleanSummary, LeaseError>) -> Result<StoreOutcome, LeaseError> {
    match summary {
        Ok(summary) => Ok(StoreOutcome::Cleaned(summary)),
        Err(LeaseError::Locked { by, .. }) => Ok(StoreOutcome::InUse(by)),
        Err(LeaseError::Target(error)) if error.kind() == FailureKind::Missing => Err(error.into()),
        Err(error @ LeaseError::Distrusted { .. }) => Err(error),
        Err(error) => Ok(StoreOutcome::Failed(chain(&error))),
    }
}

fn clean_store(store: &Path) -> Result<CleanSummary, LeaseError> {
    let mut summary = match Journal::find(store)? {
        Some(mut journal) => clean_journal(&mut journal)?,
        None => CleanSummary::default(),
    };
    summary.ignored = super::journal::ignored(store);
    Ok(summary)
}

fn clean_journal(journal: &mut Journal) -> Result<CleanSummary, LeaseError> {
    if let Some(by) = super::disk::holds(journal.store()) {
        return Err(LeaseError::Locked { store: journal.store().to_owned(), by });
    }
    let damaged = damage(journal);
    if journal.outstanding().is_empty() {
        return Ok(CleanSummary { damaged, ..CleanSummary::default() });
    }
    let mut session = Target::local()?;
    let own = journal.attach(&session)?;
    let summary = clean(&mut session, journal)?;
    drop(session);
    // While there is a lease, so that this too is done by the next when it is cut off.
    if summary.failed.is_empty() {
        super::disk::forget(journal.store());
    }
    journal.release(own)?;
    Ok(summary)
}

fn damage(journal: &Journal) -> Option<Damage> {
    let lines = journal.damaged_lines();
    (lines > 0).then(|| Damage { lines, journal: journal.path().to_owned() })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use fsage_model::protocol::{Failure, Reply, Request};

    use super::*;

    /// A session that notes requests and fails those that `fails` says.
    fn session(asked: &Arc<Mutex<Vec<String>>>, fails: fn(&Request) -> bool) -> Session {
        let asked = Arc::clone(asked);
        Target::scripted(Box::new(move |request, _| {
            asked.lock().unwrap().push(request.name());
            Some(if fails(request) {
                let (hint, errno, kind) = (String::new(), None, FailureKind::Failed);
                Err(Failure { message: "no".to_owned(), hint, errno, kind })
            } else {
                Ok(Reply::done())
            })
        }))
    }

    /// A journal as a run killed in the middle of a trial leaves it. The scripted target has no boot id.
    fn left(store: &Path) -> Journal {
        let boot = r#""boot_id":"","state":"taken","lease""#;
        let made = r#""made":{"staged":".x.0123456789abcdef.partial","identity":null}"#;
        let lines = [
            format!(r#"{{"number":1,{boot}:"process","pid":77,"start_ticks":5}}"#),
            format!(r#"{{"number":2,{boot}:"file","path":"/nowhere/volume",{made}}}"#),
            format!(r#"{{"number":3,{boot}:"loop","file":"/nowhere/volume"}}"#),
            format!(
                r#"{{"number":4,{boot}:"setting","path":"/sys/class/block/x/queue/scheduler","old":"a","new":"b"}}"#
            ),
            format!(r#"{{"number":5,{boot}:"directory","path":"/nowhere/mnt",{made}}}"#),
            format!(r#"{{"number":6,{boot}:"mount","point":"/nowhere/mnt"}}"#),
            format!(r#"{{"number":7,{boot}:"trace-instance","name":"fsage-7-1"}}"#),
            format!(r#"{{"number":8,{boot}:"disk","directory":"/nowhere/disks/a/served"}}"#),
        ];
        let path = Journal::open(store).unwrap().path().to_owned();
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
        Journal::open(store).unwrap()
    }

    /// Nothing of it is really there.
    fn discard(journal: Journal) {
        let path = journal.path().to_owned();
        drop(journal);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn processes_end_first_and_the_rest_goes_backwards() {
        let folder = tempfile::tempdir().unwrap();
        let (asked, mut journal) = (Arc::default(), left(folder.path()));
        let summary = clean(&mut session(&asked, |_| false), &mut journal).unwrap();
        assert_eq!((summary.released.len(), summary.failed.len()), (8, 0));
        let order =
            "end-process end-disk remove-trace-instance unmount remove-made restore loop-detach remove-made";
        assert_eq!(asked.lock().unwrap().join(" "), order);
        assert!(journal.outstanding().is_empty());
    }

    #[test]
    fn one_that_fails_stays_and_others_go() {
        let folder = tempfile::tempdir().unwrap();
        let (asked, mut journal) = (Arc::default(), left(folder.path()));
        let busy = |request: &Request| matches!(request, Request::Unmount(_));
        let summary = clean(&mut session(&asked, busy), &mut journal).unwrap();
        assert_eq!((summary.released.len(), summary.failed.len()), (7, 1));
        assert_eq!(asked.lock().unwrap().len(), 8);
        drop(journal);
        let journal = Journal::open(folder.path()).unwrap();
        assert!(matches!(journal.outstanding()[0].lease, Lease::Mount { .. }));
        assert_eq!(journal.outstanding().len(), 1);
        discard(journal);
    }

    #[test]
    fn nothing_is_crossed_out_while_a_process_cannot_be_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (asked, mut journal) = (Arc::default(), left(folder.path()));
        let stuck = |request: &Request| matches!(request, Request::EndProcess(_));
        let summary = clean(&mut session(&asked, stuck), &mut journal).unwrap();
        assert_eq!((summary.released.len(), summary.failed.len()), (0, 8));
        assert!(summary.failed[1].1.contains("process 77"), "{summary:?}");
        assert_eq!((asked.lock().unwrap().len(), journal.outstanding().len()), (8, 8));
        discard(journal);
    }
}
