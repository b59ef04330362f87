//! Several drives under one server, as what RAID, volume managers and caches are made on.

use fsage_model::disk::DiskCounter;

use super::Model;
use crate::request::{Operation, Request};

/// Drives that follow one another in the space that is served. What waits together goes to
/// its drives at the same time, and these work side by side: a batch takes as long as the drive that is busy longest,
/// and the disk's clock, which stands at the last answer, is that of all of them. A request that reaches into the next
/// drive becomes one in each; a flush goes to every drive that has some of its range, and to all without one.
///
/// What a drive does while another one is waited for, its own idle work included, is not modelled: it begins its next
/// batch with the others, and what a medium does in idle time it does meanwhile.
///
/// Spindles of real drives turn independently. Here each is a fixed part of a turn ahead of the one before
/// (1.6 ms), so that equal places on several drives do not pass under their heads at the same moment.
///
#[derive(Debug, Clone)]
pub struct Array<M> {
    drives: Vec<Drive<M>>,
}

/// How far each drive's clock is ahead of that of the one before: no simple part of a turn at any usual speed.
const PHASE_NS: u64 = 1_618_034;

/// How the counters of a drive of another medium begin.
const FAST: &str = "fast_";

/// One of them, and what it is asked in a batch; kept so that no batch allocates.
#[derive(Debug, Clone)]
struct Drive<M> {
    model: M,
    size_bytes: u64,
    /// How far its clock is ahead.
    ahead_ns: u64,
    /// Whether it is of another medium than the others.
    fast: bool,
    asked: Vec<Request>,
    /// Which requests of the batch these are of.
    of: Vec<usize>,
    done_ns: Vec<u64>,
}

impl<M: Model> Array<M> {
    /// Of these drives, at least one, with so much of each in what is served, and one of another medium at their end.
    #[must_use]
    pub fn new(equal: Vec<(M, u64)>, fast: Option<(M, u64)>) -> Self {
        let all = equal.into_iter().map(|drive| (drive, false)).chain(fast.map(|drive| (drive, true)));
        let drive = |(number, ((model, size_bytes), fast))| Drive {
            model,
            size_bytes,
            ahead_ns: number * PHASE_NS,
            fast,
            asked: Vec::new(),
            of: Vec::new(),
            done_ns: Vec::new(),
        };
        Self { drives: (0..).zip(all).map(drive).collect() }
    }

    /// Hands a request, the one of this number in its batch, to the drives that have its range.
    fn share_out(&mut self, number: usize, request: &Request) {
        let mut base_bytes = 0;
        if request.operation == Operation::Flush {
            for drive in &mut self.drives {
                let end_bytes = base_bytes + drive.size_bytes;
                if request.length_bytes == 0
                    || request.offset_bytes < end_bytes && request.end_bytes() > base_bytes
                {
                    drive.ask(number, Request { offset_bytes: 0, length_bytes: 0, ..*request });
                }
                base_bytes = end_bytes;
            }
            return;
        }
        let last = self.drives.len().saturating_sub(1);
        for (place, drive) in self.drives.iter_mut().enumerate() {
            let end_bytes = base_bytes + drive.size_bytes;
            if request.offset_bytes < end_bytes || place == last {
                let from = request.offset_bytes.max(base_bytes);
                let length_bytes = request.end_bytes().min(end_bytes).saturating_sub(from);
                drive.ask(number, Request { offset_bytes: from - base_bytes, length_bytes, ..*request });
                if request.end_bytes() <= end_bytes {
                    break;
                }
            }
            base_bytes = end_bytes;
        }
    }
}

/// A counter of two drives, from that of the one and the other's value.
fn together(one: &DiskCounter, other: f64) -> f64 {
    let is_amount = one.name.ends_with("_bytes") || one.name == "units_open";
    if !one.state || is_amount {
        one.value + other
    } else if one.name.ends_with("_min") {
        one.value.min(other)
    } else {
        one.value.max(other)
    }
}

impl<M> Drive<M> {
    fn ask(&mut self, number: usize, request: Request) {
        self.asked.push(request);
        self.of.push(number);
    }
}

