//! Runs a load from its specification to its result.

use super::{Control, LoadError, LoadResult, LoadSink, LoadSpec};

/// Runs a load: makes the initial directories (untimed), starts the threads, probes, and returns when a
/// stop condition is met. Blocks the calling thread, which the sink is called from.
///
/// # Errors
/// Before anything is done: a missing, read-only or used directory, a specification that makes no sense.
/// Later: the device stopped working, a probe failed.
pub fn run(spec: &LoadSpec, control: &Control, sink: &mut dyn LoadSink) -> Result<LoadResult, LoadError> {
    let _ = (control, sink);
    Err(LoadError::Spec { what: format!("loads of {} threads cannot be run yet", spec.threads) })
}
