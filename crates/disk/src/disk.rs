//! A disk: requests in, bytes and times out.
//!
//! Requests that wait together come together. They are done in the order of their arrival, one after the
//! other, so that a later one sees what an earlier one did; then the medium says when each would have been
//! answered, in whatever order it serves them. The disk's clock moves on to the last of these times: see the
//! queueing rule of [`crate::media`]. A request that the disk does not have, or that it has no room for,
//! takes no time, and neither does a flush that a fault has it ignore; one that fails by a fault takes the
//! medium's time.

mod crash;
mod flash;
mod history;
mod recorder;
mod stat;
mod think;

pub use self::history::LogContents;

use fsage_model::disk::call::SnapshotId;
use fsage_model::disk::{Counts, DiskFigures};
use fsage_model::medium::PartitionSpec;

use self::crash::Shown;
use self::history::monotonic_ns;
use self::recorder::Recorder;
use self::think::Think;
use crate::fault::{FaultVerdict, Faults};
use crate::log::own::OwnMark;
use crate::log::{Entry, Log, Payload};
use crate::media::Model;
use crate::request::{Data, IoError, Operation, Request, Transfer};
use crate::store::{Store, StoreError, StoreOptions};

/// A medium that a disk can be made of.
pub type Medium = Box<dyn Model + Send>;

/// What a disk is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskOptions {
    /// Its size: from 4096 bytes to 16 TiB.
    pub size_bytes: u64,
    /// The unit in which it says to be addressed: who exports it refuses other requests.
    pub block_bytes: u32,
    /// How its bytes are kept.
    pub store: StoreOptions,
}

impl DiskOptions {
    /// A disk with blocks of 4096 bytes, kept in memory without limit.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self { size_bytes, block_bytes: 4096, store: StoreOptions::default() }
    }
}

/// What cannot be done with a disk's log.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// Nothing is recorded.
    #[error("the disk keeps no log")]
    NoLog,
    /// The mark would read as one of the disk's own.
    #[error(
        "a mark cannot be called `{name}`: names that begin with `{}` are the disk's own",
        crate::log::own::OWN
    )]
    OwnMark {
        /// What was asked for.
        name: String,
    },
    /// The log is not that long.
    #[error("no position {position} in a log of {entries} entries")]
    Position {
        /// What was asked for.
        position: u64,
        /// How many there are.
        entries: u64,
    },
    /// No crash states are shown.
    #[error("no crash states were planned")]
    NoCrash,
    /// Units that the disk cannot have.
    #[error("an atomic unit of {atomic_bytes} bytes on a disk with blocks of {block_bytes}")]
    Atomic {
        /// What was asked for.
        atomic_bytes: u64,
        /// The disk's logical block.
        block_bytes: u32,
    },
    /// The contents.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DiskError {
    /// The next step for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoLog => Some("start the log before the requests of interest".to_owned()),
            Self::OwnMark { .. } => Some("take another name".to_owned()),
            Self::Position { .. } => None,
            Self::NoCrash => Some("begin with `begin-crash`, while a log is kept".to_owned()),
            Self::Atomic { block_bytes, .. } => Some(format!(
                "give a multiple of {block_bytes}: users of a block device rely on whole blocks"
            )),
            Self::Store(error) => error.hint(),
        }
    }
}

/// A disk.
pub struct Disk {
    block_bytes: u32,
    store: Store,
    medium: Medium,
    /// What the medium is, as a flag names it, for who reads the log.
    medium_name: Option<String>,
    /// Its partitions, as flags name them, where it has several.
    partitions: Option<String>,
    clock_ns: u64,
    busy_ns: u64,
    /// Time from arrival to answer, summed over the transfers.
    waiting_ns: u64,
    /// CPU time of the load, where it passes on the clock.
    think: Option<Think>,
    requests: Counts,
    recorder: Option<Recorder>,
    /// The crash states that are shown in the place of the contents.
    crash: Option<Shown>,
    log_limit_bytes: u64,
    /// Of the store's memory, for crash states of the log.
    room_left: bool,
    faults: Faults,
    /// Requests that came so far.
    number: u64,
    /// Of each transfer: whether it goes to the medium, and what it takes there beside. This and what follows
    /// is kept so that no batch allocates.
    passage: Vec<Option<FaultVerdict>>,
    /// By how much the medium's own clock is behind the disk's: time that factors of slow regions added.
    stretch_ns: u64,
    /// Requests that go to the medium, and its answers.
    batch: Vec<Request>,
    done_ns: Vec<u64>,
}

