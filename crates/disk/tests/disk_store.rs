//! The store against a plain map of blocks: random requests over all sizes and alignments, with snapshots, a
//! log, views moved along it, and a spill file.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

use std::collections::BTreeMap;
use std::rc::Rc;

use fsage_content::{Block, fill, recognise};
use fsage_disk::store::{Content, Piece, Store, StoreError, StoreOptions, ViewId};
use fsage_model::disk::StoreUsage;
use fsage_model::disk::call::SnapshotId;
use proptest::prelude::*;
use rand_core::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

const BLOCK: u64 = 4096;

/// A disk as one would write it down first: blocks that were written, by number.
#[derive(Clone, Default)]
struct Plain {
    blocks: BTreeMap<u64, Rc<[u8; 4096]>>,
}

impl Plain {
    fn write(&mut self, offset: u64, data: &[u8]) {
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let within = usize::try_from(at % BLOCK).unwrap();
            let (now, later) = rest.split_at(rest.len().min(4096 - within));
            let block = self.blocks.entry(at / BLOCK).or_insert_with(|| Rc::new([0; 4096]));
            Rc::make_mut(block)[within..within + now.len()].copy_from_slice(now);
            if block.iter().all(|byte| *byte == 0) {
                self.blocks.remove(&(at / BLOCK));
            }
            at += now.len() as u64;
            rest = later;
        }
    }

    fn zero(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        let touched: Vec<u64> =
            self.blocks.range(offset / BLOCK..end.div_ceil(BLOCK)).map(|(n, _)| *n).collect();
        for block in touched {
            let from = offset.max(block * BLOCK);
            let to = end.min((block + 1) * BLOCK);
            self.write(from, &vec![0; usize::try_from(to - from).unwrap()]);
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) {
        buffer.fill(0);
        let end = offset + buffer.len() as u64;
        for (number, block) in self.blocks.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            let from = offset.max(number * BLOCK);
            let to = end.min((number + 1) * BLOCK);
            let place = |at: u64, base: u64| usize::try_from(at - base).unwrap();
            buffer[place(from, offset)..place(to, offset)]
                .copy_from_slice(&block[place(from, number * BLOCK)..place(to, number * BLOCK)]);
        }
    }

    /// Blocks that have to be kept as they are, and those that say what they are.
    fn kinds(&self) -> (u64, u64) {
        let says = |block: &[u8; 4096]| match recognise(block) {
            Block::Good { .. } => true,
            Block::Fragment { length } => is_prefix(block, length),
            _ => false,
        };
        let described = self.blocks.values().filter(|block| says(block)).count() as u64;
        (self.blocks.len() as u64 - described, described)
    }
}

/// Whether the first bytes of a header, with nothing behind them, are those of some block: what follows from
/// the fields that are there. Where a byte of it was changed they are not, and have to be kept.
fn is_prefix(block: &[u8; 4096], length: usize) -> bool {
    let mut header = [0; 24];
    let there = length.min(24);
    header[..there].copy_from_slice(&block[..there]);
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
    let mut again = [0; 4096];
    fill(&mut again[..length], word(8), word(16) / BLOCK * BLOCK, u32::try_from(word(0) >> 32).unwrap());
    again == *block
}

/// A change, as the log has it.
#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Zero(u64, u64),
}

impl Change {
    fn apply(&self, plain: &mut Plain) {
        match self {
            Self::Write(offset, data) => plain.write(*offset, data),
            Self::Zero(offset, length) => plain.zero(*offset, *length),
        }
    }
}

/// What was recorded of a request: one change, or what was done of it.
struct Entry {
    changes: Vec<Change>,
    pieces: Vec<Piece>,
}

/// A view and what it should show.
struct Window {
    id: ViewId,
    /// The states of its steps, the first that of the snapshot.
    states: Vec<Plain>,
    overlay: Option<Plain>,
}

impl Window {
    fn shows(&self) -> &Plain {
        self.overlay.as_ref().unwrap_or_else(|| self.states.last().unwrap())
    }
}

