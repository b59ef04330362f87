//! The known finding about files that have both names of a rename, and mistakes that look like it.

use super::known_tests::{BASE, DIRECTORIES, at_old_path, old_b, pattern, pattern_at};
use super::tests::{history, there};
use super::*;

#[test]
fn a_file_has_both_names_by_the_finding_only_where_something_else_was_synced_after_the_rename() {
    let known = Some(KnownFinding::BtrfsRenamedFileHasBothNames);
    let of = |rename: &str, rest: &[&str]| {
        let load = [&[rename][..], rest].concat();
        let history = history(&BASE, &load);
        pattern(&history, &old_b(&history), DamageKind::Name)
    };
    assert_eq!(of("rename b one/b", &["fsyncdir one"]), known);
    assert_eq!(of("rename b one/b", &["write o 4096", "fsync o"]), known);
    assert_eq!(of("rename b one/b", &["write one/x 4096", "fsync one/x"]), known);
    // Nothing else was synced, or the file itself, its old directory or everything was too.
    assert_eq!(of("rename b one/b", &["write o 4096"]), None);
    assert_eq!(of("rename b one/b", &["fsync one/b"]), None);
    assert_eq!(of("rename b one/b", &["fsync one/b", "fsyncdir one"]), None);
    assert_eq!(of("rename b one/b", &["fsyncdir one", "fsyncdir"]), None);
    assert_eq!(of("rename b one/b", &["fsyncdir one", "sync"]), None);
    // The other sync may have been under way.
    let under_way = history(&BASE, &["rename b one/b", "write o 4096", "fsync o"]);
    let at = |cut: u64| pattern_at(&under_way, cut, &old_b(&under_way), DamageKind::Name);
    assert_eq!([20, 10].map(at), [known, None]);
    // Within a directory it does not come up.
    assert_eq!(of("rename b c", &["write o 4096", "fsync o"]), None);
    // The sync came first.
    let load = ["fsyncdir one", "rename b one/b"];
    let first = history(&BASE, &load);
    assert_eq!(pattern(&first, &old_b(&first), DamageKind::Name), None);
}

/// A name that was removed is there too, which nothing had promised to remove: three names, where there never were more than two.
#[test]
fn a_removed_name_beside_both_names_is_no_other_damage() {
    let of = |load: &[&str]| {
        let history = history(&[&BASE[..], &["link b one/c"]].concat(), load);
        let file = there(&history, 0).remove("b").unwrap();
        let mut found = there(&history, load.len());
        found.insert("b".to_owned(), file.clone());
        found.insert("one/c".to_owned(), file);
        let damage = judge(&history, &history.floors(900, true), &found).damage;
        damage.into_iter().map(|damage| (damage.path, damage.pattern)).collect::<Vec<_>>()
    };
    let known = Some(KnownFinding::BtrfsRenamedFileHasBothNames);
    let both = ("b".to_owned(), known);
    let end = ["rename b one/b", "write o 4096", "fsync o"];
    assert_eq!(of(&[&["unlink one/c"], &end[..]].concat()), std::slice::from_ref(&both));
    let removed = ("one/c".to_owned(), None);
    assert_eq!(of(&[&["unlink one/c", "fsyncdir one"], &end[..]].concat()), [removed, both]);
    // In which order names are made and removed nothing promises.
    assert_eq!(of(&["unlink one/c", "link b a", "link b d", "write o 4096", "fsync o"]), []);
}

/// What is said of a file with these names, which `b` and `c` (or another name) were before the load.
fn of_linked(link: &str, load: &[&str], names: &[&str], inodes: &[u64]) -> Vec<Option<KnownFinding>> {
    let history = history(&[&BASE[..], &[link]].concat(), &[load, &["write o 4096", "fsync o"]].concat());
    let mut found = there(&history, history.steps().len());
    let Some(Found::File(file)) = there(&history, 0).remove("b") else { panic!("b is a file") };
    found.retain(|_, there| !matches!(there, Found::File(there) if *there == file));
    for (number, name) in names.iter().enumerate() {
        let inode = inodes.get(number).copied().unwrap_or(0);
        found.insert((*name).to_owned(), Found::File(FoundFile { inode, ..file.clone() }));
    }
    let damage = judge(&history, &history.floors(900, true), &found).damage;
    damage.into_iter().map(|damage| damage.pattern).collect()
}

