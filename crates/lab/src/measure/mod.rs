//! Measures from the lab's side: one call that leases what a measure takes, asks the agent, or runs fio.
//!
//! Everything but `fio` is a request to the agent ([`fsage_engine::measure`]). The trace instance that shows
//! the block requests is leased before it is made.

mod fio;
mod job;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use fsage_model::location::Location;
use fsage_model::measure::{MeasureResult, MeasureSpec};
use fsage_model::problem::{EXIT_USAGE, Explain, exit_code_of};
use fsage_model::protocol::{FailureKind, call};
use fsage_sys::errno::is_out_of_space;

use crate::lease::record::Lease;
use crate::lease::{Journal, LeaseError};
use crate::target::{Incoming, Session, TargetError};
use crate::tools::ToolError;
use crate::tools::fio::FioOutputError;

pub use job::{Job, JobError, Length, PRESETS, preset};

/// What is to be measured where.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasureOrder {
    /// The measure.
    pub measure: MeasureSpec,
    /// The tree it works on.
    pub directory: Location,
    /// Block device whose requests are seen; `None`: what the directory's file system is mounted from.
    pub device: Option<PathBuf>,
    /// What choices follow from.
    pub seed: u64,
    /// Whether to inspect block requests. Those of fio are not.
    pub requests: bool,
    /// Name of the position in the disk's log where the agent's clock is first started; `None` where no log is
    /// kept.
    pub mark: Option<String>,
    /// Share of the measure's time that requests of a control add (docs/controls.md); `None`: none. Jobs of fio have
    /// none.
    pub extra: Option<f64>,
}

/// Why a measure did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The agent failed it.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// What it takes cannot be leased.
    #[error("what the measure takes cannot be written down")]
    Lease(#[from] LeaseError),
    /// The job of fio is invalid.
    #[error(transparent)]
    Job(#[from] JobError),
    /// fio did not run.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// fio ran and reported nothing.
    #[error(transparent)]
    Output(#[from] FioOutputError),
}

impl MeasureError {
    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Target(error) => error.kind(),
            Self::Tool(error) => error.kind(),
            Self::Job(_) => FailureKind::Usage,
            Self::Lease(_) | Self::Output(_) => FailureKind::Failed,
        }
    }

    /// Whether there was no room on the file system.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Self::Target(error) => error.errno().is_some_and(is_out_of_space),
            Self::Output(error) => error.is_out_of_space(),
            Self::Lease(_) | Self::Job(_) | Self::Tool(_) => false,
        }
    }
}

impl Explain for MeasureError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Target(error) => error.exit_code(),
            Self::Job(_) => EXIT_USAGE,
            other => exit_code_of(other.kind()),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Target(error) => Explain::hint(error),
            Self::Lease(error) => Explain::hint(error),
            Self::Tool(error) => Explain::hint(error),
            Self::Job(error) => error.hint(),
            Self::Output(error) if error.is_out_of_space() => {
                Some("free some space, or let the job write less (`size`, `nrfiles`)".to_owned())
            }
            Self::Output(_) => Some("run the job with fio by hand to see what it says".to_owned()),
        }
    }
}

/// Measures. The file system should have been mounted just now, so that it is cold; see docs/measures.md.
///
/// # Errors
/// The agent or fio fails it, or nothing can be leased. That block requests cannot be seen is a warning in
/// the result.
pub fn measure(
    session: &mut Session,
    journal: &mut Journal,
    order: &MeasureOrder,
    incoming: &mut dyn FnMut(Incoming),
) -> Result<MeasureResult, MeasureError> {
    if let MeasureSpec::Fio(spec) = &order.measure {
        return fio::run(spec, order, session);
    }
    let instance = order.requests.then(instance_name);
    let lease = match &instance {
        Some(name) => Some(journal.take(Lease::TraceInstance { name: name.clone() })?),
        None => None,
    };
    let call = call::Measure {
        measure: order.measure.clone(),
        directory: order.directory.clone(),
        device: order.device.clone(),
        seed: order.seed,
        trace_instance: instance,
        mark: order.mark.clone(),
        extra: order.extra,
    };
    let result = session.call_with(call, incoming);
    // A lost agent may have left it; one that answers has removed it.
    if let (Some(lease), false) = (lease, session.is_lost()) {
        journal.release(lease)?;
    }
    Ok(result?)
}

/// A name that no other lab on this host uses.
fn instance_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("fsage-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::target::Target;
    use fsage_model::protocol::{Call as _, Request};

    #[test]
    fn the_trace_instance_is_leased_and_released() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        let order = MeasureOrder {
            measure: MeasureSpec::by_name("grep").unwrap(),
            directory: PathBuf::from("/mnt").into(),
            device: None,
            seed: 1,
            requests: true,
            mark: None,
            extra: None,
        };
        let asked = Arc::new(Mutex::new(Vec::new()));
        for lost in [false, true] {
            let seen = Arc::clone(&asked);
            let mut session = Target::scripted(Box::new(move |request, _| {
                let Request::Measure(call) = request else { return None };
                seen.lock().unwrap().push(call.trace_instance.clone().unwrap());
                (!lost).then(|| call.reply(&MeasureResult::default()))
            }));
            let outcome = measure(&mut session, &mut journal, &order, &mut |_| {});
            assert_eq!(outcome.is_err(), lost);
        }
        let names = asked.lock().unwrap().clone();
        assert!(names.len() == 2 && names[0] != names[1], "{names:?}");
        let left: Vec<_> = journal.outstanding().iter().map(|record| record.lease.clone()).collect();
        assert_eq!(left, [Lease::TraceInstance { name: names[1].clone() }]);
        // Nothing of it is really there.
        let path = journal.path().to_owned();
        drop(journal);
        std::fs::remove_file(path).unwrap();
    }
}