impl<M: Model> Model for Array<M> {
    fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) {
        for drive in &mut self.drives {
            drive.asked.clear();
            drive.of.clear();
        }
        for (number, request) in batch.iter().enumerate() {
            self.share_out(number, request);
        }
        done_ns.fill(now_ns);
        for drive in self.drives.iter_mut().filter(|drive| !drive.asked.is_empty()) {
            drive.done_ns.clear();
            let own_ns = now_ns.saturating_add(drive.ahead_ns);
            drive.done_ns.resize(drive.asked.len(), own_ns);
            drive.model.serve(own_ns, &drive.asked, &mut drive.done_ns);
            for (number, answered_ns) in drive.of.iter().zip(&drive.done_ns) {
                if let Some(done) = done_ns.get_mut(*number) {
                    *done = (*done).max(answered_ns.saturating_sub(drive.ahead_ns));
                }
            }
        }
    }

    fn rest(&mut self, now_ns: u64) -> u64 {
        let rest = |drive: &mut Drive<M>| {
            drive.model.rest(now_ns.saturating_add(drive.ahead_ns)).saturating_sub(drive.ahead_ns)
        };
        self.drives.iter_mut().map(rest).max().unwrap_or(now_ns)
    }

    /// Over all equal drives: sums, also of states that are amounts; of the other states the largest, or the least where the
    /// name says so. Those of a drive of another medium stand beside them.
    fn counters(&self) -> Vec<DiskCounter> {
        let mut all: Vec<DiskCounter> = Vec::new();
        for drive in &self.drives {
            for mut counter in drive.model.counters() {
                if drive.fast {
                    counter.name.insert_str(0, FAST);
                }
                match all.iter_mut().find(|known| known.name == counter.name) {
                    Some(known) => known.value = together(known, counter.value),
                    None => all.push(counter),
                }
            }
        }
        all
    }

    fn reads_follow_writes(&self) -> bool {
        self.drives.iter().any(|drive| drive.model.reads_follow_writes())
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::medium::MediumSpec;

    use super::*;
    use crate::media::{Partition, Resolve as _};

    const DRIVE: u64 = 1 << 30;

    fn drive() -> Partition {
        MediumSpec::named("hdd-7200").unwrap().resolve(DRIVE).unwrap()
    }

    fn array(drives: usize) -> Array<Partition> {
        Array::new(std::iter::repeat_with(|| (drive(), DRIVE)).take(drives).collect(), None)
    }

    fn read(offset_bytes: u64) -> Request {
        Request::new(Operation::Read, offset_bytes, 64 << 10)
    }

    fn serve(model: &mut dyn Model, batch: &[Request]) -> Vec<u64> {
        let mut done_ns = vec![0; batch.len()];
        let now_ns = model.rest(0);
        model.serve(now_ns, batch, &mut done_ns);
        done_ns
    }

    #[test]
    fn one_drive_is_that_drive() {
        let batch = [read(0), read(DRIVE / 2), read(DRIVE / 3)];
        assert_eq!(serve(&mut array(1), &batch), serve(&mut drive(), &batch));
    }

    #[test]
    fn drives_work_side_by_side() {
        let places = [DRIVE / 2, DRIVE / 4, DRIVE - (1 << 20), DRIVE / 3];
        let spread: Vec<Request> =
            (0_u64..).zip(places).map(|(number, place)| read(number * DRIVE + place)).collect();
        let found = serve(&mut array(4), &spread);
        // Each drive alone, at the time that its own clock shows.
        let alone = |(number, place): (u64, &u64)| {
            let (mut drive, ahead_ns, mut done_ns) = (drive(), number * PHASE_NS, [0]);
            let now_ns = array(4).rest(0) + ahead_ns;
            let _ = drive.rest(ahead_ns);
            drive.serve(now_ns, &[read(*place)], &mut done_ns);
            done_ns[0] - ahead_ns
        };
        let alone: Vec<u64> = (0..).zip(&places).map(alone).collect();
        assert_eq!(found, alone, "each takes what it takes on a drive of its own");
        let together = serve(&mut drive(), &places.map(read));
        assert!(found.iter().max() < together.iter().max(), "{found:?} {together:?}");
    }

    #[test]
    fn equal_places_of_several_drives_do_not_turn_in_step() {
        let batch: Vec<Request> = (0..4).map(|number| read(number * DRIVE + DRIVE / 2)).collect();
        let found = serve(&mut array(4), &batch);
        let distinct: std::collections::BTreeSet<u64> = found.iter().copied().collect();
        assert_eq!(distinct.len(), 4, "{found:?}");
    }

    #[test]
    fn a_drive_of_another_medium_keeps_its_own_counters() {
        let fast = MediumSpec::named("ssd").unwrap().resolve(DRIVE).unwrap();
        let mut mixed = Array::new(vec![(drive(), DRIVE)], Some((fast, DRIVE)));
        let write = |offset| Request::new(Operation::Write, offset, 64 << 10);
        let _ = serve(&mut mixed, &[write(0), write(DRIVE)]);
        let value = |name: &str| {
            mixed.counters().into_iter().find(|counter| counter.name == name).map(|counter| counter.value)
        };
        assert_eq!(value("fast_host_write_bytes"), Some(65536.0));
        assert_eq!(value("host_write_bytes"), Some(65536.0));
        assert!(value("seek_ns").is_some() && value("fast_seek_ns").is_none());
        // The whole flash of a pair is twice that of one.
        let pair = |number| {
            let drive = || (MediumSpec::named("ssd").unwrap().resolve(DRIVE).unwrap(), DRIVE);
            let array = Array::new(std::iter::repeat_with(drive).take(number).collect(), None);
            array.counters().into_iter().find(|counter| counter.name == "flash_bytes").unwrap().value
        };
        assert!((pair(2) - 2.0 * pair(1)).abs() < 1.0);
    }

    #[test]
    fn a_request_across_drives_is_done_with_its_last_piece_and_a_flush_with_the_last_drive() {
        let mut pair = array(2);
        let across = Request::new(Operation::Write, DRIVE - 4096, 12 << 10);
        let _ = serve(&mut pair, &[across]);
        assert_eq!(pair.drives[0].asked, [Request::new(Operation::Write, DRIVE - 4096, 4096)]);
        assert_eq!(pair.drives[1].asked, [Request::new(Operation::Write, 0, 8192)]);
        let written = pair.counters().into_iter().find(|counter| counter.name == "write_bytes");
        assert!(written.is_none_or(|counter| counter.value >= 12.0 * 1024.0));
        let _ = serve(&mut pair, &[Request::new(Operation::Flush, 0, 0)]);
        assert!(pair.drives.iter().all(|drive| drive.asked.len() == 1));
        for (from, length, wanted) in
            [(0, DRIVE, [1, 0]), (DRIVE, 4096, [0, 1]), (DRIVE - 4096, 8192, [1, 1])]
        {
            let _ = serve(&mut pair, &[Request::new(Operation::Flush, from, length)]);
            assert_eq!([0, 1].map(|drive| pair.drives[drive].asked.len()), wanted, "{from} {length}");
            let mut asked = pair.drives.iter().flat_map(|drive| &drive.asked);
            assert!(asked.all(|request| *request == Request::new(Operation::Flush, 0, 0)));
        }
        // The end of the last drive is no other's.
        let beyond = Request::new(Operation::Read, 2 * DRIVE - 4096, 8192);
        let _ = serve(&mut pair, &[beyond]);
        assert_eq!(pair.drives[1].asked[0].length_bytes, 4096);
    }

    #[test]
    fn counters_are_those_of_all_drives() {
        let (mut one, mut four) = (array(1), array(4));
        let _ = serve(&mut one, &[read(DRIVE / 2)]);
        let all: Vec<Request> = (0..4).map(|number| read(number * DRIVE + DRIVE / 2)).collect();
        let _ = serve(&mut four, &all);
        let seeks = |counters: Vec<DiskCounter>| {
            counters.into_iter().find(|counter| counter.name == "seek_ns").unwrap().value
        };
        let (of_one, of_four) = (seeks(one.counters()), seeks(four.counters()));
        assert!(of_one > 0.0 && (of_four - 4.0 * of_one).abs() < 1.0, "{of_one} {of_four}");
    }
}
