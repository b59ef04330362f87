//! The `fio` stage and its parameters.

use std::collections::BTreeSet;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::yes;
use crate::fio::{FioEngine, FioPattern, FioPoint};
use crate::one_or_many::OneOrMany;
use crate::quantity::{as_f64, to_u64};
use crate::size::Bytes;

/// Unit in which the size of a file is rounded down.
const FILE_UNIT: u64 = 1 << 20;

/// Parameters of the `fio` stage: files of equal size are written once, then fio runs at every point, a
/// combination of the parameters that are lists. Impossible combinations (more than one request in flight
/// with a synchronous engine, several jobs per file of a sequential pattern) are skipped. Also runs on the
/// bare device (`file_system.kind = "bare"`). Times are wall-clock times, so it is refused on a disk in model
/// time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FioStage {
    /// Name in dotted paths; absent: `fio`.
    #[serde(default = "fio_name")]
    pub name: String,
    /// States that the stage runs in; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Pattern: `read`, `write`, `rw`, `randread`, `randwrite` or `randrw`. Required without `job`.
    #[serde(default = "no_pattern")]
    pub rw: OneOrMany<FioPattern>,
    /// Job file, instead of the parameters `rw` to `files`: a path relative to the study's folder, or the
    /// name of a preset (`many-small-files`). Only keys that do not leave its folder are allowed
    /// (docs/measures.md). It runs as one point for `runtime`; `{size}` and `{files}` stand for what `size`
    /// or `fill` gives. Not on a bare device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Text of the job; absent: that of `job`. A study's job files are read together with the study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Percentage of reads in a mixed pattern (1..=99).
    #[serde(default = "seventy")]
    pub rwmixread: OneOrMany<u32>,
    /// Block size: a multiple of 512, and with `direct` of the device's logical block size.
    #[serde(default = "four_kib")]
    pub bs: OneOrMany<Bytes>,
    /// I/O engine: `sync`, `libaio`, `io_uring` or `mmap`.
    #[serde(default = "libaio")]
    pub ioengine: OneOrMany<FioEngine>,
    /// Requests in flight per job (1..=4096). With `direct`, jobs × `iodepth` must not exceed the device's
    /// `nr_requests`.
    #[serde(default = "one")]
    pub iodepth: OneOrMany<u32>,
    /// Number of jobs of a random pattern (1..=256), each of which uses all files. A sequential pattern has
    /// one job per file.
    #[serde(default = "one")]
    pub numjobs: OneOrMany<u32>,
    /// Bypass the page cache (`O_DIRECT`).
    #[serde(default = "always")]
    pub direct: OneOrMany<bool>,
    /// Memory limit of fio, its page cache included, set by a control group (at least 32 MiB). `size` divided
    /// by this limit is the ratio of working set to cache. Applies only to points that use the page cache.
    /// Absent: no limit.
    #[serde(default = "unlimited", skip_serializing_if = "is_unlimited")]
    pub memory: OneOrMany<Bytes>,
    /// Number of files of equal size, over which the load is spread evenly (1..=1024). On a bare device:
    /// consecutive areas of equal size.
    #[serde(default = "one")]
    pub files: OneOrMany<u32>,
    /// Of a mixed sequential pattern (`rw`): number of files that are only written while the others are only read, as a
    /// build does; fewer than `files`. `rwmixread` does not apply then. Absent: every file is read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writers: Option<u32>,
    /// Total size of all files, whatever their number; absent: set by `fill`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Without `size`: total size of the files as a share of the volume (above 0, at most 0.95).
    #[serde(default = "half")]
    pub fill: f64,
    /// Maximum time per point in seconds (0.5 to 86,400), without `ramp`.
    #[serde(default = "minute")]
    pub runtime: f64,
    /// Ramp time per point in seconds, before anything is counted (fio's `ramp_time`).
    #[serde(default)]
    pub ramp: f64,
    /// End a point when its rate is steady, by the criterion of SNIA's performance test specification: over
    /// five rounds, the range is at most 20 % of the mean, and the fitted line changes by at most 10 % of it.
    #[serde(default = "yes")]
    pub steady: bool,
    /// Length of a round of `steady` in seconds (at least 0.1); absent: a twentieth of `runtime`, at least
    /// 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<f64>,
}

fn fio_name() -> String {
    "fio".to_owned()
}

const fn no_pattern() -> OneOrMany<FioPattern> {
    OneOrMany(Vec::new())
}

const fn unlimited() -> OneOrMany<Bytes> {
    OneOrMany(Vec::new())
}

