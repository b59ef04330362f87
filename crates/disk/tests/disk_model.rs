//! A day in the life of a disk: random requests in batches, with faults that come and go, snapshots, logs and
//! views, and in the end the disk holds what a plain array holds.
//!
//! The time is the disk's own, a hard disk's. By default a few minutes of it pass; `FSAGE_DISK_HOURS=24`
//! makes it a day (build with `--release`).

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

use std::sync::Arc;

use fsage_content::fill;
use fsage_disk::disk::{Disk, DiskOptions, Medium};
use fsage_disk::fault::Faults;
use fsage_disk::media::Resolve as _;
use fsage_disk::request::{Data, IoError, Operation, Request, Transfer};
use fsage_disk::store::{StoreOptions, ViewId};
use fsage_model::disk::call::SnapshotId;
use fsage_model::fault::{FaultSpec, RuleSpec, SlowSpec};
use fsage_model::medium::MediumSpec;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

const SIZE: u64 = 24 << 20;
const SEED: u64 = 20_260_401;
const HOUR_NS: u64 = 3_600_000_000_000;

/// The bytes of a disk, in parts that copies share.
#[derive(Clone)]
struct Plain(Vec<Arc<[u8; 4096]>>);

impl Plain {
    fn new() -> Self {
        let zeros = Arc::new([0; 4096]);
        Self((0..SIZE / 4096).map(|_| Arc::clone(&zeros)).collect())
    }

    fn parts(offset: u64, length: u64) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
        let (first, end) = (offset / 4096, offset + length);
        (first..end.div_ceil(4096)).map(move |block| {
            let start = block * 4096;
            let from = offset.max(start) - start;
            (to_usize(block), to_usize(from)..to_usize(end.min(start + 4096) - start))
        })
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (block, range) in Self::parts(offset, data.len() as u64) {
            let (now, later) = rest.split_at(range.len());
            Arc::make_mut(&mut self.0[block])[range].copy_from_slice(now);
            rest = later;
        }
    }

    fn zero(&mut self, offset: u64, length: u64) {
        for (block, range) in Self::parts(offset, length) {
            Arc::make_mut(&mut self.0[block])[range].fill(0);
        }
    }

    /// Bits in which these bytes differ from what is held, the most of any sector.
    fn worst_difference(&self, offset: u64, data: &[u8]) -> u32 {
        let (mut rest, mut worst) = (data, 0);
        for (block, range) in Self::parts(offset, data.len() as u64) {
            let (now, later) = rest.split_at(range.len());
            rest = later;
            let expected = &self.0[block][range];
            if now != expected {
                worst = worst
                    .max(now.iter().zip(expected).map(|(is, expected)| (is ^ expected).count_ones()).sum());
            }
        }
        worst
    }
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// What happened, so that it can be seen that everything did.
#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    read_errors: u64,
    write_errors: u64,
    rotten_reads: u64,
    reverts: u64,
    states: u64,
}

struct Day {
    disk: Disk,
    plain: Plain,
    random: Xoshiro256PlusPlus,
    snapshots: Vec<(SnapshotId, Plain)>,
    /// While a log is kept: the states that were marked, and the view that inspects them.
    log: Option<(ViewId, Vec<(u64, Plain)>)>,
    seen: Seen,
}

