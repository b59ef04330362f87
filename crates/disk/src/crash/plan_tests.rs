//! Which states are planned.

use std::collections::{BTreeSet, HashSet};

use fsage_model::crash::FlashFault;
use proptest::prelude::*;

use super::*;
use crate::crash::{Change, Unflushed};
use crate::request::{Operation, Request};

/// A log from a word: `a`…`z` writes that block, digest by position; `.` flushes; capitals are forced. `<` and `>` flush
/// the drive of the blocks up to `m`, and that of those behind it.
fn timeline(word: &str) -> Timeline {
    let mut timeline = Timeline { unit_bytes: 4096, ..Timeline::default() };
    let mut unflushed = Unflushed::default();
    for (entry, letter) in (0..).zip(word.chars()) {
        timeline.entries = entry + 1;
        let half = 4096 * u64::from(u32::from('n'));
        let (from, length) = match letter {
            '.' => (0, 0),
            '<' => (0, half),
            '>' => (half, half),
            _ => {
                let change = written(entry, letter);
                let request = Request::new(Operation::Write, change.offset_bytes, change.length_bytes);
                unflushed.add(timeline.changes.len(), request);
                timeline.changes.push(change);
                continue;
            }
        };
        timeline.flushes.push(entry);
        for place in unflushed.flush(&Request::new(Operation::Flush, from, length)) {
            timeline.changes[place].flushed = Some(entry);
        }
    }
    timeline
}

fn written(entry: u64, letter: char) -> Change {
    let unit = u64::from(u32::from(letter.to_ascii_lowercase()));
    Change {
        entry,
        offset_bytes: unit * 4096,
        length_bytes: 4096,
        forced: letter.is_ascii_uppercase(),
        written: true,
        flushed: None,
        effects: vec![(unit, 1000 + entry)],
    }
}

fn spec(drive: DriveBehaviour, states: u64) -> CrashSpec {
    CrashSpec { drive, atomic_bytes: 4096, cache_bytes: 1 << 20, states, seed: 7 }
}

/// What each block holds in a state, by the rules and nothing else.
fn image(timeline: &Timeline, state: &CrashState) -> Vec<(Unit, u64)> {
    let mut blocks = std::collections::BTreeMap::new();
    for change in timeline.changes.iter().filter(|change| change.entry < state.cut) {
        if !state.lost.contains(&change.entry) {
            blocks.extend(change.effects.iter().copied());
        }
    }
    blocks.into_iter().collect()
}

#[test]
fn a_small_log_is_covered_completely_and_nothing_twice() {
    let timeline = timeline("ab.ca.d");
    let plan = plan(&timeline, &spec(DriveBehaviour::Honest, 1000));
    // Window 1: subsets of {a,b}; window 2: a, b there, subsets of {c, a again}; window 3: d or not.
    let found: HashSet<Vec<(Unit, u64)>> = plan.states.iter().map(|state| image(&timeline, state)).collect();
    assert_eq!(found.len(), plan.states.len());
    // 4 of the first window, 3 more of the second, 1 more of the third.
    assert_eq!(plan.states.len(), 4 + 3 + 1, "{:#?}", plan.states);
    assert_eq!(plan.coverage.distinct, 8);
    assert_eq!((plan.coverage.most_pending, plan.coverage.flushes, plan.coverage.changes), (2, 2, 5));
    // 2 + 4 + 2 + 4 + 2 pairs.
    assert!((plan.coverage.possible_log2.exp2() - 14.0).abs() < 1e-9);
}

#[test]
fn what_a_flush_brought_to_the_medium_is_never_missing() {
    let timeline = timeline("abc.de.f.gh");
    for state in plan(&timeline, &spec(DriveBehaviour::Honest, 1000)).states {
        let done = timeline.flushes.iter().rev().find(|flush| **flush < state.cut).copied().unwrap_or(0);
        assert!(state.lost.iter().all(|entry| *entry > done || done == 0), "{state:?}");
        assert!(state.lost.iter().all(|entry| *entry >= state.durable && *entry < state.cut), "{state:?}");
    }
}