const fn is_unlimited(memory: &OneOrMany<Bytes>) -> bool {
    memory.0.is_empty()
}

fn seventy() -> OneOrMany<u32> {
    OneOrMany::one(70)
}

fn four_kib() -> OneOrMany<Bytes> {
    OneOrMany::one(Bytes(4096))
}

fn libaio() -> OneOrMany<FioEngine> {
    OneOrMany::one(FioEngine::Libaio)
}

fn one() -> OneOrMany<u32> {
    OneOrMany::one(1)
}

fn always() -> OneOrMany<bool> {
    OneOrMany::one(true)
}

const fn half() -> f64 {
    0.5
}

const fn minute() -> f64 {
    60.0
}

/// Maximum number of combinations of a stage, impossible ones included.
pub const MOST_COMBINATIONS: usize = 1_000_000;

impl FioStage {
    /// Every possible combination, in the order of the lists; none if there are more than
    /// [`MOST_COMBINATIONS`].
    #[must_use]
    pub fn points(&self) -> Vec<FioPoint> {
        if self.combination_count() > MOST_COMBINATIONS {
            return Vec::new();
        }
        let mut known = BTreeSet::new();
        let mut points = self.combinations();
        points.retain(|point| {
            let deep = point.ioengine.is_synchronous() && point.iodepth > 1;
            let crowded = !point.rw.is_random() && point.numjobs > 1;
            !deep && !crowded && known.insert(point.clone())
        });
        points
    }

    /// Number of combinations of the lists, impossible ones included; saturates.
    #[must_use]
    pub fn combination_count(&self) -> usize {
        let lists = [
            self.rw.0.len(),
            self.rwmixread.0.len(),
            self.bs.0.len(),
            self.ioengine.0.len(),
            self.iodepth.0.len(),
            self.numjobs.0.len(),
            self.direct.0.len(),
            self.files.0.len(),
            self.memory.0.len().max(1),
        ];
        lists.into_iter().fold(1, usize::saturating_mul)
    }

    fn combinations(&self) -> Vec<FioPoint> {
        let mut found = Vec::new();
        for &rw in &self.rw {
            for &rwmixread in &self.rwmixread {
                let rwmixread = (rw.is_mixed() && self.writers.is_none()).then_some(rwmixread);
                for &ioengine in &self.ioengine {
                    for &direct in &self.direct {
                        let load = FioPoint {
                            rw,
                            rwmixread,
                            ioengine,
                            direct,
                            bs: Bytes(0),
                            iodepth: 0,
                            numjobs: 0,
                            files: 0,
                            memory: None,
                        };
                        self.limits(&load).for_each(|load| found.extend(self.sizes(&load)));
                    }
                }
            }
        }
        found
    }

    /// The same load at every limit of memory; once where it does not use the page cache.
    fn limits<'a>(&'a self, load: &'a FioPoint) -> impl Iterator<Item = FioPoint> + 'a {
        let limits: &[Bytes] = if load.is_buffered() { &self.memory.0 } else { &[] };
        let none = limits.is_empty().then_some(None);
        let each = limits.iter().copied().map(Some).chain(none);
        each.map(|memory| FioPoint { memory, ..load.clone() })
    }

    /// The same load at every size, depth and number.
    fn sizes(&self, load: &FioPoint) -> Vec<FioPoint> {
        let mut found = Vec::new();
        for &bs in &self.bs {
            for &iodepth in &self.iodepth {
                for &numjobs in &self.numjobs {
                    found.extend(self.files.iter().map(|&files| FioPoint {
                        bs,
                        iodepth,
                        numjobs,
                        files,
                        ..load.clone()
                    }));
                }
            }
        }
        found
    }

    /// Name of its job file in metrics and files: `job-` and the file's name without its extension, in `a-z`,
    /// `0-9`, `-` and `_`, at most 60 characters. `None` without one.
    #[must_use]
    pub fn job_name(&self) -> Option<String> {
        let stem = Path::new(self.job.as_ref()?).file_stem()?.to_string_lossy().to_ascii_lowercase();
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        Some(format!("job-{}", stem.chars().take(60).map(plain).collect::<String>()))
    }

    /// Whether all parameters of a point are absent or at their defaults.
    #[must_use]
    pub fn has_no_points(&self) -> bool {
        self.rw.0.is_empty()
            && self.rwmixread == seventy()
            && self.bs == four_kib()
            && self.ioengine == libaio()
            && self.iodepth == one()
            && self.numjobs == one()
            && self.direct == always()
            && self.files == one()
            && self.writers.is_none()
            && is_unlimited(&self.memory)
    }

