//! Limits of the stages' parameters, and which may follow which.

use std::collections::BTreeSet;

use fsage_model::crash::{CrashLoad, DriveBehaviour, MOST_THREADS};
use fsage_model::disk::DiskTime;
use fsage_model::load::{PaceSpec, StopSpec, WriteMode};
use fsage_model::measure::Effect;
use fsage_model::number::grouped;
use fsage_model::remedy::Remedy;
use fsage_model::study::{
    AgeStage, CopyStage, ImageStage, LayerSpec, LockstepStage, MeasureStage, PowerCutsStage, RemedyStage,
    StageSpec, StudySpec, UNAGED, VolumeSpec,
};
use fsage_model::with_stage;

use super::{Checker, remedy, workload};
use crate::study::schema::Problem;

/// Problems of every stage of a cell, also of those that its state leaves out.
pub(super) fn check(spec: &StudySpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, stage) in spec.stage.iter().enumerate() {
        let mut check = Checker::new(&["stage", &index.to_string()]);
        check.path_name("name", stage.name());
        with_stage!(stage, stage => stage.limits(&mut check, &spec.volume));
        problems.extend(check.problems);
    }
    problems.extend(order(spec));
    problems.extend(remedy::check(spec));
    problems
}

/// Stages of the cell's own state: at least one, and images only of what can be had again.
fn order(spec: &StudySpec) -> Vec<Problem> {
    let mut check = Checker::new(&["stage"]);
    check.require(spec.stages().next().is_some(), "", || {
        format!("no stage runs in the state `{}`: name it in a stage's `when`", spec.state)
    });
    let mut before: BTreeSet<&str> = BTreeSet::new();
    for (index, stage) in spec.stage.iter().enumerate().filter(|(_, stage)| stage.runs_in(&spec.state)) {
        // Lock-step ages, too.
        let kind = match (stage, stage.kind()) {
            (_, "lockstep") => "age",
            // What it measured would be missing as well where an image takes its place.
            (_, "fio" | "cluster") => "measure",
            // Room for what comes belongs to the ageing: its image is the same in every trial.
            (StageSpec::Remedy(remedy), _) if matches!(remedy.method, Remedy::Free(_)) => "room",
            (_, other) => other,
        };
        check.require(!before.contains("power-cuts"), &index.to_string(), || {
            "power cuts come last, once per trial: compare loads and drives as factors of the matrix"
                .to_owned()
        });
        match stage {
            StageSpec::Image(_) => {
                check.require(!before.is_empty(), &index.to_string(), || {
                    "nothing comes before this image: a fresh file system is made faster than restored"
                        .to_owned()
                });
                check.require(!before.contains("measure"), &index.to_string(), || {
                    "an image after a measurement would leave the measurement out when it is restored"
                        .to_owned()
                });
                check.require(!before.contains("remedy"), &index.to_string(), || {
                    "put the image before the remedy: all remedies then begin with the same volume".to_owned()
                });
                check.require(
                    !before.contains("copy") && !before.contains("image"),
                    &index.to_string(),
                    || "one image per trial, of the aged volume: put it before the copy".to_owned(),
                );
            }
            StageSpec::Copy(_) => check.require(before.contains("age"), &index.to_string(), || {
                "there is nothing to copy: an `age` stage has to come first".to_owned()
            }),
            StageSpec::Age(_) => check.require(!before.contains("copy"), &index.to_string(), || {
                "ageing after a copy: put the copy last, or age in a study of its own".to_owned()
            }),
            StageSpec::Lockstep(_) => check.require(before.is_empty(), &index.to_string(), || {
                "lock-step begins on fresh volumes: put it first".to_owned()
            }),
            StageSpec::Remedy(_) => {
                check.require(before.contains("age"), &index.to_string(), || {
                    "nothing is aged yet: an `age` stage has to come first".to_owned()
                });
                let only = !before.contains("remedy") && !before.contains("room");
                check.require(only, &index.to_string(), || {
                    "one remedy per trial: make `method` a factor of the matrix to compare several".to_owned()
                });
            }
            // What may follow it is a rule of its own.
            StageSpec::Precondition(_) => continue,
            StageSpec::Measure(_) | StageSpec::Fio(_) | StageSpec::PowerCuts(_) | StageSpec::Cluster(_) => {}
        }
        before.insert(kind);
    }
    check.problems
}