/// A store and its model side by side.
struct Pair {
    size: u64,
    store: Store,
    plain: Plain,
    snapshots: Vec<(SnapshotId, Plain)>,
    /// While recording: the snapshot it began with, and what was recorded since.
    log: Option<(SnapshotId, Plain, Vec<Entry>)>,
    windows: Vec<Window>,
    /// Its memory is limited, and writes may fail.
    limited: bool,
}

/// What a step is made of; every field is reduced to what the disk allows.
type Step = (u8, u64, u64, u8, u64);

impl Pair {
    fn new(size: u64, options: &StoreOptions) -> Self {
        let store = Store::new(size, options).unwrap();
        let limited = options.memory_limit_bytes.is_some() && options.spill_folder.is_none();
        let (plain, snapshots, windows) = (Plain::default(), Vec::new(), Vec::new());
        Self { size, store, plain, snapshots, log: None, windows, limited }
    }

    /// A range on the disk: near one of the places where something changes, or anywhere.
    fn range(&self, place: u64, length: u64, most: u64) -> (u64, u64) {
        let spots = [0, 2 << 20, 4 << 20, 1 << 30, (1 << 30) + (2 << 20), self.size / 2, self.size];
        let spot = spots[usize::try_from(place % 8).unwrap() % spots.len()];
        let around = if place & 8 == 0 { (place >> 8) % 64 * 4096 } else { (place >> 8) % (256 << 10) };
        let offset = (spot.saturating_sub(128 << 10) + around).min(self.size - 1);
        let length = match place >> 4 & 3 {
            0 => length % 8192,
            1 => length % 16 * 4096,
            _ => length % most,
        };
        let offset = if place & 64 == 0 { offset / BLOCK * BLOCK } else { offset };
        (offset, length.min(self.size - offset))
    }

    /// Makes a change; where there is no room for it, what was recorded says how far it came.
    fn change(&mut self, change: Change) {
        let mut pieces = Vec::new();
        let record = (self.log.is_some() || self.limited).then_some(&mut pieces);
        let done = match &change {
            Change::Write(offset, data) => self.store.write(*offset, data, record),
            Change::Zero(offset, length) => self.store.zero(*offset, *length, record),
        };
        let changes = match done {
            Ok(()) => vec![change],
            Err(StoreError::Full) if self.limited => pieces.iter().map(|piece| self.undone(piece)).collect(),
            Err(error) => panic!("{error}"),
        };
        changes.iter().for_each(|change| change.apply(&mut self.plain));
        match &mut self.log {
            Some((_, _, entries)) => entries.push(Entry { changes, pieces }),
            None => self.store.release(&pieces),
        }
    }

    /// What a piece says as a change.
    fn undone(&mut self, piece: &Piece) -> Change {
        if piece.content() == Content::Zero {
            return Change::Zero(piece.offset_bytes, piece.length_bytes);
        }
        let mut bytes = vec![1; length_of(piece.length_bytes)];
        self.store.read_piece(piece, 0, &mut bytes).unwrap();
        Change::Write(piece.offset_bytes, bytes)
    }

    fn step(&mut self, (kind, place, length, data, seed): Step, most: u64) {
        let (offset, length) = self.range(place, length, most);
        let pick = |many: usize| usize::try_from(seed).unwrap() % many.max(1);
        match kind % 20 {
            0..8 => self.change(Change::Write(offset, make(length, offset, data, seed))),
            8 | 9 => self.change(Change::Zero(offset, length)),
            10 if data < 32 => self.change(Change::Zero(0, self.size)),
            10..12 => self.compare(offset, length),
            12 if self.snapshots.len() < 4 => {
                let id = self.store.snapshot();
                self.snapshots.push((id, self.plain.clone()));
            }
            13 if self.snapshots.len() > 1 => {
                let (id, _) = self.snapshots.swap_remove(pick(self.snapshots.len()));
                self.store.delete_snapshot(id).unwrap();
            }
            14 if !self.snapshots.is_empty() && self.log.is_none() && data < 64 => {
                let (id, plain) = &self.snapshots[pick(self.snapshots.len())];
                self.store.revert(*id).unwrap();
                self.plain = plain.clone();
            }
            15 if self.log.is_none() => {
                self.log = Some((self.store.snapshot(), self.plain.clone(), Vec::new()));
            }
            16 if data < 48 => self.end_log(),
            17 => self.open_window(),
            18 | 19 if !self.windows.is_empty() => {
                let window = pick(self.windows.len());
                self.move_window(window, data, seed);
                self.scribble(window, offset, length, data, seed);
            }
            _ => {}
        }
    }

