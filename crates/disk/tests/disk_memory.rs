//! What a disk's contents cost: memory is taken for what needs it and released, spilled and refused beyond a
//! limit.
//!
//! One test at a time, as the memory of the whole process is inspected.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fsage_content::fill;
use fsage_disk::store::{Piece, Store, StoreError, StoreOptions};
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

const MIB: u64 = 1 << 20;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of the process in memory that belong to no file.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn foreign(bytes: u64, seed: u64) -> Vec<u8> {
    let mut data = vec![0; usize::try_from(bytes).unwrap()];
    Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut data);
    data
}

fn read(store: &mut Store, offset: u64, bytes: u64) -> Vec<u8> {
    let mut data = vec![1; usize::try_from(bytes).unwrap()];
    store.read(offset, &mut data).unwrap();
    data
}

#[test]
fn memory_goes_back_to_the_kernel() {
    let _alone = alone();
    let mut store = Store::new(16 << 40, &StoreOptions::default()).unwrap();
    let data = foreign(MIB, 1);
    let before = resident_bytes();
    for number in 0..192 {
        store.write(number * 1000 * MIB, &data, None).unwrap();
    }
    let full = resident_bytes() - before;
    let usage = store.usage();
    assert_eq!(usage.held_bytes, 192 * MIB);
    // What the allocator had to spare from before may be used again.
    assert!(full + 4 * MIB >= 192 * MIB, "{full}");
    assert!(usage.memory_bytes.abs_diff(full) < 8 * MIB, "{usage:?} of {full}");
    // Overwritten by what says what it is.
    let mut described = data.clone();
    fill(&mut described, 1, 0, 1);
    for number in 0..96 {
        store.write(number * 1000 * MIB, &described, None).unwrap();
    }
    let half = resident_bytes() - before;
    assert!(half < 130 * MIB, "{half}");
    store.zero(0, 16 << 40, None).unwrap();
    let empty = resident_bytes().saturating_sub(before);
    // Spare groups, and what the allocator keeps of the maps.
    assert!(empty < 24 * MIB, "{empty}");
    assert!(store.usage().memory_bytes < 20 * MIB);
}

#[test]
fn files_in_pieces_cost_little_more_than_their_runs() {
    let _alone = alone();
    let mut store = Store::new(1 << 40, &StoreOptions::default()).unwrap();
    let before = resident_bytes();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut data = Vec::new();
    let (mut at, mut runs) = (0, 0);
    while at < 2 << 30 {
        // An extent: 1 to 15 blocks of some file, the last of them often a tail.
        let bytes = 4096 + random.next_u64() % (14 * 4096);
        data.clear();
        data.resize(usize::try_from(bytes.next_multiple_of(4096)).unwrap(), 0);
        fill(&mut data[..usize::try_from(bytes).unwrap()], random.next_u64(), 0, 3);
        store.write(at, &data, None).unwrap();
        at += bytes.next_multiple_of(4096);
        runs += 1;
    }
    let usage = store.usage();
    assert_eq!((usage.raw_blocks, usage.held_bytes), (0, at));
    assert!(usage.map_bytes < runs * 24 * 5 / 4 + at / (2 * MIB) * 256, "{usage:?} for {runs} runs");
    assert!(usage.map_bytes >= runs * 24, "{usage:?} for {runs} runs");
    let taken = resident_bytes().saturating_sub(before);
    assert!(taken * 1000 < 3 * at, "{taken} bytes for {at}");
    assert!(taken < usage.memory_bytes + usage.memory_bytes / 4 + 2 * MIB, "{usage:?} of {taken}");
}

#[test]
fn what_does_not_fit_is_spilled_and_read_back() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        memory_limit_bytes: Some(16 * MIB),
        spill_folder: Some(folder.path().to_owned()),
        ..StoreOptions::default()
    };
    let mut store = Store::new(1 << 30, &options).unwrap();
    for number in 0..100 {
        store.write(number * MIB, &foreign(MIB, number), None).unwrap();
    }
    let usage = store.usage();
    assert_eq!(usage.held_bytes, 100 * MIB);
    assert_eq!(usage.spilled_bytes, 84 * MIB);
    assert!(usage.memory_bytes < 18 * MIB, "{usage:?}");
    for number in (0..100).rev() {
        assert!(read(&mut store, number * MIB, MIB) == foreign(MIB, number), "{number}");
    }
    // One place that is read again and again comes back.
    for _ in 0..100 {
        read(&mut store, 50 * MIB, 4096);
    }
    assert_eq!(store.usage().spilled_bytes, 84 * MIB);
    store.zero(10 * MIB, 80 * MIB, None).unwrap();
    assert!(store.usage().spilled_bytes <= 20 * MIB);
    store.zero(0, 1 << 30, None).unwrap();
    assert_eq!(store.usage().spilled_bytes, 0);
}

