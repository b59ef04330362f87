//! The known finding about names that were replaced and are gone, and mistakes that look like it.

use super::known_tests::{BASE, DIRECTORIES, old_b, pattern, pattern_at};
use super::tests::{history, there};
use super::*;

#[test]
fn a_replaced_name_is_gone_by_the_finding_only_where_something_else_was_synced_after_the_move() {
    let known = Some(KnownFinding::BtrfsReplacedNameIsGone);
    // `b` was moved over `one/d`, and is back where it was.
    let of = |promise: &str, rest: &[&str]| {
        let history = history(&BASE, &[&["create one/d", promise][..], rest].concat());
        let mut found = old_b(&history);
        found.remove("one/d");
        pattern(&history, &found, DamageKind::Name)
    };
    let promise = "fsyncdir one";
    assert_eq!(of(promise, &["rename b one/d", "write o 4096", "fsync o"]), known);
    assert_eq!(of(promise, &["rename b one/d", "write one/x 4096", "fsync one/x"]), known);
    assert_eq!(of("fsync one/d", &["rename b one/d", "write o 4096", "fsync o"]), known);
    // Promised by everything: not seen.
    assert_eq!(of("sync", &["rename b one/d", "write o 4096", "fsync o"]), None);
    // Nothing else was synced, or it was before the move, or the file, its new directory or everything was too.
    assert_eq!(of(promise, &["rename b one/d", "write o 4096"]), None);
    assert_eq!(of(promise, &["write o 4096", "fsync o", "rename b one/d"]), None);
    assert_eq!(of(promise, &["rename b one/d", "fsync one/d"]), None);
    assert_eq!(of(promise, &["rename b one/d", "write o 4096", "fsync o", "fsync one/d"]), None);
    assert_eq!(of(promise, &["rename b one/d", "write o 4096", "fsync o", "fsyncdir one"]), None);
    assert_eq!(of(promise, &["rename b one/d", "write o 4096", "fsync o", "sync"]), None);
    // Of what was synced only the old directory, or the moved file.
    assert_eq!(of(promise, &["rename b one/d", "fsyncdir"]), None);
    // It was not moved from another directory.
    assert_eq!(of(promise, &["rename one/x one/d", "write o 4096", "fsync o"]), None);
}

#[test]
fn a_renamed_file_is_gone_by_the_finding_only_where_a_new_file_was_synced_by_its_name() {
    let known = Some(KnownFinding::F2fsRenamedFileIsGone);
    // What was `b` is not there by its new name; where that was exchanged, it leads to what it led to before.
    let of = |load: &[&str]| {
        let history = history(&BASE, load);
        let mut found = there(&history, load.len());
        found.remove("e");
        found.insert("y".to_owned(), there(&history, 0).remove("y").unwrap());
        pattern(&history, &found, DamageKind::Name)
    };
    let new = ["create b", "write b 4096", "fsync b"];
    assert_eq!(of(&[&["rename b e"][..], &new].concat()), known);
    assert_eq!(of(&[&["rename b e"][..], &new, &["create z", "fsync z"]].concat()), known);
    assert_eq!(of(&[&["exchange b y", "unlink b"][..], &new].concat()), known);
    // A file that was there before is synced without a checkpoint, too.
    assert_eq!(of(&[&["rename b e"][..], &new, &["write o 4096", "fsync o"]].concat()), known);
    // The new file was not synced, or before the rename another one, or it has two names, or it was renamed itself.
    assert_eq!(of(&["rename b e", "create b", "write b 4096"]), None);
    assert_eq!(of(&["rename b e", "create z", "fsync z", "create b", "write b 4096"]), None);
    assert_eq!(of(&["rename b e", "create b", "link b z", "fsync b"]), None);
    assert_eq!(of(&["rename b e", "create z", "rename z b", "fsync b"]), None);
    assert_eq!(of(&["rename b e", "rename o b", "write b 4096", "fsync b"]), None);
    // A checkpoint has the new name: of a directory, of a file with two names, of one that was renamed, or of one in a new directory.
    for synced in [
        &["fsyncdir one"][..],
        &["link o z", "write o 4096", "fsync o"],
        &["rename o z", "write z 4096", "fsync z"],
        &["mkdir two", "create two/z", "fsync two/z"],
    ] {
        assert_eq!(of(&[&["rename b e"][..], &new, synced].concat()), None, "{synced:?}");
    }
}

