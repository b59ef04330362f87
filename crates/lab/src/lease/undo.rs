//! Releases one lease: the request to the agent that undoes what was taken.

use std::sync::PoisonError;
use std::time::Duration;

use fsage_model::protocol::call;

use super::error::LeaseError;
use super::journal::{Journal, LeaseId};
use super::record::{Lease, LeaseRecord};
use crate::target::{Session, TargetError};

/// How long a process may take to leave a system call after it was killed.
const END_PROCESS: Duration = Duration::from_secs(30);

/// Releases what a lease of `journal` names, and writes that down. Gone already is fine, and a lease that
/// was released too.
///
/// # Errors
/// It cannot be undone, the agent is lost, or the journal cannot be written; then it is still leased.
pub fn release(session: &mut Session, journal: &mut Journal, id: LeaseId) -> Result<(), LeaseError> {
    let Some(record) = journal.outstanding().iter().find(|record| Journal::id_of(record) == id).cloned()
    else {
        return Ok(());
    };
    release_record(session, journal, &record).map(drop)
}

/// The same; why something that has its name was left, if it was.
pub(super) fn release_record(
    session: &mut Session,
    journal: &mut Journal,
    record: &LeaseRecord,
) -> Result<Option<String>, LeaseError> {
    let id = Journal::id_of(record);
    // Nobody else may set or release a setting in between, or take a directory that is just being removed.
    let settings = match &record.lease {
        Lease::Setting { .. } => Some(journal.hold_settings()?),
        _ => None,
    };
    let directories = journal.directories();
    let directory = matches!(record.lease, Lease::Directory { .. });
    let directories = directory.then(|| directories.lock().unwrap_or_else(PoisonError::into_inner));
    let left = undo(session, journal, record)?;
    journal.release(id)?;
    drop((settings, directories));
    Ok(left)
}

/// Undoes it, and leaves the lease outstanding.
pub(super) fn undo(
    session: &mut Session,
    journal: &Journal,
    record: &LeaseRecord,
) -> Result<Option<String>, TargetError> {
    let directory = matches!(record.lease, Lease::Directory { .. });
    match record.lease.clone() {
        // The last branch that holds it removes it.
        Lease::Directory { .. } if journal.is_shared(record) => {}
        Lease::File { path } | Lease::Directory { path } => match journal.made(record) {
            Some(made) => return session.call(call::RemoveMade { path, directory, made }),
            None => {
                let what = if directory { "directory" } else { "file" };
                return Ok(Some(format!("the lease does not say which {what} was made")));
            }
        },
        Lease::Loop { file, backing, offset_bytes } => {
            return session.call(call::LoopDetach { file, backing, offset_bytes });
        }
        Lease::Mount { point } => session.call(call::Unmount { point })?,
        Lease::Setting { path, old, new } => {
            // Another lab holds it still: then its value is what has to be there.
            let old = journal.value_of_others(&path).unwrap_or(old);
            session.call(call::Restore { path, old, new })?;
        }
        Lease::Process { pid, start_ticks } => {
            let timeout_ms = u64::try_from(END_PROCESS.as_millis()).unwrap_or(u64::MAX);
            session.call(call::EndProcess { pid, start_ticks, timeout_ms })?;
        }
        Lease::TraceInstance { name } => session.call(call::RemoveTraceInstance { name })?,
        Lease::MemoryGroup { path } => session.call(call::RemoveMemoryGroup { path })?,
        Lease::Layer { name, device } => session.call(call::EndLayer { name, device })?,
        Lease::Disk { directory } => session.call(call::EndDisk { directory })?,
    }
    Ok(None)
}