    /// Size of each file, for this number of files on a volume of this size.
    #[must_use]
    pub fn file_bytes(&self, files: u32, volume_bytes: u64) -> u64 {
        let all = self.size.map_or_else(|| to_u64(as_f64(volume_bytes) * self.fill), |size| size.0);
        let each = all / u64::from(files.max(1));
        if each >= FILE_UNIT { each - each % FILE_UNIT } else { each - each % 4096 }
    }

    /// Seconds of a round of the steady-state criterion.
    #[must_use]
    pub fn round_s(&self) -> f64 {
        self.round.unwrap_or_else(|| (self.runtime / 20.0).max(0.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(keys: &str) -> FioStage {
        serde_json::from_str(&format!("{{{keys}}}")).unwrap()
    }

    #[test]
    fn lists_are_multiplied_and_what_cannot_be_is_left_out() {
        let all =
            stage(r#""rw": ["randread", "randrw"], "ioengine": ["sync", "libaio"], "iodepth": [1, 32]"#);
        let names: Vec<String> = all.points().iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [
                "randread-4k-sync-d1-j1-f1",
                "randread-4k-libaio-d1-j1-f1",
                "randread-4k-libaio-d32-j1-f1",
                "randrw70-4k-sync-d1-j1-f1",
                "randrw70-4k-libaio-d1-j1-f1",
                "randrw70-4k-libaio-d32-j1-f1",
            ]
        );
        // Reads alone have no mix, so that two mixes are one point.
        assert_eq!(stage(r#""rw": "read", "rwmixread": [50, 70], "numjobs": [1, 4]"#).points().len(), 1);
        assert!(stage(r#""rw": "read", "ioengine": "sync", "iodepth": 8"#).points().is_empty());
    }

    #[test]
    fn memory_limits_what_uses_the_page_cache() {
        let both = stage(
            r#""rw": "randread", "ioengine": ["libaio", "mmap"], "direct": [true, false], "memory": ["64MiB", "128MiB"]"#,
        );
        let names: Vec<String> = both.points().iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [
                "randread-4k-libaio-d1-j1-f1",
                "randread-4k-libaio-d1-j1-f1-buffered-m64m",
                "randread-4k-libaio-d1-j1-f1-buffered-m128m",
                "randread-4k-mmap-d1-j1-f1-m64m",
                "randread-4k-mmap-d1-j1-f1-m128m",
                "randread-4k-mmap-d1-j1-f1-buffered-m64m",
                "randread-4k-mmap-d1-j1-f1-buffered-m128m",
            ]
        );
        assert_eq!(both.combination_count(), 8);
    }

    #[test]
    fn too_many_combinations_are_counted_and_not_made() {
        let list = |to: u32| (1..=to).map(|value| value.to_string()).collect::<Vec<_>>().join(",");
        let all = format!(
            r#""rw": "randread", "iodepth": [{}], "numjobs": [{}], "files": [{}]"#,
            list(4096),
            list(256),
            list(1024)
        );
        let stage = stage(&all);
        assert_eq!(stage.combination_count(), 4096 * 256 * 1024);
        assert!(stage.points().is_empty());
    }

    #[test]
    fn a_job_file_has_a_name_that_metrics_and_files_can_have() {
        let name = |job: &str| stage(&format!(r#""job": "{job}""#)).job_name();
        assert_eq!(name("/a/My job.v2.fio").as_deref(), Some("job-my-job-v2"));
        assert_eq!(name("many-small-files").as_deref(), Some("job-many-small-files"));
        assert_eq!(name(&"x".repeat(99)).map(|name| name.len()), Some(64));
        assert_eq!(stage(r#""rw": "read""#).job_name(), None);
        let own = stage(r#""job": "a.fio", "runtime": 5"#);
        assert!(own.has_no_points() && own.points().is_empty());
        assert!(!stage(r#""job": "a.fio", "bs": "8KiB""#).has_no_points());
    }

    #[test]
    fn files_share_what_the_stage_takes_of_the_volume() {
        let volume = 1 << 30;
        assert_eq!(stage(r#""rw": "read""#).file_bytes(16, volume), 32 << 20);
        assert_eq!(stage(r#""rw": "read", "size": "100MiB""#).file_bytes(3, volume), 33 << 20);
        assert_eq!(stage(r#""rw": "read", "size": "1MiB""#).file_bytes(3, volume), 348_160);
        assert_eq!(
            (stage(r#""rw": "read""#).round_s(), stage(r#""rw": "read", "runtime": 1"#).round_s()),
            (3.0, 0.2)
        );
    }
}