impl Day {
    fn new(disk: Disk) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        Self { disk, plain: Plain::new(), random, snapshots: Vec::new(), log: None, seen: Seen::default() }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    /// A request and its bytes, to be written or to be filled.
    fn make(&mut self) -> (Request, Vec<u8>) {
        let operation = match self.below(100) {
            0..45 => Operation::Write,
            45..85 => Operation::Read,
            85..91 => Operation::Flush,
            91..96 => Operation::Discard,
            _ => Operation::Zero,
        };
        if operation == Operation::Flush {
            return (Request::new(operation, 0, 0), Vec::new());
        }
        let unit = if self.below(8) == 0 { 512 } else { 4096 };
        let longest = if self.below(64) == 0 { 256 } else { 8 };
        let offset = self.below(SIZE / unit) * unit;
        let length = ((1 + self.below(longest)) * unit).min(SIZE - offset);
        let mut request = Request::new(operation, offset, length);
        request.fua = operation == Operation::Write && self.below(16) == 0;
        let mut bytes = vec![0; if operation == Operation::Discard { 0 } else { to_usize(length) }];
        if operation == Operation::Write {
            match self.below(6) {
                0 => self.random.fill_bytes(&mut bytes),
                1 => {}
                2 => {
                    // As metadata: it can be packed.
                    for line in bytes.chunks_mut(64) {
                        self.random.fill_bytes(&mut line[..12]);
                    }
                }
                3 => {
                    let tail = to_usize(self.below(4096)).min(bytes.len());
                    let end = bytes.len() - tail;
                    fill(&mut bytes[..end], self.below(50), offset / 4096 * 4096, 1);
                }
                _ => fill(&mut bytes, self.below(50), offset / 4096 * 4096, 2),
            }
        }
        (request, bytes)
    }

    /// Hands a batch to the disk, and does what became of it in the model.
    fn batch(&mut self) {
        let count = 1 + self.below(32);
        let mut made: Vec<(Request, Vec<u8>)> = (0..count).map(|_| self.make()).collect();
        let mut transfers: Vec<Transfer<'_>> = made
            .iter_mut()
            .map(|(request, bytes)| {
                let data = match request.operation {
                    Operation::Read => Data::In(bytes),
                    Operation::Write => Data::Out(bytes),
                    _ => Data::None,
                };
                Transfer::new(*request, data)
            })
            .collect();
        let before = self.disk.clock_ns();
        self.disk.submit(&mut transfers);
        for Transfer { request, data, result, done_ns } in transfers {
            assert!(done_ns >= before);
            self.seen.requests += 1;
            let Request { operation, offset_bytes, length_bytes, .. } = request;
            if result.is_err() {
                assert_eq!(result, Err(IoError::Medium));
                match operation {
                    Operation::Read => self.seen.read_errors += 1,
                    _ => self.seen.write_errors += 1,
                }
                continue;
            }
            match data {
                Data::In(bytes) => {
                    let worst = self.plain.worst_difference(offset_bytes, bytes);
                    // A rule of rot and one of the requests may have struck the same sector, and the latter
                    // again.
                    assert!(worst == 0 || !self.disk.faults().is_idle() && worst <= 8, "{request:?}");
                    self.seen.rotten_reads += u64::from(worst > 0);
                }
                Data::Out(bytes) => self.plain.write(offset_bytes, bytes),
                Data::None => self.plain.zero(offset_bytes, length_bytes),
            }
        }
    }

    /// Faults come, or go.
    fn change_faults(&mut self) {
        if !self.disk.faults().is_idle() {
            self.disk.faults_mut().clear();
            return;
        }
        let place = self.below(SIZE / 4096) * 4096;
        let everywhere = |rate| RuleSpec { rate: Some(rate), ..RuleSpec::default() };
        let region = RuleSpec {
            offset_bytes: Some(place),
            length_bytes: Some((SIZE - place).min(1 << 20)),
            rate: Some(0.1),
            requests: Vec::new(),
        };
        let slow = SlowSpec {
            offset_bytes: Some(place),
            length_bytes: Some(4096),
            rate: None,
            requests: Vec::new(),
            extra_ns: 5_000_000,
            factor: Some(1.5),
        };
        let spec = FaultSpec {
            seed: self.random.next_u64(),
            read_error: vec![everywhere(0.001), region.clone()],
            write_error: vec![everywhere(0.01)],
            ignored_flush: vec![everywhere(0.5)],
            bit_rot: vec![everywhere(0.002), region],
            slow_region: vec![slow],
        };
        self.disk.set_faults(Faults::new(&spec, SIZE).unwrap());
    }

