//! Showing crash states in the place of the contents: see [`crate::crash`].
//!
//! While states are shown, requests go to a view of the log. They take no time and are in no log; what is
//! written (a recovery, a test) lies above the state and is dropped by the next move. Moving from a state to
//! the next undoes and redoes the changes in which they differ.

use std::collections::HashMap;
use std::time::Instant;

use fsage_content::{BLOCK_BYTES, Block, Header, recognise};
use fsage_model::crash::{BlockLog, BlockWrite, CrashCoverage, CrashSpec, CrashState, ShownState};

use super::recorder::Recorder;
use super::{Disk, DiskError, flash};
use crate::crash::{Change, Timeline, Unflushed, digest, plan};
use crate::request::{Data, IoError, Operation, Transfer};
use crate::store::{Piece, Store, StoreError, ViewId};

/// A discard or zeroing longer than this is one change of one block as far as digests go: states that differ
/// from each other elsewhere may then count twice, and none is left out.
const LONGEST_ZEROS: u64 = 64 << 20;

/// States that are shown.
pub(super) struct Shown {
    view: ViewId,
    atomic_bytes: u64,
    states: Vec<CrashState>,
    /// Place of the next state.
    next: usize,
    /// Numbers of the log's changes.
    changes: Vec<u64>,
    /// What is on the view, step by step.
    applied: Vec<Applied>,
    /// The first so many of these are the first changes of the log, whole.
    solid: usize,
    /// Something that was written to the present state failed for lack of memory.
    ran_out: bool,
}

/// A change on the view.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Applied {
    entry: u64,
    /// The atomic units that are there; `None`: all.
    kept: Option<Vec<u64>>,
}

impl Shown {
    /// Moves the view to a state.
    fn show(&mut self, state: &CrashState, recorder: &Recorder, store: &mut Store) -> Result<(), StoreError> {
        store.reset(self.view)?;
        let durable = self.changes.partition_point(|entry| *entry < state.durable);
        // A request that is torn while it is under way was not answered before the cut.
        let torn = state.torn.as_ref();
        let until = torn.map_or(state.cut, |torn| state.cut.max(torn.entry + 1));
        let end = self.changes.partition_point(|entry| *entry < until).max(durable);
        let tail: Vec<Applied> = self
            .changes
            .get(durable..end)
            .unwrap_or_default()
            .iter()
            .filter(|entry| state.lost.binary_search(entry).is_err())
            .map(|entry| Applied {
                entry: *entry,
                kept: torn.filter(|torn| torn.entry == *entry).map(|torn| torn.kept.clone()),
            })
            .collect();
        let mut common = self.solid.min(durable);
        if common == durable {
            let there = self.applied.get(durable..).unwrap_or_default();
            common += there.iter().zip(&tail).take_while(|(is, wanted)| is == wanted).count();
        }
        while self.applied.len() > common {
            store.back(self.view)?;
            self.applied.pop();
        }
        self.solid = self.solid.min(common);
        let whole = |entry: &u64| Applied { entry: *entry, kept: None };
        let certain: Vec<Applied> =
            self.changes.get(common..durable).unwrap_or_default().iter().map(whole).collect();
        let tail = tail.into_iter().skip(common.saturating_sub(durable));
        for applied in certain.into_iter().chain(tail) {
            self.put(applied, recorder, store)?;
        }
        self.solid = durable;
        Ok(())
    }

    fn put(&mut self, applied: Applied, recorder: &Recorder, store: &mut Store) -> Result<(), StoreError> {
        if let Some(entry) = recorder.log.get(applied.entry) {
            let pieces = recorder.pieces(&entry);
            match &applied.kept {
                None => store.step(self.view, pieces)?,
                Some(kept) => {
                    let start = entry.request.offset_bytes;
                    store.step(self.view, &self.parts(pieces, start, kept))?;
                }
            }
            self.applied.push(applied);
        }
        Ok(())
    }

    /// What lies in some atomic units of a request that begins at `start`.
    fn parts(&self, pieces: &[Piece], start: u64, kept: &[u64]) -> Vec<Piece> {
        let mut parts = Vec::new();
        for unit in kept {
            let from = start + unit * self.atomic_bytes;
            let end = from + self.atomic_bytes;
            for piece in pieces {
                let (first, last) = (from.max(piece.offset_bytes), end.min(piece.end_bytes()));
                if first < last {
                    parts.push(piece.part(first - piece.offset_bytes, last - first));
                }
            }
        }
        parts
    }
}

