//! A volume for the tests of workloads: it has room for so many bytes, and panics when an operation is
//! invalid.

use std::collections::BTreeMap;

use fsage_model::operation::{Action, BLOCK_BYTES, DirectoryEntry, Operation, Outcome};
use fsage_model::quantity::as_f64;
use fsage_sys::errno::ENOSPC;

use super::{AnyWorkload, Feedback, Part, Workload as _};

/// Nothing but data takes room.
pub struct Simulated {
    total: u64,
    room: u64,
    used: u64,
    /// Identity and size of what each name leads to.
    files: BTreeMap<DirectoryEntry, (u64, u64)>,
    /// Things in each directory, and the directory it is in.
    directories: BTreeMap<u32, (u64, u32)>,
    /// Operations between two reads of how full it is.
    pub look_every: u64,
    seen: f64,
    done: u64,
}

impl Simulated {
    pub fn new(total: u64) -> Self {
        Self::with_room(total, total)
    }

    /// One that is full before it says so.
    pub fn with_room(total: u64, room: u64) -> Self {
        let directories = BTreeMap::from([(0, (0, 0))]);
        Self { total, room, used: 0, files: BTreeMap::new(), directories, look_every: 1, seen: 0.0, done: 0 }
    }

    /// Drives a workload to its end.
    pub fn drive(&mut self, workload: &mut AnyWorkload) -> Vec<(Part, Operation, Outcome)> {
        self.drive_for(workload, u64::MAX)
    }

    /// The same, for so many more operations at most.
    pub fn drive_for(&mut self, workload: &mut AnyWorkload, most: u64) -> Vec<(Part, Operation, Outcome)> {
        let mut done = Vec::new();
        let mut nothing = 0;
        if self.done == 0 {
            for directory in workload.initial_directories() {
                self.make_directory(directory.number, directory.parent);
            }
        }
        let end = self.done.saturating_add(most);
        while !workload.is_finished() && self.done < end {
            let Some(operation) = self.next(workload) else {
                nothing += 1;
                assert!(nothing < 1000, "nothing but misses");
                continue;
            };
            nothing = 0;
            let outcome = Outcome { errno: self.apply(&operation), latency_ns: 1 };
            workload.completed(&operation, &outcome);
            self.done += 1;
            done.push((workload.part(), operation, outcome));
        }
        self.check(workload);
        done
    }

    fn next(&mut self, workload: &mut AnyWorkload) -> Option<Operation> {
        if self.done.is_multiple_of(self.look_every) {
            self.seen = self.used_share();
        }
        workload.next(&Feedback { used_share: self.seen, total_bytes: self.total, grow_share: 0.0 })
    }

    /// Share of the volume that is used.
    pub fn used_share(&self) -> f64 {
        as_f64(self.used) / as_f64(self.total)
    }

    /// Whether the workload's own model has come to the same.
    fn check(&self, workload: &AnyWorkload) {
        assert_eq!(workload.live_bytes(), self.used);
        let own: BTreeMap<DirectoryEntry, (u64, u64)> =
            workload.live_files().map(|file| (file.place, (file.file, file.size))).collect();
        assert_eq!(own, self.files);
        let own: Vec<u32> = workload.directories().map(|it| it.number).collect();
        assert_eq!(own, self.directories.keys().copied().skip(1).collect::<Vec<_>>());
    }

    fn resize(&mut self, place: DirectoryEntry, file: u64, size: u64) -> i32 {
        let old = self.files.get(&place).map_or(0, |(_, size)| size.next_multiple_of(BLOCK_BYTES));
        let used = self.used - old + size.next_multiple_of(BLOCK_BYTES);
        if used > self.room {
            return ENOSPC;
        }
        self.used = used;
        if self.files.insert(place, (file, size)).is_none() {
            self.enter(place.directory);
        }
        0
    }

    fn enter(&mut self, directory: u32) {
        self.directories.get_mut(&directory).expect("the directory is there").0 += 1;
    }

    fn leave(&mut self, directory: u32) {
        self.directories.get_mut(&directory).expect("the directory is there").0 -= 1;
    }

    fn make_directory(&mut self, number: u32, parent: u32) {
        self.enter(parent);
        assert!(self.directories.insert(number, (0, parent)).is_none(), "directory {number} is there");
    }

    fn apply(&mut self, operation: &Operation) -> i32 {
        let Operation { action, file, place, size, .. } = *operation;
        assert!(size < 1 << 50 && operation.length() < 1 << 50, "{operation:?}");
        match action {
            Action::Create { length } => {
                assert!(!self.files.contains_key(&place) && length > 0, "{operation:?}");
                assert!(self.directories.contains_key(&place.directory), "{operation:?}");
                return self.resize(place, file, length);
            }
            Action::Mkdir { parent } => self.make_directory(place.directory, parent),
            Action::Rmdir { parent } => {
                let there = self.directories.remove(&place.directory).expect("it is there");
                assert_eq!(there, (0, parent), "{operation:?}");
                self.leave(parent);
            }
            _ => {
                assert_eq!(self.files.get(&place), Some(&(file, size)), "{operation:?}");
                match action {
                    Action::Append { offset, length } => {
                        assert_eq!(offset, size / BLOCK_BYTES * BLOCK_BYTES);
                        assert!(offset + length > size, "{operation:?}");
                        return self.resize(place, file, offset + length);
                    }
                    Action::Delete => {
                        self.files.remove(&place);
                        self.used -= size.next_multiple_of(BLOCK_BYTES);
                        self.leave(place.directory);
                    }
                    Action::Rename { target } => {
                        assert!(!self.files.contains_key(&target), "{operation:?}");
                        self.files.remove(&place);
                        self.leave(place.directory);
                        self.files.insert(target, (file, size));
                        self.enter(target.directory);
                    }
                    Action::Read { .. } | Action::Fsync => {}
                    _ => unreachable!("no workload of ours does that: {operation:?}"),
                }
            }
        }
        0
    }
}
