//! The oracle against trees that are right and wrong in known ways.

use fsage_model::crash::{CrashLoad, CrashLoadSpec, CrashOperation, LoadStep, Promises, promises};

use super::super::history::History;
use super::super::load::generate;
use super::super::tree::Tree;
use super::*;

/// A load of these words (`create a`, `write a 5000`, …) on a tree that has `base`, with ten requests for each
/// operation.
pub(in crate::crash) fn history(base: &[&str], load: &[&str]) -> History {
    let mut tree = Tree::new(1);
    for line in base {
        tree.apply(&operation(line));
    }
    let mut history = History::new(tree, Vec::new());
    for (number, line) in (1..).zip(load) {
        history.push(&operation(line), number * 10);
    }
    history
}

fn operation(line: &str) -> CrashOperation {
    let words: Vec<&str> = line.split(' ').collect();
    let word = |number: usize| (*words.get(number).unwrap()).to_owned();
    match word(0).as_str() {
        "create" => CrashOperation::Create { path: word(1) },
        "write" => {
            CrashOperation::Write { path: word(1), offset_bytes: 0, length_bytes: word(2).parse().unwrap() }
        }
        "truncate" => CrashOperation::Truncate { path: word(1), size_bytes: word(2).parse().unwrap() },
        "punch" => {
            CrashOperation::Punch { path: word(1), offset_bytes: 0, length_bytes: word(2).parse().unwrap() }
        }
        "allocate" => CrashOperation::Allocate { path: word(1), size_bytes: word(2).parse().unwrap() },
        "exchange" => CrashOperation::Exchange { from: word(1), to: word(2) },
        "unnamed" => CrashOperation::LinkUnnamed { path: word(1), length_bytes: word(2).parse().unwrap() },
        "rename" => CrashOperation::Rename { from: word(1), to: word(2) },
        "link" => CrashOperation::Link { from: word(1), to: word(2) },
        "unlink" => CrashOperation::Unlink { path: word(1) },
        "mkdir" => CrashOperation::Mkdir { path: word(1) },
        "setxattr" => CrashOperation::SetAttribute { path: word(1) },
        "removexattr" => CrashOperation::RemoveAttribute { path: word(1) },
        "fdatasync" => CrashOperation::Fdatasync { path: word(1) },
        "fsync" => CrashOperation::Fsync { path: word(1) },
        "fsyncdir" => CrashOperation::FsyncDirectory { path: words.get(1).copied().unwrap_or("").to_owned() },
        "sync" => CrashOperation::Sync,
        other => panic!("{other}"),
    }
}

/// What is there if exactly the first `tree` operations reached the medium.
pub(in crate::crash) fn there(history: &History, tree: usize) -> FoundTree {
    let found = |node: &Node| match node {
        Node::Directory => Found::Directory,
        Node::File(file) => {
            let held = history.held(*file, tree, tree);
            let found = held.last().map(|held| FoundFile {
                bytes: held.bytes(*file),
                attribute: held.attribute(*file),
                inode: 0,
            });
            Found::File(found.unwrap_or_default())
        }
    };
    history.names(tree).unwrap().iter().map(|(name, node)| (name.clone(), found(node))).collect()
}

fn damage(history: &History, cut: u64, fsync_names: bool, found: &FoundTree) -> Vec<(DamageKind, String)> {
    let judgement = judge(history, &history.floors(cut, fsync_names), found);
    judgement.damage.into_iter().map(|damage| (damage.kind, damage.path)).collect()
}

