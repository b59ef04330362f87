//! What is taken from the host and how it is released, whatever happens in between.
//!
//! Fault model: `kill -9` of the lab, the agent, or both at any instruction; a reboot at any instruction.
//! - A lease is on disk (fsynced) before its thing is taken, so that whatever exists has its lease.
//! - The first lease of every run is the agent's process ([`Journal::attach`]). Cleaning ends that process
//!   and all it started, and waits until they are gone, before it releases anything else: nothing can be
//!   taken behind its back by a tool that still runs.
//! - Release goes in reverse order; each step is harmless when the thing is already gone, so that cleaning
//!   can itself be killed and done again.
//! - Journals lie outside of stores, where only this user and root can write (`state`), and a lease is acted
//!   upon only when it is one that fsage takes ([`record::Lease::check`]): a store, or a folder that somebody
//!   made again, names nothing.
//! - A journal is locked by the process that has it open; `clean` refuses a store that is in use.

mod clean;
pub mod disk;
mod error;
mod host;
mod journal;
mod notice;
mod object;
mod place;
pub mod record;
pub(crate) mod runtime;
pub(crate) mod setting;
mod state;
mod undo;

pub use clean::{CleanReport, CleanSummary, Damage, StoreOutcome, StoreReport, are_own, clean, clean_stores};
pub use error::LeaseError;
pub(crate) use journal::ignored;
pub use journal::{Journal, LeaseId};
pub use notice::{LeftOver, left_over};
pub use undo::release;