/// What its own sync promised nothing of; this is as if the name had been promised by everything.
#[test]
fn a_name_that_a_sync_of_another_thread_promised_too_is_not_gone_by_the_finding() {
    let load = ["create one/d", "fsyncdir one", "rename b one/d", "write o 4096", "fsync o"];
    let of = |covered: usize| {
        let mut history = history(&BASE, &load);
        if covered > 0 {
            history.note_sync(covered, 25);
        }
        let mut found = old_b(&history);
        found.remove("one/d");
        pattern(&history, &found, DamageKind::Name)
    };
    assert_eq!(
        [0, 1, 2].map(of),
        [Some(KnownFinding::BtrfsReplacedNameIsGone), Some(KnownFinding::BtrfsReplacedNameIsGone), None]
    );
}

#[test]
fn within_one_directory_a_replaced_name_is_gone_by_the_finding_only_where_the_file_itself_was_synced() {
    let of = |promise: &str, rest: &[&str]| {
        let history = history(&BASE, &[&["create d", promise, "rename b d"][..], rest].concat());
        let mut found = old_b(&history);
        found.remove("d");
        pattern(&history, &found, DamageKind::Name)
    };
    let known = Some(KnownFinding::BtrfsReplacedNameIsGone);
    assert_eq!(of("fsync d", &["write o 4096", "fsync o"]), known);
    assert_eq!(of("fsync d", &["write o 4096"]), None);
    assert_eq!(of("fsync d", &["write o 4096", "fsync o", "fsyncdir"]), None);
    assert_eq!(of("fsyncdir", &["write o 4096", "fsync o"]), None);
}

/// Loads like these were tried on btrfs of Linux 6.18, and are damaged there where they are a finding here.
#[test]
fn a_replaced_name_is_gone_however_it_was_promised_where_the_replaced_file_got_a_name_that_was_synced() {
    let base = ["mkdir two", "mkdir one", "create two/e", "link two/e two/d", "link two/e one/old"];
    let of = |load: &[&str]| {
        let load = [&["create two/b"], load].concat();
        let history = history(&base, &load);
        let mut found = there(&history, load.len());
        assert!(found.remove("two/e").is_some());
        pattern(&history, &found, DamageKind::Name)
    };
    let known = Some(KnownFinding::BtrfsReplacedNameIsGone);
    assert_eq!(of(&["link two/e one/d", "rename two/b two/e", "fsyncdir one"]), known);
    assert_eq!(of(&["rename two/b two/e", "link two/d one/d", "fsyncdir one"]), known);
    assert_eq!(of(&["rename one/old one/new", "rename two/b two/e", "fsyncdir one"]), known);
    let moved = ["rename two/b two/e", "rename two/d two/f", "link one/old one/d", "fsyncdir one"];
    assert_eq!(of(&moved), known);
    // The file itself was synced, or no name in the synced directory is new, or none is left beside the replaced one.
    assert_eq!(of(&["link two/e one/d", "rename two/b two/e", "fsync one/d"]), None);
    assert_eq!(of(&["create one/z", "rename two/b two/e", "fsyncdir one"]), None);
    assert_eq!(of(&["link one/old x", "rename two/b two/e", "create one/z", "fsyncdir one"]), None);
    let removed = ["rename two/b two/e", "unlink two/d", "link one/old one/d", "fsyncdir one"];
    assert_eq!(of(&removed), None);
    // The new file, its directory or everything was synced since, or the sync came first.
    let load = ["link two/e one/d", "rename two/b two/e", "fsyncdir one"];
    for sync in ["fsync two/e", "fsyncdir two", "sync"] {
        assert_eq!(of(&[&load[..], &[sync]].concat()), None, "{sync}");
    }
    assert_eq!(of(&["link two/e one/d", "fsyncdir one", "rename two/b two/e"]), None);
}