    /// What happens beside requests.
    fn administer(&mut self) {
        match self.below(12) {
            0 | 1 => self.change_faults(),
            2 | 3 if self.snapshots.len() < 3 => {
                self.snapshots.push((self.disk.snapshot(), self.plain.clone()));
            }
            4 if !self.snapshots.is_empty() => {
                let pick = to_usize(self.below(self.snapshots.len() as u64));
                let (id, plain) = self.snapshots.swap_remove(pick);
                self.end_log();
                self.disk.revert(id).unwrap();
                self.plain = plain;
                self.disk.store_mut().delete_snapshot(id).unwrap();
                self.seen.reverts += 1;
            }
            5 | 6 if self.log.is_none() => {
                self.disk.start_log();
                self.log = Some((self.disk.view().unwrap(), vec![(0, self.plain.clone())]));
            }
            7..10 => {
                if let Some((_, states)) = &mut self.log {
                    states.push((self.disk.log().unwrap().len(), self.plain.clone()));
                }
                self.look_back();
            }
            10 => self.end_log(),
            _ => self.compare(),
        }
    }

    /// Moves the view to a state that was marked, and to another.
    fn look_back(&mut self) {
        let Some((view, states)) = &self.log else { return };
        let (view, mut bytes) = (*view, vec![0; 4096]);
        for _ in 0..2 {
            let (position, plain) = &states[to_usize(self.random.next_u64()) % states.len()];
            self.disk.move_view(view, *position).unwrap();
            for (number, block) in (0..).zip(&plain.0) {
                self.disk.store_mut().read_view(view, number * 4096, &mut bytes).unwrap();
                assert!(bytes == block[..], "position {position}, block {number}");
            }
            self.disk.store_mut().write_view(view, 12_345, &bytes).unwrap();
            self.seen.states += 1;
        }
    }

    fn end_log(&mut self) {
        if let Some((view, _)) = self.log.take() {
            self.disk.store_mut().delete_view(view).unwrap();
            assert!(self.disk.end_log());
        }
    }

    /// Compares what is held, whatever the faults make of it.
    fn compare(&mut self) {
        let mut bytes = vec![0; 4096];
        for (number, block) in (0..).zip(&self.plain.0) {
            self.disk.store_mut().read(number * 4096, &mut bytes).unwrap();
            assert!(bytes == block[..], "block {number}");
        }
        for (id, plain) in &self.snapshots {
            for (number, block) in (0..).zip(&plain.0).step_by(7) {
                self.disk.store_mut().read_snapshot(*id, number * 4096, &mut bytes).unwrap();
                assert!(bytes == block[..], "block {number} of a snapshot");
            }
        }
    }
}

fn medium() -> Medium {
    Box::new("hdd-7200".parse::<MediumSpec>().unwrap().resolve(SIZE).unwrap())
}

#[test]
fn after_a_day_with_faults_the_disk_holds_what_it_should() {
    let hours = std::env::var("FSAGE_DISK_HOURS").ok().map(|hours| hours.parse::<u64>().unwrap());
    let end_ns = hours.map_or(HOUR_NS / 12, |hours| hours * HOUR_NS);
    let folder = tempfile::tempdir().unwrap();
    let store = StoreOptions {
        memory_limit_bytes: Some(12 << 20),
        spill_folder: Some(folder.path().to_owned()),
        pack_above_bytes: 6 << 20,
        reserve_bytes: 0,
    };
    let options = DiskOptions { size_bytes: SIZE, block_bytes: 512, store };
    let mut day = Day::new(Disk::new(&options, medium()).unwrap());
    let mut batches = 0_u64;
    while day.disk.clock_ns() < end_ns {
        day.batch();
        batches += 1;
        if batches.is_multiple_of(20) {
            day.administer();
        }
    }
    day.end_log();
    day.disk.set_faults(Faults::default());
    let mut all = vec![0; to_usize(SIZE)];
    let request = Request::new(Operation::Read, 0, SIZE);
    let mut transfers = [Transfer::new(request, Data::In(&mut all))];
    day.disk.submit(&mut transfers);
    assert!(transfers[0].result.is_ok());
    assert_eq!(day.plain.worst_difference(0, &all), 0);
    let Seen { requests, read_errors, write_errors, rotten_reads, reverts, states } = day.seen;
    println!("{batches} batches, {:?}, {:?}", day.seen, day.disk.stat());
    assert!([read_errors, write_errors, rotten_reads, reverts, states].iter().all(|count| *count > 0));
    assert!(requests > 10_000);
}
