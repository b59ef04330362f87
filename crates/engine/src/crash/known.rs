//! Whether damage comes up under the conditions of a known finding (docs/power.md, *Findings*).
//!
//! What is wrong may have another cause than the finding that it looks like. So each finding is recognised by what was
//! done and promised, and by the requests of the log; where one condition is not met the damage stays unexplained.
//! The operation that may have been under way at the cut counts as done where it does the damage, and as not done
//! where it would have prevented it. The file system itself is asked for where a finding is named
//! ([`fsage_model::crash::KnownFinding::of`]).

use std::collections::BTreeSet;

use fsage_model::crash::{CrashOperation, LoadStep};

use super::history::{Floors, History, Target};
use super::links::{Links, OldNames};
use super::tree::{Identity, Node, parent};

/// The operation with this number, and of the tree before it.
fn steps(history: &History, from: usize, to: usize) -> impl Iterator<Item = (usize, &LoadStep)> {
    (from..).zip(history.steps().get(from..to).unwrap_or_default())
}

/// What a name leads to before operation `number`.
fn file_at(history: &History, number: usize, name: &str) -> Option<Identity> {
    match history.names(number)?.get(name)? {
        Node::File(file) => Some(*file),
        Node::Directory => None,
    }
}

impl<'a> Target<'a> {
    /// What operation `number` syncs by itself, if anything.
    fn synced_by(history: &History, number: usize, operation: &'a CrashOperation) -> Option<Self> {
        match operation {
            CrashOperation::Fsync { path } | CrashOperation::Fdatasync { path } => {
                file_at(history, number, path).map(Self::File)
            }
            CrashOperation::FsyncDirectory { path } => Some(Self::Directory(path)),
            // The unnamed file was synced before it got its name.
            CrashOperation::LinkUnnamed { path, .. } => file_at(history, number + 1, path).map(Self::File),
            _ => None,
        }
    }

    fn is(self, other: Target<'_>) -> bool {
        match (self, other) {
            (Self::File(one), Target::File(other)) => one == other,
            (Self::Directory(one), Target::Directory(other)) => one == other,
            _ => false,
        }
    }

    /// Whether it had been changed when operation `number` synced it: of what was not, nothing is written.
    fn had_changed(self, history: &History, number: usize) -> bool {
        let before = history.steps().get(..number).unwrap_or_default().iter().enumerate().rev();
        let mut decided = before.filter_map(|(number, LoadStep { operation, .. })| {
            if history.is_changed(self, number) {
                return Some(true);
            }
            let synced = Target::synced_by(history, number, operation);
            let is_synced = *operation == CrashOperation::Sync || synced.is_some_and(|other| self.is(other));
            is_synced.then_some(false)
        });
        decided.next().unwrap_or(false)
    }
}

/// Whether something that had been changed, and is neither this node nor one of these directories, was synced by itself
/// in operations `from..to`.
fn another_was_synced(
    history: &History,
    (from, to): (usize, usize),
    node: Option<Node>,
    directories: &[&str],
) -> bool {
    steps(history, from, to).any(|(number, step)| {
        Target::synced_by(history, number, &step.operation).is_some_and(|target| {
            let is_other = match target {
                Target::File(file) => node != Some(Node::File(file)),
                Target::Directory(path) => !directories.contains(&path),
            };
            let is_unnamed = matches!(step.operation, CrashOperation::LinkUnnamed { .. });
            is_other && (is_unnamed || target.had_changed(history, number))
        })
    })
}

/// The file that operation `number` syncs by itself, by its name.
fn synced_file(history: &History, number: usize, step: &LoadStep) -> Option<Identity> {
    match &step.operation {
        CrashOperation::Fsync { path } | CrashOperation::Fdatasync { path } => file_at(history, number, path),
        _ => None,
    }
}

/// Whether a sync of this file by itself returned in operations `from..`.
fn was_synced(history: &History, floors: &Floors, from: usize, file: Identity) -> bool {
    steps(history, from, floors.returned)
        .any(|(number, step)| synced_file(history, number, step) == Some(file))
}

/// Whether a sync of a file by itself returned in operations `from..`, while it had this name.
fn was_synced_as(history: &History, floors: &Floors, from: usize, name: &str) -> bool {
    steps(history, from, floors.returned).any(|(number, step)| {
        let file = synced_file(history, number, step);
        file.is_some() && file == file_at(history, number, name)
    })
}

