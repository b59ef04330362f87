//! Known findings, and mistakes that look like them: where one condition of a finding is not met, nothing
//! explains the damage.

use super::tests::{history, there};
use super::*;

/// What the first piece of damage of this kind is taken for; everything was done when power was lost.
pub(super) fn pattern(history: &History, found: &FoundTree, kind: DamageKind) -> Option<KnownFinding> {
    let cut = u64::try_from(history.steps().len()).unwrap() * 10;
    pattern_at(history, cut, found, kind)
}

pub(super) fn pattern_at(
    history: &History,
    cut: u64,
    found: &FoundTree,
    kind: DamageKind,
) -> Option<KnownFinding> {
    let missing = history.log().writes.iter().map(|write| write.entry).collect();
    pattern_without(history, cut, found, kind, missing)
}

/// The same where only these requests are missing.
pub(super) fn pattern_without(
    history: &History,
    cut: u64,
    found: &FoundTree,
    kind: DamageKind,
    missing: Vec<u64>,
) -> Option<KnownFinding> {
    let mut floors = history.floors(cut, true);
    floors.missing = missing;
    let damage = judge(history, &floors, found).damage;
    let damage = damage.iter().find(|damage| damage.kind == kind);
    damage.unwrap_or_else(|| panic!("no damage of {}", kind.name())).pattern
}

/// `b` as it was before the load, everything else as after it.
pub(super) fn old_b(history: &History) -> FoundTree {
    let mut found = there(history, history.steps().len());
    found.insert("b".to_owned(), there(history, 0).remove("b").unwrap());
    found
}

pub(super) const BASE: [&str; 7] =
    ["create b", "write b 4096", "create o", "write o 4096", "mkdir one", "create one/x", "create y"];

#[test]
fn a_replaced_file_returns_by_the_finding_only_where_something_else_was_synced_after_the_removal() {
    let known = Some(KnownFinding::BtrfsReplacedFileReturns);
    let start = ["create t", "write t 4096", "rename t b", "fsync b"];
    let of = |rest: &[&str]| {
        let history = history(&BASE, &[&start[..], rest].concat());
        pattern(&history, &old_b(&history), DamageKind::Name)
    };
    assert_eq!(of(&["unlink b", "write o 4096", "fsync o"]), known);
    assert_eq!(of(&["unlink b", "write o 4096", "fdatasync o"]), known);
    assert_eq!(of(&["unlink b", "create one/z", "fsyncdir one"]), known);
    assert_eq!(of(&["rename b e", "write o 4096", "fsync o"]), known);
    // By another name of the new file, or of another file.
    let by_another = |synced: &str| {
        let load = [
            "create t",
            "write t 4096",
            "link t e",
            "rename t b",
            synced,
            "unlink b",
            "write o 4096",
            "fsync o",
        ];
        let history = history(&BASE, &load);
        let found = old_b(&history);
        let damage = judge(&history, &history.floors(900, true), &found).damage;
        damage.iter().find(|damage| damage.path == "b").map(|damage| damage.pattern)
    };
    assert_eq!(by_another("fsync e"), Some(known));
    assert_eq!(by_another("fsync y"), None, "nothing promised the new name");
    assert_eq!(of(&["rename b e", "fsync e"]), known);
    assert_eq!(of(&["link b e", "unlink b", "fsync e"]), known);
    // Nothing was synced since, or before the removal, or there was no removal.
    assert_eq!(of(&["unlink b", "write o 4096"]), None);
    assert_eq!(of(&["write o 4096", "fsync o", "unlink b"]), None);
    assert_eq!(of(&["write o 4096", "fsync o"]), None);
    // The directory was synced, which prevents it.
    assert_eq!(of(&["fsyncdir", "unlink b", "write o 4096", "fsync o"]), None);
    // Everything was.
    assert_eq!(of(&["sync", "unlink b", "write o 4096", "fsync o"]), None);
    assert_eq!(of(&["unlink b", "write o 4096", "fsync o", "fsyncdir"]), None);
    assert_eq!(of(&["unlink b", "write o 4096", "fsync o", "sync"]), None);
}

