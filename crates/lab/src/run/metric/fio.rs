//! Numbers of the points of a `fio` stage, named after each point.

use std::fmt::Display;

use fsage_model::disk::{DiskTime, DiskUse};
use fsage_model::fio::{FioLatency, FioPoint, FioRecord, FioResult};
use fsage_model::measure::Work;
use fsage_model::metric;
use fsage_model::quantity::{as_f64, share};

use super::{BETTER, List, WORSE};

/// Every point's.
pub(super) fn push(list: &mut List<'_>, fio: &FioRecord) {
    for result in &fio.results {
        // By the clock it does what it can in its time: the same job on the same bytes, though not as often.
        list.work = Some(Work { bytes: fio.bytes, files: u64::from(result.point.files), operations: 0 });
        point(list, result);
        if let Some(used) = result.memory {
            let cache = used.limit_bytes.saturating_sub(used.process_bytes);
            let ratio = share(used.file_bytes, cache.max(1));
            list.one(&metric::of_point(&result.point, metric::FILES_OVER_CACHE), "ratio", ratio, None);
        }
        at_device(list, result);
        // The device was counted during the ramp too.
        let is_whole = result.point.is_buffered() && result.ramp_ns == 0;
        if let Some(device) = result.device.filter(|_| is_whole) {
            let asked = result.read.bytes + result.write.bytes;
            let ratio = share(device.read_bytes + device.written_bytes, asked.max(1));
            list.one(&metric::of_point(&result.point, metric::DEVICE_SHARE), "ratio", ratio, None);
        }
        for (number, other) in counterparts(result, &fio.results) {
            if other.bandwidth() > 0.0 {
                let ratio = result.bandwidth() / other.bandwidth();
                list.one(&metric::of_point(&result.point, number), "ratio", ratio, BETTER);
            }
        }
    }
    if let Some(job) = &fio.job {
        list.work = Some(Work { bytes: fio.bytes, ..Work::default() });
        point(list, job);
    }
    list.work = None;
}

/// What the device and its model counted from the start of the ramp on.
fn at_device(list: &mut List<'_>, result: &FioResult) {
    let Some(device) = result.device.filter(|device| device.busy_ms > 0) else { return };
    let mean = share(device.queued_ms, device.busy_ms);
    list.one(&metric::of_point(&result.point, metric::IN_FLIGHT), "count", mean, None);
    let clock = |used: &&DiskUse| used.time == DiskTime::Real && used.elapsed_ns > 0;
    if let Some(used) = result.disk.as_ref().filter(clock) {
        let rate = share(device.read_bytes.saturating_add(device.written_bytes), used.elapsed_ns) * 1e9;
        list.one(&metric::of_point(&result.point, metric::DRIVE_BANDWIDTH), "bytes/model s", rate, BETTER);
    }
}

/// What a point gains by its depth, its files and its block: the points that differ from it in that alone.
fn counterparts<'a>(one: &FioResult, all: &'a [FioResult]) -> Vec<(&'static str, &'a FioResult)> {
    let point = &one.point;
    let largest = all.iter().map(|other| other.point.bs).max().unwrap_or(point.bs);
    let other = |wanted: FioPoint| all.iter().find(|other| other.point == wanted && wanted != *point);
    let ratios = [metric::OVER_DEPTH_1, metric::OVER_FILES_1, metric::OVER_LARGEST_BLOCK].into_iter();
    ratios.filter_map(|number| Some((number, other(metric::divisor(number, point, || largest)?)?))).collect()
}

fn point<P: Display>(list: &mut List<'_>, result: &FioResult<P>) {
    let mut one = |number: &str, unit: &str, value: f64, worse: Option<bool>| {
        list.one(&metric::of_point(&result.point, number), unit, value, worse);
    };
    one(metric::IOPS, "1/s", result.iops(), BETTER);
    one(metric::BANDWIDTH, "bytes/s", result.bandwidth(), BETTER);
    one(metric::MEAN_NS, "ns", result.mean_ns(), WORSE);
    for (direction, found) in [("read", &result.read), ("write", &result.write)] {
        if found.operations > 0 {
            let FioLatency { p50_ns, p99_ns, p999_ns, max_ns, .. } = *found;
            // A percentile beyond which no operation lies is the largest latency by another name.
            for (statistic, value, operations) in [
                (metric::P50_NS, p50_ns, 1),
                (metric::P99_NS, p99_ns, 100),
                (metric::P999_NS, p999_ns, 1000),
                (metric::MAX_NS, max_ns, 1),
            ] {
                if found.operations >= operations {
                    one(&format!("{direction}_{statistic}"), "ns", value, WORSE);
                }
            }
        }
    }
    if let Some(used) = &result.memory {
        one(metric::CACHE_BYTES, "B", as_f64(used.cache_bytes), None);
    }
    one(metric::CPU_NS, "ns", result.cpu_ns_per_operation(), WORSE);
    if let Some(value) = result.host_cpu_ns_per_operation() {
        one(metric::HOST_CPU_NS, "ns", value, WORSE);
    }
    one(metric::CONTEXT_SWITCHES, "count", share(result.context_switches, result.operations()), WORSE);
}

