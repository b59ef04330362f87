//! Crash states: what a disk may hold when power is lost at some point of its request log.
//!
//! The fault model is docs/power.md. In short, for a cut after some requests of the log:
//!
//! - everything before the last flush of its drive that was really done is on the medium ([`CrashState::durable`]: up to there, whatever
//!   the drive);
//! - of what was written after it (the *pending* changes) any subset may be missing, and one request may be
//!   torn at the boundaries of the drive's atomic unit;
//! - changes of the same block keep their order among those that are not missing: a cache holds one version
//!   of a block.
//!
//! `timeline` turns a log into changes with digests of the blocks that they write, so that `plan` can say
//! which states hold the same bytes without making any of them. A state is made as a view of the log
//! ([`crate::store`]): undone and redone change by change from the state before.
//!
//! **Known limit.** The log has requests in the order in which the disk did them. Under concurrency a flush
//! may be issued while a write is answered here and not yet completed in the block layer; such a write
//! counts as durable although the kernel could not rely on it. States are then a little too kind, never too
//! harsh.

mod plan;
mod timeline;

pub use plan::{Plan, plan};
pub use timeline::{Change, Timeline, Unflushed, ZEROS, digest};

#[cfg(doc)]
use fsage_model::crash::CrashState;