/// As its own sync does: what it covers is on the medium.
#[test]
fn a_whole_sync_of_another_thread_after_the_replacement_prevents_the_finding() {
    let load = ["create t", "write t 4096", "rename t b", "fsync b", "unlink b", "write o 4096", "fsync o"];
    let of = |covered: usize| {
        let mut history = history(&BASE, &load);
        history.note_sync(covered, 65);
        let floors = history.floors(70, true);
        known::replaced_file_returns(&history, &floors, "b", file_of(&history, "b"))
    };
    assert_eq!([2, 3, 5].map(of), [true, false, false], "the rename is the third operation");
}

/// The file that a name led to before the load.
fn file_of(history: &History, name: &str) -> Identity {
    match history.names(0).unwrap()[name] {
        Node::File(file) => file,
        Node::Directory => panic!("{name} is a directory"),
    }
}

#[test]
fn a_file_that_was_made_in_the_place_of_a_removed_one_brings_that_back_too() {
    let known = Some(KnownFinding::BtrfsReplacedFileReturns);
    let start = ["unlink b", "create b", "write b 4096", "fsync b"];
    let of = |rest: &[&str]| {
        let history = history(&BASE, &[&start[..], rest].concat());
        pattern(&history, &old_b(&history), DamageKind::Name)
    };
    assert_eq!(of(&["rename b e", "write o 4096", "fsync o"]), known);
    assert_eq!(of(&["unlink b", "write o 4096", "fsync o"]), known);
    assert_eq!(of(&["write o 4096", "fsync o"]), None);
    assert_eq!(of(&["rename b e", "write o 4096", "fsync o", "fsyncdir"]), None);
}

/// As btrfs of Linux 6.18 did with such loads.
#[test]
fn an_older_file_that_was_renamed_away_comes_back_only_where_no_name_of_it_is_beside_the_old_one() {
    let of = |link: &str, load: &[&str]| {
        let base =
            [&["mkdir d", "create d/c", "write d/c 8192", "create o", "write o 4096"], &[link][..]].concat();
        let history = history(&base, &[load, &["write o 4096", "fsync o"]].concat());
        let mut found = there(&history, history.steps().len());
        found.insert("d/c".to_owned(), there(&history, 0).remove("d/c").unwrap());
        pattern(&history, &found, DamageKind::Name)
    };
    let known = Some(KnownFinding::BtrfsReplacedFileReturns);
    let new = ["create d/c", "fsync d/c"];
    let of_moved =
        |before: &[&'static str], after: &[&'static str]| of("create y", &[before, &new, after].concat());
    assert_eq!(of_moved(&["rename d/c x"], &["unlink d/c"]), known);
    assert_eq!(of_moved(&["rename d/c x"], &["rename d/c c"]), known);
    assert_eq!(of_moved(&["rename d/c x"], &["unlink d/c", "unlink x"]), known);
    assert_eq!(of_moved(&["rename d/c d/a", "unlink d/a"], &["rename d/c c"]), known);
    assert_eq!(of_moved(&["rename d/c d/a", "rename d/a x"], &["unlink d/c"]), known);
    assert_eq!(of_moved(&["rename d/c d/a"], &["unlink d/a", "unlink d/c"]), known);
    // It has a name there, or is renamed or synced since.
    assert_eq!(of_moved(&["rename d/c d/a"], &["unlink d/c"]), None);
    assert_eq!(of_moved(&["rename d/c d/a"], &["rename d/a x", "unlink d/c"]), None);
    assert_eq!(of_moved(&["rename d/c x"], &["rename x d/a", "unlink d/c"]), None);
    assert_eq!(of_moved(&["rename d/c x", "fsync x"], &["unlink d/c"]), None);
    assert_eq!(of_moved(&["rename d/c x"], &["unlink d/c", "fsync x"]), None);
    // The same with another link.
    let replaced = ["unlink d/c", "create d/c", "fsync d/c", "unlink d/c"];
    assert_eq!(of("link d/c l", &replaced), known);
    assert_eq!(of("link d/c l", &[&replaced[..], &["fsync l"]].concat()), None);
    assert_eq!(of("link d/c d/l", &replaced), None);
    assert_eq!(of("create y", &["exchange d/c o", "fsync d/c", "unlink d/c", "create z", "fsync z"]), None);
}

