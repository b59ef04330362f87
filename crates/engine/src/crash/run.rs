//! Doing a load, by one thread or by several, each in a directory of its own.
//!
//! Only the operations of a thread change its directory, and they follow one another. So each thread has a history of
//! its own, in which an operation is placed by the mark that followed it. A whole sync covers what all threads had
//! done before it began; which operations had returned by then is read from a clock that the threads share, whose
//! ticks are taken just before and just after each operation.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

use fsage_model::crash::{CrashOperation, LoadStep};
use fsage_model::disk::call;

use super::CrashError;
use super::generated::Generated;
use super::history::History;
use super::known::is_within;
use super::oracle::FoundTree;
use super::perform::{Done, perform};
use crate::disk::VirtualDisk;
use crate::location::Anchor;

/// What a load did: the history of each thread.
#[derive(Debug, Clone)]
pub struct Histories(Vec<Ran>);

/// What a thread did.
#[derive(Debug, Clone)]
struct Ran {
    /// Its directory; empty: the load's own.
    root: String,
    history: History,
    /// The ticks before and after each operation.
    ticks: Vec<(u64, u64)>,
}

impl Histories {
    /// Each with what was found of it.
    pub fn with_found<'a>(
        &'a self,
        found: &'a FoundTree,
    ) -> impl Iterator<Item = (&'a History, Cow<'a, FoundTree>)> {
        self.0.iter().map(move |ran| (&ran.history, own(found, &ran.root)))
    }

    /// Names that were found in the directory of no thread: nobody made them.
    pub fn strays<'a>(&'a self, found: &'a FoundTree) -> impl Iterator<Item = &'a str> {
        let is_own = |name: &str| self.0.iter().any(|ran| ran.root.is_empty() || is_within(name, &ran.root));
        found.keys().map(String::as_str).filter(move |name| !is_own(name))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &History> {
        self.0.iter().map(|ran| &ran.history)
    }

    /// The operations of all threads, in the order of their marks.
    pub fn steps(&self) -> Vec<LoadStep> {
        let mut steps: Vec<LoadStep> =
            self.all().flat_map(|history| history.steps().iter().cloned()).collect();
        steps.sort_by_key(|step| step.position);
        steps
    }
}

/// What was found in a directory.
fn own<'a>(found: &'a FoundTree, root: &str) -> Cow<'a, FoundTree> {
    if root.is_empty() {
        return Cow::Borrowed(found);
    }
    let own = found.iter().filter(|(name, _)| is_within(name, root));
    Cow::Owned(own.map(|(name, what)| (name.clone(), what.clone())).collect())
}

/// Does the operations of every part at once. `is_script`: none may be left out. When the disk's log is full, each
/// thread stops, with the operation that it was at as one that did not return.
///
/// # Errors
/// An operation fails while there is room in the log; there is no virtual disk below, or it keeps no log.
pub fn run(parts: &[Generated], is_script: bool, directory: &Anchor) -> Result<Histories, CrashError> {
    let disk = VirtualDisk::under(directory.path());
    let disk = disk.ok_or_else(|| CrashError::NoDisk { path: directory.path().display().to_string() })?;
    disk.ask(call::Mark { name: "load".to_owned() })?;
    let clock = AtomicU64::new(0);
    let one = &|part: &Generated| run_part(part, is_script, directory, &disk, &clock);
    let ran: Result<Vec<Ran>, CrashError> = match parts {
        [part] => one(part).map(|ran| vec![ran]),
        parts => std::thread::scope(|scope| {
            let threads: Vec<_> = parts.iter().map(|part| scope.spawn(move || one(part))).collect();
            let ended = threads.into_iter().map(ScopedJoinHandle::join);
            ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        }),
    };
    let mut ran = ran?;
    note_syncs(&mut ran);
    let log = disk.ask(call::Blocks)?;
    ran.iter_mut().for_each(|ran| ran.history.set_log(log.clone()));
    Ok(Histories(ran))
}

