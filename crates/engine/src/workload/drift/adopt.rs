//! Beginning with the files that an earlier load left.

use fsage_model::quantity::index;

use super::Drift;
use super::directory::DirectoryTable;
use super::slot::{NONE, Slot};
use crate::workload::{LeftTree, LiveFile};

/// Bits of a file's identity that number it within its thread's.
const OWN: u64 = (1 << 48) - 1;

impl Drift {
    /// Puts the files of `tree` into slots, in the order of their names and spread evenly, so that a choice by
    /// nearness finds neighbours in time near each other, as it did when they were made.
    ///
    /// # Errors
    /// There are more files than slots; a profile is to be followed.
    pub(in crate::workload) fn adopt(&mut self, tree: &LeftTree) -> Result<(), String> {
        if self.grow.is_some() {
            return Err("a load that follows a profile (`like`) cannot continue an earlier one".to_owned());
        }
        let (files, slots) = (tree.files.len(), index(self.slots.count()));
        if files > slots {
            return Err(format!(
                "the earlier load left {files} files, and a thread has {slots} slots: raise `slots`"
            ));
        }
        self.directories = DirectoryTable::adopted(&self.directories, &tree.directories);
        for (n, LiveFile { file, place, size, version, .. }) in tree.files.iter().copied().enumerate() {
            // Less than the number of slots, and never twice the same: there are as many slots or more.
            let slot = u32::try_from(n * slots / files).unwrap_or(u32::MAX);
            let (name, directory) = (place.name, place.directory);
            let kept = Slot { file, name, size, directory, version, reserved: 0, attached: NONE };
            self.slots.create(slot, kept);
            self.directories.enter(directory);
            self.next_file = self.next_file.max(file & OWN);
            self.next_name = self.next_name.max(name + 1);
        }
        self.initial.clone_from(&tree.directories);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fsage_model::load::WriteMode;
    use fsage_model::operation::{DirectoryEntry, OperationKind, Outcome};
    use fsage_model::workload::DriftSpec;

    use super::*;
    use crate::tree::Directory;
    use crate::workload::{Feedback, ResolveContext, Workload as _};

    fn drift(slots: u64, weights: &[(OperationKind, f64)]) -> Drift {
        let weights = weights.iter().copied().collect();
        let spec = DriftSpec { slots, weights, ..DriftSpec::default() };
        let context = ResolveContext { volume_bytes: 1 << 30, write_mode: WriteMode::Buffered };
        Drift::resolve(&spec, 0, 1, 7, &context).unwrap()
    }

    fn tree() -> LeftTree {
        let file = |n: u64| {
            let place = DirectoryEntry { directory: if n < 3 { 5 } else { 0 }, name: 10 * n };
            LiveFile { file: 100 + n, place, size: 4096 * n, version: 3, links: 1 }
        };
        let directories = vec![Directory { number: 2, parent: 0 }, Directory { number: 5, parent: 2 }];
        LeftTree { directories, files: (0..8).map(file).collect() }
    }

    #[test]
    fn it_knows_what_was_left() {
        let mut drift = drift(20, &[(OperationKind::Create, 1.0)]);
        drift.adopt(&tree()).unwrap();
        assert_eq!(drift.initial_directories(), tree().directories);
        let files: BTreeSet<LiveFile> = drift.live_files().collect();
        assert_eq!(files, tree().files.into_iter().collect());
        assert_eq!(drift.live_bytes(), 4096 * 28);
        // What is made next is nobody else's.
        let made = drift.next(&Feedback::default()).unwrap();
        assert!(made.file > 107 && made.place.name > 70, "{made:?}");
        assert!([0, 2, 5].contains(&made.place.directory), "{made:?}");
    }

    #[test]
    fn what_was_left_is_written_to_as_what_it_is() {
        let mut drift = drift(8, &[(OperationKind::Create, 0.1), (OperationKind::Append, 1.0)]);
        drift.adopt(&tree()).unwrap();
        for _ in 0..50 {
            let Some(operation) = drift.next(&Feedback::default()) else { continue };
            assert_eq!(operation.kind(), OperationKind::Append);
            assert!(
                tree().files.iter().any(|file| file.file == operation.file && file.place == operation.place)
            );
            assert!(operation.version > 3, "{operation:?}");
            drift.completed(&operation, &Outcome { errno: 0, latency_ns: 1 });
        }
    }

    #[test]
    fn more_files_than_slots_are_refused() {
        let mut drift = drift(7, &[(OperationKind::Create, 1.0)]);
        let error = drift.adopt(&tree()).unwrap_err();
        assert!(error.contains("8 files") && error.contains("7 slots"), "{error}");
    }
}