/// As btrfs of Linux 6.18 did with such loads, but for names that are exchanged with no relation to `b`.
#[test]
fn a_replaced_file_comes_back_however_the_new_one_lost_the_name() {
    let of = |load: &[&str]| {
        let new = ["unlink b", "create b", "fsync b"];
        let history = history(&BASE, &[&new, load, &["write o 4096", "fsync o"]].concat());
        pattern(&history, &old_b(&history), DamageKind::Name)
    };
    let known = Some(KnownFinding::BtrfsReplacedFileReturns);
    assert_eq!(of(&["rename y b"]), known);
    assert_eq!(of(&["create m", "rename m b"]), known);
    assert_eq!(of(&["unlink b", "create m", "fsync m", "rename m b"]), known);
    assert_eq!(of(&["create m", "exchange m b"]), known);
    assert_eq!(of(&["create m", "exchange b m"]), known);
    assert_eq!(of(&["link y m", "exchange m b"]), known);
    assert_eq!(of(&["unlink y", "create y", "exchange y b"]), known);
    // What it was exchanged with was there, or synced.
    assert_eq!(of(&["exchange y b"]), None);
    assert_eq!(of(&["create m", "fsync m", "exchange m b"]), None);
    // The next one was synced by that name, or another name was exchanged.
    assert_eq!(of(&["unlink b", "create b", "write b 4096", "fdatasync b"]), None);
    assert_eq!(of(&["rename b e", "create b", "fsync b"]), None);
    assert_eq!(of(&["create m", "exchange m y"]), None);
}

#[test]
fn an_empty_file_that_comes_back_is_the_one_that_was_there_at_the_last_whole_sync() {
    let load = ["unlink y", "create y", "write y 4096", "fsync y", "rename y e", "write o 4096", "fsync o"];
    let of = |base: &[&str]| {
        let history = history(&[&BASE[..], base].concat(), &load);
        let mut found = there(&history, 7);
        found.insert("y".to_owned(), Found::File(FoundFile::default()));
        let damage = judge(&history, &history.floors(900, true), &found).damage;
        damage.into_iter().find(|damage| damage.path == "y").unwrap()
    };
    assert_eq!(of(&[]).pattern, Some(KnownFinding::BtrfsReplacedFileReturns));
    // It was not empty then: the new file lost what was synced.
    let lost = of(&["write y 4096"]);
    assert_eq!((lost.kind, lost.pattern), (DamageKind::Content, None));
}

/// It was made since, and what was written to it never; a second name says which file it is.
#[test]
fn an_empty_file_that_comes_back_is_the_one_whose_other_name_is_there() {
    let start = ["create n", "write n 4096", "link n one/n", "rename b n", "write n 4096", "fsync n"];
    let pattern = |rest: &[&str], inodes: [u64; 2], second: &str| {
        let history =
            history(&BASE, &[&start[..], &["rename n e", "write o 4096", "fsync o"], rest].concat());
        let mut found = there(&history, history.steps().len());
        let empty = |inode: u64| Found::File(FoundFile { inode, ..FoundFile::default() });
        found.insert("n".to_owned(), empty(inodes[0]));
        found.insert(second.to_owned(), empty(inodes[1]));
        let damage = judge(&history, &history.floors(900, true), &found).damage;
        damage.into_iter().find(|damage| damage.path == "n").unwrap().pattern
    };
    let known = Some(KnownFinding::BtrfsReplacedFileReturns);
    assert_eq!(pattern(&[], [9, 9], "one/n"), known);
    // The new file may have lost what was synced: nothing says which file this is, or another name says another one.
    assert_eq!(pattern(&[], [9, 8], "one/n"), None);
    assert_eq!(pattern(&[], [0, 0], "one/n"), None);
    assert_eq!(pattern(&[], [9, 9], "y"), None);
    // The other name may lead to another file, which was never empty since, or may be.
    assert_eq!(pattern(&["create z", "write z 9", "fsync z", "rename z one/n"], [9, 9], "one/n"), known);
    assert_eq!(pattern(&["create z", "rename z one/n"], [9, 9], "one/n"), None);
    // Also where the rename may not have been done.
    let load =
        [&start[..], &["rename n e", "write o 4096", "fsync o", "create z", "rename z one/n"]].concat();
    let history = history(&BASE, &load);
    let mut found = there(&history, load.len() - 1);
    for name in ["n", "one/n"] {
        found.insert(name.to_owned(), Found::File(FoundFile { inode: 9, ..FoundFile::default() }));
    }
    let of = |cut: u64| {
        let damage = judge(&history, &history.floors(cut, true), &found).damage;
        damage.into_iter().find(|damage| damage.path == "n").unwrap().pattern
    };
    assert_eq!([90, 100].map(of), [known, None]);
}