/// Loads like these were tried on btrfs of Linux 6.18, and are damaged there where they are a finding here.
#[test]
fn a_replaced_name_is_gone_where_the_replaced_file_was_synced_by_another_name_that_it_had_before() {
    let base = [
        "mkdir one",
        "mkdir two",
        "create one/a",
        "create one/b",
        "create two/o",
        "create two/a",
        "link one/b one/d",
    ];
    let of = |links: &[&str], load: &[&str]| {
        let history = history(&[&base, links].concat(), load);
        // The file that was moved is back, the name that it had replaced is gone.
        let mut found = there(&history, load.len());
        found.remove("one/b");
        found.extend(there(&history, 0).into_iter().filter(|(name, _)| name.ends_with("/a")));
        pattern(&history, &found, DamageKind::Name)
    };
    let known = Some(KnownFinding::BtrfsReplacedNameIsGone);
    let moved = "rename one/a one/b";
    for sync in ["fsync one/d", "fdatasync one/d"] {
        assert_eq!(of(&[], &[moved, sync]), known, "{sync}");
    }
    assert_eq!(of(&[], &["rename two/a one/b", "fsync one/d"]), known);
    assert_eq!(of(&[], &[moved, "write two/o 4096", "fsync two/o", "fsync one/d"]), known);
    assert_eq!(of(&[], &["write one/d 100", "fsync one/d", moved, "fsync one/d"]), known);
    assert_eq!(of(&["link one/b one/e"], &[moved, "fsync one/d"]), known);
    assert_eq!(of(&["link one/b two/d"], &[moved, "fsync two/d"]), known);
    assert_eq!(of(&["link one/a two/z"], &[moved, "fsync one/d"]), known);
    // The sync may have been under way.
    let under_way = history(&base, &[moved, "fsync one/d"]);
    let mut found = there(&under_way, 0);
    found.remove("one/b");
    let at = |cut: u64| pattern_at(&under_way, cut, &found, DamageKind::Name);
    assert_eq!([20, 10].map(at), [known, known]);
    // Another name in the same directory was lost otherwise, or is new, or there is none.
    assert_eq!(of(&["link one/b one/e"], &[moved, "unlink one/e", "fsync one/d"]), None);
    assert_eq!(of(&[], &[moved, "rename one/d one/f", "fsync one/f"]), None);
    assert_eq!(of(&[], &[moved, "rename one/d two/f", "fsync two/f"]), None);
    assert_eq!(of(&[], &["link one/d one/g", moved, "fsync one/d"]), None);
    // Another file was synced; or what was moved, one of its directories or everything since.
    assert_eq!(of(&[], &[moved, "write two/o 4096", "fsync two/o"]), None);
    for sync in ["fsync one/b", "fdatasync one/b", "fsyncdir one", "sync"] {
        assert_eq!(of(&[], &[moved, sync, "fsync one/d"]), None, "{sync}");
    }
    assert_eq!(of(&[], &["rename two/a one/b", "fsyncdir two", "fsync one/d"]), None);
    // Something else that had been changed was synced before the move.
    for before in ["write two/o 100", "write one/a 100"] {
        let sync = before.replace("write", "fsync").replace(" 100", "");
        assert_eq!(of(&[], &[before, &sync, moved, "fsync one/d"]), None, "{before}");
    }
    assert_eq!(of(&[], &["create one/x", "fsyncdir one", moved, "fsync one/d"]), None);
    assert_eq!(
        of(&[], &["create one/x", "fsyncdir one", "write one/d 1", "fsync one/d", moved, "fsync one/d"]),
        None
    );
    assert_eq!(of(&[], &["create two/x", "fsyncdir two", "rename two/a one/b", "fsync one/d"]), None);
    assert_eq!(of(&[], &["fsyncdir one", moved, "fsync one/d"]), known, "nothing had been changed");
    // It was renamed before.
    assert_eq!(of(&[], &["rename one/a two/z", "rename two/z one/b", "fsync one/d"]), None);
    // The whole sync is one of the load.
    assert_eq!(of(&[], &["link one/b one/g", "sync", moved, "fsync one/g"]), known);
    // Other names are lost in the same way, or the name goes on to something else.
    assert_eq!(of(&["link one/b one/e"], &[moved, "rename two/o one/e", "fsync one/d"]), known);
    assert_eq!(of(&[], &[moved, "exchange one/b two/o", "fsync one/d"]), known);
}