    fn open_window(&mut self) {
        if let Some((base, plain, _)) = &self.log
            && self.windows.len() < 3
        {
            let id = self.store.view(*base).unwrap();
            self.windows.push(Window { id, states: vec![plain.clone()], overlay: None });
        }
    }

    /// Steps over some of the entries that follow, or back.
    fn move_window(&mut self, window: usize, data: u8, seed: u64) {
        let Some((_, _, entries)) = &self.log else { return };
        let Window { id, states, overlay } = &mut self.windows[window];
        *overlay = None;
        if data & 1 == 0 {
            for _ in 0..seed % 5 {
                assert_eq!(self.store.back(*id).unwrap(), states.len() > 1);
                if states.len() > 1 {
                    states.pop();
                }
            }
            self.store.reset(*id).unwrap();
        } else {
            self.store.reset(*id).unwrap();
            let from = states.len() - 1;
            for (n, entry) in entries.iter().enumerate().skip(from).take(6) {
                // Some entries are left out, as after a lost write; the step is taken all the same.
                let lost = seed >> (n % 60) & 7 == 0;
                let mut state = states.last().unwrap().clone();
                if lost {
                    self.store.step(*id, &[]).unwrap();
                } else {
                    match self.store.step(*id, &entry.pieces) {
                        Ok(()) => {}
                        Err(StoreError::Full) if self.limited => break,
                        Err(error) => panic!("{error}"),
                    }
                    entry.changes.iter().for_each(|change| change.apply(&mut state));
                }
                states.push(state);
            }
        }
        assert_eq!(self.store.position(*id).unwrap(), states.len() as u64 - 1);
    }

    /// Writes to a view and reads around it.
    fn scribble(&mut self, window: usize, offset: u64, length: u64, data: u8, seed: u64) {
        let Window { id, states, overlay } = &mut self.windows[window];
        if data & 2 == 0 {
            let change = if data & 4 == 0 {
                Change::Write(offset, make(length, offset, data, seed))
            } else {
                Change::Zero(offset, length)
            };
            let done = match &change {
                Change::Write(offset, data) => self.store.write_view(*id, *offset, data),
                Change::Zero(offset, length) => self.store.zero_view(*id, *offset, *length),
            };
            if let (Err(StoreError::Full), true) = (&done, self.limited) {
                // Nobody knows how far it came.
                self.store.reset(*id).unwrap();
                *overlay = None;
            } else {
                done.unwrap();
                change.apply(overlay.get_or_insert_with(|| states.last().unwrap().clone()));
            }
        }
        let window = &self.windows[window];
        let (mut is, mut expected) = (vec![1; length_of(length)], vec![2; length_of(length)]);
        self.store.read_view(window.id, offset, &mut is).unwrap();
        window.shows().read(offset, &mut expected);
        assert!(is == expected, "view at {offset}+{length}");
    }

    fn end_log(&mut self) {
        let Some((base, _, entries)) = self.log.take() else { return };
        // Half of the views outlive it: they have references of their own.
        for window in self.windows.drain(..self.windows.len() / 2) {
            self.store.delete_view(window.id).unwrap();
        }
        for Entry { changes, pieces } in &entries {
            let (start, bytes) = match &changes[..] {
                [Change::Write(offset, data)] => (*offset, data.clone()),
                [Change::Zero(offset, length)] if *length < 1 << 20 => (*offset, vec![0; length_of(*length)]),
                _ => continue,
            };
            check_pieces(&mut self.store, pieces, start, &bytes);
        }
        for entry in entries {
            self.store.release(&entry.pieces);
        }
        self.store.delete_snapshot(base).unwrap();
        self.compare_windows();
        for window in self.windows.drain(..) {
            self.store.delete_view(window.id).unwrap();
        }
    }