fn run_part(
    part: &Generated,
    is_script: bool,
    directory: &Anchor,
    disk: &VirtualDisk,
    clock: &AtomicU64,
) -> Result<Ran, CrashError> {
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let mut history = History::new(part.tree(), part.updates.clone());
    let mut ticks = Vec::new();
    for operation in &part.operations {
        let before = tick();
        let done = perform(directory, history.now(), operation);
        match done {
            Ok(Done::No) if is_script => return Err(CrashError::unknown(operation)),
            Ok(Done::No) => continue,
            Ok(Done::Yes) | Err(_) => ticks.push((before, tick())),
        }
        let marked = disk.ask(call::Mark { name: operation.to_string() })?;
        if marked.full {
            // Whatever it said, what it did may not be in the log; no cut is after the log's end.
            history.push(operation, marked.position.saturating_add(1));
            break;
        }
        done.map_err(CrashError::operation(operation))?;
        history.push(operation, marked.position);
    }
    Ok(Ran { root: part.root.clone(), history, ticks })
}

/// Tells every thread of the whole syncs of the others.
fn note_syncs(all: &mut [Ran]) {
    let mut syncs = Vec::new();
    for (thread, ran) in all.iter().enumerate() {
        let steps = ran.history.steps().iter().zip(&ran.ticks);
        let whole = steps.filter(|(step, _)| step.operation == CrashOperation::Sync);
        syncs.extend(whole.map(|(step, (before, _))| (thread, *before, step.position)));
    }
    for (thread, ran) in all.iter_mut().enumerate() {
        for (_, before, position) in syncs.iter().filter(|(other, _, _)| *other != thread) {
            let returned = ran.ticks.partition_point(|(_, after)| after < before);
            ran.history.note_sync(returned, *position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    fn ran(root: &str, steps: &[(&str, u64, (u64, u64))]) -> Ran {
        let mut history = History::new(Tree::new(1), Vec::new());
        for (operation, position, _) in steps {
            history.push(&operation.parse().unwrap(), *position);
        }
        Ran { root: root.to_owned(), history, ticks: steps.iter().map(|(_, _, ticks)| *ticks).collect() }
    }

    /// The second operation had not returned when the other thread's sync began.
    #[test]
    fn a_sync_covers_what_other_threads_had_done_before_it_began() {
        let own = [("mkdir t0", 5, (0, 1)), ("create t0/a", 9, (2, 6)), ("create t0/b", 30, (7, 8))];
        let other = [("create x", 4, (3, 4)), ("syncfs", 12, (5, 9))];
        let mut all = [ran("t0", &own), ran("", &other)];
        note_syncs(&mut all);
        let [own, other] = &all;
        let at = |cut: u64| {
            let floors = own.history.floors(cut, true);
            (floors.all(), floors.promised_by_another(1), floors.returned, floors.last)
        };
        assert_eq!(at(11), (0, None, 2, 3), "the sync had not returned");
        assert_eq!(at(12), (1, Some(12), 2, 3));
        assert_eq!(other.history.floors(12, true).all(), 2, "by itself");
        assert_eq!(other.history.floors(12, true).promised_by_another(2), None);
        let covered = [0, 1].map(|number| own.history.floors(12, true).is_covered(number));
        assert_eq!(covered, [true, false], "the rest came after it, or may have");
        let steps: Vec<u64> = Histories(all.to_vec()).steps().iter().map(|step| step.position).collect();
        assert_eq!(steps, [4, 5, 9, 12, 30]);
    }

    #[test]
    fn a_thread_is_judged_by_its_own_directory() {
        let names = ["t0", "t0/a", "t1", "t1/a", "t10"];
        let found: FoundTree =
            names.iter().map(|name| ((*name).to_owned(), super::super::oracle::Found::Directory)).collect();
        assert_eq!(own(&found, "t1").keys().collect::<Vec<_>>(), ["t1", "t1/a"]);
        assert_eq!(own(&found, "").len(), 5);
        let histories = Histories(vec![ran("t0", &[]), ran("t1", &[])]);
        assert_eq!(histories.strays(&found).collect::<Vec<_>>(), ["t10"]);
        assert_eq!(Histories(vec![ran("", &[])]).strays(&found).count(), 0);
    }
}
