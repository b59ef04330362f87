//! Published workloads (docs/examples/crash/known) with the damage that was published: each is seen.

use std::collections::BTreeMap;

use fsage_model::crash::Promises;

use super::history::History;
use super::oracle::{Found, FoundTree, judge};
use super::script::generate;

/// What was wrong after the cut that follows everything: `-NAME` is gone, `NAME=OTHER` is what `OTHER` is after the workload,
/// `NAME<OTHER` what it was before.
const DAMAGE: [(&str, &str); 23] = [
    ("btrfs-3.12-moved-file-has-both-names", "foo=A/foo"),
    ("btrfs-3.13-linked-file-loses-data", "foo=other"),
    ("btrfs-3.13-removed-attribute-returns", "foo<foo"),
    ("btrfs-4.16-directory-has-both-names", "A=B A/bar=B/bar"),
    ("btrfs-4.16-file-beside-synced-directory-is-gone", "-T/foo"),
    ("btrfs-4.16-one-of-two-names", "-A/bar"),
    ("btrfs-4.16-parent-of-link-is-gone", "-A -A/C -A/C/foo"),
    ("btrfs-4.16-rename-over-in-directory", "-A/bar"),
    ("btrfs-4.16-renamed-directory-is-gone", "-B -B/foo"),
    ("btrfs-4.16-second-name-is-gone", "-B/foo"),
    ("btrfs-4.4-renamed-directory-is-lost", "-B -B/foo"),
    ("btrfs-4.4-renamed-file-is-lost", "-bar"),
    ("btrfs-6.18-new-directory-is-lost", "-d -d/foo"),
    ("btrfs-6.19-old-size-returns", "f<f"),
    ("btrfs-removed-file-returns", "b<b"),
    ("btrfs-renamed-directory-has-old-name", "A=B A/x=B/x -B -B/x"),
    ("btrfs-renamed-file-has-both-names", "c<c"),
    ("btrfs-replaced-empty-file-returns", "a<e"),
    ("btrfs-replaced-file-returns", "b<b"),
    ("btrfs-replaced-name-is-gone", "e<e -two/d"),
    ("btrfs-replaced-name-of-linked-file-is-gone", "-two/e"),
    ("btrfs-replaced-name-of-synced-file-is-gone", "-one/b"),
    ("directory-of-new-link-is-lost", "-d -d/bar"),
];

/// What no comparison of names and contents shows: the mount, the check, and the removal of everything do.
const NOT_IN_THE_TREE: [&str; 3] = [
    "btrfs-3.13-directory-cannot-be-removed",
    "btrfs-3.13-links-counted-wrongly",
    "btrfs-4.16-cannot-be-mounted",
];

fn examples() -> BTreeMap<String, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/crash/known");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

fn history(text: &str) -> History {
    let generated = generate(&text.parse().unwrap(), 1).unwrap();
    let mut history = History::new(generated.tree(), Vec::new());
    for (position, operation) in (1..).zip(&generated.operations) {
        history.push(operation, position);
    }
    history
}

fn damaged(history: &History, changes: &str) -> FoundTree {
    let last = history.steps().len();
    let (before, after) =
        (super::oracle::tests::there(history, 0), super::oracle::tests::there(history, last));
    let mut found = after.clone();
    for change in changes.split(' ').filter(|change| !change.is_empty()) {
        let copy = |(name, other): (&str, &str), from: &FoundTree| (name.to_owned(), from[other].clone());
        if let Some(name) = change.strip_prefix('-') {
            assert!(found.remove(name).is_some(), "{change}");
        } else if let Some(names) = change.split_once('=') {
            let (name, what) = copy(names, &after);
            found.insert(name, what);
        } else {
            let (name, what) = copy(change.split_once('<').unwrap(), &before);
            found.insert(name, what);
        }
    }
    found
}

#[test]
fn the_published_damage_of_every_workload_is_seen() {
    let examples = examples();
    let known: Vec<&str> = DAMAGE.iter().map(|(name, _)| *name).chain(NOT_IN_THE_TREE).collect();
    assert!(examples.keys().all(|name| known.contains(&name.as_str())) && known.len() == examples.len());
    for (name, changes) in DAMAGE {
        let history = history(&examples[name]);
        let mut floors = history.floors(u64::MAX, true);
        floors.promises = Some(fsage_model::crash::promises("btrfs", &[]).unwrap());
        let damage = judge(&history, &floors, &damaged(&history, changes)).damage;
        assert!(!damage.is_empty(), "{name}");
        assert!(judge(&history, &floors, &damaged(&history, "")).damage.is_empty(), "{name}");
    }
}

#[test]
fn only_fsync_of_the_directory_promises_a_name_by_posix() {
    let history = history("mkdir A\ncreate foo\n---\nlink foo A/bar\nfsync foo\nmkdir C\nfsync C/");
    let gone = damaged(&history, "-A/bar -C");
    assert_eq!(judge(&history, &history.floors(u64::MAX, Promises::POSIX.fsync_names), &gone).damage, []);
    assert_eq!(judge(&history, &history.floors(u64::MAX, true), &gone).damage.len(), 2);
    assert_eq!(gone.get("A"), Some(&Found::Directory));
}