    fn compare(&mut self, offset: u64, length: u64) {
        let length = usize::try_from(length).unwrap();
        let (mut is, mut expected) = (vec![1; length], vec![2; length]);
        self.store.read(offset, &mut is).unwrap();
        self.plain.read(offset, &mut expected);
        assert!(is == expected, "disk at {offset}+{length}");
        for (id, plain) in &self.snapshots {
            self.store.read_snapshot(*id, offset, &mut is).unwrap();
            plain.read(offset, &mut expected);
            assert!(is == expected, "snapshot at {offset}+{length}");
        }
    }

    fn compare_windows(&mut self) {
        for window in &self.windows {
            let store = &mut self.store;
            compare_all(self.size, window.shows(), |at, bytes| {
                store.read_view(window.id, at, bytes).unwrap()
            });
        }
    }

    /// Compares everything, and the counts.
    fn check(&mut self) {
        let (size, store) = (self.size, &mut self.store);
        compare_all(size, &self.plain, |at, bytes| store.read(at, bytes).unwrap());
        for (id, plain) in &self.snapshots {
            compare_all(size, plain, |at, bytes| store.read_snapshot(*id, at, bytes).unwrap());
        }
        self.compare_windows();
        let usage = self.store.usage();
        let (raw, described) = self.plain.kinds();
        assert_eq!((usage.raw_blocks, usage.described_blocks), (raw, described));
        assert_eq!(usage.zero_blocks, self.size.div_ceil(BLOCK) - raw - described);
        if self.snapshots.is_empty() && self.log.is_none() {
            assert_eq!(usage.pages, raw);
        }
    }

    /// Everything goes: what is left is what an empty store has.
    fn clear(mut self, empty: StoreUsage) {
        self.end_log();
        for (id, _) in std::mem::take(&mut self.snapshots) {
            self.store.delete_snapshot(id).unwrap();
        }
        self.check();
        self.change(Change::Zero(0, self.size));
        let usage = self.store.usage();
        assert_eq!((usage.pages, usage.held_bytes, usage.spilled_bytes), (0, 0, 0));
        assert_eq!(usage.map_bytes, empty.map_bytes);
        // Spare groups, and tables that say which group is free.
        assert!(usage.memory_bytes <= empty.memory_bytes + (20 << 20), "{usage:?}");
    }
}

/// Compares all blocks that are not zero in the model, and those around them; the counts say that no others
/// are.
fn compare_all(size: u64, plain: &Plain, mut read: impl FnMut(u64, &mut [u8])) {
    let (mut is, mut expected) = ([1; 3 * 4096], [2; 3 * 4096]);
    for number in plain.blocks.keys() {
        let start = number.saturating_sub(1) * BLOCK;
        let length = usize::try_from((size - start).min(3 * BLOCK)).unwrap();
        read(start, &mut is[..length]);
        plain.read(start, &mut expected[..length]);
        assert!(is[..length] == expected[..length], "at {start}+{length}");
    }
}

fn length_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

/// Pieces say what was written, all of it, in order.
fn check_pieces(store: &mut Store, pieces: &[Piece], start: u64, bytes: &[u8]) {
    let mut at = 0;
    for piece in pieces {
        assert_eq!(piece.offset_bytes, start + at as u64);
        let length = usize::try_from(piece.length_bytes).unwrap();
        let expected = &bytes[at..at + length];
        let mut is = vec![1; length];
        store.read_piece(piece, 0, &mut is).unwrap();
        assert!(is == expected);
        let from = length / 3;
        let mut part = vec![1; length - from - length / 5];
        store.read_piece(piece, from as u64, &mut part).unwrap();
        assert!(part == expected[from..length - length / 5]);
        assert_eq!(piece.content() == Content::Zero, expected.iter().all(|byte| *byte == 0));
        at += length;
    }
    assert_eq!(at, bytes.len());
}