impl Disk {
    /// A disk full of zeros at time 0.
    ///
    /// # Errors
    /// The store cannot be made: see [`Store::new`].
    pub fn new(options: &DiskOptions, medium: Medium) -> Result<Self, StoreError> {
        Ok(Self {
            block_bytes: options.block_bytes,
            store: Store::new(options.size_bytes, &options.store)?,
            medium,
            medium_name: None,
            partitions: None,
            clock_ns: 0,
            busy_ns: 0,
            waiting_ns: 0,
            think: None,
            requests: Counts::default(),
            recorder: None,
            crash: None,
            log_limit_bytes: u64::MAX,
            room_left: false,
            faults: Faults::default(),
            number: 0,
            passage: Vec::new(),
            stretch_ns: 0,
            batch: Vec::new(),
            done_ns: Vec::new(),
        })
    }

    /// Bytes of the disk.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }

    /// The unit in which it is addressed, in bytes.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Its clock: nanoseconds of model time since it was made.
    #[must_use]
    pub const fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    /// Does the requests that wait together, and sets each one's result and time.
    pub fn submit(&mut self, transfers: &mut [Transfer<'_>]) {
        if self.crash.is_some() {
            return self.submit_to_state(transfers);
        }
        self.take_think_time();
        self.batch.clear();
        self.passage.clear();
        let arrived_ns = if self.recorder.is_some() { monotonic_ns() } else { 0 };
        let first = self.log().map_or(0, Log::len);
        for transfer in &mut *transfers {
            let verdict = self.pass(transfer);
            let Transfer { request, result, .. } = *transfer;
            stat::count(&mut self.requests, &request, result);
            if let Some(recorder) = &mut self.recorder {
                recorder.push(Entry {
                    request,
                    result,
                    flush_ignored: verdict.flush_ignored,
                    issued_ns: self.clock_ns,
                    done_ns: self.clock_ns,
                    arrived_ns,
                    payload: Payload::NONE,
                });
            }
        }
        self.time(transfers);
        self.publish_clock();
        if let Some(Recorder { log, .. }) = &mut self.recorder {
            for (number, transfer) in (first..).zip(transfers) {
                log.set_done(number, transfer.done_ns, transfer.result);
            }
        }
    }

    /// Does one request, or has a fault fail it, and says whether it goes to the medium.
    fn pass(&mut self, transfer: &mut Transfer<'_>) -> FaultVerdict {
        let request = transfer.request;
        let number = self.number;
        self.number += 1;
        if !self.has(transfer) {
            transfer.result = Err(IoError::Range);
            self.passage.push(None);
            return FaultVerdict::GOOD;
        }
        let faulty = !self.faults.is_idle();
        let verdict = if faulty { self.faults.before(number, &request) } else { FaultVerdict::GOOD };
        let done = if verdict.result.is_ok() { self.execute(transfer) } else { Ok(()) };
        if faulty && verdict.result.is_ok() && done.is_ok() {
            match (&mut transfer.data, request.operation) {
                (Data::In(buffer), Operation::Read) => self.faults.after_read(&request, buffer),
                (_, Operation::Read | Operation::Flush) => {}
                _ => self.faults.after_change(number, &request),
            }
        }
        transfer.result = verdict.result.and(done);
        if done.is_err() || (verdict.flush_ignored && request.operation == Operation::Flush) {
            self.passage.push(None);
        } else {
            self.passage.push(Some(verdict));
            self.batch.push(Request { fua: request.fua && !verdict.flush_ignored, ..request });
        }
        verdict
    }

    /// Lets the medium say when each transfer is done, and moves the clock on.
    fn time(&mut self, transfers: &mut [Transfer<'_>]) {
        let before = self.clock_ns;
        self.done_ns.clear();
        self.done_ns.resize(self.batch.len(), before);
        // A drive that is slower as a whole does nothing meanwhile: its own clock stands still.
        let own_before = before.saturating_sub(self.stretch_ns);
        self.medium.serve(own_before, &self.batch, &mut self.done_ns);
        let mut times = self.done_ns.iter();
        // When all were done if no fault had slowed them, and if none had made the drive slower as a whole.
        let (mut sound_ns, mut unstretched_ns) = (before, before);
        for (transfer, passage) in transfers.iter_mut().zip(&self.passage) {
            let served = passage.and_then(|verdict| {
                let own_ns = times.next()?.saturating_sub(own_before);
                sound_ns = sound_ns.max(before.saturating_add(own_ns));
                let delayed_ns = own_ns.saturating_add(verdict.extra_ns);
                unstretched_ns = unstretched_ns.max(before.saturating_add(delayed_ns));
                Some(before.saturating_add(verdict.slowed(own_ns)))
            });
            transfer.done_ns = served.unwrap_or(before);
            self.waiting_ns = self.waiting_ns.saturating_add(transfer.done_ns.saturating_sub(before));
            self.clock_ns = self.clock_ns.max(transfer.done_ns);
        }
        self.faults.count_slow(self.clock_ns - sound_ns);
        self.stretch_ns += self.clock_ns - unstretched_ns;
        self.busy_ns += self.clock_ns - before;
    }

    /// Whether the disk has the range, and the transfer the bytes that it names.
    fn has(&self, transfer: &Transfer<'_>) -> bool {
        let Request { operation, offset_bytes, length_bytes, .. } = transfer.request;
        let inside = offset_bytes.checked_add(length_bytes).is_some_and(|end| end <= self.size_bytes());
        let fits = |bytes: usize| u64::try_from(bytes) == Ok(length_bytes);
        match (operation, &transfer.data) {
            (Operation::Flush, _) => true,
            (Operation::Discard | Operation::Zero, _) => inside,
            (Operation::Read, Data::In(buffer)) => inside && fits(buffer.len()),
            (Operation::Write, Data::Out(bytes)) => inside && fits(bytes.len()),
            (Operation::Read | Operation::Write, _) => false,
        }
    }

    fn execute(&mut self, transfer: &mut Transfer<'_>) -> Result<(), IoError> {
        let Request { operation, offset_bytes, length_bytes, .. } = transfer.request;
        // A write that cannot be logged is not done: a log without it would tell another history.
        let changes = matches!(operation, Operation::Write | Operation::Discard | Operation::Zero);
        if changes && self.recorder.as_ref().is_some_and(Recorder::is_full) {
            return Err(IoError::Space);
        }
        let record = self.recorder.as_mut().map(|recorder| &mut recorder.scratch);
        let done = match (operation, &mut transfer.data) {
            (Operation::Read, Data::In(buffer)) => self.store.read(offset_bytes, buffer),
            (Operation::Write, Data::Out(bytes)) => self.store.write(offset_bytes, bytes, record),
            (Operation::Discard | Operation::Zero, _) => self.store.zero(offset_bytes, length_bytes, record),
            // A flush has nothing to bring anywhere; other pairs were refused.
            (Operation::Flush | Operation::Read | Operation::Write, _) => Ok(()),
        };
        done.map_err(|error| {
            let failed = error.io();
            if let Some(recorder) = &mut self.recorder
                && failed == IoError::Space
            {
                recorder.close();
            }
            failed
        })
    }

    /// Most memory for the log, in bytes; near it writes fail for lack of space and nothing more is logged.
    pub const fn limit_log(&mut self, bytes: u64) {
        self.log_limit_bytes = bytes;
    }

    /// Says what the medium is, as a flag names it: logs begin with it from now on ([`OwnMark::Medium`]).
    pub fn name_medium(&mut self, name: String) {
        self.medium_name = Some(name);
    }

    /// Says what partitions the drive has: logs begin with them from now on ([`OwnMark::Partitions`]).
    pub fn name_partitions(&mut self, partitions: &[PartitionSpec]) {
        let words: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        self.partitions = (!words.is_empty()).then(|| words.join(" "));
    }

    /// Says that the medium is several drives, which a log begins with as with partitions.
    pub fn name_drives(&mut self, drives: u32, fast: Option<&str>) {
        let fast = fast.map_or_else(String::new, |medium| format!(" and {medium}"));
        self.partitions = Some(format!("{drives} drives{fast}"));
    }

    /// Brings the medium to rest ([`Model::rest`]) and moves the clock on to when it is; no request, and in a
    /// log a mark ([`OwnMark::Rest`]).
    pub fn rest(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.log.mark(&OwnMark::Rest.to_string(), monotonic_ns());
        }
        self.take_think_time();
        let before = self.clock_ns;
        let own_before = before.saturating_sub(self.stretch_ns);
        let rested_ns = self.medium.rest(own_before).saturating_add(self.stretch_ns);
        self.clock_ns = rested_ns.max(before);
        self.busy_ns += self.clock_ns - before;
        self.publish_clock();
    }

    /// Brings faults into the disk in the place of those it has; with [`Faults::default`] it is sound again
    /// and holds what it was given.
    pub fn set_faults(&mut self, mut faults: Faults) {
        faults.count_on(&self.faults);
        self.faults = faults;
    }

    /// The disk's faults.
    #[must_use]
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The disk's faults, to undo their damage.
    pub const fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// The state of the disk in figures.
    #[must_use]
    pub fn stat(&self) -> DiskFigures {
        DiskFigures {
            size_bytes: self.size_bytes(),
            block_bytes: self.block_bytes,
            clock_ns: self.clock_ns,
            busy_ns: self.busy_ns,
            waiting_ns: self.waiting_ns,
            requests: self.requests,
            store: self.store.usage(),
            log: self.recorder.as_ref().map(Recorder::stat),
            medium: self.counters(),
            faults: self.faults.counters(),
        }
    }

    /// Keeps the present contents.
    pub fn snapshot(&mut self) -> SnapshotId {
        self.store.snapshot()
    }

    /// Lets the disk hold again what a snapshot holds. A log that was kept ends.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn revert(&mut self, id: SnapshotId) -> Result<(), StoreError> {
        self.store.revert(id)?;
        self.end_log();
        Ok(())
    }