/// Whether a whole sync, or one of this directory, returned in operations `from..`.
fn was_committed(history: &History, floors: &Floors, from: usize, directory: &str) -> bool {
    floors.is_covered(from)
        || steps(history, from, floors.returned).any(|(_, step)| match &step.operation {
            CrashOperation::Sync => true,
            CrashOperation::FsyncDirectory { path } => path == directory,
            _ => false,
        })
}

/// *The file that was replaced comes back*: `name` led to `older`, which lost it, and then to another file, which was synced by this or
/// another of its names; the name was removed, renamed, replaced or exchanged with a new name; then something that had been changed, maybe that
/// file, was synced by itself, when `older` had no name in the same directory, and no file was while it had `name`. Since `older` lost the name neither it nor
/// the directory nor the whole file system was synced, and since the other file was, `older` was not renamed.
pub fn replaced_file_returns(history: &History, floors: &Floors, name: &str, older: Identity) -> bool {
    let Some(promise) = floors.name(name).checked_sub(1) else { return false };
    let is_of_file = |path: &str| {
        let file = file_at(history, promise, path);
        file.is_some() && file == file_at(history, promise, name)
    };
    let by_itself = history
        .steps()
        .get(promise)
        .is_some_and(|step| matches!(&step.operation, CrashOperation::Fsync { path } if is_of_file(path)));
    let lost = steps(history, 0, promise).filter(|(number, _)| {
        file_at(history, *number, name) == Some(older) && file_at(history, number + 1, name) != Some(older)
    });
    let is_new = |number: usize, name: &str| {
        file_at(history, number, name).is_some_and(|file| {
            file_at(history, floors.all(), name) != Some(file)
                && !was_synced(history, floors, floors.all(), file)
        })
    };
    let removed = steps(history, promise, floors.returned).find(|(number, step)| match &step.operation {
        CrashOperation::Unlink { path } => path == name,
        CrashOperation::Rename { from, to } => from == name || to == name,
        // What is on the medium by the other name would be logged.
        CrashOperation::Exchange { from, to } => {
            from == name && is_new(*number, to) || to == name && is_new(*number, from)
        }
        _ => false,
    });
    let (Some((lost, step)), Some((removed, _))) = (lost.last(), removed) else { return false };
    let is_beside = |tree: usize| {
        let mut names = history.names(tree).into_iter().flatten();
        names.any(|(other, node)| *node == Node::File(older) && parent(other) == parent(name))
    };
    let is_moved = |step: &LoadStep, number: usize| match &step.operation {
        CrashOperation::Rename { from, .. } => file_at(history, number, from) == Some(older),
        _ => false,
    };
    by_itself
        && !matches!(step.operation, CrashOperation::Exchange { .. })
        && (removed + 1..floors.last).any(|synced| {
            another_was_synced(history, (synced, synced + 1), None, &[parent(name)])
                && !is_beside(synced)
                && !steps(history, promise, synced).any(|(number, step)| is_moved(step, number))
        })
        && !was_synced(history, floors, lost, older)
        && !was_synced_as(history, floors, removed, name)
        && !was_committed(history, floors, lost, parent(name))
}

/// *A renamed file has both names*: some of `names` are what links of the file were called before a rename, while others
/// are what those links were called later, in another directory, and without the old ones, one of each such link, the file can have
/// them all at once; then something else than the file and the old directory was synced by itself; and since the rename
/// neither of the two nor the whole file system was.
pub fn renamed_file_has_both_names(
    history: &History,
    floors: &Floors,
    (file, links): (Identity, &Links),
    names: &[&str],
) -> bool {
    let mut old = OldNames::new();
    for (number, step) in steps(history, floors.all(), floors.returned) {
        let CrashOperation::Rename { from, .. } = &step.operation else { continue };
        let Some(link) = links.which(number, from) else { continue };
        let mut later = links.later_names(link, number);
        let may_be_left = later.any(|name| parent(name) != parent(from) && names.contains(&name))
            && !was_synced(history, floors, number + 1, file)
            && another_was_synced(
                history,
                (number + 1, floors.last),
                Some(Node::File(file)),
                &[parent(from)],
            )
            && !was_committed(history, floors, number, parent(from));
        if may_be_left {
            old.entry(link).or_default().insert(from.as_str());
        }
    }
    links.most_at_once(names, &old) == names.len()
}