/// The new file is there, whole, by the name that it was renamed to: the empty one is another.
#[test]
fn an_empty_file_that_comes_back_is_not_the_one_that_is_there_by_its_new_name() {
    let start = ["create n", "write n 4096", "rename b n", "write n 4096"];
    let rest = ["fsync n", "rename n e", "write o 4096", "fsync o"];
    let pattern = |more: &[&str], inodes: [u64; 2], is_whole: bool| {
        let history = history(&BASE, &[&start[..], &rest, more].concat());
        let mut found = there(&history, history.steps().len());
        found.insert("n".to_owned(), Found::File(FoundFile { inode: inodes[0], ..FoundFile::default() }));
        let Some(Found::File(new)) = found.get_mut("e") else { panic!("the new file is there") };
        new.inode = inodes[1];
        if !is_whole {
            new.bytes.clear();
        }
        if let Some(Found::File(z)) = found.get_mut("z") {
            z.inode = inodes[0];
        }
        let damage = judge(&history, &history.floors(900, true), &found).damage;
        damage.into_iter().find(|damage| damage.path == "n").unwrap().pattern
    };
    let known = Some(KnownFinding::BtrfsReplacedFileReturns);
    assert_eq!(pattern(&[], [9, 8], true), known);
    assert_eq!(pattern(&["create x"], [9, 8], true), known);
    assert_eq!(pattern(&["create x", "create z"], [9, 8], true), None, "`z` has the same inode");
    assert_eq!(pattern(&[], [9, 9], true), None, "both names lead to the new file");
    assert_eq!(pattern(&[], [9, 8], false), None);
    assert_eq!(pattern(&[], [0, 0], true), None);
    // What is being renamed over the name may be there, and is nowhere else as another inode.
    let load = [&start[..], &rest, &["rename o n"]].concat();
    let under_way = history(&BASE, &load);
    let mut found = there(&under_way, load.len() - 1);
    found.insert("n".to_owned(), Found::File(FoundFile { inode: 9, ..FoundFile::default() }));
    if let Some(Found::File(new)) = found.get_mut("e") {
        new.inode = 8;
    }
    let of = |cut: u64| {
        let damage = judge(&under_way, &under_way.floors(cut, true), &found).damage;
        damage.into_iter().find(|damage| damage.path == "n").unwrap().pattern
    };
    assert_eq!([70, 80].map(of), [known, None]);
    // The old file had been synced with what was written to it, so it cannot be empty.
    let history = history(&BASE, &[&start[..2], &["fsync n"], &start[2..], &rest].concat());
    let mut found = there(&history, history.steps().len());
    found.insert("n".to_owned(), Found::File(FoundFile { inode: 9, ..FoundFile::default() }));
    let Some(Found::File(new)) = found.get_mut("e") else { panic!("the new file is there") };
    new.inode = 8;
    let damage = judge(&history, &history.floors(900, true), &found).damage;
    assert_eq!(damage.into_iter().find(|damage| damage.path == "n").unwrap().pattern, None);
}

#[test]
fn a_file_that_comes_back_where_a_directory_was_synced_is_no_finding() {
    let load = ["unlink b", "mkdir b", "create b/x", "fsync b/x", "rename b c", "write o 4096", "fsync o"];
    let history = history(&BASE, &load);
    let damage = judge(&history, &history.floors(900, true), &old_b(&history)).damage;
    let of_b = damage.iter().filter(|damage| damage.path == "b");
    assert_eq!(of_b.map(|damage| damage.pattern).collect::<Vec<_>>(), [None]);
}

