//! Numbers of the points of a `cluster` stage, named after the files that hosts shared and each point.

use fsage_model::cluster::{ClusterRecord, ClusterResult, FileSet};
use fsage_model::fio::{DeviceCounts, FioPoint};
use fsage_model::measure::Work;
use fsage_model::metric;
use fsage_model::quantity::share;

use super::{List, WORSE};

/// Every point's, and what the same files cost beside files of one's own.
pub(super) fn push(list: &mut List<'_>, record: &ClusterRecord) {
    for result in &record.results {
        list.work = Some(Work {
            bytes: record.bytes,
            files: u64::from(result.point.files),
            operations: result.operations(),
        });
        point(list, result);
        if let Some(other) = counterpart(result, &record.results) {
            let files = FioPoint { files: other.point.files, ..result.point.clone() };
            let what = metric::of_point(&files, metric::DRIVE_NS);
            let name = metric::over(result.set.name(), other.set.name(), &what);
            list.one(&name, "ratio", result.drive_ns() / other.drive_ns(), WORSE);
        }
    }
    list.work = None;
}

/// The point on files of each host's own that differs from one on the same files in nothing else.
fn counterpart<'a>(one: &ClusterResult, all: &'a [ClusterResult]) -> Option<&'a ClusterResult> {
    let alike = |other: &&ClusterResult| {
        FioPoint { files: one.point.files, ..other.point.clone() } == one.point && other.drive_ns() > 0.0
    };
    let mut others = all.iter().filter(|other| other.set == FileSet::Disjoint);
    others.find(alike).filter(|_| one.set == FileSet::Same)
}

fn point(list: &mut List<'_>, result: &ClusterResult) {
    let mut one = |number: &str, unit: &str, value: f64, worse: Option<bool>| {
        let name = metric::of_volume(result.set.name(), &metric::of_point(&result.point, number));
        list.one(&name, unit, value, worse);
    };
    one(metric::DRIVE_NS, "model ns", result.drive_ns(), WORSE);
    let elapsed = result.disk.elapsed_ns.max(1);
    let moved = |device: &DeviceCounts| device.read_bytes.saturating_add(device.written_bytes);
    let (mut asked, mut done) = (0, 0);
    for (number, host) in (1..).zip(&result.hosts) {
        asked += host.bytes;
        done += moved(&host.device);
        if result.hosts.len() > 1 {
            let operations = host.operations.max(1);
            let ratio = share(moved(&host.device), host.bytes.max(1));
            one(&format!("host{number}_{}", metric::BYTES_OVER_ASKED), "ratio", ratio, None);
            let packets = share(host.sent.packets, operations);
            one(&format!("host{number}_{}", metric::PACKETS), "count", packets, None);
        }
    }
    one(metric::BYTES_OVER_ASKED, "ratio", share(done, asked.max(1)), WORSE);
    if let Some(flushes) = result.flushes() {
        one(metric::FLUSHES, "count", flushes, WORSE);
    }
    one(metric::IN_FLIGHT, "count", result.in_flight(), None);
    one(metric::IDLE_SHARE, "share", share(result.idle_ns, elapsed), None);
    if result.hosts.len() > 1 {
        one(metric::PACKETS, "count", result.per_operation(|host| host.sent.packets), WORSE);
        one(metric::PACKET_BYTES, "bytes", result.per_operation(|host| host.sent.bytes), WORSE);
        one(metric::OVERLAP, "share", result.overlap, None);
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::cluster::{HostLoad, Sent};
    use fsage_model::disk::{DiskCounter, DiskUse};
    use fsage_model::fio::{FioEngine, FioPattern};
    use fsage_model::record::StageRecord;
    use fsage_model::size::Bytes;

    use super::*;

    fn result(set: FileSet, files: u32, elapsed_ns: u64, packets: u64) -> ClusterResult {
        let point = FioPoint {
            rw: FioPattern::RandWrite,
            rwmixread: None,
            bs: Bytes(4096),
            ioengine: FioEngine::Libaio,
            iodepth: 1,
            numjobs: 1,
            files,
            direct: true,
            memory: None,
        };
        let host = HostLoad {
            operations: 100,
            bytes: 409_600,
            device: DeviceCounts { written_bytes: 819_200, flushes: 50, ..DeviceCounts::default() },
            sent: Sent { packets, bytes: packets * 90 },
            ..HostLoad::default()
        };
        let flushes =
            DiskCounter { name: "flushes".to_owned(), unit: "1".to_owned(), value: 100.0, state: false };
        let disk = DiskUse { elapsed_ns, counters: vec![flushes], ..DiskUse::default() };
        ClusterResult {
            set,
            point,
            disk,
            idle_ns: 0,
            overlap: 0.9,
            hosts: vec![host.clone(), host],
            warnings: Vec::new(),
        }
    }

    #[test]
    fn files_of_one_s_own_are_what_the_same_files_are_compared_with() {
        let record = ClusterRecord {
            name: "cluster".to_owned(),
            version: String::new(),
            bytes: 1 << 30,
            clocks_apart_ns: 0,
            results: vec![
                result(FileSet::Same, 16, 2_000_000_000, 300),
                result(FileSet::Disjoint, 8, 1_000_000_000, 0),
            ],
        };
        let metrics = super::super::all(&[StageRecord::Cluster(Box::new(record))]);
        let value =
            |name: &str| metrics.iter().find(|metric| metric.name == name).map(|found| found.samples[0]);
        assert_eq!(value("same.randwrite-4k-libaio-d1-j1-f16.drive_ns"), Some(10_000_000.0));
        assert_eq!(value("disjoint.randwrite-4k-libaio-d1-j1-f8.drive_ns"), Some(5_000_000.0));
        assert_eq!(value("same_over_disjoint.randwrite-4k-libaio-d1-j1-f8.drive_ns"), Some(2.0));
        assert_eq!(value("same.randwrite-4k-libaio-d1-j1-f16.host2_packets"), Some(3.0));
        assert_eq!(value("same.randwrite-4k-libaio-d1-j1-f16.packets"), Some(3.0));
        assert_eq!(value("same.randwrite-4k-libaio-d1-j1-f16.packet_bytes"), Some(270.0));
        assert_eq!(value("same.randwrite-4k-libaio-d1-j1-f16.bytes_over_asked"), Some(2.0));
        assert_eq!(value("same.randwrite-4k-libaio-d1-j1-f16.flushes"), Some(0.5));
    }
}