/// The one name that a file had from one tree to another, if it had only one.
fn only_name(history: &History, file: Identity, from: usize, to: usize) -> Option<&str> {
    let names: BTreeSet<&str> = (from..=to).flat_map(|tree| history.names_of(file, tree)).collect();
    names.first().copied().filter(|_| names.len() == 1)
}

/// *A renamed file is gone*: `file` was renamed, or its name exchanged, away from a name that it had at the last whole sync; then a file
/// that was made since, and had no other name, was synced by itself while it had that name. Since the rename, only files were synced that
/// had one name, always the same, in a directory that was there at the last whole sync: for everything else f2fs writes a checkpoint, with the
/// new name in it (`need_do_checkpoint()` in fs/f2fs/file.c).
pub fn renamed_file_is_gone(history: &History, floors: &Floors, file: Identity) -> bool {
    let all = floors.all();
    let was_moved = |number: usize, step: &LoadStep, name: &str| {
        let is_named = match &step.operation {
            CrashOperation::Rename { from, .. } => from == name,
            CrashOperation::Exchange { from, to } => from == name || to == name,
            _ => false,
        };
        is_named && file_at(history, number, name) == Some(file)
    };
    let was_there =
        |path: &str| path.is_empty() || history.names(all).is_some_and(|names| names.contains_key(path));
    // What operation `number` syncs by itself without a checkpoint: a file, by its only name.
    let without_checkpoint = |number: usize, step: &LoadStep| {
        let synced = synced_file(history, number, step)?;
        let name = only_name(history, synced, all, number).filter(|name| was_there(parent(name)))?;
        Some((synced, name))
    };
    let new_name = |number: usize, step: &LoadStep| {
        let (synced, name) = without_checkpoint(number, step)?;
        history.names_of(synced, all).is_empty().then_some(name)
    };
    let is_checkpoint = |number: usize, step: &LoadStep| match &step.operation {
        CrashOperation::Sync | CrashOperation::FsyncDirectory { .. } | CrashOperation::LinkUnnamed { .. } => {
            true
        }
        CrashOperation::Fsync { .. } | CrashOperation::Fdatasync { .. } => {
            without_checkpoint(number, step).is_none()
        }
        _ => false,
    };
    history.names_of(file, all).iter().any(|name| {
        steps(history, all, floors.returned).any(|(moved, step)| {
            was_moved(moved, step, name)
                && !floors.is_covered(moved)
                && steps(history, moved + 1, floors.last)
                    .any(|(number, step)| new_name(number, step) == Some(name))
                && !steps(history, moved, floors.returned).any(|(number, step)| is_checkpoint(number, step))
        })
    })
}

/// Whether `path` is `directory` or something in it.
pub fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A path when `from` is called `to`, if it is that or something in it.
pub fn moved(path: &str, from: &str, to: &str) -> Option<String> {
    is_within(path, from).then(|| format!("{to}{}", path.strip_prefix(from).unwrap_or_default()))
}

/// Whether nothing of a file can be on the medium: no name led to it at the last whole sync, and since then neither the file
/// nor a directory that it had a name in was synced.
fn is_only_in_memory(history: &History, floors: &Floors, file: Identity) -> bool {
    let has_name = |tree: usize, within: Option<&str>| {
        history
            .names_of(file, tree)
            .iter()
            .any(|name| within.is_none_or(|directory| parent(name) == directory))
    };
    !has_name(floors.all(), None)
        && !steps(history, floors.all(), floors.returned).any(|(number, step)| {
            match Target::synced_by(history, number, &step.operation) {
                Some(Target::File(synced)) => synced == file,
                Some(Target::Directory(path)) => has_name(number, Some(path)),
                None => false,
            }
        })
}