#[test]
fn a_flush_of_one_drive_brings_nothing_of_another_to_the_medium() {
    let missing = |word: &str, entry: u64, from: u64| {
        let states = plan(&timeline(word), &spec(DriveBehaviour::Honest, 1000)).states;
        states.iter().any(|state| state.lost.contains(&entry) && state.cut >= from)
    };
    // `a` is flushed by its own drive before `b` is written; `x` is not, and may be missing after both flushes of the other.
    assert!(!missing("ax<b<c", 0, 4) && missing("ax<b<c", 1, 6));
    assert!(missing("ax>b>c", 0, 6) && !missing("ax>b>c", 1, 4));
    // Whichever drive is first, both are there when both have flushed.
    for word in ["ax<>bc", "xa<>bc", "ax><bc", "ax.bbc"] {
        assert!(!missing(word, 0, 5) && !missing(word, 1, 5), "{word}");
    }
}

#[test]
fn a_dropped_flush_loses_what_it_was_for_and_nothing_older() {
    let timeline = timeline("a.b.c");
    let plan = plan(&timeline, &spec(DriveBehaviour::DropsFlush, 1000));
    // After the second flush has returned `b` may be missing, and `a` may not.
    let missing = |entry: u64, from: u64| {
        plan.states.iter().any(|state| state.lost.contains(&entry) && state.cut >= from)
    };
    assert!(missing(2, 4), "{:#?}", plan.states);
    assert!(missing(0, 2) && !missing(0, 3), "{:#?}", plan.states);
    let honest = super::plan(&timeline, &spec(DriveBehaviour::Honest, 1000)).states;
    assert!(!honest.iter().any(|state| state.lost.contains(&2) && state.cut >= 4), "{honest:#?}");
}

#[test]
fn a_drive_that_lies_may_lose_all_that_its_cache_holds() {
    let timeline = timeline("a.b.c.d.");
    let all = plan(&timeline, &spec(DriveBehaviour::Lying, 1000));
    assert!(all.states.iter().any(|state| state.lost == [0] && state.cut == 8), "{:#?}", all.states);
    let small = CrashSpec { cache_bytes: 2 * 4096, ..spec(DriveBehaviour::Lying, 1000) };
    let small = plan(&timeline, &small);
    assert!(small.states.iter().all(|state| state.cut < 7 || !state.lost.contains(&0)));
    assert_eq!(small.coverage.most_pending, 2);
}

#[test]
fn forced_writes_stay_and_a_protected_cache_loses_nothing() {
    let forced = timeline("aBc");
    let states = plan(&forced, &spec(DriveBehaviour::Honest, 1000)).states;
    assert!(states.iter().any(|state| !state.lost.is_empty()));
    assert!(!states.iter().any(|state| state.lost.contains(&1)), "{states:#?}");
    let states = plan(&timeline("ab.c"), &spec(DriveBehaviour::Protected, 1000)).states;
    // Nothing, a, ab, abc.
    assert_eq!(states.len(), 4, "{states:#?}");
}

#[test]
fn the_latest_cut_of_an_image_counts() {
    // With everything there the image stays until the next write, also behind the flush.
    let states = plan(&timeline("a."), &spec(DriveBehaviour::Honest, 1000)).states;
    assert!(states.iter().any(|state| state.kind == CrashKind::Prefix && state.cut == 2), "{states:#?}");
    // Without `a` power was lost before the flush was done.
    assert!(states.iter().all(|state| !state.lost.contains(&0) || state.cut == 1));
    // `a` alone is there before `b` is written, and also after that if `b` is missing.
    let states = plan(&timeline("a.b"), &spec(DriveBehaviour::Honest, 1000)).states;
    assert!(states.iter().any(|state| state.lost == [2] && state.cut == 3), "{states:#?}");
}

#[test]
fn long_requests_are_torn_at_atomic_units() {
    let mut timeline = timeline("a.");
    if let Some(change) = timeline.changes.first_mut() {
        change.length_bytes = 4 * 4096;
        change.effects = (0..4).map(|unit| (97 + unit, 50 + unit)).collect();
    }
    let torn = |atomic_bytes| {
        let spec = CrashSpec { atomic_bytes, ..spec(DriveBehaviour::Honest, 100) };
        plan(&timeline, &spec).states.into_iter().filter(|state| state.torn.is_some()).collect::<Vec<_>>()
    };
    let found = torn(4096);
    assert!(!found.is_empty());
    for state in &found {
        let kept = &state.torn.as_ref().unwrap().kept;
        assert!(!kept.is_empty() && kept.len() < 4 && kept.iter().all(|unit| *unit < 4), "{kept:?}");
    }
    assert!(torn(4 * 4096).is_empty(), "a drive that writes it whole tears nothing");
}