pub(super) fn bytes_of<'a>(found: &'a mut FoundTree, path: &str) -> &'a mut Vec<u8> {
    match found.get_mut(path) {
        Some(Found::File(found)) => &mut found.bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_tree_that_a_load_went_through_is_right_after_it_and_until_the_next_promise() {
    let loads = [
        CrashLoad::Metadata,
        CrashLoad::Metadata,
        CrashLoad::Update,
        CrashLoad::Data,
        CrashLoad::Data,
        CrashLoad::Sequences,
        CrashLoad::Sequences,
        CrashLoad::Append,
    ];
    for (load, seed) in loads.into_iter().zip(1..) {
        let size = match load {
            CrashLoad::Update => 2,
            CrashLoad::Sequences => 20,
            _ => 60,
        };
        let generated = generate(CrashLoadSpec { load, size, seed, threads: 1 }).unwrap();
        let mut history = History::new(generated.tree(), generated.updates.clone());
        for (number, operation) in (1..).zip(&generated.operations) {
            history.push(operation, number * 10);
        }
        for tree in 0..generated.operations.len() {
            let position = u64::try_from(tree).unwrap() * 10;
            for names in [false, true] {
                // Everything was done when power was lost, or the next operation as well.
                for done in [tree, tree + 1] {
                    assert_eq!(
                        damage(&history, position, names, &there(&history, done)),
                        [],
                        "{load:?} {tree} {done}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_was_synced_may_not_be_gone() {
    let history = history(&[], &["create a", "write a 5000", "fsync a", "fsyncdir"]);
    // Nothing is promised of the name before the directory was synced, but by file systems that say so.
    let nothing = FoundTree::new();
    assert_eq!(damage(&history, 30, false, &nothing), []);
    assert_eq!(damage(&history, 30, true, &nothing), [(DamageKind::Name, "a".to_owned())]);
    assert_eq!(damage(&history, 40, false, &nothing), [(DamageKind::Name, "a".to_owned())]);
    assert_eq!(damage(&history, 29, true, &nothing), [], "fsync had not returned");
    // Its content is, whatever is said of the name.
    let mut found = there(&history, 4);
    bytes_of(&mut found, "a").truncate(4096);
    assert_eq!(damage(&history, 30, false, &found), [(DamageKind::Content, "a".to_owned())]);
    assert_eq!(damage(&history, 20, false, &found), []);
    bytes_of(&mut found, "a").clear();
    assert_eq!(damage(&history, 30, false, &found), [(DamageKind::Content, "a".to_owned())]);
}

/// A sync writes what led to the last change of a file; that a directory above it was renamed since then is no part of that.
#[test]
fn a_sync_of_what_was_not_changed_promises_no_new_path() {
    let base = ["mkdir a", "mkdir b", "mkdir a/c", "create a/c/x", "write a/c/x 4096"];
    let gone = |load: &[&str]| {
        let history = history(&base, load);
        damage(&history, u64::try_from(load.len()).unwrap() * 10, true, &there(&history, 0))
    };
    assert_eq!(gone(&["rename a/c b/c", "fsync b/c/x"]), []);
    assert_eq!(gone(&["mkdir b/c", "sync", "rename a/c b/c", "fsync b/c/x"]).len(), 1, "b/c itself");
    let renamed = [(DamageKind::Name, "b/c".to_owned())];
    for change in ["write b/c/x 4096", "setxattr b/c/x", "link b/c/x b/y"] {
        let found = gone(&["rename a/c b/c", change, "fsync b/c/x"]);
        assert!(found.contains(&renamed[0]), "{change}: {found:?}");
    }
    // The directory was changed by the renaming itself.
    assert!(gone(&["rename a/c b/c", "fsyncdir b/c"]).contains(&renamed[0]));
    assert_eq!(
        gone(&["write a/c/x 4096", "rename a/c b/c", "fsync b/c/x"]),
        [(DamageKind::Content, "a/c/x".to_owned())]
    );
}

/// What `fsync` of a file promises of its extended attribute, on file systems that promise it; `fdatasync` does not.
#[test]
fn an_attribute_is_promised_by_fsync_and_by_syncfs() {
    let damage = |load: &[&str], found_after: usize, promises: Promises| {
        let history = history(&["create a", "write a 4096", "setxattr a"], load);
        let cut = u64::try_from(load.len()).unwrap() * 10;
        let mut floors = history.floors(cut, true);
        floors.promises = Some(promises);
        let damage = judge(&history, &floors, &there(&history, found_after)).damage;
        damage.into_iter().map(|damage| (damage.kind, damage.what)).collect::<Vec<_>>()
    };
    let (ext4, posix) = (promises("ext4", &[]).unwrap(), Promises::POSIX);
    let old = "extended attribute: version 2, which is not one that may be there".to_owned();
    for last in ["fsync a", "sync"] {
        assert_eq!(damage(&["setxattr a", last], 0, ext4), [(DamageKind::Content, old.clone())], "{last}");
        assert_eq!(damage(&["setxattr a", last], 2, ext4), []);
        assert_eq!(damage(&["removexattr a", last], 0, ext4), [(DamageKind::Content, old.clone())], "{last}");
    }
    assert_eq!(damage(&["setxattr a", "fsync a"], 0, posix), [], "only syncfs promises it");
    assert_eq!(damage(&["setxattr a", "sync"], 0, posix).len(), 1);
    assert_eq!(damage(&["setxattr a", "fdatasync a"], 0, ext4), []);
    // It may be gone, or be the old one, while nothing was synced.
    assert_eq!(damage(&["removexattr a"], 0, ext4), []);
    assert_eq!(damage(&["removexattr a"], 1, ext4), []);
}

#[test]
fn an_attribute_that_the_file_never_had_is_foreign() {
    let history =
        history(&["create a", "write a 4096", "create b", "write b 4096", "setxattr b"], &["fsync a"]);
    let mut found = there(&history, 1);
    let foreign = [(DamageKind::Foreign, "a".to_owned())];
    let Some(Found::File(other)) = found.get("b").cloned() else { panic!("{found:?}") };
    for value in [other.attribute.unwrap(), b"x".to_vec(), Vec::new()] {
        let Some(Found::File(file)) = found.get_mut("a") else { panic!("no file") };
        file.attribute = Some(value);
        assert_eq!(damage(&history, 10, true, &found), foreign);
    }
    let Some(Found::File(file)) = found.get_mut("b") else { panic!("no file") };
    file.attribute = None;
    assert_eq!(damage(&history, 10, true, &found)[1], (DamageKind::Content, "b".to_owned()));
}

#[test]
fn zeros_old_versions_and_foreign_bytes_are_told_apart() {
    let history =
        history(&["create a", "write a 8192", "create b", "write b 4096"], &["write a 8192", "fsync a"]);
    let mut found = there(&history, 2);
    assert_eq!(damage(&history, 20, false, &found), []);
    let old = there(&history, 0);
    // The old version is allowed until fsync has returned, also of one block only.
    assert_eq!(damage(&history, 10, false, &old), []);
    assert_eq!(damage(&history, 20, false, &old), [(DamageKind::Content, "a".to_owned())]);
    let mut mixed = old.clone();
    let new = bytes_of(&mut found, "a").clone();
    bytes_of(&mut mixed, "a")[4096..].copy_from_slice(&new[4096..]);
    assert_eq!(damage(&history, 10, false, &mixed), []);
    assert_eq!(damage(&history, 20, false, &mixed), [(DamageKind::Content, "a".to_owned())]);
    // Zeros never were there, not even before the sync.
    bytes_of(&mut found, "a")[..4096].fill(0);
    assert_eq!(damage(&history, 10, false, &found), [(DamageKind::Content, "a".to_owned())]);
    // Bytes of another file, and of nobody.
    let other = bytes_of(&mut found, "b").clone();
    bytes_of(&mut found, "a")[..4096].copy_from_slice(&other);
    assert_eq!(damage(&history, 10, false, &found), [(DamageKind::Foreign, "a".to_owned())]);
    bytes_of(&mut found, "a")[..4096].fill(0x55);
    assert_eq!(damage(&history, 10, false, &found), [(DamageKind::Foreign, "a".to_owned())]);
    // A flipped bit.
    let mut found = there(&history, 2);
    bytes_of(&mut found, "a")[5000] ^= 1;
    assert_eq!(damage(&history, 20, false, &found), [(DamageKind::Content, "a".to_owned())]);
}

#[test]
fn unsynced_data_may_be_short_or_zero_and_nothing_else() {
    let history = history(&[], &["create a", "write a 9000", "sync"]);
    for length in [0, 1, 4096, 5000, 9000] {
        let mut found = there(&history, 2);
        bytes_of(&mut found, "a").truncate(length);
        assert_eq!(damage(&history, 20, true, &found), [], "{length}");
        bytes_of(&mut found, "a").fill(0);
        assert_eq!(damage(&history, 20, true, &found), [], "{length} zeros");
    }
    let mut found = there(&history, 2);
    bytes_of(&mut found, "a").push(0);
    assert_eq!(damage(&history, 20, true, &found), [(DamageKind::Content, "a".to_owned())]);
}

#[test]
fn a_rename_neither_loses_nor_doubles_a_file() {
    let history = history(&["create a", "write a 4096"], &["rename a b"]);
    let (old, new) = (there(&history, 0), there(&history, 1));
    assert_eq!(damage(&history, 10, false, &old), []);
    assert_eq!(damage(&history, 10, false, &new), []);
    assert_eq!(damage(&history, 10, false, &FoundTree::new()), [(DamageKind::Name, "a".to_owned())]);
    let both: FoundTree = old.into_iter().chain(new).collect();
    assert_eq!(damage(&history, 10, false, &both), [(DamageKind::Name, "a".to_owned())]);
}

#[test]
fn it_is_said_by_what_something_was_promised() {
    let of = |load: &[&str], by_another: bool| {
        let mut history = history(&["create a"], load);
        if by_another {
            history.note_sync(1, 15);
        }
        let floors = history.floors(90, false);
        judge(&history, &floors, &FoundTree::new()).damage.into_iter().next().unwrap().what
    };
    assert_eq!(of(&["create b"], false), "is gone, although it was there and synced before the load");
    assert_eq!(of(&["create b", "sync"], false), "is gone, although `syncfs` had returned");
    assert_eq!(of(&["create b", "sync"], true), "is gone, although `syncfs` had returned");
    assert_eq!(
        of(&["create b", "create c"], true),
        "is gone, although `syncfs` of another thread had returned"
    );
}

/// Nothing promises that the new name is there before the old one is gone.
#[test]
fn a_file_whose_only_durable_name_was_removed_may_be_nowhere() {
    let history =
        history(&["create a", "write a 4096", "mkdir one"], &["link a one/b", "unlink a", "fsyncdir"]);
    let mut found = there(&history, 3);
    found.remove("one/b");
    assert_eq!(damage(&history, 30, false, &found), []);
    let history = self::history(&["create a", "write a 4096", "mkdir one"], &["rename a one/b", "fsyncdir"]);
    assert_eq!(damage(&history, 20, false, &found), [(DamageKind::Name, "one/b".to_owned())]);
}

#[test]
fn an_older_file_under_a_durable_name_is_damage_of_the_name() {
    let base = ["create a", "write a 4096"];
    let load = ["create n", "write n 4096", "fsync n", "rename n a", "fsyncdir"];
    let history = history(&base, &load);
    let old = there(&history, 0);
    assert_eq!(
        damage(&history, 40, false, &old),
        [],
        "the rename may be missing before the directory is synced"
    );
    let found = damage(&history, 50, false, &old);
    assert!(found.contains(&(DamageKind::Name, "a".to_owned())), "{found:?}");
}

/// docs/power.md, *Findings*: the new file may be there or removed, the old one had been replaced for good.
#[test]
fn a_file_that_was_replaced_durably_does_not_come_back_when_its_successor_goes() {
    let base = ["create b", "write b 4096", "create o"];
    let load = ["create t", "write t 4096", "rename t b", "fsync b", "unlink b", "write o 4096", "fsync o"];
    let history = history(&base, &load);
    let back = |tree: usize| {
        let mut found = there(&history, tree);
        found.insert("b".to_owned(), there(&history, 0).remove("b").unwrap());
        found
    };
    let name = [(DamageKind::Name, "b".to_owned())];
    for done in [4, 5] {
        assert_eq!(damage(&history, 50, true, &there(&history, done)), [], "{done}");
    }
    assert_eq!(damage(&history, 50, true, &back(5)), name);
    assert_eq!(damage(&history, 70, true, &there(&history, 7)), []);
    assert_eq!(damage(&history, 70, true, &back(7)), name);
    // Before fsync returned, and where it promises no names, it may be the old one.
    assert_eq!(damage(&history, 30, true, &there(&history, 0)), []);
    assert_eq!(damage(&history, 70, false, &back(7)), []);
}

/// docs/power.md, *Findings*: one name or the other, not both.
#[test]
fn a_rename_into_a_directory_that_is_synced_leaves_one_name() {
    let base = ["create c", "write c 4096", "mkdir one"];
    let history = history(&base, &["rename c one/c", "fsyncdir one"]);
    let mut found = there(&history, 2);
    assert_eq!(damage(&history, 20, true, &found), []);
    found.insert("c".to_owned(), there(&history, 0).remove("c").unwrap());
    assert_eq!(damage(&history, 20, true, &found), [(DamageKind::Name, "c".to_owned())]);
}

#[test]
fn names_that_never_were_or_were_removed_durably_are_damage() {
    let history = history(&["create a", "write a 10"], &["unlink a", "fsyncdir", "mkdir d"]);
    let mut found = there(&history, 0);
    assert_eq!(damage(&history, 10, false, &found), []);
    let back = damage(&history, 20, false, &found);
    assert!(back.contains(&(DamageKind::Name, "a".to_owned())), "{back:?}");
    found = there(&history, 3);
    assert_eq!(damage(&history, 20, false, &found), []);
    found.insert("x".to_owned(), Found::Directory);
    assert_eq!(damage(&history, 20, false, &found), [(DamageKind::Name, "x".to_owned())]);
    found.insert("x".to_owned(), Found::Unreadable("EIO".to_owned()));
    assert_eq!(damage(&history, 20, false, &found), [(DamageKind::Use, "x".to_owned())]);
}

#[test]
fn what_became_of_a_replaced_file_is_named() {
    let generated =
        generate(CrashLoadSpec { load: CrashLoad::Update, size: 2, seed: 9, threads: 1 }).unwrap();
    let mut history = History::new(generated.tree(), generated.updates.clone());
    for (number, operation) in (1..).zip(&generated.operations) {
        history.push(operation, number * 10);
    }
    let update =
        history.updates().iter().find(|update| update.way == UpdateWay::WriteRename).unwrap().clone();
    let steps: &[LoadStep] = history.steps();
    let cut = steps.get(update.operations.end - 1).unwrap().position;
    let floors = history.floors(cut, true);
    let outcome = |found: &FoundTree| {
        let judgement = judge(&history, &floors, found);
        judgement.updates.into_iter().rev().find(|(way, _)| *way == UpdateWay::WriteRename).unwrap().1
    };
    let (old, new) = (there(&history, update.operations.start), there(&history, update.operations.end));
    assert_eq!(outcome(&old), UpdateOutcome::Old);
    assert_eq!(outcome(&new), UpdateOutcome::New);
    let mut found = new.clone();
    bytes_of(&mut found, &update.path).clear();
    assert_eq!(outcome(&found), UpdateOutcome::Empty);
    found.remove(&update.path);
    assert_eq!(outcome(&found), UpdateOutcome::Missing);
    let mut found = new.clone();
    let bytes = bytes_of(&mut found, &update.path);
    bytes.push(0);
    assert_eq!(outcome(&found), UpdateOutcome::Mixed);
    *bytes_of(&mut found, &update.path) = vec![7; 100];
    assert_eq!(outcome(&found), UpdateOutcome::Foreign);
    // Its first operation may be under way at the cut, or not begun.
    let updates_at = |operations: usize| {
        let cut = steps.get(operations - 1).unwrap().position;
        judge(&history, &history.floors(cut, true), &old).updates.len()
    };
    assert_eq!(updates_at(update.operations.start), updates_at(update.operations.start - 1) + 1);
    // What was synced as a whole at its end is not asked for.
    let mut synced = history.clone();
    synced.note_sync(update.operations.end, cut);
    let updates = judge(&synced, &synced.floors(cut, true), &new).updates;
    assert!(updates.iter().all(|(way, _)| *way != UpdateWay::WriteRename), "{updates:?}");
}

/// What a file held when a sync of another thread began may not be older.
#[test]
fn a_sync_of_another_thread_promises_what_was_written_just_before_it() {
    let mut history = history(&["create a", "write a 4096"], &["write a 4096"]);
    history.note_sync(1, 15);
    assert_eq!(damage(&history, 20, false, &there(&history, 1)), []);
    assert_eq!(damage(&history, 20, false, &there(&history, 0)), [(DamageKind::Content, "a".to_owned())]);
}

#[test]
fn a_name_that_the_operation_under_way_may_have_made_is_compared_too() {
    let history = history(&[], &["create a"]);
    let floors = history.floors(0, true);
    assert_eq!((floors.returned, floors.last), (0, 1));
    let judgement = judge(&history, &floors, &FoundTree::new());
    assert_eq!((judgement.compared, judgement.damage), (1, Vec::new()));
}

/// Files of zeros say nothing of whose they are.
#[test]
fn a_file_of_zeros_may_be_any_of_those_that_a_name_led_to() {
    let load = [
        "create a",
        "allocate a 8192",
        "fsync a",
        "create c",
        "allocate c 8192",
        "fsync c",
        "rename a c",
        "fsync a",
    ];
    let history = history(&["create o"], &load[..7]);
    assert_eq!(damage(&history, 70, true, &there(&history, 7)), []);
    assert_eq!(damage(&history, 70, true, &there(&history, 6)), []);
}

#[test]
fn an_unnamed_file_has_its_content_where_it_has_its_name_and_exchanged_names_lose_no_file() {
    let base = ["create a", "write a 4096", "create b", "write b 8192"];
    let one = history(&base, &["unnamed h 5000", "exchange a b"]);
    for tree in 0..=2 {
        assert_eq!(damage(&one, if tree == 2 { 20 } else { 10 }, true, &there(&one, tree)), [], "{tree}");
    }
    let mut found = there(&one, 1);
    bytes_of(&mut found, "h").clear();
    assert_eq!(damage(&one, 10, true, &found), [(DamageKind::Content, "h".to_owned())]);
    // Half of an exchange: both names lead to one file.
    let mut found = there(&one, 1);
    let b = found["b"].clone();
    found.insert("a".to_owned(), b);
    assert!(!damage(&one, 20, true, &found).is_empty());
}

/// The old file, with bytes of somebody in a block that was never synced, is not the new one with zeros.
#[test]
fn a_file_is_judged_by_the_one_whose_blocks_it_has() {
    let base = ["create a", "write a 12288", "punch a 4096"];
    let history = history(&base, &["truncate a 16384", "rename a b", "unnamed a 4096"]);
    let mut found = there(&history, 1);
    let mut other = vec![0; 4096];
    fsage_content::fill(&mut other, u64::MAX, 0, 1);
    bytes_of(&mut found, "a")[12288..].copy_from_slice(&other);
    let kinds: Vec<DamageKind> =
        damage(&history, 20, true, &found).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [DamageKind::Foreign]);
    // Without a block that says whose it is, by what is not excluded.
    let mut found = there(&history, 1);
    for block in bytes_of(&mut found, "a").chunks_mut(4096).skip(1) {
        fsage_content::fill(block, u64::MAX, 0, 1);
    }
    let mut floors = history.floors(20, true);
    assert_eq!(judge(&history, &floors, &found).damage[0].kind, DamageKind::Content);
    floors.promises = promises("ext4", &["data=writeback".to_owned()]);
    assert_eq!(judge(&history, &floors, &found).damage[0].kind, DamageKind::Foreign);
}
