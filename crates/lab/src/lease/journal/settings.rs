//! What a journal knows of the leases that others have on a setting of the host: other branches of it, and other labs,
//! wherever these keep their journals.

use std::fs::File;
use std::path::Path;

use super::{Content, Journal, boot_id};
use crate::lease::error::LeaseError;
use crate::lease::place::Trusted;
use crate::lease::record::{Lease, LeaseRecord};
use crate::lease::{host, state};

impl Journal {
    /// Holds all settings of the host: while this is held no other lab sets or releases one.
    ///
    /// # Errors
    /// The lock cannot be had.
    pub(in crate::lease) fn hold_settings(&self) -> Result<File, LeaseError> {
        host::hold(&self.shared.directory)
    }

    /// Says in which directory this journal is, before a setting is leased in it. The settings are held.
    ///
    /// # Errors
    /// It cannot be written.
    pub(in crate::lease) fn list_directory(&self) -> Result<(), LeaseError> {
        host::list(&self.shared.directory)
    }

    /// The leases that other branches and other labs of this boot have on a setting, wherever these keep their journals.
    pub(in crate::lease) fn others_on(&self, path: &Path) -> Vec<LeaseRecord> {
        self.of_others(path, |_| true)
    }

    /// The same; `counts` says of the journals of another directory which are asked.
    fn of_others(&self, path: &Path, counts: impl Fn(&Content) -> bool) -> Vec<LeaseRecord> {
        let boot = boot_id();
        let peek = |directory: &Trusted| {
            let names = state::names(directory).unwrap_or_default().into_iter();
            names.filter_map(|name| Some((Self::peek(directory, &name).ok()?, name))).collect::<Vec<_>>()
        };
        let here = peek(&self.shared.directory).into_iter().filter(|(_, name)| *name != self.shared.name);
        let elsewhere = host::others(&self.shared.directory);
        let elsewhere = elsewhere.iter().flat_map(peek).filter(|(content, _)| counts(content));
        let labs = here.chain(elsewhere).flat_map(|(content, _)| content.outstanding);
        self.of_other_branches()
            .into_iter()
            .chain(labs)
            .filter(|record| matches!(&record.lease, Lease::Setting { path: other, .. } if other == path))
            .filter(|record| record.boot_id == boot)
            .collect()
    }

    /// The value that another branch or lab has a setting at. Of the labs in another directory the living ones count: what
    /// a dead one left is put back by the next one there, and perhaps never.
    pub(in crate::lease) fn value_of_others(&self, path: &Path) -> Option<String> {
        let others = self.of_others(path, |content| !content.is_left());
        others.into_iter().rev().find_map(|record| match record.lease {
            Lease::Setting { new, .. } => Some(new),
            _ => None,
        })
    }
}