/// The limits of a kind of stage.
pub(super) trait Limits {
    /// Checks its values; `own` is the volume of the trial.
    fn limits(&self, check: &mut Checker, own: &VolumeSpec);
}

impl Limits for ImageStage {
    fn limits(&self, check: &mut Checker, _own: &VolumeSpec) {
        check.require((1..=19).contains(&self.level), "level", || {
            format!("{} is not a level of zstd: 1 to 19", self.level)
        });
    }
}

impl Limits for CopyStage {
    fn limits(&self, check: &mut Checker, own: &VolumeSpec) {
        copy_target(check, self.volume.as_ref(), own);
    }
}

impl Limits for RemedyStage {
    fn limits(&self, check: &mut Checker, own: &VolumeSpec) {
        if let Some(limit) = self.limit_s {
            check.positive("limit_s", limit);
            check.require(limit <= MOST_SECONDS, "limit_s", || format!("{limit} is more than a year"));
        }
        if self.method == Remedy::Copy {
            copy_target(check, self.volume.as_ref(), own);
        } else {
            check.require(self.volume.is_none(), "volume", || {
                format!("only `copy` has another volume, and the method is `{}`", self.method)
            });
        }
    }
}

/// Seconds of a year.
const MOST_SECONDS: f64 = 366.0 * 86_400.0;

/// The volume of a copy beside the trial's `own`.
fn copy_target(check: &mut Checker, volume: Option<&VolumeSpec>, own: &VolumeSpec) {
    match volume {
        Some(volume) => {
            let device = |spec: &VolumeSpec| match spec {
                VolumeSpec::Device { path, .. } => Some(path.clone()),
                VolumeSpec::Loop { .. } | VolumeSpec::Disk(_) | VolumeSpec::Partition { .. } => None,
            };
            check.require(device(volume).is_none() || device(volume) != device(own), "volume", || {
                "this is the study's own device, which holds what is to be copied".to_owned()
            });
            check.path.push("volume".to_owned());
            super::volume_limits(check, volume);
            check.path.pop();
        }
        None => check.require(!matches!(own, VolumeSpec::Device { .. }), "volume", || {
            "a device cannot hold both the tree and its copy: name a volume for the copy".to_owned()
        }),
    }
}

impl Limits for LockstepStage {
    fn limits(&self, check: &mut Checker, own: &VolumeSpec) {
        let volume = own.size();
        check.at_least("every", self.every, 1);
        check.require(self.rounds().is_some(), "rounds", || {
            "the workload has no rounds of its own: give `rounds` and `round_operations`".to_owned()
        });
        check.require(
            self.workload.ends() || self.round_operations.is_some_and(|n| n > 0),
            "round_operations",
            || "the workload has no rounds of its own: give the operations of one, at least 1".to_owned(),
        );
        if let (Some(rounds), Some(own)) = (self.rounds, self.workload.rounds()) {
            check.require(rounds <= own, "rounds", || {
                format!("{rounds} rounds are more than the workload's {own}")
            });
        }
        check.require(!self.followers.is_empty(), "followers", || {
            "the list is empty: name another volume, or use an `age` stage".to_owned()
        });
        let mut names = BTreeSet::new();
        for name in self.volumes() {
            let key = if name == self.leader { "leader" } else { "followers" };
            check.path_name(key, name);
            check.require(names.insert(name), "followers", || {
                format!("two volumes are called `{name}`: change `leader` or the follower's name")
            });
        }
        for (name, follower) in self.others() {
            let at = if name == UNAGED { name.to_owned() } else { format!("followers.{name}") };
            let Some(other) = follower.resolve(own) else {
                let message =
                    "a device cannot be two volumes: name a `volume` with a path of its own, without `size`";
                check.fail(&at, message);
                continue;
            };
            check.require(other.is_model_time() == own.is_model_time(), &at, || {
            "one volume would be timed by the wall clock and another by a model: give all of them the same kind of time".to_owned()
        });
            let depth = check.path.len();
            check.path.extend(at.split('.').map(str::to_owned));
            super::volume_limits(check, &other);
            check.path.truncate(depth);
            let less = other.size().zip(volume).is_some_and(|(other, own)| other < own);
            check.require(!less, &format!("{at}.size"), || {
                "it is smaller than the volume that is followed: not everything would fit".to_owned()
            });
        }
        for (index, measure) in self.measures.iter().enumerate() {
            check.require(measure.effect() == Effect::Nothing, &format!("measures.{index}"), || {
                format!(
                    "`{}` changes what it measures: only measures that read can be used between rounds",
                    measure.name()
                )
            });
        }
        check.path.push("workload".to_owned());
        workload::check(check, &self.workload, 1, volume);
        check.path.pop();
    }
}

