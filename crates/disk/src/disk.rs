//! A disk: requests in, bytes and times out.
//!
//! Requests that wait together come together. They are done in the order of their arrival, one after the other, so that a later
//! one sees what an earlier one did; then the medium says when each would have been answered, in whatever order it serves them.
//! The disk's clock moves on to the last of these times: see the queueing rule of [`crate::media`]. A request that fails before it
//! reaches the medium takes no time.

use serde::{Deserialize, Serialize};

use crate::media::{Counter, Model};
use crate::request::{Data, IoError, Operation, Request, Transfer};
use crate::store::{SnapshotId, Store, StoreError, StoreOptions, Usage};

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

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Requests that were answered, failed ones too.
    pub requests: u64,
    /// Bytes of those that did not fail.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// Requests of every kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Reads.
    pub read: Count,
    /// Writes.
    pub write: Count,
    /// Flushes.
    pub flush: Count,
    /// Discards.
    pub discard: Count,
    /// Writes of zeros without data.
    pub zero: Count,
}

impl Counts {
    const fn of(&mut self, operation: Operation) -> &mut Count {
        match operation {
            Operation::Read => &mut self.read,
            Operation::Write => &mut self.write,
            Operation::Flush => &mut self.flush,
            Operation::Discard => &mut self.discard,
            Operation::Zero => &mut self.zero,
        }
    }
}

/// The state of a disk in figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// Its size.
    pub size_bytes: u64,
    /// The unit in which it is addressed.
    pub block_bytes: u32,
    /// Its clock: nanoseconds of model time since it was made.
    pub clock_ns: u64,
    /// Nanoseconds of these in which it had something to do.
    pub busy_ns: u64,
    /// Requests so far.
    pub requests: Counts,
    /// Its contents.
    pub store: Usage,
    /// What its medium counted.
    pub medium: Vec<Counter>,
}

/// A disk.
pub struct Disk {
    block_bytes: u32,
    store: Store,
    medium: Medium,
    clock_ns: u64,
    busy_ns: u64,
    requests: Counts,
    /// Requests that go to the medium, and its answers: kept so that no batch allocates.
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
            clock_ns: 0,
            busy_ns: 0,
            requests: Counts::default(),
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
        self.batch.clear();
        for transfer in &mut *transfers {
            transfer.result = self.execute(transfer);
            let Request { operation, length_bytes, .. } = transfer.request;
            let count = self.requests.of(operation);
            count.requests += 1;
            if transfer.result.is_ok() {
                count.bytes += length_bytes;
                self.batch.push(transfer.request);
            } else {
                count.errors += 1;
            }
        }
        self.done_ns.clear();
        self.done_ns.resize(self.batch.len(), self.clock_ns);
        self.medium.serve(self.clock_ns, &self.batch, &mut self.done_ns);
        let (before, mut times) = (self.clock_ns, self.done_ns.iter());
        for transfer in transfers {
            let time = if transfer.result.is_ok() { times.next() } else { None };
            transfer.done_ns = time.map_or(before, |time| before.max(*time));
            self.clock_ns = self.clock_ns.max(transfer.done_ns);
        }
        self.busy_ns += self.clock_ns - before;
    }

    fn execute(&mut self, transfer: &mut Transfer<'_>) -> Result<(), IoError> {
        let Request { operation, offset_bytes, length_bytes, .. } = transfer.request;
        let inside = offset_bytes.checked_add(length_bytes).is_some_and(|end| end <= self.size_bytes());
        if operation != Operation::Flush && !inside {
            return Err(IoError::Range);
        }
        let fits = |bytes: usize| u64::try_from(bytes) == Ok(length_bytes);
        let done = match (operation, &mut transfer.data) {
            (Operation::Flush, _) => Ok(()),
            (Operation::Read, Data::In(buffer)) if fits(buffer.len()) => {
                self.store.read(offset_bytes, buffer)
            }
            (Operation::Write, Data::Out(bytes)) if fits(bytes.len()) => {
                self.store.write(offset_bytes, bytes, None)
            }
            (Operation::Discard | Operation::Zero, _) => self.store.zero(offset_bytes, length_bytes, None),
            (Operation::Read | Operation::Write, _) => return Err(IoError::Range),
        };
        done.map_err(|error| error.io())
    }

    /// The state of the disk in figures.
    #[must_use]
    pub fn stat(&self) -> Stat {
        Stat {
            size_bytes: self.size_bytes(),
            block_bytes: self.block_bytes,
            clock_ns: self.clock_ns,
            busy_ns: self.busy_ns,
            requests: self.requests,
            store: self.store.usage(),
            medium: self.medium.counters(),
        }
    }

    /// Keeps the present contents.
    pub fn snapshot(&mut self) -> SnapshotId {
        self.store.snapshot()
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

        fn counters(&self) -> Vec<Counter> {
            let value = f64::from(u32::try_from(self.0).unwrap());
            vec![Counter { name: "served".to_owned(), unit: "1".to_owned(), value }]
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
        assert_eq!(stat.requests.write, Count { requests: 3, bytes: 6, errors: 1 });
        assert_eq!(stat.requests.discard, Count { requests: 1, bytes: 1 << 20, errors: 0 });
        assert_eq!(stat.medium[0].value.to_bits(), 5.0_f64.to_bits());
        assert_eq!(stat.store.held_bytes, 0);
        let text = serde_json::to_string(&stat).unwrap();
        assert_eq!(serde_json::from_str::<Stat>(&text).unwrap(), stat);
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
}
