//! What reads, one after the other, take on a medium: each is asked for when the one before is answered.
//!
//! On a hard disk the time of a read follows from where the platters are, which nobody knows of a real disk. So each read has
//! two prices: that of the run as a whole, in which the platters are where the reads before left them, and the mean over the
//! moments of a turn at which it might have come. The second is the nearest that a model can come to a single read.
//!
//! The drive has been filled once before: flash that was never written is not read at all.

use fsage_model::medium::{MediumError, MediumSpec, Parameters};
use fsage_model::timed_read::BlockRange;

use crate::media::{Model, Partition, Resolve as _};
use crate::request::{Operation, Request};

/// Moments of a turn over which the mean is taken.
const MOMENTS: u64 = 16;

/// What a read takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PricedRead {
    /// In the run.
    pub taken_ns: u64,
    /// On average over the angles of the platters; without platters, or where they do not have to turn, the same.
    pub expected_ns: u64,
}

/// The prices of reads of a drive of `size_bytes`, in their order.
///
/// # Errors
/// The parameters contradict each other, or the drive is smaller.
pub fn serial_reads(
    spec: &MediumSpec,
    size_bytes: u64,
    reads: &[BlockRange],
) -> Result<Vec<PricedRead>, MediumError> {
    let parameters = spec.resolved()?;
    let filled = match parameters {
        Parameters::Ssd(_) => format!("{spec},condition=filled").parse()?,
        _ => spec.clone(),
    };
    let turn_ns = match parameters {
        Parameters::Hdd(hdd) => 60_000_000_000 / hdd.rpm.max(1),
        _ => 0,
    };
    let mut model = filled.resolve(size_bytes)?;
    let mut now_ns = 0;
    let mut priced = Vec::with_capacity(reads.len());
    for read in reads {
        let request = Request::new(Operation::Read, read.offset_bytes, u64::from(read.length_bytes));
        let before = (turn_ns > 0).then(|| (model.clone(), waited_ns(&model)));
        let taken_ns = serve(&mut model, now_ns, &request);
        let expected_ns = match before {
            Some((before, waited)) if waited_ns(&model) > waited => {
                mean_ns(&before, now_ns, turn_ns, &request)
            }
            _ => taken_ns,
        };
        now_ns += taken_ns;
        priced.push(PricedRead { taken_ns, expected_ns });
    }
    Ok(priced)
}

fn serve(model: &mut Partition, now_ns: u64, request: &Request) -> u64 {
    let mut done_ns = [now_ns];
    model.serve(now_ns, &[*request], &mut done_ns);
    done_ns[0].saturating_sub(now_ns)
}

fn mean_ns(model: &Partition, now_ns: u64, turn_ns: u64, request: &Request) -> u64 {
    let later = |moment: u64| serve(&mut model.clone(), now_ns + turn_ns * moment / MOMENTS, request);
    (0..MOMENTS).map(later).sum::<u64>() / MOMENTS
}

/// How long the platters have been waited for so far.
fn waited_ns(model: &Partition) -> u64 {
    let counters = model.counters();
    let waited = counters.iter().find(|counter| counter.name == "rotation_ns");
    waited.map_or(0, |counter| fsage_model::quantity::to_u64(counter.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u64, size_bytes: u64, many: u64) -> Vec<BlockRange> {
        let place = |n: u64| {
            let mixed = (n + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29) % (size_bytes / 4096) * 4096
        };
        (0..many).map(|n| BlockRange::new(place(n), 4096)).collect()
    }

    #[test]
    fn random_reads_of_a_disk_take_their_mean_on_average_and_a_sequence_what_it_takes() {
        let (spec, size) = ("hdd-7200".parse().unwrap(), 400 << 30);
        let priced = serial_reads(&spec, size, &random(1, size, 400)).unwrap();
        let sum = |of: fn(&PricedRead) -> u64| priced.iter().map(of).sum::<u64>();
        let (taken, expected) = (sum(|read| read.taken_ns), sum(|read| read.expected_ns));
        assert!(taken.abs_diff(expected) * 20 < taken, "{taken} {expected}");
        assert!(priced.iter().any(|read| read.taken_ns != read.expected_ns));
        // Within a turn: the mean over its moments is in its middle.
        assert!(priced.iter().all(|read| read.taken_ns.abs_diff(read.expected_ns) <= 8_400_000));
        let sequence: Vec<BlockRange> = (0..20).map(|n| BlockRange::new(n << 20, 1 << 20)).collect();
        let priced = serial_reads(&spec, size, &sequence).unwrap();
        assert!(priced.iter().skip(1).all(|read| read.taken_ns == read.expected_ns), "{priced:?}");
    }

    #[test]
    fn flash_is_read_though_nobody_wrote_it() {
        let spec: MediumSpec = "ssd,capacity_bytes=1073741824".parse().unwrap();
        let priced = serial_reads(&spec, 1 << 30, &random(1, 1 << 30, 50)).unwrap();
        let page = 40_000;
        assert!(priced.iter().all(|read| read.taken_ns > page && read.taken_ns == read.expected_ns));
        assert!(serial_reads(&spec, 2 << 30, &[]).is_err(), "larger than the drive");
    }
}