#[test]
fn what_was_moved_over_the_name_of_a_synced_file_is_back_by_that_link_or_nowhere() {
    let base = ["mkdir one", "create one/b", "link one/b one/d", "create one/a", "link one/a z"];
    let of = |load: &[&str], back: &[&str]| {
        let history = history(&base, load);
        let mut found = there(&history, load.len());
        found.remove("one/b");
        for name in back {
            found.insert((*name).to_owned(), there(&history, 0).remove(*name).unwrap());
        }
        pattern(&history, &found, DamageKind::Name)
    };
    let known = Some(KnownFinding::BtrfsReplacedNameIsGone);
    let moved = ["rename one/a one/b", "fsync one/d"];
    assert_eq!(of(&moved, &["one/a"]), known);
    assert_eq!(of(&moved, &[]), None, "`z` is another link");
    let other = ["fsync one/b", "rename one/a one/b", "write one/d 4096", "fsync one/d"];
    assert_eq!(of(&other, &["one/a"]), known);
    assert_eq!(of(&other, &[]), None, "promised by its own sync, too");
    // A new file is nowhere, and the synced one was changed since the move or not.
    let new = |change: &[&'static str]| [&["create n", "rename n one/b"], change, &["fsync one/d"]].concat();
    assert_eq!(of(&new(&["write one/d 100"]), &[]), known);
    assert_eq!(of(&new(&[]), &[]), None);
}

#[test]
fn a_replaced_name_of_a_file_with_names_in_other_directories_only_is_not_gone_by_the_finding() {
    let base = ["mkdir one", "mkdir two", "create one/a", "create one/b", "link one/b two/d"];
    let history = history(&base, &["rename one/a one/b", "fsync two/d"]);
    let mut found = there(&history, 0);
    found.remove("one/b");
    assert_eq!(pattern(&history, &found, DamageKind::Name), None);
}

#[test]
fn an_empty_file_at_its_old_name_is_the_one_that_was_moved() {
    let load = ["create one/d", "fsync one/d", "rename y one/d", "write o 4096", "fsync o"];
    let history = history(&BASE, &load);
    let mut found = there(&history, 5);
    found.remove("one/d");
    assert_eq!(pattern(&history, &found, DamageKind::Name), None, "it is nowhere");
    found.insert("y".to_owned(), Found::File(FoundFile::default()));
    let known = Some(KnownFinding::BtrfsReplacedNameIsGone);
    assert_eq!(pattern(&history, &found, DamageKind::Name), known);
}

/// As one load of `--preset long` showed; this one was not tried.
#[test]
fn a_file_that_was_moved_more_than_once_is_back_at_its_first_name() {
    let load = ["rename y e", "create one/d", "fsync one/d", "rename e one/d", "write o 4096", "fsync o"];
    let history = history(&BASE, &load);
    let mut found = there(&history, load.len());
    found.remove("one/d");
    assert_eq!(pattern(&history, &found, DamageKind::Name), None);
    found.insert("y".to_owned(), Found::File(FoundFile::default()));
    assert_eq!(pattern(&history, &found, DamageKind::Name), Some(KnownFinding::BtrfsReplacedNameIsGone));
}

#[test]
fn a_new_file_that_replaced_a_name_is_nowhere_by_the_finding_only_where_it_was_never_synced() {
    let known = Some(KnownFinding::BtrfsReplacedNameIsGone);
    let of = |load: &[&str]| {
        let history = history(&BASE, &[&["create one/d", "fsync one/d"][..], load].concat());
        let mut found = there(&history, history.steps().len());
        found.remove("one/d");
        pattern(&history, &found, DamageKind::Name)
    };
    assert_eq!(of(&["create n", "rename n one/d", "create one/z", "fsync one/z"]), known);
    // Nothing else was synced, or the new file was, or its directory.
    assert_eq!(of(&["create n", "rename n one/d", "create one/z"]), None);
    assert_eq!(of(&["create n", "fsync n", "rename n one/d", "create one/z", "fsync one/z"]), None);
    assert_eq!(of(&["create n", "rename n one/d", "fsync one/d", "create one/z", "fsync one/z"]), None);
    assert_eq!(of(&["create n", "rename n one/d", "create one/z", "fsync one/z", "fsyncdir one"]), None);
    // It was there before, so it has to be somewhere.
    assert_eq!(of(&["rename y one/d", "create one/z", "fsync one/z"]), None);
    // It is somewhere, by a name that it never had.
    let load = ["create one/d", "fsync one/d", "create n", "write n 4096", "rename n one/d", "create one/z"];
    let written = history(&BASE, &[&load[..], &["fsync one/z"]].concat());
    let mut found = there(&written, 7);
    let new = found.remove("one/d").unwrap();
    assert_eq!(pattern(&written, &found, DamageKind::Name), known);
    found.insert("e".to_owned(), new);
    let damage = judge(&written, &written.floors(900, true), &found).damage;
    assert!(damage.iter().all(|damage| damage.pattern.is_none()), "{damage:?}");
    // What its old name leads to is another file, which had been renamed away.
    let load = [
        "create one/d",
        "fsync one/d",
        "rename b e",
        "create b",
        "rename b one/d",
        "create one/z",
        "fsync one/z",
    ];
    let history = history(&BASE, &load);
    let mut found = old_b(&history);
    found.remove("one/d");
    found.remove("e");
    assert_eq!(pattern(&history, &found, DamageKind::Name), known);
}

#[test]
fn a_replaced_directory_is_gone_by_the_finding_only_where_something_else_was_synced_after_the_move() {
    let known = Some(KnownFinding::BtrfsReplacedNameIsGone);
    // The empty `e` was moved over `b`, which a file in it had promised, and is back where it was.
    let of = |rest: &[&str]| {
        let load = ["mkdir b", "create b/x", "fsync b/x", "unlink b/x", "rename e b"];
        let history = history(&DIRECTORIES, &[&load[..], rest].concat());
        let mut found = there(&history, history.steps().len());
        found.remove("b");
        found.insert("e".to_owned(), Found::Directory);
        pattern(&history, &found, DamageKind::Name)
    };
    assert_eq!(of(&["write o 4096", "fsync o"]), known);
    assert_eq!(of(&["write o 4096"]), None);
    assert_eq!(of(&["write o 4096", "fsync o", "fsyncdir b"]), None);
    assert_eq!(of(&["write o 4096", "fsync o", "fsyncdir"]), None);
    assert_eq!(of(&["write o 4096", "fsync o", "sync"]), None);
    // It is neither there nor where it was.
    let load = ["mkdir b", "create b/x", "fsync b/x", "unlink b/x", "rename e b", "write o 4096", "fsync o"];
    let history = history(&DIRECTORIES, &load);
    let mut found = there(&history, load.len());
    found.remove("b");
    let damage = judge(&history, &history.floors(900, true), &found).damage;
    assert!(damage.iter().all(|damage| damage.pattern.is_none()), "{damage:?}");
}

#[test]
fn what_was_synced_and_is_nowhere_is_no_finding_whatever_replaced_its_name() {
    let of = |base: &[&str], load: &[&str], gone: &[&str], back: &[&str]| {
        let history = history(&[&BASE[..], base].concat(), load);
        let mut found = there(&history, history.steps().len());
        for name in gone {
            found.remove(*name);
        }
        for name in back {
            found.insert((*name).to_owned(), there(&history, 0).remove(*name).unwrap());
        }
        let damage = judge(&history, &history.floors(900, true), &found).damage;
        damage.iter().any(|damage| damage.pattern.is_none())
    };
    let end = ["write o 4096", "fsync o"];
    let all = |load: &[&'static str]| [load, &end].concat();
    // The file had another name at the last whole sync.
    let load = all(&["create one/d", "fsync one/d", "rename b n", "rename n one/d"]);
    assert!(of(&[], &load, &["one/d"], &[]));
    // Of two that were moved over the name one is back, the other nowhere.
    let load = all(&["create one/d", "fsyncdir one", "rename b one/d", "rename c one/d"]);
    assert!(of(&["create c", "write c 4096"], &load, &["one/d"], &["b"]));
    assert!(!of(&[], &all(&["create one/d", "fsyncdir one", "rename b one/d"]), &["one/d"], &["b"]));
    // A directory with a synced file in it.
    let load = all(&[
        "mkdir d",
        "create d/x",
        "fsync d/x",
        "unlink d/x",
        "mkdir n",
        "create n/y",
        "write n/y 4096",
        "fsync n/y",
        "rename n d",
    ]);
    assert!(of(&[], &load, &["d", "d/y"], &[]));
    // Its name was durable by its directory.
    let load = all(&["create one/d", "fsync one/d", "create n", "fsyncdir", "rename n one/d"]);
    assert!(of(&[], &load, &["one/d"], &[]));
}

#[test]
fn a_replaced_name_is_gone_without_its_file_is_no_finding() {
    let history =
        history(&BASE, &["create one/d", "fsyncdir one", "rename b one/d", "write o 4096", "fsync o"]);
    // Neither name is there, or another file has the old one.
    let mut found = there(&history, history.steps().len());
    found.remove("one/d");
    assert_eq!(pattern(&history, &found, DamageKind::Name), None);
    let other = found["o"].clone();
    found.insert("b".to_owned(), other);
    let damage = judge(&history, &history.floors(40, true), &found).damage;
    let gone = damage.iter().find(|damage| damage.path == "one/d").unwrap();
    assert_eq!(gone.pattern, None, "{damage:?}");
}
