//! Several hosts on one volume: what each of them did, and what passed between them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::disk::{DiskUse, WAITING};
use crate::fio::{DeviceCounts, FioPoint};
use crate::metric;
use crate::quantity::{as_f64, share};
use crate::warning::Warning;

/// Which files the hosts use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileSet {
    /// All hosts use all files.
    Same,
    /// Each host uses files that no other one does.
    Disjoint,
}

impl FileSet {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Same, Self::Disjoint];

    /// As studies and metrics have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Disjoint => "disjoint",
        }
    }
}

impl fmt::Display for FileSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a `cluster` stage measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterRecord {
    /// The stage's name.
    pub name: String,
    /// Version of fio.
    pub version: String,
    /// Bytes of all files.
    pub bytes: u64,
    /// Largest difference between the clock of the first host and that of another, in nanoseconds.
    pub clocks_apart_ns: u64,
    /// Every point, in the order in which they were run.
    pub results: Vec<ClusterResult>,
}

/// One point, on all hosts at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterResult {
    /// Which files.
    pub set: FileSet,
    /// What each host did.
    pub point: FioPoint,
    /// What the drive did from before the first host began until everything was written back.
    pub disk: DiskUse,
    /// How much of that the drive would have done as well if no host had worked, such as heartbeats.
    pub idle_ns: u64,
    /// Wall-clock time in which all hosts worked ÷ time in which any did.
    pub overlap: f64,
    /// Each host's, the one that made the file system first.
    pub hosts: Vec<HostLoad>,
    /// What makes its numbers doubtful; the trial repeats them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

impl ClusterRecord {
    /// What the names of its numbers begin with, each with the warnings that are about them: those of its points, and of the ratios in
    /// which they are.
    #[must_use]
    pub fn warned(&self) -> Vec<(String, &[Warning])> {
        let mut found = Vec::new();
        for result in self.results.iter().filter(|result| !result.warnings.is_empty()) {
            let is_divisor = |other: &&ClusterResult| {
                other.set == FileSet::Disjoint
                    && FioPoint { files: result.point.files, ..other.point.clone() } == result.point
            };
            let ratios = self.results.iter().filter(is_divisor);
            let ratios = ratios.map(|other| {
                metric::over(FileSet::Same.name(), FileSet::Disjoint.name(), &other.point.to_string())
            });
            let own = metric::of_volume(result.set.name(), &result.point.to_string());
            found.extend(ratios.chain([own]).map(|name| (name, result.warnings.as_slice())));
        }
        found
    }
}

/// What one host did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostLoad {
    /// fio's JSON: a file of the trial.
    pub file: String,
    /// Operations.
    pub operations: u64,
    /// Bytes read and written by them.
    pub bytes: u64,
    /// What its block device counted.
    pub device: DeviceCounts,
    /// What it sent to the other hosts.
    pub sent: Sent,
    /// Wall-clock time of its load. Where processors are emulated it says only that loads overlapped.
    pub wall_ns: u64,
}

/// What went over a network device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// Bytes of them, headers included.
    pub bytes: u64,
}

impl Sent {
    /// What was sent since `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(before.packets),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

impl ClusterResult {
    /// Operations of all hosts.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.hosts.iter().map(|host| host.operations).sum()
    }

    /// Nanoseconds of the drive's clock, which passes only while it serves requests, per operation of any host. Requests of two hosts are
    /// never in the drive together, so this is no rate that hosts reach.
    #[must_use]
    pub fn drive_ns(&self) -> f64 {
        share(self.disk.elapsed_ns, self.operations().max(1))
    }

    /// Mean number of requests in the drive while it served any: those that came together from one host.
    #[must_use]
    pub fn in_flight(&self) -> f64 {
        let waiting = self.disk.counters.iter().find(|counter| counter.name == WAITING);
        waiting.map_or(0.0, |counter| counter.value / as_f64(self.disk.elapsed_ns.max(1)))
    }

    /// Flushes that the drive had, per operation; those after the loads, which write everything back, are among them. Nothing where its model
    /// does not count them.
    #[must_use]
    pub fn flushes(&self) -> Option<f64> {
        let counter = self.disk.counters.iter().find(|counter| counter.name == "flushes")?;
        Some(counter.value / as_f64(self.operations().max(1)))
    }

    /// Something of all hosts per operation.
    #[must_use]
    pub fn per_operation(&self, of: impl Fn(&HostLoad) -> u64) -> f64 {
        let sum: f64 = self.hosts.iter().map(|host| as_f64(of(host))).sum();
        sum / as_f64(self.operations().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::{FioEngine, FioPattern};
    use crate::size::Bytes;
    use crate::warning::WarningKind;

    #[test]
    fn numbers_are_those_of_all_hosts_together() {
        let point = FioPoint {
            rw: FioPattern::RandRead,
            rwmixread: None,
            bs: Bytes(4096),
            ioengine: FioEngine::Libaio,
            iodepth: 1,
            numjobs: 1,
            files: 16,
            direct: true,
            memory: None,
        };
        let host = |operations, packets| HostLoad {
            operations,
            sent: Sent { packets, bytes: packets * 100 },
            ..HostLoad::default()
        };
        let result = ClusterResult {
            set: FileSet::Same,
            point,
            disk: DiskUse { elapsed_ns: 2_000_000_000, ..DiskUse::default() },
            idle_ns: 0,
            overlap: 1.0,
            hosts: vec![host(100, 30), host(300, 10)],
            warnings: Vec::new(),
        };
        assert_eq!(result.operations(), 400);
        assert!((result.drive_ns() - 5_000_000.0).abs() < 1e-6);
        assert!((result.per_operation(|host| host.sent.packets) - 0.1).abs() < 1e-9);
        let warning = Warning { kind: WarningKind::NotTogether, message: "x".to_owned() };
        let doubtful = ClusterResult { warnings: vec![warning], ..result.clone() };
        let own = FioPoint { files: 8, ..result.point.clone() };
        let disjoint = ClusterResult { set: FileSet::Disjoint, point: own, ..result };
        let record = |results| ClusterRecord {
            name: "cluster".to_owned(),
            version: String::new(),
            bytes: 0,
            clocks_apart_ns: 0,
            results,
        };
        let names = |record: &ClusterRecord| -> Vec<String> {
            record.warned().into_iter().map(|(name, _)| name).collect()
        };
        // The ratio to it is of both.
        let of_same = record(vec![doubtful.clone(), disjoint.clone()]);
        assert_eq!(
            names(&of_same),
            ["same_over_disjoint.randread-4k-libaio-d1-j1-f8", "same.randread-4k-libaio-d1-j1-f16"]
        );
        let warnings = doubtful.warnings.clone();
        let sure = ClusterResult { warnings: Vec::new(), ..doubtful };
        let of_disjoint = record(vec![sure, ClusterResult { warnings, ..disjoint }]);
        assert_eq!(
            names(&of_disjoint),
            ["same_over_disjoint.randread-4k-libaio-d1-j1-f8", "disjoint.randread-4k-libaio-d1-j1-f8"]
        );
        let (before, after) = (Sent { packets: 3, bytes: 10 }, Sent { packets: 5, bytes: 70 });
        assert_eq!(after.since(before), Sent { packets: 2, bytes: 60 });
    }
}
