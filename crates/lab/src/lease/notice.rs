//! What killed labs left, noticed whenever fsage starts: nobody should have to know that there is something
//! to clean.
//!
//! It costs one look into the directory for journals. Their locks are not touched, so that no lab that starts
//! at this moment is told that its store is in use: the journal says which process wrote it. Settings are put
//! back at once, which disturbs nobody, when every process of the dead lab is gone; everything else waits for
//! `fsage clean` or the next run of the store.

use std::path::PathBuf;

use fsage_engine::host::process::Identity;
use fsage_engine::host::setting;

use super::journal::{Journal, boot_id};
use super::record::{Lease, LeaseRecord};
use super::state::{self, Found};

/// What a killed lab left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOver {
    /// Its store, or whatever it worked on.
    pub store: PathBuf,
    /// Settings that were put back just now.
    pub restored: Vec<Lease>,
    /// How many things are still taken.
    pub outstanding: usize,
}

/// Every dead lab of this user that left something, with its settings put back.
#[must_use]
pub fn left_over() -> Vec<LeftOver> {
    let journals = state::journals().unwrap_or_default();
    journals.into_iter().filter_map(look).collect()
}

fn look(found: Found) -> Option<LeftOver> {
    let content = found.peek().ok()?;
    let store = content.opened.as_ref()?.store.clone();
    let boot = boot_id();
    if !content.is_left() {
        return None;
    }
    if content.outstanding.is_empty() {
        // Killed between its last release and the end: anyone who closes an empty journal removes it.
        drop(found.open());
        return None;
    }
    let is_left = |record: &&LeaseRecord| match &record.lease {
        Lease::Process { pid, start_ticks } => {
            record.boot_id == boot && Identity { pid: *pid, start_ticks: *start_ticks }.is_alive()
        }
        Lease::File { .. } | Lease::Directory { .. } => true,
        _ => record.boot_id == boot,
    };
    let left: Vec<&LeaseRecord> = content.outstanding.iter().filter(is_left).collect();
    let set = left.iter().any(|record| matches!(record.lease, Lease::Setting { .. }));
    let ended = !left.iter().any(|record| matches!(record.lease, Lease::Process { .. }));
    let restored = if set && ended {
        found.open().map(|mut journal| put_back(&mut journal)).unwrap_or_default()
    } else {
        Vec::new()
    };
    let outstanding = left.len() - restored.len().min(left.len());
    (outstanding > 0 || !restored.is_empty()).then_some(LeftOver { store, restored, outstanding })
}

/// Puts back every setting of a journal that nobody works with.
fn put_back(journal: &mut Journal) -> Vec<Lease> {
    let boot = boot_id();
    let records: Vec<LeaseRecord> = journal.outstanding().to_vec();
    let mut restored = Vec::new();
    for record in records.into_iter().rev().filter(|record| record.boot_id == boot) {
        let Lease::Setting { path, old, new } = &record.lease else { continue };
        let Ok(held) = journal.hold_settings() else { break };
        let old = journal.value_of_others(path).unwrap_or_else(|| old.clone());
        let done =
            setting::restore(path, &old, new).is_ok() && journal.release(Journal::id_of(&record)).is_ok();
        drop(held);
        if done {
            restored.push(record.lease);
        }
    }
    restored
}