/// Bytes as metadata has them: a quarter of them is noise.
fn metadata(bytes: u64, seed: u64) -> Vec<u8> {
    let mut data = foreign(bytes, seed);
    for line in data.chunks_mut(64) {
        line[16..].fill(7);
    }
    data
}

#[test]
fn what_is_not_used_is_packed_and_unpacked() {
    let _alone = alone();
    let options = StoreOptions { pack_above_bytes: 16 * MIB, ..StoreOptions::default() };
    let mut store = Store::new(1 << 30, &options).unwrap();
    let before = resident_bytes();
    for number in 0..100 {
        store.write(number * MIB, &metadata(MIB, number), None).unwrap();
        // Of what is used all the time, nothing is packed.
        assert!(read(&mut store, 4096, 4096) == metadata(MIB, 0)[4096..8192]);
    }
    let usage = store.usage();
    assert_eq!(usage.held_bytes, 100 * MIB);
    assert!((15 * MIB..34 * MIB).contains(&usage.packed_bytes), "{usage:?}");
    assert!(usage.memory_bytes < 53 * MIB, "{usage:?}");
    assert!(resident_bytes().saturating_sub(before) < 60 * MIB);
    for number in (0..100).rev() {
        assert!(read(&mut store, number * MIB, MIB) == metadata(MIB, number), "{number}");
    }
    // One place that is read again and again comes back, and can be written where it is.
    for _ in 0..300 {
        read(&mut store, 50 * MIB, 4096);
    }
    let pages = store.usage().pages;
    store.write(50 * MIB, &foreign(4096, 1), None).unwrap();
    assert_eq!(store.usage().pages, pages);
    // What cannot be packed is left alone.
    for number in 100..150 {
        store.write(number * MIB, &foreign(MIB, number), None).unwrap();
    }
    for number in 100..150 {
        assert!(read(&mut store, number * MIB, MIB) == foreign(MIB, number), "{number}");
    }
    store.zero(0, 1 << 30, None).unwrap();
    let usage = store.usage();
    assert_eq!((usage.packed_bytes, usage.pages), (0, 0));
}

#[test]
fn what_is_overwritten_does_not_stay_packed() {
    let _alone = alone();
    let options = StoreOptions { pack_above_bytes: 8 * MIB, ..StoreOptions::default() };
    let mut store = Store::new(1 << 30, &options).unwrap();
    let blocks = 128 * MIB / 4096;
    let mut seeds: Vec<u64> = (0..blocks).collect();
    for number in 0..blocks {
        store.write(number * 4096, &metadata(4096, number), None).unwrap();
    }
    let first = store.usage();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    // Five times all of it, one block here and one there.
    for seed in blocks..6 * blocks {
        let number = random.next_u64() % blocks;
        seeds[usize::try_from(number).unwrap()] = seed;
        store.write(number * 4096, &metadata(4096, seed), None).unwrap();
    }
    let last = store.usage();
    assert_eq!((last.raw_blocks, last.pages), (blocks, blocks));
    // At the worst half of what is packed is in vain.
    assert!(last.memory_bytes < 2 * first.memory_bytes, "{first:?} {last:?}");
    for (number, seed) in (0..).zip(&seeds) {
        assert!(read(&mut store, number * 4096, 4096) == metadata(4096, *seed), "{number}");
    }
}

#[test]
fn at_the_limit_what_is_packed_can_be_read() {
    let _alone = alone();
    let options = StoreOptions { memory_limit_bytes: Some(16 * MIB), ..StoreOptions::default() };
    let mut store = Store::new(1 << 30, &options).unwrap();
    let mut held = 0;
    while store.write(held * MIB, &metadata(MIB, held), None).is_ok() {
        held += 1;
    }
    assert!((30..64).contains(&held), "{held}");
    // Often enough for it to be brought back, if there were room.
    for _ in 0..20 {
        for number in 0..held {
            assert!(read(&mut store, number * MIB, MIB) == metadata(MIB, number), "{number}");
        }
    }
    assert!(store.usage().memory_bytes < 17 * MIB, "{:?}", store.usage());
}

