//! What a disk says of itself, and what it did between two moments.

pub mod call;
mod figures;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use figures::{
    Count, Counts, DelayError, DiskFigures, GateCounts, LogStat, ProcessRecord, Ready, ServerStat,
    StoreUsage, Transport,
};

use crate::quantity::as_f64;

/// How a disk keeps time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskTime {
    /// Requests complete at once; the time that they would have taken is added to the disk's clock.
    #[default]
    Model,
    /// Each completion is delayed until the medium would have completed the request.
    Real,
}

/// How the CPU time of a load counts on a disk's clock, in [`DiskTime::Model`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskCpu {
    /// It does not count: only the time of the medium passes.
    #[default]
    Ignored,
    /// It passes while the disk is idle: the clock also advances by the CPU time of the load's system calls,
    /// as if none of it overlapped with the work of the disk.
    Serial,
}

impl DiskCpu {
    /// Whether CPU time does not count.
    #[must_use]
    pub const fn is_ignored(&self) -> bool {
        matches!(self, Self::Ignored)
    }
}

/// CPU time that passed on a disk's clock, among its counters.
pub const CPU_COUNTER: &str = "cpu_ns";

/// Pauses of the load that passed on a disk's clock, among its counters.
pub const PAUSE_COUNTER: &str = "paused_ns";

/// Bytes that the host wrote, among a disk's counters.
pub const HOST_WRITE_BYTES: &str = "host_write_bytes";

/// Blocks of flash that garbage was collected from, among a disk's counters.
pub const COLLECTIONS: &str = "gc_collections";

/// Bytes of flash that a drive wears: all but its SLC cache.
pub const FLASH_BYTES: &str = "flash_bytes";

/// Bytes of [`FLASH_BYTES`] that were used up by programming, those that were left out of a group of pages
/// included: each has to be erased before it is used again.
pub const FLASH_WORN: &str = "worn_bytes";

/// A figure that a disk keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskCounter {
    /// `snake_case`, ending in its unit where that is not a plain count (`seek_ns`).
    pub name: String,
    /// `1`, `B`, `ns`.
    pub unit: String,
    /// The sum since the disk was made, or the state now.
    pub value: f64,
    /// Whether it is a state (what is now, the largest of something, a ratio) and not a sum; the medium says
    /// so where it counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub state: bool,
}

impl DiskCounter {
    /// What adds up from the moment the disk was made.
    #[must_use]
    pub fn sum(name: &str, unit: &str, value: u64) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), value: as_f64(value), state: false }
    }

    /// What is now.
    #[must_use]
    pub fn state(name: &str, unit: &str, value: f64) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), value, state: true }
    }
}

/// Time from arrival to answer, summed over requests.
pub const WAITING: &str = "waiting_ns";

/// The counters that say how replies were delayed.
pub const DELAY_COUNTERS: [&str; 3] = [DELAYED, LATE, LEAD];

/// Replies that were delayed, in real time.
const DELAYED: &str = "delayed_replies";

/// How much later than they should they were given, summed.
const LATE: &str = "late_ns";

/// How much earlier than the medium's time they should be given, for the way between the block device and the server.
const LEAD: &str = "lead_ns";

/// Bytes written to flash for each that the host wrote.
const AMPLIFICATION: &str = "write_amplification";

impl From<ServerStat> for DiskStat {
    fn from(stat: ServerStat) -> Self {
        let ServerStat { medium, time, cpu, disk, delay_error, .. } = stat;
        let mut counters = disk.medium;
        // A disk without faults has nothing to say of them.
        counters.extend(disk.faults.into_iter().filter(|counter| counter.value > 0.0));
        counters.extend((disk.waiting_ns > 0).then(|| DiskCounter::sum(WAITING, "ns", disk.waiting_ns)));
        if time == DiskTime::Real {
            counters.extend([
                DiskCounter::sum(DELAYED, "1", delay_error.answers),
                DiskCounter::sum(LATE, "ns", delay_error.sum_ns),
                DiskCounter::state(LEAD, "ns", as_f64(delay_error.lead_ns)),
            ]);
        }
        Self { medium, time, cpu, now_ns: disk.clock_ns, counters }
    }
}

/// What a disk says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskStat {
    /// Name of the medium (`hdd-7200`).
    pub medium: String,
    /// How it keeps time.
    pub time: DiskTime,
    /// Whether CPU time passes on its clock.
    #[serde(skip_serializing_if = "DiskCpu::is_ignored")]
    pub cpu: DiskCpu,
    /// The disk's clock.
    pub now_ns: u64,
    /// What it counted.
    pub counters: Vec<DiskCounter>,
}

/// What a disk did between two moments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskUse {
    /// Name of the medium.
    pub medium: String,
    /// How the disk keeps time.
    pub time: DiskTime,
    /// Whether CPU time passed on its clock; the counter `cpu_ns` says how much.
    #[serde(skip_serializing_if = "DiskCpu::is_ignored")]
    pub cpu: DiskCpu,
    /// Nanoseconds that went by on the disk's clock.
    pub elapsed_ns: u64,
    /// What was counted meanwhile; states are as they were at the end.
    pub counters: Vec<DiskCounter>,
}

