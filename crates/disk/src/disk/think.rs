//! CPU time of the load on the disk's clock (`cpu = "serial"`).
//!
//! What the load spent since the last request is time in which the disk was idle: the next request comes
//! that much later. What a load spends within a system call before its first request is counted when the
//! call is over, so the sum is right and a request may be a little early.

use fsage_model::disk::{CPU_COUNTER, DiskCounter, PAUSE_COUNTER};
use fsage_sys::think_time::ThinkTime;

use super::Disk;

/// Where the load says what it spent, and how much of that has passed.
#[derive(Debug)]
pub(super) struct Think {
    shared: ThinkTime,
    taken_ns: u64,
}

impl Disk {
    /// Lets the CPU time that `shared` tells of pass on the clock from now on.
    pub fn count_cpu(&mut self, shared: ThinkTime) {
        let taken_ns = shared.spent_ns();
        shared.publish(self.clock_ns, taken_ns);
        self.think = Some(Think { shared, taken_ns });
    }

    /// Moves the clock on by what was spent since the last time.
    pub fn take_think_time(&mut self) {
        if let Some(think) = &mut self.think {
            let spent_ns = think.shared.spent_ns();
            self.clock_ns = self.clock_ns.saturating_add(spent_ns.saturating_sub(think.taken_ns));
            think.taken_ns = think.taken_ns.max(spent_ns);
        }
    }

    /// Says what the clock shows after requests.
    pub(super) fn publish_clock(&self) {
        if let Some(think) = &self.think {
            think.shared.publish(self.clock_ns, think.taken_ns);
        }
    }

    /// What the medium counted, and the CPU time that passed where that is counted.
    pub(super) fn counters(&self) -> Vec<DiskCounter> {
        let mut counters = self.medium.counters();
        if let Some(think) = &self.think {
            let paused_ns = think.shared.paused_ns().min(think.taken_ns);
            counters.push(DiskCounter::sum(CPU_COUNTER, "ns", think.taken_ns - paused_ns));
            counters.extend((paused_ns > 0).then(|| DiskCounter::sum(PAUSE_COUNTER, "ns", paused_ns)));
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::medium::MediumSpec;
    use fsage_sys::think_time::ThinkTimeSpender;

    use super::*;
    use crate::disk::DiskOptions;
    use crate::media::Resolve as _;
    use crate::request::{Data, Operation, Request, Transfer};

    fn disk(medium: &str) -> Disk {
        let medium = medium.parse::<MediumSpec>().unwrap().resolve(1 << 24).unwrap();
        Disk::new(&DiskOptions::new(1 << 24), Box::new(medium)).unwrap()
    }

    fn read(disk: &mut Disk, offset: u64) -> u64 {
        let mut data = [0; 4096];
        let mut batch = [Transfer::new(Request::new(Operation::Read, offset, 4096), Data::In(&mut data))];
        disk.submit(&mut batch);
        batch[0].done_ns
    }

    #[test]
    fn what_was_spent_passes_once_and_before_the_next_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("think");
        let mut serial = disk("ram");
        serial.count_cpu(ThinkTime::create(&path).unwrap());
        let load = ThinkTimeSpender::open(&path).unwrap();
        load.spend(1_000_000);
        let first = read(&mut serial, 0);
        assert_eq!((first, load.now_ns()), (1_000_000, 1_000_000));
        assert_eq!(read(&mut serial, 0), first, "it passes once");
        load.spend(7);
        assert_eq!(load.now_ns(), first + 7, "the load sees it at once");
        serial.take_think_time();
        let stat = serial.stat();
        assert_eq!((stat.clock_ns, stat.busy_ns), (first + 7, 0));
        let counter = stat.medium.iter().find(|counter| counter.name == CPU_COUNTER).unwrap();
        assert_eq!((counter.value, counter.state), (1_000_007.0, false));
        load.pause(500);
        serial.take_think_time();
        let stat = serial.stat();
        let counted =
            |name| stat.medium.iter().find(|counter| counter.name == name).map(|counter| counter.value);
        assert_eq!((counted(CPU_COUNTER), counted(PAUSE_COUNTER)), (Some(1_000_007.0), Some(500.0)));
        assert_eq!(stat.clock_ns, first + 507);
        assert!(disk("ram").stat().medium.iter().all(|counter| counter.name != CPU_COUNTER));
    }

    #[test]
    fn the_medium_sees_the_pause() {
        // Half a turn of thinking moves the sector that comes next under the head by as much.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("think");
        let (mut ignored, mut serial) =
            (disk("hdd-7200,write_cache_bytes=0"), disk("hdd-7200,write_cache_bytes=0"));
        serial.count_cpu(ThinkTime::create(&path).unwrap());
        let load = ThinkTimeSpender::open(&path).unwrap();
        let times = |disk: &mut Disk, spent: u64| {
            let first = read(disk, 0);
            load.spend(spent);
            read(disk, 8 << 20) - first
        };
        let (without, with) = (times(&mut ignored, 0), times(&mut serial, 3_000_000));
        assert!(with >= 3_000_000 && with != without + 3_000_000, "{without} {with}");
    }
}