#[test]
fn packed_and_spilled_at_the_limit() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        memory_limit_bytes: Some(8 * MIB),
        spill_folder: Some(folder.path().to_owned()),
        ..StoreOptions::default()
    };
    let mut store = Store::new(1 << 30, &options).unwrap();
    for number in 0..60 {
        let data = if number % 4 == 0 { foreign(2 * MIB, number) } else { metadata(2 * MIB, number) };
        store.write(number * 2 * MIB, &data, None).unwrap();
        let usage = store.usage();
        assert!(usage.memory_bytes < 9 * MIB, "{usage:?}");
    }
    assert!(store.usage().spilled_bytes > 80 * MIB, "{:?}", store.usage());
    for number in 0..60 {
        let data = if number % 4 == 0 { foreign(2 * MIB, number) } else { metadata(2 * MIB, number) };
        assert!(read(&mut store, number * 2 * MIB, 2 * MIB) == data, "{number}");
    }
}

#[test]
fn the_limit_is_an_error_and_no_end() {
    let _alone = alone();
    let options = StoreOptions { memory_limit_bytes: Some(16 * MIB), ..StoreOptions::default() };
    let mut store = Store::new(1 << 30, &options).unwrap();
    let data = foreign(MIB, 3);
    let done = (0..1000).take_while(|number| store.write(number * MIB, &data, None).is_ok()).count();
    assert_eq!(done, 16);
    assert!(matches!(store.write(500 * MIB, &data, None), Err(StoreError::Full)));
    // What needs no new pages continues.
    store.write(3 * MIB, &data[..4096], None).unwrap();
    store.zero(4 * MIB, MIB, None).unwrap();
    store.write(500 * MIB, &data, None).unwrap();
    assert!(read(&mut store, 500 * MIB, MIB) == data);
    assert!(read(&mut store, 5 * MIB, MIB) == data);
}

#[test]
fn a_reserve_is_there_before_the_first_write() {
    let _alone = alone();
    let before = resident_bytes();
    let options = StoreOptions { reserve_bytes: 100 * MIB, ..StoreOptions::default() };
    let mut store = Store::new(1 << 30, &options).unwrap();
    assert!(resident_bytes() - before >= 100 * MIB);
    let ready = resident_bytes();
    store.write(0, &foreign(60 * MIB, 5), None).unwrap();
    store.zero(0, 60 * MIB, None).unwrap();
    let after = resident_bytes();
    assert!(after.abs_diff(ready) < 2 * MIB, "{ready} {after}");
}

#[test]
fn a_view_moves_between_neighbours_in_under_a_millisecond() {
    let _alone = alone();
    let mut store = Store::new(16 << 40, &StoreOptions::default()).unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    let data = foreign(MIB, 13);
    for _ in 0..100 {
        store.write(random.next_u64() % (8 << 40), &data, None).unwrap();
    }
    let base = store.snapshot();
    let log: Vec<Vec<Piece>> = (0..1000)
        .map(|_| {
            let mut pieces = Vec::new();
            let (at, bytes) = (random.next_u64() % (64 << 20), random.next_u64() % (64 << 10));
            store.write(at, &data[..usize::try_from(bytes).unwrap()], Some(&mut pieces)).unwrap();
            pieces
        })
        .collect();
    let view = store.view(base).unwrap();
    let mut times: Vec<Duration> = Vec::new();
    for entry in &log {
        let start = Instant::now();
        store.step(view, entry).unwrap();
        times.push(start.elapsed());
        // As recovery would.
        store.write_view(view, 0, &data[..40_000]).unwrap();
    }
    while store.position(view).unwrap() > 0 {
        let start = Instant::now();
        store.back(view).unwrap();
        times.push(start.elapsed());
        store.write_view(view, 0, &data[..40_000]).unwrap();
    }
    times.sort_unstable();
    assert!(times[times.len() / 2] < Duration::from_millis(1), "{:?}", times[times.len() / 2]);
}
