//! How the rates of fio's points depend on depth, jobs, streams and block size: saturation points, and the Universal
//! Scalability Law ([`crate::stats::scaling`]).
//!
//! A curve is what a stage has of one pattern on one file system where a single parameter differs, at three values of it
//! or more. Rates are operations per second, over block size bytes per second. The law is about requests at once: it is
//! fitted over depth, over jobs, and over the files of sequential patterns, each of which is a stream of its own.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::fio::FioPoint;
use fsage_model::metric;
use fsage_model::size::Bytes;
use fsage_model::warning::WarningKind;

use super::device;
use super::text::{counted, whole_bytes};
use super::view::View;
use crate::stats::scaling::{self, Curve, Law, Saturation, Unfit};
use crate::stats::{Evidence, shared};

/// What a rate is measured over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Over {
    /// Requests under way per job.
    Depth,
    /// Jobs on the same files.
    Jobs,
    /// Files in use at once.
    Files,
    /// The size of a block.
    Block,
    /// The limit of memory.
    Memory,
}

impl Over {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Depth, Self::Jobs, Self::Files, Self::Block, Self::Memory];

    /// As charts have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Jobs => "jobs",
            Self::Files => "files",
            Self::Block => "block size",
            Self::Memory => "memory limit",
        }
    }

    /// A value of it in words.
    pub fn words(self, load: u64) -> String {
        if matches!(self, Self::Block | Self::Memory) { whole_bytes(load) } else { load.to_string() }
    }

    /// Its value at a point.
    pub fn load(self, point: &FioPoint) -> u64 {
        match self {
            Self::Depth => u64::from(point.iodepth),
            Self::Jobs => u64::from(point.numjobs),
            Self::Files => u64::from(point.files),
            Self::Block => point.bs.0,
            Self::Memory => point.memory.map_or(0, |limit| limit.0),
        }
    }

    /// The point without it: the same for all points that differ in nothing else.
    pub fn without(self, point: &FioPoint) -> FioPoint {
        let mut point = point.clone();
        match self {
            Self::Depth => point.iodepth = 0,
            Self::Jobs => point.numjobs = 0,
            Self::Files => point.files = 0,
            Self::Block => point.bs = Bytes(0),
            Self::Memory => point.memory = point.memory.map(|_| Bytes(0)),
        }
        point
    }

    /// The rate that is compared.
    pub const fn metric(self) -> &'static str {
        if matches!(self, Self::Block) { metric::BANDWIDTH } else { metric::IOPS }
    }

    /// What is equal along a curve over it: `4 KiB, libaio, 1 job, 1 file`.
    pub fn held(self, point: &FioPoint) -> String {
        let FioPoint { bs, ioengine, iodepth, numjobs, files, direct, memory, .. } = point;
        let many = |number: u32, noun: &str| counted(usize::try_from(number).unwrap_or(usize::MAX), noun);
        let parts = [
            (self != Self::Block).then(|| whole_bytes(bs.0)),
            Some(ioengine.name().to_owned()),
            (!direct).then(|| "buffered".to_owned()),
            (self != Self::Depth).then(|| format!("depth {iodepth}")),
            (self != Self::Jobs && point.rw.is_random()).then(|| many(*numjobs, "job")),
            (self != Self::Files).then(|| many(*files, "file")),
            memory
                .filter(|_| self != Self::Memory)
                .map(|limit| format!("{} of memory", whole_bytes(limit.0))),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Whether more of it is more work at once.
    fn is_load(self, point: &FioPoint) -> bool {
        match self {
            Self::Depth | Self::Jobs => true,
            Self::Files => !point.rw.is_random(),
            Self::Block | Self::Memory => false,
        }
    }
}

/// A curve with what was fitted to it.
#[derive(Debug, Clone)]
pub struct Scaled {
    /// Index in the view's file systems.
    pub file_system: usize,
    /// The trials' other factors, in words.
    pub context: String,
    /// How the names of its metrics begin: with the name of its stage, if it is not the first.
    pub prefix: String,
    /// The point at the smallest load.
    pub point: FioPoint,
    /// What differs.
    pub over: Over,
    /// Its values, in rising order.
    pub loads: Vec<u64>,
    /// Those at which fio's threads were bound by the CPU in any repeat: what limits there is not the device.
    pub cpu_bound: Vec<u64>,
    /// Repeats that have a rate at each of them.
    pub repeats: usize,
    /// The smallest load near the largest rate.
    pub saturation: Saturation,
    /// The law, or why there is none.
    pub law: Result<Law, Unfit>,
}

/// Every curve of the view: by context, file system, stage, parameter and point.
pub fn all(view: &View) -> Vec<Scaled> {
    let mut found = Vec::new();
    for (context, own) in device::contexts(view) {
        for (file_system, name) in view.file_systems.iter().enumerate() {
            let here: Vec<usize> =
                own.iter().copied().filter(|&index| view.trials[index].file_system == *name).collect();
            let curves = curves(view, &here).into_iter();
            found.extend(curves.map(|one| Scaled { file_system, context: context.clone(), ..one }));
        }
    }
    found
}

/// Those of trials that differ in nothing but the repeat.
fn curves(view: &View, trials: &[usize]) -> Vec<Scaled> {
    let points: BTreeSet<(&String, &FioPoint)> = trials
        .iter()
        .flat_map(|&index| &view.trials[index].points)
        .map(|point| (&point.prefix, &point.point))
        .collect();
    let evidence: Vec<&Evidence> = trials.iter().filter_map(|&index| view.evidence.get(index)).collect();
    let mut groups: BTreeMap<(&String, Over, FioPoint), Vec<&FioPoint>> = BTreeMap::new();
    for (prefix, point) in points {
        for over in Over::ALL {
            groups.entry((prefix, over, over.without(point))).or_default().push(point);
        }
    }
    let curve = |((prefix, over, _), points): ((&String, Over, FioPoint), Vec<&FioPoint>)| {
        let curve = Curve::new(&rates(&evidence, prefix, over, &points));
        let saturation = scaling::saturation::saturation(&curve, view.confidence)?;
        let first = points.iter().find(|point| over.load(point) == curve.loads()[0])?;
        let is_bound = |load: &u64| {
            let of_load = |point: &FioPoint| over.load(point) == *load && points.contains(&point);
            let all = trials.iter().flat_map(|&index| &view.trials[index].points);
            let mut own = all.filter(|one| one.prefix == *prefix && of_load(&one.point));
            own.any(|one| one.warnings.contains(&WarningKind::CpuBound))
        };
        let law =
            if over.is_load(first) { scaling::usl::fit(&curve, view.confidence) } else { Err(Unfit::NoLoad) };
        Some(Scaled {
            file_system: 0,
            context: String::new(),
            prefix: prefix.clone(),
            point: (*first).clone(),
            over,
            loads: curve.loads().to_vec(),
            cpu_bound: curve.loads().iter().copied().filter(is_bound).collect(),
            repeats: curve.seeds(),
            saturation,
            law,
        })
    };
    groups.into_iter().filter_map(curve).collect()
}

/// The rates by repeat, then load; of several trials of one repeat the geometric mean.
fn rates(
    trials: &[&Evidence],
    prefix: &str,
    over: Over,
    points: &[&FioPoint],
) -> BTreeMap<u32, BTreeMap<u64, f64>> {
    let mut logs: BTreeMap<u32, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for point in points {
        let name = format!("{prefix}{}", metric::of_point(point, over.metric()));
        for trial in shared::once(trials, &name) {
            let Some(rate) = trial.mean(&name) else { continue };
            logs.entry(trial.repeat).or_default().entry(over.load(point)).or_default().push(rate.ln());
        }
    }
    let mean = |logs: Vec<f64>| crate::stats::quantile::mean(&logs).map_or(0.0, f64::exp);
    let seed =
        |rates: BTreeMap<u64, Vec<f64>>| rates.into_iter().map(|(load, logs)| (load, mean(logs))).collect();
    logs.into_iter().map(|(repeat, rates)| (repeat, seed(rates))).collect()
}
