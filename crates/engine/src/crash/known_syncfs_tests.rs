//! The known finding about `syncfs` without a flush, and mistakes that look like it.

use fsage_model::crash::{BlockLog, BlockWrite};

use super::known_tests::{pattern, pattern_at, pattern_without};
use super::tests::{bytes_of, history, there};
use super::*;

/// `a` was overwritten and `syncfs` returned at position 20 of the log.
fn overwritten(load: &[&str], log: &[(u64, u64, u32)], flushes: &[u64]) -> History {
    let mut history = history(&["create a", "write a 8192"], load);
    let file = history.now().file("a").unwrap();
    let write = |&(entry, block, version): &(u64, u64, u32)| BlockWrite {
        entry,
        file,
        offset_bytes: block * 4096,
        version,
        forced: false,
        flushed: flushes.iter().copied().find(|flush| *flush > entry),
    };
    let writes = log.iter().map(write).collect();
    history.set_log(BlockLog { writes });
    history
}

#[test]
fn overwritten_blocks_are_lost_by_the_finding_only_where_no_flush_followed_their_write() {
    let known = Some(KnownFinding::XfsSyncfsWithoutFlush);
    let load = ["write a 8192", "sync"];
    let of = |log: &[(u64, u64, u32)], flushes: &[u64]| {
        let history = overwritten(&load, log, flushes);
        pattern(&history, &there(&history, 0), DamageKind::Content)
    };
    let both = [(12, 0, 2), (13, 1, 2)];
    assert_eq!(of(&both, &[]), known);
    assert_eq!(of(&both, &[11, 20]), known, "flushes before the writes, and after the promise");
    assert_eq!(of(&both, &[14]), None, "a flush lay between");
    assert_eq!(of(&[(12, 0, 2), (15, 1, 2)], &[14]), None, "it lay after one of them");
    assert_eq!(of(&both[..1], &[]), None, "one was not written");
    assert_eq!(of(&[(12, 0, 2), (21, 1, 2)], &[]), None, "one was written after the promise");
    assert_eq!(of(&[(12, 0, 1), (13, 1, 1)], &[]), None, "what was written is not what was promised");
    assert_eq!(of(&[], &[]), None);
    // Only what is wrong is asked for.
    let history = overwritten(&load, &both[..1], &[]);
    let mut found = there(&history, 2);
    let old = bytes_of(&mut there(&history, 0), "a").clone();
    bytes_of(&mut found, "a")[..4096].copy_from_slice(&old[..4096]);
    assert_eq!(pattern(&history, &found, DamageKind::Content), known);
}

#[test]
fn what_the_drive_did_not_lose_is_no_finding_of_syncfs() {
    let history = overwritten(&["write a 8192", "sync"], &[(12, 0, 2), (13, 1, 2)], &[]);
    let of = |missing: &[u64]| {
        pattern_without(&history, 20, &there(&history, 0), DamageKind::Content, missing.to_vec())
    };
    assert_eq!(of(&[12, 13]), Some(KnownFinding::XfsSyncfsWithoutFlush));
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[12]), None);
    assert_eq!(of(&[13]), None);
}

#[test]
fn a_file_that_was_punched_and_synced_by_another_sync_is_a_finding_of_syncfs_too() {
    let known = Some(KnownFinding::XfsSyncfsWithoutFlush);
    let load = ["punch a 4096", "write a 4096", "sync"];
    let history = overwritten(&load, &[(12, 0, 2)], &[]);
    let mut found = there(&history, 3);
    let zeros = bytes_of(&mut there(&history, 1), "a").clone();
    bytes_of(&mut found, "a").clone_from(&zeros);
    assert_eq!(pattern(&history, &found, DamageKind::Content), known);
    // Of another size it is another matter.
    bytes_of(&mut found, "a").truncate(4096);
    assert_eq!(pattern(&history, &found, DamageKind::Content), None);
}

#[test]
fn what_fsync_promised_or_what_grew_is_no_finding_of_syncfs() {
    let both = [(12, 0, 2), (13, 1, 2), (22, 0, 3), (23, 1, 3)];
    let of = |load: &[&str], tree: usize| {
        let history = overwritten(load, &both, &[]);
        pattern(&history, &there(&history, tree), DamageKind::Content)
    };
    assert_eq!(of(&["write a 8192", "sync"], 0), Some(KnownFinding::XfsSyncfsWithoutFlush));
    let earlier = of(&["fsync a", "write a 8192", "write a 8192", "sync"], 2);
    assert_eq!(earlier, Some(KnownFinding::XfsSyncfsWithoutFlush));
    // fsync promised it as well, what came before the last fsync is back, or the file had grown.
    assert_eq!(of(&["write a 8192", "fsync a", "sync"], 0), None);
    assert_eq!(of(&["write a 8192", "fsync a", "write a 8192", "sync"], 0), None);
    assert_eq!(of(&["truncate a 12288", "write a 12288", "sync"], 0), None);
    assert_eq!(of(&["truncate a 12288", "write a 8192", "sync"], 0), None);
}

#[test]
fn a_block_that_the_write_under_way_changed_is_not_lost() {
    let load = ["write a 8192", "sync", "write a 4096"];
    // Of the promised version only the second block is in the log.
    let history = overwritten(&load, &[(13, 1, 2)], &[]);
    let mut found = there(&history, 3);
    let old = bytes_of(&mut there(&history, 0), "a").clone();
    bytes_of(&mut found, "a")[4096..].copy_from_slice(&old[4096..]);
    let taken = pattern_at(&history, 20, &found, DamageKind::Content);
    assert_eq!(taken, Some(KnownFinding::XfsSyncfsWithoutFlush));
}