/// Whether after operation `number`, which gave `name` to another file, a directory was synced in which the file that had the name
/// before has a name that is newer than the last whole sync, while it had another one in the directory of `name`.
fn replaced_got_synced_name(history: &History, floors: &Floors, number: usize, name: &str) -> bool {
    let Some(replaced) = file_at(history, number, name) else { return false };
    steps(history, number + 1, floors.last).any(|(number, step)| {
        let CrashOperation::FsyncDirectory { path } = &step.operation else { return false };
        let mut own = history.names_of(replaced, number);
        own.remove(name);
        let is_new = |name: &str| file_at(history, floors.all(), name) != Some(replaced);
        own.iter().any(|name| parent(name) == path && is_new(name))
            && own.iter().any(|other| parent(other) == parent(name))
            && Target::Directory(path).had_changed(history, number)
    })
}

/// Something that was moved over a name.
#[derive(Clone, Copy)]
struct Move<'a> {
    number: usize,
    from: &'a str,
    moved: Node,
}

/// Whether after a move over `name` the file that had the name was synced by itself, while it had another name in the directory of
/// `name`. It had got no name since the last whole sync, and lost some only to what was moved over them; and until the move nothing but
/// this file that had been changed was synced. What was moved is back where it was at the last whole sync; or it is a file that is
/// `nowhere`, and the other one was changed after the move.
fn replaced_was_synced(
    history: &History,
    floors: &Floors,
    name: &str,
    Move { number, from, moved }: Move<'_>,
    (is_back, is_nowhere): (bool, bool),
) -> bool {
    let Some(replaced) = file_at(history, number, name) else { return false };
    let own = |tree: usize| history.names_of(replaced, tree);
    let was_only_replaced = |to: usize| {
        steps(history, floors.all(), to).all(|(number, step)| {
            let (mut before, after) = (own(number), own(number + 1));
            if let CrashOperation::Rename { to, .. } = &step.operation {
                before.remove(to.as_str());
            }
            before == after
        })
    };
    let was_there = history.names(floors.all()).and_then(|names| names.get(from)) == Some(&moved);
    let was_changed =
        |to: usize| (number + 1..to).any(|number| history.is_changed(Target::File(replaced), number));
    !another_was_synced(history, (floors.all(), number), Some(Node::File(replaced)), &[])
        && steps(history, number + 1, floors.last).any(|(synced, step)| {
            synced_file(history, synced, step) == Some(replaced)
                && own(synced).iter().any(|other| parent(other) == parent(name))
                && was_only_replaced(synced)
                && (is_back && was_there || is_nowhere && was_changed(synced))
        })
}

/// Where things are after a cut.
pub trait Whereabouts {
    /// Whether this is at a name, as far as can be seen.
    fn is_at(&self, name: &str, node: Node) -> bool;

    /// Whether there is a name with blocks of this file and of no other.
    fn is_somewhere(&self, file: Identity) -> bool;
}

/// *A name that was replaced is gone*: `name` was promised by a sync of its directory, of what it led to, or of a file in it;
/// a file or directory was moved over it (after a sync of the directory: from another one), and is back at an old name, or is
/// a file that is nowhere and may be, because it was only in memory; `found` tells what is there; then something
/// else than what was moved and its directories had been changed and was synced by itself; and since the move neither
/// what was moved nor one of its directories nor the whole file system was. However it was promised, it is gone by this finding
/// too where that sync was of a directory in which the replaced file has a new name, while it has another beside the replaced one;
/// and where it was of the replaced file by another of its names ([`replaced_was_synced`]).
pub fn replaced_name_is_gone(
    history: &History,
    floors: &Floors,
    name: &str,
    found: &impl Whereabouts,
) -> bool {
    let floor = floors.name(name);
    // Where it is that of `syncfs`, of this or another thread, that promised it.
    let promise = floor.checked_sub(1).filter(|_| floor > floors.all());
    let promise = promise.and_then(|number| history.steps().get(number));
    let (by_directory, by_itself) = match promise.map(|step| &step.operation) {
        Some(CrashOperation::FsyncDirectory { path }) => (path == parent(name), false),
        Some(CrashOperation::Fsync { path }) => (false, is_within(path, name)),
        _ => (false, false),
    };
    let mut moves = steps(history, floor, floors.last).filter_map(|(number, step)| match &step.operation {
        CrashOperation::Rename { from, to } if to == name => {
            let names = history.names(number)?;
            names.get(name)?;
            Some(Move { number, from, moved: *names.get(from)? })
        }
        _ => None,
    });
    let was_promised = |Move { number, from, .. }: Move<'_>| {
        by_itself
            || by_directory && parent(from) != parent(name)
            || replaced_got_synced_name(history, floors, number, name)
    };
    let was_synced_since = |tree: usize, path: &str, node: Node| match node {
        Node::File(file) => was_synced(history, floors, tree, file),
        Node::Directory => was_committed(history, floors, tree, path),
    };
    let may_be_nowhere = |moved: Node| match moved {
        Node::File(file) => !found.is_somewhere(file) && is_only_in_memory(history, floors, file),
        Node::Directory => false,
    };
    // By its old name, or by one that this link had before it was called so.
    let is_back = |Move { number, from, moved }: Move<'_>| {
        let is_at_older = |file: Identity| {
            let links = Links::of(history, floors, file);
            links.earlier_names(number, from).any(|name| found.is_at(name, moved))
        };
        found.is_at(from, moved) || matches!(moved, Node::File(file) if is_at_older(file))
    };
    moves.any(|over @ Move { number, from, moved }| {
        let is_nowhere = may_be_nowhere(moved);
        (was_promised(over) && (is_nowhere || is_back(over))
            || replaced_was_synced(history, floors, name, over, (found.is_at(from, moved), is_nowhere)))
            && !was_synced_since(number, name, moved)
            && another_was_synced(
                history,
                (number + 1, floors.last),
                Some(moved),
                &[name, parent(name), parent(from)],
            )
            && !was_committed(history, floors, number, parent(name))
            && !was_committed(history, floors, number, parent(from))
    })
}