#[test]
fn both_names_within_one_directory_are_no_finding_whatever_another_link_did() {
    let known = Some(KnownFinding::BtrfsRenamedFileHasBothNames);
    let load = ["rename c d", "rename b one/b"];
    assert_eq!(of_linked("link b c", &load, &["b", "one/b", "c"], &[]), [known]);
    assert_eq!(of_linked("link b c", &load, &["b", "one/b", "c", "d"], &[]), [None]);
    assert_eq!(of_linked("link b one/c", &["rename b d"], &["b", "d", "one/c"], &[]), [None]);
    // A name that was made and removed meanwhile may be there as well.
    let load = ["link b x", "unlink x", "rename b one/b"];
    assert_eq!(of_linked("link b c", &load, &["x", "b", "one/b", "c"], &[]), [known]);
    // Each of two links has both.
    let load = ["rename b one/b", "rename c one/c"];
    assert_eq!(of_linked("link b c", &load, &["b", "one/b", "c", "one/c"], &[]), [known]);
    let load = ["rename b one/b", "rename c d"];
    assert_eq!(of_linked("link b c", &load, &["b", "one/b", "c", "d"], &[]), [None]);
}

#[test]
fn a_copy_by_the_old_name_is_no_finding() {
    let of = |inodes: &[u64]| of_linked("link b c", &["rename b one/b"], &["b", "one/b", "c"], inodes);
    let known = Some(KnownFinding::BtrfsRenamedFileHasBothNames);
    assert_eq!(of(&[7, 7, 7]), [known]);
    assert_eq!(of(&[7, 8, 7]), [None]);
    assert_eq!(of(&[7, 0, 7]), [known], "0 is no inode, but one that is not known");
}

#[test]
fn a_linked_file_in_a_directory_with_its_old_path_has_its_names_once() {
    let base = [&DIRECTORIES[..], &["create f", "write f 4096"]].concat();
    let of = |load: &[&str], more: &[(&str, &str)]| {
        let history = history(&base, load);
        let mut found = at_old_path(&history, "a", "b");
        for (name, like) in more {
            let like = found[*like].clone();
            found.insert((*name).to_owned(), like);
        }
        let damage = judge(&history, &history.floors(900, true), &found).damage;
        assert!(!damage.is_empty());
        damage
            .into_iter()
            .filter(|damage| damage.pattern.is_none())
            .map(|damage| damage.what)
            .collect::<Vec<_>>()
    };
    let load = ["rename a b", "link f b/y", "fsync b/y"];
    assert_eq!(of(&load, &[]), [""; 0]);
    let moved = ["rename a b", "rename f b/g", "rename b/g b/y", "fsync b/y"];
    assert_eq!(of(&moved, &[]), [""; 0]);
    assert!(!of(&moved, &[("a/g", "a/y")]).is_empty(), "two names of one link");
}

#[test]
fn names_that_no_rename_connects_are_no_finding() {
    let load = ["rename b one/b", "fsyncdir one"];
    let history = history(&BASE, &load);
    let file = there(&history, 0).remove("b").unwrap();
    let mut found = there(&history, 2);
    // A name that it never had, with or without the old one.
    found.insert("y".to_owned(), file.clone());
    assert_eq!(pattern(&history, &found, DamageKind::Foreign), None);
    found.insert("b".to_owned(), file);
    let damage = judge(&history, &history.floors(20, true), &found).damage;
    let said: Vec<_> = damage.iter().map(|damage| (damage.path.as_str(), damage.pattern)).collect();
    let both = Some(KnownFinding::BtrfsRenamedFileHasBothNames);
    assert_eq!(said, [("y", None), ("b", both)], "{damage:?}");
}