#[test]
fn a_sync_of_what_was_not_changed_since_the_last_one_writes_nothing() {
    let returns = |rest: &[&str]| {
        let load = [&["create t", "write t 4096", "rename t b", "fsync b", "unlink b"], rest].concat();
        let history = history(&BASE, &load);
        pattern(&history, &old_b(&history), DamageKind::Name).is_some()
    };
    assert!(returns(&["write o 4096", "fsync o"]) && returns(&["truncate o 0", "fdatasync o"]));
    assert!(returns(&["link o p", "fsync o"]) && returns(&["unnamed u 4096"]));
    assert!(!returns(&["fsync o"]) && !returns(&["write y 4096", "fsync o"]));
    assert!(!returns(&["fsyncdir one"]) && !returns(&["write one/x 4096", "fsyncdir one"]));
    assert!(!returns(&["write one/x 4096", "create p", "fsyncdir one"]));
    // Changed before, and another file was synced between; or that file itself was.
    let before = |sync: &str| {
        let load = [
            "write o 4096",
            sync,
            "create t",
            "write t 4096",
            "rename t b",
            "fsync b",
            "unlink b",
            "fsync o",
        ];
        let history = history(&BASE, &load);
        pattern(&history, &old_b(&history), DamageKind::Name).is_some()
    };
    assert!(before("fsync y") && !before("fsync o"));
    // A directory, too.
    let load = [
        "create one/z",
        "fsyncdir one",
        "create t",
        "write t 4096",
        "rename t b",
        "fsync b",
        "unlink b",
        "fsyncdir one",
    ];
    let directory = history(&BASE, &load);
    assert_eq!(pattern(&directory, &old_b(&directory), DamageKind::Name), None);
    // Changed, but synced since.
    let load = ["write o 4096", "fsync o", "create t", "write t 4096", "rename t b", "fsync b", "unlink b"];
    let of = |rest: &[&str]| {
        let history = history(&BASE, &[&load[..], rest].concat());
        pattern(&history, &old_b(&history), DamageKind::Name)
    };
    assert_eq!(of(&["fsync o"]), None);
}

#[test]
fn an_older_file_that_was_not_replaced_by_a_rename_and_synced_is_no_finding() {
    // Removed and made again, and not synced by that name.
    let load = ["unlink b", "create b", "write b 4096", "fsyncdir", "unlink b", "write o 4096", "fsync o"];
    let made_again = history(&BASE, &load);
    assert_eq!(pattern(&made_again, &old_b(&made_again), DamageKind::Name), None);
    // Promised by the directory, not by `fsync` of the file.
    let load = ["create t", "write t 4096", "rename t b", "fsyncdir", "unlink b", "write o 4096", "fsync o"];
    let by_directory = history(&BASE, &load);
    assert_eq!(pattern(&by_directory, &old_b(&by_directory), DamageKind::Name), None);
    // Committed since: the older one is in no tree that the log could be replayed to.
    let load = [
        "create t",
        "write t 4096",
        "rename t b",
        "sync",
        "write b 4096",
        "fsync b",
        "unlink b",
        "write o 4096",
        "fsync o",
    ];
    let committed = history(&BASE, &load);
    assert_eq!(pattern(&committed, &old_b(&committed), DamageKind::Name), None);
}

#[test]
fn the_sync_under_way_may_have_done_it_and_prevents_nothing() {
    let known = Some(KnownFinding::BtrfsReplacedFileReturns);
    let load = ["create t", "write t 4096", "rename t b", "fsync b", "unlink b", "write o 4096", "fsync o"];
    let under_way = history(&BASE, &load);
    assert_eq!(pattern_at(&under_way, 60, &old_b(&under_way), DamageKind::Name), known);
    assert_eq!(pattern_at(&under_way, 50, &old_b(&under_way), DamageKind::Name), None, "it was not begun");
    let load =
        ["create t", "write t 4096", "rename t b", "fsync b", "unlink b", "write o 4096", "fsync o", "sync"];
    let synced = history(&BASE, &load);
    assert_eq!(pattern_at(&synced, 70, &old_b(&synced), DamageKind::Name), known);
    assert_eq!(pattern_at(&synced, 80, &old_b(&synced), DamageKind::Name), None);
}

pub(super) const DIRECTORIES: [&str; 5] = ["mkdir a", "mkdir a/c", "mkdir e", "create o", "write o 4096"];