/// The directories, by their old and new paths, of which *a renamed directory has its old name* may come up: a directory of
/// the last whole sync was renamed, and nothing had its old path since; then a file in it that had been changed was synced
/// by its new path; and since the rename neither the directory nor those that its names are in were synced, nor the whole
/// file system.
pub fn renamed_directories<'a>(history: &'a History, floors: &Floors) -> Vec<(&'a str, &'a str)> {
    let committed = history.names(floors.all());
    let renamed = steps(history, floors.all(), floors.returned).filter_map(|(number, step)| {
        let CrashOperation::Rename { from, to } = &step.operation else { return None };
        let synced_in_it = || {
            steps(history, number + 1, floors.returned).any(|(number, step)| match &step.operation {
                CrashOperation::Fsync { path } if path != to && is_within(path, to) => {
                    Target::synced_by(history, number, &step.operation)
                        .is_some_and(|target| target.had_changed(history, number))
                }
                _ => false,
            })
        };
        let never_again = || {
            let mut trees = number + 1..=floors.last;
            trees.all(|tree| history.names(tree).is_none_or(|names| !names.contains_key(from)))
        };
        let is_known = committed.and_then(|names| names.get(from)) == Some(&Node::Directory)
            && never_again()
            && synced_in_it()
            && ![to.as_str(), parent(to), parent(from)]
                .iter()
                .any(|directory| was_committed(history, floors, number, directory));
        is_known.then_some((from.as_str(), to.as_str()))
    });
    renamed.collect()
}

/// *`syncfs` leaves written blocks in the cache of the drive*: tree `floor` was promised by `syncfs`, and of
/// each of these blocks of the file the log has the version of that tree, before `syncfs` had returned and with no
/// flush after it, in requests that are missing. A block that the log does not have was not written at all, and one that is not missing
/// was not lost by the drive, which are other matters.
pub fn syncfs_without_flush(
    history: &History,
    floors: &Floors,
    floor: usize,
    file: Identity,
    mut blocks: impl Iterator<Item = u64>,
) -> bool {
    let own = floor.checked_sub(1).and_then(|number| history.steps().get(number));
    let own = own.filter(|step| step.operation == CrashOperation::Sync).map(|step| step.position);
    let held = history.held(file, floor, floor).pop();
    let promise = own.or(floors.promised_by_another(floor)).zip(held);
    promise.is_some_and(|(until, held)| {
        blocks.all(|number| {
            let version = held.block(number).version;
            let mut requests = history.log().requests(file, number * 4096, version, until);
            history.log().is_unflushed(file, number * 4096, version, until)
                && requests.all(|write| floors.missing.contains(&write.entry))
        })
    })
}