impl Limits for PowerCutsStage {
    fn limits(&self, check: &mut Checker, own: &VolumeSpec) {
        if let Some(length) = self.length {
            let length = u64::from(length);
            check.require((1..=MOST_LENGTH).contains(&length), "length", || {
                format!("{length} is not a load length: 1 to {}", grouped(MOST_LENGTH))
            });
        }
        check.require((1..=MOST_THREADS).contains(&self.threads), "threads", || {
            format!("{} threads: 1 to {MOST_THREADS}", self.threads)
        });
        check.require(self.threads == 1 || self.load == CrashLoad::Metadata, "threads", || {
            format!("the load `{}` has one thread: only `metadata` has several", self.load.name())
        });
        for (key, is_given) in
            [("journal_mode", self.journal_mode.is_some()), ("synchronous", self.synchronous.is_some())]
        {
            let is_of_load = self.load == CrashLoad::Database || !is_given;
            check.require(is_of_load, key, || {
                format!("the load `{}` has no database: only `database` has this key", self.load.name())
            });
        }
        check.require((1..=MOST_STATES).contains(&self.states), "states", || {
            format!("{} states: 1 to {}", grouped(self.states), grouped(MOST_STATES))
        });
        let atomic = self.atomic.0;
        check.require(atomic > 0 && atomic.is_multiple_of(4096), "atomic", || {
            format!("{} is not a multiple of 4 KiB", self.atomic)
        });
        check.at_least("cache", self.cache.0, 4096);
        let VolumeSpec::Disk(disk) = own else {
            let message = "only a virtual disk can show what it may hold after a power cut";
            check.fail("", message);
            if let Some(problem) = check.problems.last_mut() {
                problem.hint = Some("give the volume a `medium`: `ram` is the fastest".to_owned());
            }
            return;
        };
        check.require(disk.share.is_none(), "", || {
            "a crash state is one of the whole drive: give the volume a `medium` of its own".to_owned()
        });
        let drives = disk.drives > 1 || disk.fast.is_some();
        check.require(!(drives && self.drive == DriveBehaviour::DropsFlush), "drive", || {
            "which of several drives drops a flush is not defined: use `lying`".to_owned()
        });
        if let Some(failed) = self.failed_drive {
            // The first layer that joins has all drives; those below it have one each.
            let spare = disk.stack.iter().find(|layer| layer.joins()).map_or(0, LayerSpec::spare);
            check.require(spare > 0, "failed_drive", || {
                "`volume.stack` has no array over all drives that can lose one: give it a `raid` layer of level 1, 4, 5, 6 or 10"
                    .to_owned()
            });
            check.require(failed < disk.drives, "failed_drive", || {
                format!("{failed} is no drive: they are 0 to {}", disk.drives.saturating_sub(1))
            });
        }
        check.require(!disk.log, "", || {
            "the disk keeps one log, which this stage begins at its load: leave `volume.log` out".to_owned()
        });
        check.require(disk.faults.is_none(), "", || {
            "injected faults would be taken for what a power cut did: leave `volume.faults` out".to_owned()
        });
    }
}

/// Longest load.
const MOST_LENGTH: u64 = 10_000;

/// Most crash states.
const MOST_STATES: u64 = 1_000_000;

impl Limits for MeasureStage {
    fn limits(&self, check: &mut Checker, _own: &VolumeSpec) {
        check.require(!self.measures.is_empty(), "measures", || {
            "the list is empty: name a measure".to_owned()
        });
        let mut before = None;
        let mut names = BTreeSet::new();
        for (index, spec) in self.measures.iter().enumerate() {
            let at = format!("measures.{index}");
            check.require(names.insert(spec.name()), &at, || format!("`{}` is given twice", spec.name()));
            // The order of the registry: each measure finds what it is about as the earlier stages left it.
            if let Some((effect, name)) = before.filter(|(effect, _)| *effect > spec.effect()) {
                let changed = if effect == Effect::Tree { "the files" } else { "the free space" };
                let message =
                    format!("`{}` would find {changed} changed by `{name}`: put it before", spec.name());
                check.fail(&at, message);
            }
            before = Some((spec.effect(), spec.name()));
        }
    }
}

