//! The kernel's timers by a disk's clock.
//!
//! Data is written back when it is so many seconds old, a journal is committed every few seconds: by the
//! wall's clock. On a virtual disk in model time, whose hour may be over in a minute, both would come far too
//! rarely. So an executor there does by the disk's clock what the kernel does by the wall's: every
//! `dirty_writeback_centisecs` it starts to write the files whose first unwritten byte is
//! `dirty_expire_centisecs` old, and it has the file system commit at the interval of its own timer, or of the
//! mount option `commit=`. The kernel's timers go on beside it: what a processor takes passes on the wall only,
//! so that the two together fire as often as in a world where the disk's time and the processor's add up.
//!
//! Limits: the metadata of a file system without a journal is written when the kernel's own timer or a sync
//! comes. What is written back this way is done between two operations, and the next one is charged with it,
//! but for what is done in a pause (see `pause`).

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use fsage_model::filesystem::{self, CommitBy, FileSystemFacts, MetadataBy};
use fsage_model::operation::{Action, DirectoryEntry, Operation};
use fsage_sys::btrfs;
use rustix::fd::BorrowedFd;
use rustix::fs::{self, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use crate::host::{mount, read_trimmed};

/// Files that may be waiting to be old enough; beyond it the oldest are left to the kernel.
const MOST_WAITING: usize = 1 << 20;

/// How long the kernel and the file system let things wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelTimers {
    /// Nanoseconds between two searches for data that is old enough; 0: it is never searched for.
    every_ns: u64,
    /// Age of such data.
    expire_ns: u64,
    /// Nanoseconds between two commits; 0: there are none.
    commit_ns: u64,
    commit_by: CommitBy,
}

impl KernelTimers {
    /// Those of this host and of the file system that is mounted where `directory` is.
    #[must_use]
    pub fn under(directory: &Path) -> Self {
        let vm = |name: &str, usual: u64| {
            let text = read_trimmed(Path::new("/proc/sys/vm").join(name));
            text.parse().unwrap_or(usual).saturating_mul(10_000_000)
        };
        let mounted = mount::holding(directory);
        let row = mounted.as_ref().and_then(|entry| filesystem::by_name(&entry.file_system));
        let commit = row.map_or(FileSystemFacts::unknown("").commit, |row| row.commit);
        let options = mounted.map(|entry| entry.options).unwrap_or_default();
        Self {
            every_ns: vm("dirty_writeback_centisecs", 500),
            expire_ns: vm("dirty_expire_centisecs", 3000),
            commit_ns: commit_seconds(&options, commit.seconds).saturating_mul(1_000_000_000),
            commit_by: commit.by,
        }
    }
}

/// What the mount options say, or else `usual`.
fn commit_seconds(options: &[String], usual: u64) -> u64 {
    let said = options.iter().rev().find_map(|option| option.strip_prefix("commit=")?.parse().ok());
    said.filter(|seconds| *seconds > 0).unwrap_or(usual)
}

/// The timers of one thread of a load.
#[derive(Debug)]
pub(super) struct Timers {
    limits: KernelTimers,
    /// Whether the thread is the one that has the file system commit.
    commits: bool,
    next_search_ns: u64,
    next_commit_ns: u64,
    /// File → when its first unwritten byte was written, and its place.
    dirty: HashMap<u64, (u64, DirectoryEntry)>,
    /// The same by age; what has another time in `dirty` by now does not count.
    order: VecDeque<(u64, u64)>,
    /// Of a load with pauses, what waits beside the data of files.
    pauses: Option<Pauses>,
}

/// What is waiting where a disk may be idle for longer than the timers take.
#[derive(Debug)]
struct Pauses {
    metadata: MetadataBy,
    /// Since when metadata that is committed waits to be written to its place.
    metadata_since_ns: Option<u64>,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// Files to start writing, the oldest first.
    pub(super) files: Vec<DirectoryEntry>,
    /// A commit.
    pub(super) commit: bool,
    /// Metadata that is old enough, to its place.
    pub(super) metadata: bool,
}