proptest! {
    #[test]
    fn plans_are_seeded_bounded_and_without_repeats(word in "[a-f.]{1,60}", states in 1_u64..60, seed: u64) {
        let timeline = timeline(&word);
        for drive in DriveBehaviour::ALL {
            let spec = CrashSpec { seed, ..spec(drive, states) };
            let planned = plan(&timeline, &spec);
            prop_assert_eq!(&planned, &plan(&timeline, &spec));
            prop_assert!(wide(planned.states.len()) <= states);
            let images: BTreeSet<_> = planned
                .states
                .iter()
                .map(|state| (image(&timeline, state), format!("{:?}", state.flash)))
                .collect();
            prop_assert_eq!(images.len(), planned.states.len());
            let digests: BTreeSet<u64> = planned.states.iter().map(|state| state.image).collect();
            prop_assert_eq!(digests.len(), planned.states.len());
            prop_assert!(planned.states.is_sorted_by_key(|state| state.cut));
        }
    }
}

#[test]
fn a_destroyed_page_is_the_newest_of_its_blocks_and_three_pages_old() {
    // Each request begins a page; two of them are forced.
    let log = timeline("abCd.eaf.ghI");
    let planned = plan(&log, &spec(DriveBehaviour::PairedPages, 1000));
    let mut found: Vec<(char, char)> = Vec::new();
    for state in &planned.states {
        // The request in progress was not answered, forced or not.
        assert_eq!(state.lost, [state.cut]);
        assert_eq!(state.flash.len(), 1, "{state:?}");
        let letter = |unit: u64| char::from(u8::try_from(unit).unwrap());
        let in_progress = log.changes.iter().find(|change| change.entry == state.cut).unwrap();
        found.push((letter(in_progress.effects[0].0), letter(state.flash[0].offset_bytes / 4096)));
    }
    found.sort_unstable();
    // What is in progress, and what that destroys.
    let lost = [('a', 'c'), ('d', 'a'), ('e', 'b'), ('f', 'd'), ('g', 'e'), ('h', 'a'), ('i', 'f')];
    assert_eq!(found, lost);
    // A block that was replaced since is on another page.
    let replaced = plan(&timeline("abbbb"), &spec(DriveBehaviour::PairedPages, 1000));
    let pages: Vec<u64> = replaced.states.iter().map(|state| state.flash[0].offset_bytes / 4096).collect();
    assert_eq!(pages, [u64::from(b'a')], "{:?}", replaced.states);
}

#[test]
fn a_lost_map_is_older_than_flushes_and_bits_are_wrong_in_few_blocks() {
    let log = timeline("ab.cd.ab.ef.ab.cd.ef.gh");
    let older = plan(&log, &spec(DriveBehaviour::LostMapping, 400));
    let faults = || older.states.iter().flat_map(|state| &state.flash);
    assert!(faults().any(|loss| loss.fault == FlashFault::Unmapped));
    for state in &older.states {
        // Nothing is missing but by the fault, and that goes back beyond a flush.
        assert!(state.lost.is_empty() && state.torn.is_none(), "{state:?}");
        for loss in &state.flash {
            if let FlashFault::Older { before } = loss.fault {
                assert!(before < state.durable, "{state:?}");
            }
        }
    }
    assert!(plan(&timeline("abc"), &spec(DriveBehaviour::LostMapping, 9)).states.is_empty());
    let bits = plan(&log, &spec(DriveBehaviour::BitErrors, 400));
    assert_eq!(bits.states.len(), 400);
    for loss in bits.states.iter().flat_map(|state| &state.flash) {
        let FlashFault::Flipped { bits } = &loss.fault else { panic!("{loss:?}") };
        assert!((1..=3).contains(&bits.len()) && bits.is_sorted() && bits.iter().all(|bit| *bit < 4096 * 8));
        assert_eq!(loss.length_bytes, 4096);
    }
    assert!(bits.states.iter().all(|state| state.lost.is_empty() && (1..=3).contains(&state.flash.len())));
    // What was discarded since is in no cell.
    let mut discarded = timeline("abb");
    discarded.changes[2].written = false;
    for state in plan(&discarded, &spec(DriveBehaviour::BitErrors, 50)).states {
        let a = u64::from(b'a') * 4096;
        assert!(state.cut < 3 || state.flash.iter().all(|loss| loss.offset_bytes == a), "{state:?}");
    }
}