impl Limits for AgeStage {
    fn limits(&self, check: &mut Checker, own: &VolumeSpec) {
        let volume = own.size();
        let threads = u64::from(self.threads);
        check.require((1..=64).contains(&threads), "threads", || format!("{threads} threads: 1 to 64"));
        stop(check, &self.stop, self.probe_every, self.workload.ends());
        let near = self.stop.age.as_ref().is_some_and(|target| target.near);
        let like = self.workload.drift().is_some_and(|drift| drift.like.is_some());
        check.require(!near || like, "stop.age.near", || {
            "it asks to be near a profile, and the workload names none: give `workload.like`".to_owned()
        });
        let ends = self.stop.operations.is_some() || self.stop.bytes.is_some() || self.stop.seconds.is_some();
        check.require(!near || ends, "stop.age.near", || {
            "it may never be reached: give `operations`, `bytes` or `seconds` as well".to_owned()
        });
        if let Some(given) = &self.pace {
            pace(check, self, given, own);
        }
        check.path.push("workload".to_owned());
        workload::check(check, &self.workload, threads, volume);
        check.path.pop();
    }
}

fn pace(check: &mut Checker, stage: &AgeStage, pace: &PaceSpec, own: &VolumeSpec) {
    check.require(PaceSpec::PER_DAY.contains(&pace.operations_per_day), "pace.operations_per_day", || {
        format!("{} operations per day: 1 to {}", pace.operations_per_day, grouped(100_000_000))
    });
    check.require(PaceSpec::BURST.contains(&pace.burst), "pace.burst", || {
        format!("bursts of {} operations: 1 to {}", pace.burst, grouped(1_000_000))
    });
    check.require(pace.interval() <= PaceSpec::LONGEST, "pace.burst", || {
        format!(
            "bursts of {} operations, {} per day: more than ten years apart",
            pace.burst, pace.operations_per_day
        )
    });
    if let Some(cycles) = pace.rated_cycles {
        check.at_least("pace.rated_cycles", u64::from(cycles), 1);
    }
    check
        .require(stage.threads == 1, "pace", || "a paced load has one thread: give `threads = 1`".to_owned());
    check.require(stage.write_mode != WriteMode::Fast, "pace", || {
        "`write_mode = \"fast\"` writes the data at the end, and pauses are about when it is written"
            .to_owned()
    });
    let stands_still =
        matches!(own, VolumeSpec::Disk(disk) if disk.time == DiskTime::Model && !disk.is_serial());
    check.require(!stands_still, "pace", || {
        "the volume's clock advances only if CPU time passes on it: give it `cpu = \"serial\"`".to_owned()
    });
}

fn stop(check: &mut Checker, stop: &StopSpec, probe_every: u64, ends: bool) {
    let any = ends
        || stop.operations.is_some()
        || stop.bytes.is_some()
        || stop.seconds.is_some()
        || stop.full
        || stop.age.is_some();
    check.require(any, "stop", || {
        "nothing ends this stage: give `operations`, `bytes`, `seconds`, `full` or `age`".to_owned()
    });
    if let Some(operations) = stop.operations {
        check.at_least("stop.operations", operations, 1);
    }
    if let Some(bytes) = stop.bytes {
        check.at_least("stop.bytes", bytes.0, 1);
    }
    if let Some(seconds) = stop.seconds {
        check.positive("stop.seconds", seconds);
    }
    let Some(age) = &stop.age else { return };
    check.require(probe_every > 0 || !age.needs_probes(), "stop.age", || {
        "this age is checked by probes: set `probe_every` above 0".to_owned()
    });
    if let Some(share) = age.fragmented_share {
        check.share("stop.age.fragmented_share", share);
    }
    if let Some(share) = age.converged {
        check.share("stop.age.converged", share);
    }
    for (key, value) in
        [("extents_per_file", age.extents_per_file), ("volume_overwrites", age.volume_overwrites)]
    {
        if let Some(value) = value {
            check.positive(&format!("stop.age.{key}"), value);
        }
    }
}