impl Timers {
    /// From now on; one thread of a volume's is the one that `commits`.
    pub(super) fn new(limits: KernelTimers, commits: bool, now_ns: u64) -> Self {
        let mut timers = Self {
            limits,
            commits: commits && limits.commit_ns > 0,
            next_search_ns: u64::MAX,
            next_commit_ns: u64::MAX,
            dirty: HashMap::new(),
            order: VecDeque::new(),
            pauses: None,
        };
        timers.wind(now_ns, true, true);
        timers
    }

    /// For a load of one thread that the disk may be idle in: the time to a commit begins with the first
    /// change after the last one, as in jbd2 and btrfs, so that nothing is committed where nothing was
    /// changed, and metadata gets to its place.
    pub(super) fn with_pauses(self, metadata: MetadataBy) -> Self {
        let pauses = Pauses { metadata, metadata_since_ns: None };
        Self { pauses: Some(pauses), next_commit_ns: u64::MAX, ..self }
    }

    /// When the next one goes off.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_search_ns.min(self.next_commit_ns)
    }

    /// Lets the timers that went off run again.
    fn wind(&mut self, now_ns: u64, search: bool, commit: bool) {
        if search && self.limits.every_ns > 0 {
            self.next_search_ns = now_ns.saturating_add(self.limits.every_ns);
        }
        if commit && self.commits {
            self.next_commit_ns = now_ns.saturating_add(self.limits.commit_ns);
        }
    }

    /// Whether one has gone off.
    #[inline]
    pub(super) const fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_search_ns || now_ns >= self.next_commit_ns
    }

    /// What those that have gone off are for; they run again.
    pub(super) fn take(&mut self, now_ns: u64) -> Due {
        let (search, commit) = (now_ns >= self.next_search_ns, now_ns >= self.next_commit_ns);
        let mut files = Vec::new();
        if search {
            let before_ns = now_ns.saturating_sub(self.limits.expire_ns);
            while let Some((since_ns, file)) = self.order.front().copied()
                && since_ns <= before_ns
            {
                self.order.pop_front();
                if self.dirty.get(&file).is_some_and(|(known_ns, _)| *known_ns == since_ns) {
                    files.extend(self.dirty.remove(&file).map(|(_, place)| place));
                }
            }
        }
        let Some(pauses) = &mut self.pauses else {
            self.wind(now_ns, search, commit);
            return Due { files, commit, metadata: false };
        };
        let before_ns = now_ns.saturating_sub(self.limits.expire_ns);
        let metadata =
            search && pauses.metadata_since_ns.take_if(|since_ns| *since_ns <= before_ns).is_some();
        if commit {
            self.committed(now_ns);
        }
        self.wind(now_ns, search, false);
        // Their new places are a change.
        if !files.is_empty() && !commit {
            self.changed(now_ns);
        }
        Due { files, commit, metadata }
    }

    /// The time to the next commit begins, unless it has begun.
    fn changed(&mut self, now_ns: u64) {
        if self.commits && self.pauses.is_some() && self.next_commit_ns == u64::MAX {
            self.next_commit_ns = now_ns.saturating_add(self.limits.commit_ns);
        }
    }

    /// Nothing is left to commit.
    fn committed(&mut self, now_ns: u64) {
        self.next_commit_ns = u64::MAX;
        if let Some(pauses) = &mut self.pauses
            && pauses.metadata == MetadataBy::Device
        {
            pauses.metadata_since_ns.get_or_insert(now_ns);
        }
    }

    /// Takes note of an operation that was done; data of those that went past the page cache is not among it.
    pub(super) fn note(&mut self, operation: &Operation, now_ns: u64, through_cache: bool) {
        match operation.action {
            // Times of access: see docs/wear.md.
            Action::Read { .. } | Action::RandomRead { .. } => {}
            // Times may be left in the running transaction.
            Action::Fdatasync => self.changed(now_ns),
            // The journal is committed with it. btrfs writes a log tree instead, and its transaction goes on.
            Action::Fsync => {
                if self.pauses.as_ref().is_some_and(|pauses| pauses.metadata == MetadataBy::Device) {
                    self.committed(now_ns);
                }
            }
            _ => self.changed(now_ns),
        }
        match operation.action {
            Action::Create { .. }
            | Action::Append { .. }
            | Action::Overwrite
            | Action::RandomWrite { .. }
                if through_cache =>
            {
                let Operation { file, place, .. } = *operation;
                let entry = self.dirty.entry(file);
                if let std::collections::hash_map::Entry::Vacant(_) = entry {
                    self.order.push_back((now_ns, file));
                }
                entry.or_insert((now_ns, place)).1 = place;
                if self.order.len() > MOST_WAITING
                    && let Some((since_ns, oldest)) = self.order.pop_front()
                    && self.dirty.get(&oldest).is_some_and(|(known_ns, _)| *known_ns == since_ns)
                {
                    self.dirty.remove(&oldest);
                }
            }
            Action::Rename { target } => {
                if let Some(dirty) = self.dirty.get_mut(&operation.file) {
                    dirty.1 = target;
                }
            }
            Action::Delete | Action::Fsync | Action::Fdatasync => {
                self.dirty.remove(&operation.file);
            }
            _ => {}
        }
    }

    /// Has the file system of `top` commit. What fails is found by the next sync.
    pub(super) fn commit(&self, top: BorrowedFd<'_>) {
        let pauses = self.pauses.is_some();
        let _ = match self.limits.commit_by {
            CommitBy::StartSync => btrfs::start_commit(top).and_then(|transaction| match pauses {
                // Over long before the load goes on.
                true => btrfs::wait_for_commit(top, transaction),
                false => Ok(()),
            }),
            CommitBy::Sync => fsage_sys::syncfs(top),
            CommitBy::Fsync => {
                // ext4 commits whatever is running for a directory (`ext4_fsync_journal`, since Linux 5.10):
                // nothing is added to it where each commit counts.
                if !pauses {
                    // The time of access alone: what makes the directory part of the running transaction.
                    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
                    let left = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
                    let _ = fs::futimens(top, &Timestamps { last_access: now, last_modification: left });
                }
                let _ = fs::fsync(top);
                Ok(())
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const USUAL: KernelTimers =
        KernelTimers { every_ns: 5 * S, expire_ns: 30 * S, commit_ns: 5 * S, commit_by: CommitBy::Fsync };

    fn operation(action: Action, file: u64) -> Operation {
        let place = DirectoryEntry { directory: 0, name: file };
        Operation { action, file, place, size: 0, version: 1 }
    }

    #[test]
    fn data_is_written_when_it_is_old_and_once() {
        let mut timers = Timers::new(USUAL, false, 0);
        timers.note(&operation(Action::Create { length: 1 }, 1), S, true);
        timers.note(&operation(Action::Create { length: 1 }, 2), 4 * S, true);
        timers.note(&operation(Action::Create { length: 1 }, 3), 20 * S, false);
        // Written again, it is as old as its first unwritten byte.
        timers.note(&operation(Action::Overwrite, 1), 29 * S, true);
        assert!(!timers.is_due(4 * S) && timers.is_due(5 * S));
        assert_eq!(timers.take(5 * S), Due::default());
        assert!(!timers.is_due(9 * S));
        let names = |due: Due| due.files.iter().map(|place| place.name).collect::<Vec<_>>();
        assert_eq!(names(timers.take(31 * S)), [1]);
        assert!(!timers.is_due(35 * S), "it runs again from when it went off");
        timers.note(&operation(Action::Append { offset: 0, length: 1 }, 1), 35 * S, true);
        assert_eq!(names(timers.take(36 * S)), [2]);
        assert_eq!(names(timers.take(64 * S)), [0_u64; 0]);
        assert_eq!(names(timers.take(70 * S)), [1]);
        assert_eq!(names(timers.take(200 * S)), [0_u64; 0]);
    }

    #[test]
    fn what_is_gone_synced_or_renamed_is_known() {
        let mut timers = Timers::new(USUAL, false, 0);
        for file in 1..=4 {
            timers.note(&operation(Action::Create { length: 1 }, file), S, true);
        }
        timers.note(&operation(Action::Delete, 1), S, true);
        timers.note(&operation(Action::Fsync, 2), S, true);
        let target = DirectoryEntry { directory: 7, name: 9 };
        timers.note(&operation(Action::Rename { target }, 3), S, true);
        let due = timers.take(40 * S);
        assert_eq!(due.files, [target, DirectoryEntry { directory: 0, name: 4 }]);
        assert!(!due.commit, "another thread commits");
    }

    #[test]
    fn one_thread_commits_at_the_file_systems_interval() {
        let mut timers = Timers::new(KernelTimers { commit_ns: 30 * S, ..USUAL }, true, 7 * S);
        assert!(!timers.take(12 * S).commit);
        assert!(timers.take(37 * S).commit);
        assert!(!timers.take(42 * S).commit);
        let never = KernelTimers { every_ns: 0, commit_ns: 0, ..USUAL };
        assert!(!Timers::new(never, true, 0).is_due(u64::MAX - 1));
    }

    /// What is due at these seconds, and what is done right after: files, a commit, metadata.
    fn paced(metadata: MetadataBy, steps: &[(u64, Option<Action>)]) -> Vec<(u64, usize, bool, bool)> {
        let mut timers = Timers::new(USUAL, true, 0).with_pauses(metadata);
        let mut seen = Vec::new();
        for &(at, action) in steps {
            while timers.next_ns() <= at * S {
                let now_ns = timers.next_ns();
                let Due { files, commit, metadata } = timers.take(now_ns);
                if !files.is_empty() || commit || metadata {
                    seen.push((now_ns / S, files.len(), commit, metadata));
                }
            }
            if let Some(action) = action {
                timers.note(&operation(action, 1), at * S, true);
            }
        }
        seen
    }

    #[test]
    fn what_may_be_idle_commits_changes_alone_and_writes_old_metadata() {
        let steps = [
            (3, Some(Action::Read { length: 1 })),
            (12, Some(Action::Create { length: 1 })),
            (13, Some(Action::Overwrite)),
            (300, None),
        ];
        let device = paced(MetadataBy::Device, &steps);
        // Five seconds after the first change; what is 30 s old at the next search; its place, 5 s after that.
        let wanted = [(17, 0, true, false), (45, 1, false, false), (50, 0, true, true)];
        assert_eq!(device, [&wanted[..], &[(80, 0, false, true)]].concat());
        let commit = paced(MetadataBy::Commit, &steps);
        assert_eq!(commit, [(17, 0, true, false), (45, 1, false, false), (50, 0, true, false)]);
    }

    #[test]
    fn a_sync_commits_a_journal_and_leaves_its_metadata_to_be_written() {
        let steps = [(12, Some(Action::Create { length: 1 })), (12, Some(Action::Fsync)), (300, None)];
        assert_eq!(paced(MetadataBy::Device, &steps), [(45, 0, false, true)]);
        assert_eq!(paced(MetadataBy::Commit, &steps), [(17, 0, true, false)], "a log tree is no commit");
    }

    #[test]
    fn mount_options_say_when_a_journal_is_committed() {
        let options = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(commit_seconds(&options("rw,commit=60"), 5), 60);
        assert_eq!(commit_seconds(&options("rw,commit=0"), 5), 5);
        assert_eq!(commit_seconds(&options("rw"), 30), 30);
        let of_proc = KernelTimers::under(Path::new("/proc"));
        assert_eq!((of_proc.commit_by, of_proc.commit_ns), (CommitBy::Sync, 30 * S));
    }
}