#[test]
fn a_renamed_directory_has_its_old_name_by_the_finding_only_where_a_file_in_it_was_synced_since() {
    let known = Some(KnownFinding::BtrfsRenamedDirectoryHasOldName);
    // `a` was renamed to `b`, and is found as `a` with what was made since.
    let of = |rest: &[&str], kind: fn(&Damage) -> bool| {
        let history = history(&DIRECTORIES, &[&["rename a b"][..], rest].concat());
        let now = there(&history, history.steps().len());
        let old = |name: String| match name.strip_prefix('b') {
            Some(within) => format!("a{within}"),
            None => name,
        };
        let found: FoundTree = now.into_iter().map(|(name, found)| (old(name), found)).collect();
        let damage = judge(&history, &history.floors(90, true), &found).damage;
        damage.into_iter().find(kind).map(|damage| damage.pattern)
    };
    let gone = |damage: &Damage| damage.path == "b" && damage.what.starts_with("is gone");
    let there = |damage: &Damage| damage.path == "a/x" && damage.what.starts_with("is there");
    let load = ["create b/x", "write b/x 4096", "fsync b/x"];
    assert_eq!(of(&load, gone), Some(known));
    assert_eq!(of(&load, there), Some(known));
    // The directory itself, or the one that its name is in, was synced too.
    for sync in ["fsyncdir b", "fsyncdir", "sync"] {
        assert_eq!(of(&[&load[..], &[sync]].concat(), there), Some(None), "{sync}");
    }
    // It was promised by its own directory alone, or another file was synced.
    assert_eq!(of(&["create b/x", "write b/x 4096", "fsyncdir"], gone), Some(None));
    assert_eq!(of(&["create b/x", "write b/x 4096", "write o 4096", "fsync o"], there), Some(None));
}

/// `a` with everything in it as `to` has it.
pub(super) fn at_old_path(history: &History, from: &str, to: &str) -> FoundTree {
    let now = there(history, history.steps().len());
    let old = |name: String| match name.strip_prefix(to) {
        Some(within) => format!("{from}{within}"),
        None => name,
    };
    now.into_iter().map(|(name, found)| (old(name), found)).collect()
}

#[test]
fn a_directory_with_its_old_path_that_lost_what_was_synced_in_it_is_no_finding() {
    let load = ["rename a b", "create b/x", "write b/x 4096", "fsync b/x"];
    let of = |load: &[&str], change: fn(&mut FoundTree)| {
        let history = history(&DIRECTORIES, load);
        let mut found = at_old_path(&history, "a", "b");
        change(&mut found);
        let damage = judge(&history, &history.floors(90, true), &found).damage;
        assert!(!damage.is_empty());
        damage.iter().all(|damage| damage.pattern.is_some())
    };
    assert!(of(&load, |_| {}));
    assert!(!of(&load, |found| drop(found.remove("a/x"))), "the synced file is nowhere");
    assert!(
        !of(&load, |found| drop(
            found.insert(
                "a/x".into(),
                Found::File(FoundFile { bytes: vec![0; 4096], ..FoundFile::default() })
            )
        )),
        "zeros"
    );
    assert!(!of(&load, |found| drop(found.insert("a/y".into(), Found::Directory))), "a name that never was");
    // A new directory of the old path may be under way.
    let under_way = history(&DIRECTORIES, &[&load[..], &["mkdir a"]].concat());
    let mut found = at_old_path(&history(&DIRECTORIES, &load), "a", "b");
    found.insert("a".to_owned(), Found::Directory);
    let damage = judge(&under_way, &under_way.floors(40, true), &found).damage;
    assert!(damage.iter().any(|damage| damage.pattern.is_none()), "{damage:?}");
    // A directory in it is there by its old path too.
    let deeper = ["rename a b", "mkdir b/d", "create b/d/x", "write b/d/x 4096", "fsync b/d/x"];
    assert!(of(&deeper, |_| {}));
    // A new directory has the old path.
    let again = history(&DIRECTORIES, &[&["rename a b", "mkdir a"], &load[1..]].concat());
    let mut found = there(&again, 5);
    found.remove("b/x");
    let damage = judge(&again, &again.floors(90, true), &found).damage;
    assert!(damage.iter().any(|damage| damage.pattern.is_none()), "{damage:?}");
}