#[cfg(test)]
mod tests {
    use fsage_model::fio::{DeviceCounts, FioEngine, FioPattern};
    use fsage_model::record::StageRecord;
    use fsage_model::size::Bytes;

    use super::*;

    fn result(bs: u64, iodepth: u32, operations: u64) -> FioResult {
        let point = FioPoint {
            rw: FioPattern::RandRead,
            rwmixread: None,
            bs: Bytes(bs),
            ioengine: FioEngine::Libaio,
            iodepth,
            numjobs: 1,
            files: 1,
            direct: true,
            memory: None,
        };
        of(point, bs, operations)
    }

    fn of<P>(point: P, bs: u64, operations: u64) -> FioResult<P> {
        let read = FioLatency { operations, bytes: operations * bs, mean_ns: 50.0, ..FioLatency::default() };
        FioResult {
            runtime_ns: 2_000_000_000,
            read,
            user_ns: operations,
            system_ns: operations,
            context_switches: operations,
            ..FioResult::empty(point)
        }
    }

    #[test]
    fn a_job_file_has_the_numbers_of_a_point_under_its_name() {
        let job = Some(Box::new(of("job-own".to_owned(), 4096, 100)));
        let record = FioRecord { name: "fio".into(), job, ..FioRecord::default() };
        let metrics = super::super::all(&[StageRecord::Fio(Box::new(record))]);
        let iops = metrics.iter().find(|metric| metric.name == "job-own.iops").unwrap();
        assert_eq!((iops.samples[0], iops.unit.as_str()), (50.0, "1/s"));
        let has = |name: &str| metrics.iter().any(|metric| metric.name == name);
        assert!(has("job-own.read_p99_ns") && has("job-own.read_max_ns"));
        assert!(!has("job-own.read_p999_ns"), "it would be the largest of 100");
    }

    #[test]
    fn a_modelled_drive_has_a_rate_by_its_own_clock() {
        let device = DeviceCounts {
            read_bytes: 3 << 20,
            written_bytes: 1 << 20,
            busy_ms: 400,
            queued_ms: 6_000,
            ..DeviceCounts::default()
        };
        let used = |time| DiskUse { time, elapsed_ns: 250_000_000, ..DiskUse::default() };
        let numbers = |disk: Option<DiskUse>| {
            let one = FioResult { device: Some(device), disk, ..result(4096, 32, 100) };
            let record = FioRecord { name: "fio".into(), results: vec![one], ..FioRecord::default() };
            let found = super::super::all(&[StageRecord::Fio(Box::new(record))]);
            let of = |number: &str| {
                let name = format!("randread-4k-libaio-d32-j1-f1.{number}");
                found.iter().find(|metric| metric.name == name).map(|metric| metric.samples[0])
            };
            (of(metric::IN_FLIGHT), of(metric::DRIVE_BANDWIDTH))
        };
        assert_eq!(numbers(Some(used(DiskTime::Real))), (Some(15.0), Some(16_777_216.0)));
        assert_eq!(numbers(Some(used(DiskTime::Model))), (Some(15.0), None));
        assert_eq!(numbers(None), (Some(15.0), None));
    }

    #[test]
    fn points_are_named_and_compared_with_those_that_differ_in_one_parameter() {
        let results = vec![result(4096, 1, 100), result(4096, 64, 400), result(1 << 20, 1, 50)];
        let record = FioRecord { name: "fio".into(), bytes: 1 << 30, results, ..FioRecord::default() };
        let metrics = super::super::all(&[StageRecord::Fio(Box::new(record))]);
        let value = |name: &str| {
            let found = metrics.iter().find(|metric| metric.name == name);
            found.map(|metric| (metric.samples[0], metric.unit.as_str()))
        };
        assert_eq!(value("randread-4k-libaio-d64-j1-f1.iops"), Some((200.0, "1/s")));
        assert_eq!(value("randread-4k-libaio-d64-j1-f1.cpu_ns"), Some((2.0, "ns")));
        assert_eq!(value("randread-4k-libaio-d64-j1-f1.over_depth_1"), Some((4.0, "ratio")));
        assert_eq!(value("randread-4k-libaio-d1-j1-f1.over_depth_1"), None);
        assert_eq!(
            value("randread-4k-libaio-d1-j1-f1.over_largest_block"),
            Some((100.0 / 50.0 / 256.0, "ratio"))
        );
        assert_eq!(value("randread-4k-libaio-d1-j1-f1.write_p99_ns"), None, "nothing was written");
        let work = metrics.iter().find_map(|metric| metric.work).unwrap();
        assert_eq!((work.bytes, work.files, work.operations), (1 << 30, 1, 0));
    }
}