/// Bytes of many kinds: foreign, zeros, self-describing runs from many places, tails, torn ones, and
/// mixtures.
fn make(length: u64, offset: u64, kind: u8, seed: u64) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut bytes = vec![0; usize::try_from(length).unwrap()];
    // Blocks of the file lie on those of the disk, but for one kind.
    let shift =
        if kind % 16 == 15 { 512 } else { usize::try_from((BLOCK - offset % BLOCK) % BLOCK).unwrap() };
    let shift = shift.min(bytes.len());
    let file = seed % 3;
    // Often the same place of the file for the same place of the disk, so that runs meet.
    let first = if kind & 32 == 0 { offset / BLOCK * BLOCK } else { random.next_u64() % 64 * BLOCK };
    match kind % 8 {
        0 => random.fill_bytes(&mut bytes),
        // As metadata: a part of it is noise, and it can be packed.
        1 => {
            for line in bytes.chunks_mut(64) {
                let noise = line.len().min(12);
                random.fill_bytes(&mut line[..noise]);
            }
        }
        2 => {}
        3 | 4 => fill(&mut bytes[shift..], file, first, 1),
        5 => {
            let end = bytes.len() - bytes.len().min(usize::try_from(random.next_u64() % 4096).unwrap());
            fill(&mut bytes[shift.min(end)..end], file, first, u32::from(kind) / 64);
        }
        6 => {
            fill(&mut bytes[shift..], file, first, 1);
            for _ in 0..=bytes.len() / 20_000 {
                let at = usize::try_from(random.next_u64()).unwrap() % bytes.len().max(1);
                let end = (at / 512 * 512 + 512).min(bytes.len());
                bytes[at / 512 * 512..end].fill(kind);
            }
        }
        _ => {
            for (number, piece) in bytes[shift..].chunks_mut(4096).enumerate() {
                match random.next_u64() % 4 {
                    0 => random.fill_bytes(piece),
                    1 => {}
                    _ => fill(piece, file, first + number as u64 * BLOCK, 1),
                }
            }
        }
    }
    bytes
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![
        4096..64 * BLOCK,
        (1 << 20..8_u64 << 20),
        Just(5 << 20),
        (1 << 30..4_u64 << 30),
        Just(16 << 40),
    ]
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any::<Step>(), 1..most)
}

fn run(size: u64, options: &StoreOptions, steps: Vec<Step>, most: u64) {
    let mut pair = Pair::new(size, options);
    let empty = pair.store.usage();
    for step in steps {
        pair.step(step, most);
    }
    pair.check();
    pair.clear(empty);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    // Disks that end within the first bytes of a block, so that most writes change what is left of a header.
    #[test]
    fn keeps_the_header_of_a_block_that_ends_the_disk(rest in 1..40_u64, steps in steps(20)) {
        run((1 << 20) + rest, &StoreOptions::default(), steps, 64);
    }

    #[test]
    fn holds_what_a_plain_map_holds(size in sizes(), steps in steps(80)) {
        run(size, &StoreOptions::default(), steps, 512 << 10);
    }

    #[test]
    fn holds_the_same_when_most_of_it_is_spilled(size in (12_u64 << 20..40 << 20), steps in steps(60)) {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions {
            memory_limit_bytes: Some(4 << 20),
            spill_folder: Some(folder.path().to_owned()),
            ..StoreOptions::default()
        };
        run(size, &options, steps, 3 << 20);
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn holds_the_same_when_most_of_it_is_packed(
        size in (12_u64 << 20..40 << 20), steps in steps(60), pack_above_bytes in 0_u64..6 << 20
    ) {
        run(size, &StoreOptions { pack_above_bytes, ..StoreOptions::default() }, steps, 3 << 20);
    }

    #[test]
    fn holds_the_same_when_it_is_packed_and_spilled(
        size in (12_u64 << 20..40 << 20), steps in steps(60), limit in 4_u64 << 20..12 << 20
    ) {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions {
            memory_limit_bytes: Some(limit),
            spill_folder: Some(folder.path().to_owned()),
            pack_above_bytes: 0,
            reserve_bytes: 0,
        };
        run(size, &options, steps, 3 << 20);
    }

    #[test]
    fn without_room_it_says_how_far_it_came(size in (12_u64 << 20..40 << 20), steps in steps(60)) {
        let options = StoreOptions { memory_limit_bytes: Some(6 << 20), ..StoreOptions::default() };
        run(size, &options, steps, 3 << 20);
    }
}
