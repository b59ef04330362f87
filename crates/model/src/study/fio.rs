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

/// Parameters of the `fio` stage: files of equal size are written once, then fio runs at every point, which is a
/// combination of the parameters that are lists. Combinations that cannot be (more than one request at a time
/// with a synchronous engine, several jobs per file of a sequential pattern) are left out. Runs also on the bare
/// device (`file_system.kind = "bare"`). Times are the wall's, so not on a disk in model time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FioStage {
    /// Name in dotted paths; absent: `fio`.
    #[serde(default = "fio_name")]
    pub name: String,
    /// States it runs in; empty: in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Pattern: `read`, `write`, `rw`, `randread`, `randwrite` or `randrw`. Required without `job`.
    #[serde(default = "no_pattern")]
    pub rw: OneOrMany<FioPattern>,
    /// A job file instead of the parameters `rw` to `files`: its path from the study's folder, or the name of a preset
    /// (`many-small-files`). Only keys that keep it within its folder are allowed (docs/measures.md). It runs as one point,
    /// for `runtime`, with `{size}` and `{files}` as `size` or `fill` say. Not on a bare device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The job itself; absent: what `job` names. A study's job files are read with the study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Percent of the operations that read, of mixed patterns (1..=99).
    #[serde(default = "seventy")]
    pub rwmixread: OneOrMany<u32>,
    /// Block size: a multiple of 512, with `direct` of the device's logical block.
    #[serde(default = "four_kib")]
    pub bs: OneOrMany<Bytes>,
    /// Engine: `sync`, `libaio`, `io_uring` or `mmap`.
    #[serde(default = "libaio")]
    pub ioengine: OneOrMany<FioEngine>,
    /// Requests under way per job (1..=4096); at most what the device's queue takes.
    #[serde(default = "one")]
    pub iodepth: OneOrMany<u32>,
    /// Jobs that each work on all files (1..=256), of random patterns; of sequential ones every file has a job
    /// of its own.
    #[serde(default = "one")]
    pub numjobs: OneOrMany<u32>,
    /// Bypass the page cache.
    #[serde(default = "always")]
    pub direct: OneOrMany<bool>,
    /// Files of equal size, over which the load is spread evenly (1..=1024). On a bare device: stretches of it,
    /// one after the other.
    #[serde(default = "one")]
    pub files: OneOrMany<u32>,
    /// Bytes of all files together, whatever their number; absent: as `fill` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Without `size`: share of the volume that the files take together (above 0, at most 0.95).
    #[serde(default = "half")]
    pub fill: f64,
    /// Longest time of a point in seconds (0.5 to a day), ramp left out.
    #[serde(default = "minute")]
    pub runtime: f64,
    /// Seconds before that which are not counted.
    #[serde(default)]
    pub ramp: f64,
    /// End a point as soon as its rate is steady by the rule of SNIA's performance test specification: over five
    /// rounds the range is at most 20 % of the mean, and the fitted line changes by at most 10 % of it.
    #[serde(default = "yes")]
    pub steady: bool,
    /// Seconds of such a round (at least 0.1); absent: a twentieth of `runtime`, at least 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<f64>,
}

fn fio_name() -> String {
    "fio".to_owned()
}

const fn no_pattern() -> OneOrMany<FioPattern> {
    OneOrMany(Vec::new())
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

/// Most combinations that a stage may name, those that cannot be among them.
pub const MOST_COMBINATIONS: usize = 1_000_000;

impl FioStage {
    /// Every combination that can be, in the order of the lists; none where they are more than
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

    /// How many combinations the lists make, those that cannot be among them; saturates.
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
        ];
        lists.into_iter().fold(1, usize::saturating_mul)
    }

    fn combinations(&self) -> Vec<FioPoint> {
        let mut found = Vec::new();
        for &rw in &self.rw {
            for &rwmixread in &self.rwmixread {
                let rwmixread = rw.is_mixed().then_some(rwmixread);
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
                        };
                        found.extend(self.sizes(&load));
                    }
                }
            }
        }
        found
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

    /// What its job file is called in metrics and files: `job-` and the file's name without its ending, in `a-z`, `0-9`, `-`
    /// and `_`, at most 60 characters. Nothing without one.
    #[must_use]
    pub fn job_name(&self) -> Option<String> {
        let stem = Path::new(self.job.as_ref()?).file_stem()?.to_string_lossy().to_ascii_lowercase();
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        Some(format!("job-{}", stem.chars().take(60).map(plain).collect::<String>()))
    }

    /// Whether it has the parameters of a point that were left out, and no others.
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
    }

    /// Bytes of each of so many files on a volume of this size.
    #[must_use]
    pub fn file_bytes(&self, files: u32, volume_bytes: u64) -> u64 {
        let all = self.size.map_or_else(|| to_u64(as_f64(volume_bytes) * self.fill), |size| size.0);
        let each = all / u64::from(files.max(1));
        if each >= FILE_UNIT { each - each % FILE_UNIT } else { each - each % 4096 }
    }

    /// Seconds of a round of the rule for steady state.
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