impl Disk {
    /// Plans crash states of the log and shows the disk as it was when the log began; [`Disk::next_crash`]
    /// shows the first state. Cost: every byte in the log is read.
    ///
    /// # Errors
    /// No log is kept; an atomic unit that the disk cannot have; the spill file cannot be read.
    pub fn begin_crash(&mut self, spec: &CrashSpec) -> Result<CrashCoverage, DiskError> {
        let (atomic_bytes, block_bytes) = (spec.atomic_bytes, self.block_bytes);
        if atomic_bytes == 0 || !atomic_bytes.is_multiple_of(u64::from(block_bytes)) {
            return Err(DiskError::Atomic { atomic_bytes, block_bytes });
        }
        self.end_crash();
        let timeline = self.timeline()?;
        let planned = plan(&timeline, spec);
        // What is written to states was left room for.
        self.store.hold_back(false);
        self.crash = Some(Shown {
            view: self.view()?,
            atomic_bytes,
            states: planned.states,
            next: 0,
            changes: timeline.changes.iter().map(|change| change.entry).collect(),
            applied: Vec::new(),
            solid: 0,
            ran_out: false,
        });
        Ok(planned.coverage)
    }

    /// Shows the next planned state; `None` when there is none left.
    ///
    /// # Errors
    /// No states were planned; no memory.
    pub fn next_crash(&mut self) -> Result<Option<ShownState>, DiskError> {
        let started = Instant::now();
        let shown = self.crash.as_mut().ok_or(DiskError::NoCrash)?;
        let Some(state) = shown.states.get(shown.next).cloned() else { return Ok(None) };
        let number = u64::try_from(shown.next).unwrap_or(u64::MAX);
        shown.next += 1;
        self.show_crash(&state)?;
        let moved_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(Some(ShownState { number, state, moved_ns }))
    }

    /// Shows a state.
    ///
    /// # Errors
    /// As [`Disk::next_crash`].
    pub fn show_crash(&mut self, state: &CrashState) -> Result<(), DiskError> {
        let shown = self.crash.as_mut().ok_or(DiskError::NoCrash)?;
        shown.ran_out = false;
        let recorder = self.recorder.as_ref().ok_or(DiskError::NoLog)?;
        shown.show(state, recorder, &mut self.store)?;
        match flash::lose(&mut self.store, recorder, shown.view, &state.flash) {
            // As where a recovery finds no room: the state is shown, and says nothing.
            Err(StoreError::Full) => shown.ran_out = true,
            lost => lost?,
        }
        Ok(())
    }

    /// Whether something that was written to the state that is shown failed for lack of memory: what is made of it then
    /// says nothing of who wrote. False where no state is shown.
    #[must_use]
    pub fn state_ran_out(&self) -> bool {
        self.crash.as_ref().is_some_and(|shown| shown.ran_out)
    }

    /// Shows what the disk holds again. Nothing happens where no states are shown.
    pub fn end_crash(&mut self) {
        if let Some(shown) = self.crash.take() {
            // The view exists as long as this does.
            let _ = self.store.delete_view(shown.view);
            self.store.hold_back(self.room_left);
        }
    }