    /// The contents, for snapshots and views.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The contents, for snapshots and views. What is written there directly takes no time and is in no log.
    pub const fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::crash::{CrashSpec, DriveBehaviour};
    use fsage_model::disk::Count;
    use fsage_model::disk::DiskCounter;

    use super::*;
    use crate::media::ram::Ram;

    /// A medium that serves the newest first, 10 ns each, and counts.
    struct Stack(u64);

    impl Model for Stack {
        fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) {
            assert_eq!(batch.len(), done_ns.len());
            for (n, done) in (1..).zip(done_ns.iter_mut().rev()) {
                *done = now_ns + n * 10;
                self.0 += 1;
            }
        }

        fn counters(&self) -> Vec<DiskCounter> {
            vec![DiskCounter::sum("served", "1", self.0)]
        }
    }

    fn write(offset_bytes: u64, data: &[u8]) -> Transfer<'_> {
        let length = u64::try_from(data.len()).unwrap();
        Transfer::new(Request::new(Operation::Write, offset_bytes, length), Data::Out(data))
    }

    fn read(offset_bytes: u64, data: &mut [u8]) -> Transfer<'_> {
        let length = u64::try_from(data.len()).unwrap();
        Transfer::new(Request::new(Operation::Read, offset_bytes, length), Data::In(data))
    }

    fn plain(operation: Operation, offset_bytes: u64, length_bytes: u64) -> Transfer<'static> {
        Transfer::new(Request::new(operation, offset_bytes, length_bytes), Data::None)
    }

    #[test]
    fn a_batch_is_done_in_order_and_timed_by_the_medium() {
        let mut disk = Disk::new(&DiskOptions::new(1 << 20), Box::new(Stack(0))).unwrap();
        let mut seen = [0; 3];
        let mut batch = [
            write(5000, b"abc"),
            read(5000, &mut seen),
            write(5000, b"def"),
            plain(Operation::Flush, 0, 0),
            write(1 << 20, b"beyond"),
        ];
        disk.submit(&mut batch);
        let times: Vec<u64> = batch.iter().map(|transfer| transfer.done_ns).collect();
        assert_eq!(times, [40, 30, 20, 10, 0]);
        assert_eq!(batch[4].result, Err(IoError::Range));
        assert!(batch[..4].iter().all(|transfer| transfer.result.is_ok()));
        assert_eq!(&seen, b"abc");
        disk.submit(&mut [plain(Operation::Discard, 0, 1 << 20)]);
        let stat = disk.stat();
        assert_eq!((stat.clock_ns, stat.busy_ns), (50, 50));
        // What four requests waited for together, then one alone.
        assert_eq!(stat.waiting_ns, 40 + 30 + 20 + 10 + 10);
        assert_eq!(stat.requests.write, Count { requests: 3, bytes: 6, errors: 1 });
        assert_eq!(stat.requests.discard, Count { requests: 1, bytes: 1 << 20, errors: 0 });
        assert_eq!(stat.medium[0].value.to_bits(), 5.0_f64.to_bits());
        assert_eq!(stat.store.held_bytes, 0);
        let text = serde_json::to_string(&stat).unwrap();
        assert_eq!(serde_json::from_str::<DiskFigures>(&text).unwrap(), stat);
    }

    #[test]
    fn ranges_that_the_disk_does_not_have_are_refused() {
        let mut disk = Disk::new(&DiskOptions::new(10_000), Box::new(Ram)).unwrap();
        let mut short = [0; 2];
        let mut batch = [
            plain(Operation::Discard, 9_999, 2),
            plain(Operation::Zero, u64::MAX, 2),
            plain(Operation::Read, 0, 10),
            Transfer::new(Request::new(Operation::Read, 0, 3), Data::In(&mut short)),
            Transfer::new(Request::new(Operation::Write, 0, 3), Data::Out(b"ab")),
            plain(Operation::Discard, 10_000, 0),
            write(9_999, b"x"),
        ];
        disk.submit(&mut batch);
        let failed = batch.iter().map(|transfer| transfer.result == Err(IoError::Range));
        assert_eq!(failed.collect::<Vec<_>>(), [true, true, true, true, true, false, false]);
        assert_eq!(disk.clock_ns(), 0);
        assert!(Disk::new(&DiskOptions::new(4095), Box::new(Ram)).is_err());
        assert!(Disk::new(&DiskOptions::new((16 << 40) + 1), Box::new(Ram)).is_err());
    }

    #[test]
    fn a_log_that_takes_too_much_memory_ends_writes_and_itself() {
        let mut disk = Disk::new(&DiskOptions::new(64 << 10), Box::new(Stack(0))).unwrap();
        disk.limit_log(1 << 20);
        disk.start_log();
        let mut written = 0_u64;
        loop {
            let mut batch = [write(0, &[7; 4096])];
            disk.submit(&mut batch);
            if batch[0].result == Err(IoError::Space) {
                break;
            }
            written += 1;
            assert!(written < 100_000, "it has no end");
        }
        assert_eq!(disk.log().unwrap().len(), written);
        // What changes nothing still works, and is not logged.
        let mut batch = [plain(Operation::Flush, 0, 0)];
        disk.submit(&mut batch);
        assert_eq!((batch[0].result, disk.log().unwrap().len()), (Ok(()), written));
    }

    #[test]
    fn a_store_without_room_ends_the_log_and_leaves_room_for_crash_states() {
        let store = StoreOptions { memory_limit_bytes: Some(32 << 20), ..StoreOptions::default() };
        let options = DiskOptions { store, ..DiskOptions::new(64 << 20) };
        let mut disk = Disk::new(&options, Box::new(Ram)).unwrap();
        disk.start_log();
        disk.leave_room(true);
        let (mut random, mut written, mut data) = (1_u64, 0, vec![0_u8; 1 << 20]);
        let failed = loop {
            data.as_chunks_mut::<8>().0.iter_mut().for_each(|word| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *word = (random ^ (random >> 29)).to_le_bytes();
            });
            let mut batch = [write((written % 64) << 20, &data)];
            disk.submit(&mut batch);
            if batch[0].result.is_err() {
                break batch[0].result;
            }
            written += 1;
            assert!(written < 64, "it has no end");
        };
        assert_eq!((failed, disk.is_log_full()), (Err(IoError::Space), true));
        assert!((24..=28).contains(&written), "{written}: an eighth is left for later");
        let entries = disk.log().unwrap().len();
        assert_eq!(entries, written + 1, "the one that failed is the last");
        let mut batch = [plain(Operation::Discard, 0, 1 << 20), write(0, &[0; 4096])];
        disk.submit(&mut batch);
        assert!(batch.iter().all(|transfer| transfer.result == Err(IoError::Space)));
        assert_eq!((disk.log().unwrap().len(), disk.mark("end").unwrap()), (entries, entries));
        let drive = DriveBehaviour::Honest;
        let spec = CrashSpec { drive, atomic_bytes: 4096, cache_bytes: 0, states: 4, seed: 1 };
        disk.begin_crash(&spec).unwrap();
        disk.next_crash().unwrap().unwrap();
        let mut batch = [write(0, &data), write(1 << 20, &data)];
        disk.submit(&mut batch);
        assert!(batch.iter().all(|transfer| transfer.result == Ok(())), "a state can be written to");
        assert!(!disk.state_ran_out());
        for number in 0..8 {
            disk.submit(&mut [write(number << 20, &data)]);
        }
        assert!(disk.state_ran_out(), "but not without end");
        disk.next_crash().unwrap().unwrap();
        assert!(!disk.state_ran_out());
        disk.end_log();
        assert!(!disk.is_log_full());
    }

    #[test]
    fn every_state_of_the_log_can_be_had_again() {
        let mut disk = Disk::new(&DiskOptions::new(64 << 10), Box::new(Stack(0))).unwrap();
        disk.submit(&mut [write(0, &[1; 8192])]);
        assert!(matches!(disk.view(), Err(DiskError::NoLog)));
        disk.start_log();
        let mut states = vec![vec![0; 16]];
        let contents = |disk: &mut Disk| {
            let mut all = vec![0; 64 << 10];
            disk.store_mut().read(0, &mut all).unwrap();
            all
        };
        states[0] = contents(&mut disk);
        for number in 0..40_u8 {
            let place = u64::from(number) * 1777 % 60_000;
            match number % 4 {
                0 => disk.submit(&mut [plain(Operation::Discard, place, 3000)]),
                1 => disk.submit(&mut [write(place, &[number; 600])]),
                2 => disk.submit(&mut [plain(Operation::Flush, 0, 0)]),
                _ => disk.submit(&mut [write(place / 4096 * 4096, &[number; 4096])]),
            }
            states.push(contents(&mut disk));
        }
        disk.mark("end").unwrap();
        let view = disk.view().unwrap();
        let mut all = vec![0; 64 << 10];
        for position in [40, 0, 7, 39, 8, 8, 21, 20] {
            disk.move_view(view, position).unwrap();
            disk.store_mut().read_view(view, 0, &mut all).unwrap();
            assert!(all == states[usize::try_from(position).unwrap()], "{position}");
            disk.store_mut().write_view(view, 5000, &[77; 9000]).unwrap();
        }
        assert!(matches!(disk.move_view(view, 41), Err(DiskError::Position { position: 41, entries: 40 })));
        let entries: Vec<Entry> = disk.log().unwrap().entries(0).collect();
        let times: Vec<u64> = entries.iter().map(|entry| entry.done_ns).collect();
        assert_eq!(times, (2..42).map(|number| number * 10).collect::<Vec<u64>>());
        let mut data = Vec::new();
        disk.read_entry(&entries[3], &mut data).unwrap();
        assert_eq!(data, [3; 4096]);
        disk.read_entry(&entries[0], &mut data).unwrap();
        assert_eq!(data.len(), 4096);
        assert_eq!(disk.stat().log.unwrap().entries, 40);
        disk.store_mut().delete_view(view).unwrap();
        assert!(disk.end_log());
        let usage = disk.stat().store;
        assert_eq!((usage.pages, usage.snapshots), (usage.raw_blocks, 0));
        assert!(contents(&mut disk) == states[40]);
    }
}
