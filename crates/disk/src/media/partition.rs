//! Volumes as parts of their drive.

use fsage_model::disk::DiskCounter;
use fsage_model::extent::Extent;

use super::{Medium, Model};
use crate::request::Request;

/// A drive of which volumes use parts, its partitions. The requests are those of a space in which the
/// partitions follow one another; each goes to its place on the drive, and what it costs depends on the whole:
/// head, buffer, flash and queue are the drive's. A request that reaches into the next partition becomes one
/// request in each, and is done with the last of them. A drive of its own (`ram`) is as large as its volumes.
#[derive(Debug, Clone)]
pub struct Partition {
    drive: Medium,
    extents: Vec<Extent>,
    size_bytes: u64,
    moved: Vec<Request>,
    /// Of each request of a batch, how many it became, and when these are done; kept so that no batch
    /// allocates.
    pieces: Vec<usize>,
    done_ns: Vec<u64>,
}

impl Partition {
    /// Parts of `drive` in the order in which they follow one another; at least one.
    #[must_use]
    pub fn new(drive: Medium, extents: Vec<Extent>) -> Self {
        let size_bytes = extents.iter().map(|extent| extent.size_bytes).sum();
        Self { drive, extents, size_bytes, moved: Vec::new(), pieces: Vec::new(), done_ns: Vec::new() }
    }

    /// Adds the pieces of a request that lies within the partitions, and gives how many these are. One without
    /// a range is one piece.
    fn push(&mut self, request: Request) -> usize {
        let (before, last) = (self.moved.len(), self.extents.len().saturating_sub(1));
        let mut base_bytes = 0;
        for (number, extent) in self.extents.iter().enumerate() {
            let end_bytes = base_bytes + extent.size_bytes;
            if request.offset_bytes < end_bytes || number == last {
                let from = request.offset_bytes.max(base_bytes);
                let length_bytes = request.end_bytes().min(end_bytes).saturating_sub(from);
                let offset_bytes = from - base_bytes + extent.start_bytes;
                self.moved.push(Request { offset_bytes, length_bytes, ..request });
                if request.end_bytes() <= end_bytes {
                    break;
                }
            }
            base_bytes = end_bytes;
        }
        self.moved.len() - before
    }
}

impl Model for Partition {
    fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) {
        self.moved.clear();
        self.pieces.clear();
        for request in batch {
            let pieces = self.push(request.within(self.size_bytes));
            self.pieces.push(pieces);
        }
        if self.moved.len() == batch.len() {
            return self.drive.serve(now_ns, &self.moved, done_ns);
        }
        self.done_ns.clear();
        self.done_ns.resize(self.moved.len(), now_ns);
        self.drive.serve(now_ns, &self.moved, &mut self.done_ns);
        let mut answered = self.done_ns.iter().copied();
        for (done, pieces) in done_ns.iter_mut().zip(&self.pieces) {
            *done = answered.by_ref().take(*pieces).max().unwrap_or(now_ns);
        }
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

#[cfg(test)]
mod tests {
    use fsage_model::medium::MediumSpec;
    use fsage_model::medium::PartitionSpec;

    use super::*;
    use crate::media::Resolve as _;
    use crate::request::Operation;

    const GIB: u64 = 1 << 30;

    fn drive(partitions: &[&str]) -> Partition {
        let partitions: Vec<PartitionSpec> = partitions.iter().map(|text| text.parse().unwrap()).collect();
        MediumSpec::named("hdd-7200").unwrap().partitioned(&partitions).unwrap()
    }

    fn whole() -> Partition {
        MediumSpec::named("hdd-7200").unwrap().resolve(400 * GIB).unwrap()
    }

    fn read(offset_bytes: u64) -> Request {
        Request::new(Operation::Read, offset_bytes, 64 << 10)
    }

    /// When each is done, one batch after the other.
    fn times(drive: &mut Partition, batches: &[&[Request]]) -> Vec<u64> {
        let (mut now_ns, mut all) = (drive.rest(0), Vec::new());
        for batch in batches {
            let mut done_ns = vec![0; batch.len()];
            drive.serve(now_ns, batch, &mut done_ns);
            now_ns = done_ns.iter().copied().max().unwrap_or(now_ns);
            all.extend(done_ns);
        }
        all
    }

    #[test]
    fn each_partition_is_served_at_its_place_by_one_head() {
        let (first, second) = (read(GIB), read(5 * GIB + 4096));
        let mut apart = drive(&["5GiB@outer", "50GiB@300GiB"]);
        let found = times(&mut apart, &[&[first], &[second], &[first, second]]);
        let there = read(300 * GIB + 4096);
        assert_eq!(found, times(&mut whole(), &[&[first], &[there], &[first, there]]));
        // Side by side the way is shorter.
        let near = times(&mut drive(&["5GiB", "50GiB"]), &[&[first], &[second]]);
        assert!(near[1] - near[0] < found[1] - found[0], "{near:?} {found:?}");
    }

    #[test]
    fn a_request_across_partitions_is_done_with_its_last_piece() {
        let across = Request::new(Operation::Read, 5 * GIB - 4096, 12 << 10);
        let mut apart = drive(&["5GiB@outer", "1GiB@300GiB", "1GiB@inner"]);
        let pieces = [
            Request::new(Operation::Read, 5 * GIB - 4096, 4096),
            Request::new(Operation::Read, 300 * GIB, 8 << 10),
        ];
        let found = times(&mut apart, &[&[across, read(0)]]);
        let wanted = times(&mut whole(), &[&[pieces[0], pieces[1], read(0)]]);
        assert_eq!(found, [wanted[0].max(wanted[1]), wanted[2]]);
        // A flush is one request, and the end of the last partition is no other's.
        let end = Request::new(Operation::Read, 7 * GIB - 4096, 8192);
        assert_eq!(times(&mut apart, &[&[Request::new(Operation::Flush, 0, 0), end]]).len(), 2);
        assert_eq!(apart.moved.len(), 2);
        assert_eq!(apart.moved[1].length_bytes, 4096);
    }

    #[test]
    fn partitions_that_the_drive_does_not_have_are_refused() {
        let refused = |medium: &str, partitions: &[&str]| {
            let partitions: Vec<PartitionSpec> =
                partitions.iter().map(|text| text.parse().unwrap()).collect();
            let error = medium.parse::<MediumSpec>().unwrap().partitioned(&partitions).unwrap_err();
            assert!(error.hint().is_some());
            error.to_string()
        };
        assert!(refused("hdd-7200", &["400GiB", "100GiB"]).contains("no room"));
        assert!(refused("hdd-7200", &["4GiB@outer", "4GiB@1GiB"]).contains("overlaps"));
        assert!(refused("hdd-7200,at=inner", &["4GiB"]).contains("`at`"));
        assert!(refused("hdd-7200", &[]).contains("no partition"));
    }
}