    /// Does requests on the state that is shown.
    pub(super) fn submit_to_state(&mut self, transfers: &mut [Transfer<'_>]) {
        for transfer in transfers {
            transfer.done_ns = self.clock_ns;
            transfer.result =
                if self.has(transfer) { self.do_on_state(transfer) } else { Err(IoError::Range) };
        }
    }

    fn do_on_state(&mut self, transfer: &mut Transfer<'_>) -> Result<(), IoError> {
        let Some(view) = self.crash.as_ref().map(|shown| shown.view) else { return Ok(()) };
        let (offset, length) = (transfer.request.offset_bytes, transfer.request.length_bytes);
        let done = match (transfer.request.operation, &mut transfer.data) {
            (Operation::Read, Data::In(buffer)) => self.store.read_view(view, offset, buffer),
            (Operation::Write, Data::Out(bytes)) => self.store.write_view(view, offset, bytes),
            (Operation::Discard | Operation::Zero, _) => self.store.zero_view(view, offset, length),
            (Operation::Flush | Operation::Read | Operation::Write, _) => Ok(()),
        };
        done.map_err(|error| {
            let failed = error.io();
            if let Some(shown) = &mut self.crash {
                shown.ran_out |= failed == IoError::Space;
            }
            failed
        })
    }

    /// The self-describing blocks of the log. Cost: every byte in the log is read.
    ///
    /// # Errors
    /// No log is kept; the spill file cannot be read.
    pub fn block_log(&mut self) -> Result<BlockLog, DiskError> {
        let recorder = self.recorder.as_ref().ok_or(DiskError::NoLog)?;
        let (mut log, mut data) = (BlockLog::default(), Vec::new());
        let mut unflushed = Unflushed::default();
        for (entry, logged) in (0..).zip(recorder.log.entries(0)) {
            let done = logged.result.is_ok() && !logged.flush_ignored;
            if logged.request.operation == Operation::Flush && done {
                for number in unflushed.flush(&logged.request) {
                    log.writes[number].flushed = Some(entry);
                }
            }
            data.clear();
            recorder.read(&mut self.store, &logged, &mut data)?;
            for block in data.chunks(BLOCK_BYTES) {
                if let Block::Good { header, .. } = recognise(block) {
                    let Header { file, offset: offset_bytes, version } = header;
                    let forced = logged.request.fua && done;
                    unflushed.add(log.writes.len(), logged.request);
                    log.writes.push(BlockWrite { entry, file, offset_bytes, version, forced, flushed: None });
                }
            }
        }
        Ok(log)
    }

    /// The log as what matters for crash states.
    fn timeline(&mut self) -> Result<Timeline, DiskError> {
        let recorder = self.recorder.as_ref().ok_or(DiskError::NoLog)?;
        let unit_bytes = u64::from(self.block_bytes);
        let mut timeline = Timeline { unit_bytes, entries: recorder.log.len(), ..Timeline::default() };
        let (mut data, mut unflushed) = (Vec::new(), Unflushed::default());
        for (number, entry) in (0..).zip(recorder.log.entries(0)) {
            let request = entry.request;
            if request.operation == Operation::Flush && entry.result.is_ok() && !entry.flush_ignored {
                timeline.flushes.push(number);
                for place in unflushed.flush(&request) {
                    timeline.changes[place].flushed = Some(number);
                }
            }
            if !entry.changes() {
                continue;
            }
            data.clear();
            recorder.read(&mut self.store, &entry, &mut data)?;
            let first = request.offset_bytes / unit_bytes;
            let effects = match request.operation {
                Operation::Write => {
                    data.chunks(usize::try_from(unit_bytes).unwrap_or(4096)).map(digest).collect()
                }
                _ if request.length_bytes > LONGEST_ZEROS => vec![digest(&number.to_le_bytes())],
                _ => {
                    vec![crate::crash::ZEROS; usize::try_from(request.length_bytes / unit_bytes).unwrap_or(0)]
                }
            };
            unflushed.add(timeline.changes.len(), request);
            timeline.changes.push(Change {
                entry: number,
                offset_bytes: request.offset_bytes,
                length_bytes: request.length_bytes,
                forced: request.fua && !entry.flush_ignored,
                written: request.operation == Operation::Write,
                flushed: None,
                effects: (first..).zip(effects).collect(),
            });
        }
        timeline.base = base(&mut self.store, recorder, &timeline)?;
        Ok(timeline)
    }
}

/// Digests of what the blocks that a log touches held when it began.
fn base(
    store: &mut Store,
    recorder: &Recorder,
    timeline: &Timeline,
) -> Result<HashMap<u64, u64>, StoreError> {
    let mut base = HashMap::new();
    let mut block = vec![0; usize::try_from(timeline.unit_bytes).unwrap_or(4096)];
    for (unit, _) in timeline.changes.iter().flat_map(|change| &change.effects) {
        if let std::collections::hash_map::Entry::Vacant(place) = base.entry(*unit) {
            store.read_snapshot(recorder.base, unit * timeline.unit_bytes, &mut block)?;
            place.insert(digest(&block));
        }
    }
    Ok(base)
}

#[cfg(test)]
mod tests {
    use fsage_model::crash::{CrashKind, DriveBehaviour, FlashFault, FlashLoss};
    use rand_core::{Rng as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::disk::DiskOptions;
    use crate::media::ram::Ram;
    use crate::request::Request;

    const BLOCKS: usize = 24;
    const SIZE: usize = BLOCKS * 4096;

    fn disk() -> Disk {
        Disk::new(&DiskOptions::new(u64::try_from(SIZE).unwrap()), Box::new(Ram)).unwrap()
    }

    fn ask(disk: &mut Disk, request: Request, data: Data<'_>) {
        let mut transfers = [Transfer::new(request, data)];
        disk.submit(&mut transfers);
        assert_eq!(transfers[0].result, Ok(()));
    }

    fn bytes(disk: &mut Disk) -> Vec<u8> {
        let mut bytes = vec![0; SIZE];
        let request = Request::new(Operation::Read, 0, u64::try_from(SIZE).unwrap());
        ask(disk, request, Data::In(&mut bytes));
        bytes
    }

    /// One request of a log, as the test keeps it: first block and data.
    type Kept = Option<(usize, Vec<u8>)>;

    /// A disk that has contents, a log of random requests, and the same by the test's own account.
    fn logged(seed: u64) -> (Disk, Vec<u8>, Vec<Kept>) {
        let (mut disk, mut random) = (disk(), Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut draw =
            |limit: usize| usize::try_from(random.next_u64() % u64::try_from(limit).unwrap()).unwrap();
        let start = vec![7; SIZE / 2];
        let request = Request::new(Operation::Write, 0, u64::try_from(SIZE / 2).unwrap());
        ask(&mut disk, request, Data::Out(&start));
        let base = bytes(&mut disk);
        disk.start_log();
        let mut kept = Vec::new();
        for number in 0..120_u8 {
            let first = draw(BLOCKS - 4);
            let length = (1 + draw(4)) * 4096;
            let place = (u64::try_from(first * 4096).unwrap(), u64::try_from(length).unwrap());
            match draw(8) {
                0 => {
                    ask(&mut disk, Request::new(Operation::Flush, 0, 0), Data::None);
                    kept.push(None);
                }
                1 => {
                    ask(&mut disk, Request::new(Operation::Discard, place.0, place.1), Data::None);
                    kept.push(Some((first, vec![0; length])));
                }
                _ => {
                    let mut data = vec![number; length];
                    if draw(2) == 0 {
                        fsage_content::fill(&mut data, 5, place.0, u32::from(number) + 1);
                    }
                    let request = Request::new(Operation::Write, place.0, place.1);
                    ask(&mut disk, request, Data::Out(&data));
                    kept.push(Some((first, data)));
                }
            }
        }
        (disk, base, kept)
    }

    /// What the disk holds in a state, by the definition of a state and nothing else; destroyed ranges are what `shown` is.
    fn with_losses(base: &[u8], kept: &[Kept], state: &CrashState, shown: &[u8]) -> Vec<u8> {
        let mut bytes = expected(base, kept, state, 4096);
        for loss in &state.flash {
            let at = usize::try_from(loss.offset_bytes).unwrap();
            let end = SIZE.min(at + usize::try_from(loss.length_bytes).unwrap());
            match &loss.fault {
                FlashFault::Unmapped => bytes[at..end].fill(0),
                FlashFault::Destroyed { .. } => {
                    let ones: u32 = shown[at..end].iter().map(|byte| byte.count_ones()).sum();
                    let half = u32::try_from((end - at) * 4).unwrap();
                    assert!(ones.abs_diff(half) < half / 10, "random bytes have as many ones as zeros");
                    assert_ne!(bytes[at..end], shown[at..end]);
                    bytes[at..end].copy_from_slice(&shown[at..end]);
                }
                FlashFault::Older { before } => {
                    let whole = CrashState { cut: *before, lost: Vec::new(), ..state.clone() };
                    let then = expected(base, kept, &whole, 4096);
                    bytes[at..end].copy_from_slice(&then[at..end]);
                }
                FlashFault::Flipped { bits } => {
                    for bit in bits {
                        bytes[at + usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
                    }
                }
            }
        }
        bytes
    }

    /// Without what flash lost.
    fn expected(base: &[u8], kept: &[Kept], state: &CrashState, atomic: usize) -> Vec<u8> {
        let mut bytes = base.to_vec();
        for (number, request) in (0_u64..).zip(kept) {
            let Some((first, data)) = request else { continue };
            let torn = state.torn.as_ref().filter(|torn| torn.entry == number);
            if (number >= state.cut && torn.is_none()) || state.lost.contains(&number) {
                continue;
            }
            for (unit, part) in (0_u64..).zip(data.chunks(atomic)) {
                if torn.is_none_or(|torn| torn.kept.contains(&unit)) {
                    let at = first * 4096 + usize::try_from(unit).unwrap() * atomic;
                    bytes[at..at + part.len()].copy_from_slice(part);
                }
            }
        }
        bytes
    }

    fn spec(drive: DriveBehaviour, atomic_bytes: u64) -> CrashSpec {
        CrashSpec { drive, atomic_bytes, cache_bytes: 1 << 20, states: 300, seed: 3 }
    }

    #[test]
    fn every_state_holds_what_its_definition_says_and_no_two_the_same() {
        for (drive, atomic, seed) in [
            (DriveBehaviour::Honest, 4096, 1),
            (DriveBehaviour::Honest, 8192, 2),
            (DriveBehaviour::DropsFlush, 4096, 3),
            (DriveBehaviour::Lying, 4096, 4),
            (DriveBehaviour::Protected, 4096, 5),
        ] {
            let (mut disk, base, kept) = logged(seed);
            let live = bytes(&mut disk);
            let coverage = disk.begin_crash(&spec(drive, atomic)).unwrap();
            assert_eq!(bytes(&mut disk), base, "before the first state it is as at the start of the log");
            let (mut seen, mut kinds) = (std::collections::HashSet::new(), std::collections::BTreeSet::new());
            while let Some(shown) = disk.next_crash().unwrap() {
                assert_eq!(shown.number, u64::try_from(seen.len()).unwrap());
                let unit = usize::try_from(atomic).unwrap();
                let wanted = expected(&base, &kept, &shown.state, unit);
                assert!(bytes(&mut disk) == wanted, "{drive:?} {:?}", shown.state);
                assert!(seen.insert(wanted), "the same bytes twice: {:?}", shown.state);
                kinds.insert(shown.state.kind);
                // A recovery that writes all over it leaves nothing to the next.
                let request = Request::new(Operation::Write, 4096, 8192);
                ask(&mut disk, request, Data::Out(&[0xee; 8192]));
                assert_eq!(bytes(&mut disk)[5000], 0xee);
            }
            assert_eq!(coverage.planned, u64::try_from(seen.len()).unwrap());
            assert!(kinds.contains(&CrashKind::Prefix) && kinds.contains(&CrashKind::Torn), "{kinds:?}");
            disk.end_crash();
            assert_eq!(bytes(&mut disk), live, "what the disk holds is untouched");
        }
    }

    #[test]
    fn flash_loses_what_its_state_says_and_nothing_else() {
        for (drive, seed) in [
            (DriveBehaviour::LostMapping, 6),
            (DriveBehaviour::BitErrors, 7),
            (DriveBehaviour::PairedPages, 8),
        ] {
            let (mut disk, base, kept) = logged(seed);
            disk.begin_crash(&spec(drive, 4096)).unwrap();
            let (mut states, mut seen) = (Vec::new(), std::collections::HashSet::new());
            while let Some(shown) = disk.next_crash().unwrap() {
                assert_eq!(shown.state.kind, CrashKind::Flash);
                assert!(!shown.state.flash.is_empty());
                let found = bytes(&mut disk);
                assert!(
                    found == with_losses(&base, &kept, &shown.state, &found),
                    "{drive:?} {:?}",
                    shown.state
                );
                let whole = expected(&base, &kept, &shown.state, 4096);
                assert!(found != whole, "a fault that changes nothing: {:?}", shown.state);
                assert!(seen.insert(found.clone()), "the same bytes twice: {:?}", shown.state);
                states.push((shown.state, found));
            }
            assert!(states.len() > 30, "{drive:?} {}", states.len());
            for (state, found) in states.iter().rev().step_by(3) {
                disk.show_crash(state).unwrap();
                assert!(bytes(&mut disk) == *found, "not the same again: {state:?}");
            }
        }
    }

    #[test]
    fn a_loss_beyond_the_end_of_the_disk_is_left_out() {
        let (mut disk, ..) = logged(10);
        disk.begin_crash(&spec(DriveBehaviour::BitErrors, 4096)).unwrap();
        let mut state = disk.next_crash().unwrap().unwrap().state;
        for fault in
            [FlashFault::Unmapped, FlashFault::Older { before: 9 }, FlashFault::Destroyed { seed: 1 }]
        {
            let size = u64::try_from(SIZE).unwrap();
            for (offset_bytes, length_bytes) in [(size - 4096, u64::MAX), (u64::MAX, 4096)] {
                state.flash = vec![FlashLoss { offset_bytes, length_bytes, fault: fault.clone() }];
                disk.show_crash(&state).unwrap();
            }
        }
    }

    #[test]
    fn a_state_can_be_shown_again_in_any_order() {
        let (mut disk, base, kept) = logged(9);
        disk.begin_crash(&spec(DriveBehaviour::Honest, 4096)).unwrap();
        let mut states = Vec::new();
        while let Some(shown) = disk.next_crash().unwrap() {
            states.push(shown.state);
        }
        for state in states.iter().rev().step_by(7).chain(states.iter().step_by(11)) {
            disk.show_crash(state).unwrap();
            assert!(bytes(&mut disk) == expected(&base, &kept, state, 4096), "{state:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut disk = disk();
        assert!(matches!(disk.next_crash(), Err(DiskError::NoCrash)));
        assert!(matches!(disk.begin_crash(&spec(DriveBehaviour::Honest, 4096)), Err(DiskError::NoLog)));
        disk.start_log();
        for atomic_bytes in [0, 512, 6000] {
            let refused = disk.begin_crash(&spec(DriveBehaviour::Honest, atomic_bytes));
            assert!(matches!(refused, Err(DiskError::Atomic { .. })), "{atomic_bytes}");
        }
        assert_eq!(disk.begin_crash(&spec(DriveBehaviour::Honest, 4096)).unwrap().planned, 0);
        assert_eq!(disk.next_crash().unwrap(), None);
        // Without its log no state can be shown.
        disk.end_log();
        assert!(matches!(disk.next_crash(), Err(DiskError::NoCrash)));
    }

    #[test]
    fn the_log_says_which_blocks_were_written_and_when_it_flushed() {
        let mut disk = disk();
        assert!(matches!(disk.block_log(), Err(DiskError::NoLog)));
        disk.start_log();
        let mut data = vec![0; 8192];
        fsage_content::fill(&mut data, 5, 12_288, 3);
        // A part of a block, as the end of a file is.
        data[7000..].fill(0);
        ask(&mut disk, Request::new(Operation::Write, 0, 8192), Data::Out(&data));
        ask(&mut disk, Request::new(Operation::Write, 8192, 4096), Data::Out(&[1; 4096]));
        ask(&mut disk, Request::new(Operation::Flush, 0, 0), Data::None);
        let forced = Request { fua: true, ..Request::new(Operation::Write, 16384, 8192) };
        ask(&mut disk, forced, Data::Out(&data));
        ask(&mut disk, Request::new(Operation::Write, 0, 8192), Data::Out(&data));
        // Of a drive that begins behind the last write.
        ask(&mut disk, Request::new(Operation::Flush, 16384, 8192), Data::None);
        let writes = [(0, Some(2)), (3, Some(5)), (4, None)].into_iter().flat_map(|(entry, flushed)| {
            [12_288, 16_384].map(|offset_bytes| {
                let forced = entry == 3;
                BlockWrite { entry, file: 5, offset_bytes, version: 3, forced, flushed }
            })
        });
        assert_eq!(disk.block_log().unwrap().writes, writes.collect::<Vec<_>>());
    }

    #[test]
    fn a_flush_that_a_fault_dropped_is_none() {
        use fsage_model::fault::{FaultSpec, RuleSpec};

        let lost_at_end = |faults: bool| {
            let mut disk = disk();
            disk.start_log();
            if faults {
                let rule = RuleSpec { rate: Some(1.0), ..RuleSpec::default() };
                let spec = FaultSpec { ignored_flush: vec![rule], ..FaultSpec::default() };
                let faults = crate::fault::Faults::new(&spec, u64::try_from(SIZE).unwrap()).unwrap();
                disk.set_faults(faults);
            }
            ask(&mut disk, Request::new(Operation::Write, 0, 4096), Data::Out(&[1; 4096]));
            ask(&mut disk, Request::new(Operation::Flush, 0, 0), Data::None);
            disk.begin_crash(&spec(DriveBehaviour::Honest, 4096)).unwrap();
            let states = std::iter::from_fn(|| disk.next_crash().unwrap());
            states.filter(|shown| shown.state.cut == 2 && !shown.state.lost.is_empty()).count()
        };
        assert_eq!(lost_at_end(false), 0);
        assert_eq!(lost_at_end(true), 1);
    }
}