impl DiskStat {
    /// What happened since `before`.
    #[must_use]
    pub fn since(self, before: &Self) -> DiskUse {
        let elapsed_ns = self.now_ns.saturating_sub(before.now_ns);
        let earlier = |name: &str| before.counters.iter().find(|counter| counter.name == name);
        let counters = self
            .counters
            .into_iter()
            .map(|counter| match earlier(&counter.name) {
                Some(old) if !counter.state => DiskCounter { value: counter.value - old.value, ..counter },
                // Of what was not counted before nothing had happened.
                _ => counter,
            })
            .collect();
        let mut used = DiskUse { medium: self.medium, time: self.time, cpu: self.cpu, elapsed_ns, counters };
        used.settle();
        used
    }
}

impl DiskUse {
    /// Adds what happened later on.
    pub fn add(&mut self, later: Self) {
        self.elapsed_ns += later.elapsed_ns;
        for counter in later.counters {
            match self.counters.iter_mut().find(|known| known.name == counter.name) {
                Some(known) if !counter.state => known.value += counter.value,
                Some(known) => known.value = counter.value,
                None => self.counters.push(counter),
            }
        }
        self.settle();
    }

    /// A ratio of sums is that of the sums meanwhile.
    fn settle(&mut self) {
        let ratio = self.counter("flash_write_bytes").zip(self.counter("host_write_bytes"));
        let ratio = ratio.map_or(0.0, |(flash, host)| if host > 0.0 { flash / host } else { 0.0 });
        if let Some(counter) = self.counters.iter_mut().find(|counter| counter.name == AMPLIFICATION) {
            counter.value = ratio;
        }
    }

    /// The value of a counter.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(name: &str, value: f64, state: bool) -> DiskCounter {
        DiskCounter { name: name.to_owned(), unit: "1".to_owned(), value, state }
    }

    #[test]
    fn sums_are_subtracted_and_states_kept() {
        let before = DiskStat {
            now_ns: 10,
            counters: vec![counter("seeks", 3.0, false), counter("largest", 9.0, true)],
            ..DiskStat::default()
        };
        let after = DiskStat {
            medium: "hdd".to_owned(),
            now_ns: 25,
            counters: vec![
                counter("seeks", 5.0, false),
                counter("largest", 8.0, true),
                counter("new", 1.0, false),
            ],
            ..DiskStat::default()
        };
        let mut found = after.since(&before);
        assert_eq!((found.elapsed_ns, found.medium.as_str()), (15, "hdd"));
        assert_eq!(
            found.counters,
            [counter("seeks", 2.0, false), counter("largest", 8.0, true), counter("new", 1.0, false)]
        );
        found.add(DiskUse {
            elapsed_ns: 5,
            counters: vec![
                counter("seeks", 1.0, false),
                counter("largest", 2.0, true),
                counter("more", 4.0, false),
            ],
            ..DiskUse::default()
        });
        assert_eq!(found.elapsed_ns, 20);
        assert_eq!(found.counter("seeks"), Some(3.0));
        assert_eq!(found.counter("largest"), Some(2.0));
        assert_eq!(found.counter("more"), Some(4.0));
        assert_eq!(found.counter("none"), None);
    }

    #[test]
    fn write_amplification_is_that_of_what_was_written_meanwhile() {
        let stat = |host, flash, erases| {
            let of = |name: &str, value: f64, state: bool| {
                format!("{{\"name\":\"{name}\",\"unit\":\"1\",\"value\":{value},\"state\":{state}}}")
            };
            let counters = [
                of("host_write_bytes", host, false),
                of("flash_write_bytes", flash, false),
                of(AMPLIFICATION, flash / host, true),
                of("erases_max", erases, true),
            ];
            let text = format!("{{\"disk\":{{\"medium\":[{}]}}}}", counters.join(","));
            DiskStat::from(serde_json::from_str::<ServerStat>(&text).unwrap())
        };
        let mut used = stat(300.0, 500.0, 7.0).since(&stat(100.0, 100.0, 5.0));
        assert_eq!((used.counter(AMPLIFICATION), used.counter("erases_max")), (Some(2.0), Some(7.0)));
        used.add(stat(500.0, 700.0, 9.0).since(&stat(300.0, 500.0, 7.0)));
        assert_eq!((used.counter(AMPLIFICATION), used.counter("erases_max")), (Some(1.5), Some(9.0)));
    }

    #[test]
    fn an_answer_with_more_or_less_is_understood() {
        let text = r#"{"medium":"ssd","time":"real","transport":"device","disk":{"clock_ns":7,"busy_ns":5,
            "medium":[{"name":"erases","unit":"1","value":2}]}}"#;
        let stat = DiskStat::from(serde_json::from_str::<ServerStat>(text).unwrap());
        assert_eq!((stat.time, stat.now_ns, stat.counters[0].value), (DiskTime::Real, 7, 2.0));
        assert_eq!(DiskStat::from(serde_json::from_str::<ServerStat>("{}").unwrap()), DiskStat::default());
        assert!(serde_json::from_str::<ServerStat>(r#"{"time":"slow"}"#).is_err());
    }
}
