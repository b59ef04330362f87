//! A volume as a part of its drive.

use fsage_model::disk::DiskCounter;

use super::{Medium, Model};
use crate::request::Request;

/// A drive of which a volume uses a part: its requests go to that part, what they cost depends on the whole.
/// A drive of its own (`ram`) is as large as its volume.
#[derive(Debug, Clone)]
pub struct Partition {
    drive: Medium,
    start_bytes: u64,
    size_bytes: u64,
    moved: Vec<Request>,
}

impl Partition {
    /// `size_bytes` of `drive`, from `start_bytes` on.
    #[must_use]
    pub const fn new(drive: Medium, start_bytes: u64, size_bytes: u64) -> Self {
        Self { drive, start_bytes, size_bytes, moved: Vec::new() }
    }
}

impl Model for Partition {
    fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) {
        self.moved.clear();
        self.moved.extend(batch.iter().map(|request| {
            let within = request.within(self.size_bytes);
            Request { offset_bytes: within.offset_bytes + self.start_bytes, ..within }
        }));
        self.drive.serve(now_ns, &self.moved, done_ns);
    }

    fn rest(&mut self, now_ns: u64) -> u64 {
        self.drive.rest(now_ns)
    }

    fn counters(&self) -> Vec<DiskCounter> {
        self.drive.counters()
    }

    fn reads_follow_writes(&self) -> bool {
        self.drive.reads_follow_writes()
    }
}
