//! Points of fio: what each file system makes of the device, as rates and as a share of the bare device's.
//!
//! A point's share is the ratio of its operations per second to those of the bare device in trials that are the
//! same in all else, by the one estimator ([`crate::stats::evidence`]); repeats are its units.

use std::collections::BTreeSet;

use fsage_model::filesystem::BARE;
use fsage_model::fio::FioPoint;
use fsage_model::metric;
use fsage_model::warning::WarningKind;
use serde::Serialize;

use super::factor;
use super::point::Point;
use super::text::rounded;
use super::view::{Trial, View};
use crate::stats::claim::pairs;
use crate::stats::evidence::{level, ratio};
use crate::stats::{Estimate, Evidence};

/// A point of the trials of one kind.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Index in the view's file systems.
    pub file_system: usize,
    /// The trials' other factors, in words.
    pub context: String,
    /// The point.
    pub point: FioPoint,
    /// Operations per second.
    pub iops: Estimate,
    /// Bytes per second.
    pub bandwidth: Option<f64>,
    /// Mean latency in nanoseconds.
    pub mean_ns: Option<f64>,
    /// Median of reads, or where there are none of writes.
    pub p50_ns: Option<f64>,
    /// 99th percentile of the same.
    pub p99_ns: Option<f64>,
    /// 99.9th percentile of the same.
    pub p999_ns: Option<f64>,
    /// CPU time of fio's threads per operation.
    pub cpu_ns: Option<f64>,
    /// CPU time of the whole host per operation.
    pub host_cpu_ns: Option<f64>,
    /// Operations per second over those of the bare device; nothing for that itself, and without one.
    pub share: Option<Estimate>,
    /// Mean number of requests in flight at the device.
    pub in_flight: Option<f64>,
    /// Of a modelled drive: bytes per second of its own clock over those of the bare device.
    pub drive_share: Option<Estimate>,
    /// Trials in which it ended steady, and all.
    pub steady: (usize, usize),
    /// What makes its numbers doubtful in any of them.
    pub warnings: BTreeSet<WarningKind>,
}

/// What the charts get of it.
#[derive(Debug, Clone, Serialize)]
pub struct Mark {
    file_system: usize,
    context: String,
    load: String,
    engine: &'static str,
    bs: u64,
    depth: u32,
    jobs: u32,
    files: u32,
    direct: bool,
    memory: Option<u64>,
    iops: f64,
    iops_low: Option<f64>,
    iops_high: Option<f64>,
    bandwidth: Option<f64>,
    mean_ns: Option<f64>,
    cpu_ns: Option<f64>,
    share: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    n: usize,
}

/// Every point of the view, in the order of trials and points.
pub fn all(view: &View) -> Vec<Measured> {
    let found = contexts(view).into_iter();
    found.flat_map(|(context, own)| of_context(view, &own, &context)).collect()
}

/// Trials with points, by their other factors in words: those of one context differ in nothing but the file system, the
/// repeat and the points that they have.
pub(super) fn contexts(view: &View) -> Vec<(String, Vec<usize>)> {
    let mut contexts: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, trial) in view.trials.iter().enumerate().filter(|(_, trial)| !trial.points.is_empty()) {
        let name = context(trial);
        match contexts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, own)) => own.push(index),
            None => contexts.push((name, vec![index])),
        }
    }
    contexts
}

/// The points that any of these trials has, by stage and in order.
pub(super) fn points<'a>(view: &'a View, trials: &[usize]) -> BTreeSet<(&'a String, &'a FioPoint)> {
    let own = trials.iter().flat_map(|&index| &view.trials[index].points);
    own.map(|point| (&point.prefix, &point.point)).collect()
}

/// The points of trials that differ in nothing but the file system and the repeat.
fn of_context(view: &View, own: &[usize], context: &str) -> Vec<Measured> {
    let evidence: Vec<Evidence> = own.iter().filter_map(|&index| view.evidence.get(index).cloned()).collect();
    let points = points(view, own);
    let mut found = Vec::new();
    for (file_system, name) in view.file_systems.iter().enumerate() {
        let here = own.iter().filter(|&&index| view.trials[index].file_system == *name);
        let here: Vec<usize> = here.copied().collect();
        if here.is_empty() {
            continue;
        }
        for &(prefix, point) in &points {
            let measured = one(view, (&here, &evidence), (name, file_system), (prefix, point));
            found.extend(measured.map(|one| Measured { context: context.to_owned(), ..one }));
        }
    }
    found
}

fn one(
    view: &View,
    (here, context): (&[usize], &[Evidence]),
    (name, file_system): (&str, usize),
    (prefix, point): (&str, &FioPoint),
) -> Option<Measured> {
    let trials: Vec<&Evidence> = here.iter().filter_map(|&index| view.evidence.get(index)).collect();
    let of = |number: &str| format!("{prefix}{}", metric::of_point(point, number));
    let value = |number: &str| level(&trials, &of(number), view.confidence).map(|found| found.value);
    let iops = level(&trials, &of(metric::IOPS), view.confidence)?;
    // A trial with few operations lacks the far ones: those of the others alone would be of the fast trials.
    let of_all = |number: &str| {
        level(&trials, &of(number), view.confidence)
            .filter(|found| found.n == iops.n)
            .map(|found| found.value)
    };
    let percentile = |name: &str| ["read", "write"].iter().find_map(|way| of_all(&format!("{way}_{name}")));
    let sides = |kind: &str| [(factor::FILE_SYSTEM.to_owned(), kind.into())].into();
    let pairs = (name != BARE.name).then(|| pairs(context, &sides(name), &sides(BARE.name)));
    let share_of = |number: &str| ratio(pairs.as_ref()?, &of(number), view.confidence);
    let ends = here.iter().flat_map(|&index| &view.trials[index].points);
    let same = |other: &&Point| other.prefix == prefix && other.point == *point;
    let ends: Vec<&Point> = ends.filter(same).collect();
    Some(Measured {
        file_system,
        context: String::new(),
        point: point.clone(),
        iops,
        bandwidth: value(metric::BANDWIDTH),
        mean_ns: value(metric::MEAN_NS),
        p50_ns: percentile(metric::P50_NS),
        p99_ns: percentile(metric::P99_NS),
        p999_ns: percentile(metric::P999_NS),
        cpu_ns: value(metric::CPU_NS),
        host_cpu_ns: value(metric::HOST_CPU_NS),
        share: share_of(metric::IOPS),
        in_flight: value(metric::IN_FLIGHT),
        drive_share: share_of(metric::DRIVE_BANDWIDTH),
        steady: (ends.iter().filter(|end| end.steady).count(), ends.len()),
        warnings: ends.iter().flat_map(|end| &end.warnings).cloned().collect(),
    })
}

/// The trial's other factors in words; those of a point are the point's.
fn context(trial: &Trial) -> String {
    let of_point = |path: &&str| {
        const KEYS: [&str; 9] =
            ["rw", "rwmixread", "bs", "ioengine", "iodepth", "numjobs", "direct", "files", "memory"];
        let mut parts = path.split('.');
        parts.next() == Some("stage") && parts.nth(1).is_some_and(|key| KEYS.contains(&key))
    };
    let own = trial.factors.keys().map(String::as_str).filter(of_point);
    let without: BTreeSet<&str> = own.chain([factor::FILE_SYSTEM]).collect();
    factor::context(&trial.factors, &without)
}

/// What the charts get.
pub fn marks(view: &View) -> Vec<Mark> {
    all(view).into_iter().map(mark).collect()
}

fn mark(found: Measured) -> Mark {
    let FioPoint { bs, ioengine, iodepth, numjobs, files, direct, memory, .. } = found.point;
    let interval = |estimate: &Estimate, high: bool| {
        estimate.interval.map(|range| rounded(if high { range.high } else { range.low }))
    };
    Mark {
        file_system: found.file_system,
        context: found.context,
        load: found.point.load(),
        engine: ioengine.name(),
        bs: bs.0,
        depth: iodepth,
        jobs: numjobs,
        files,
        direct,
        memory: memory.map(|limit| limit.0),
        iops: rounded(found.iops.value),
        iops_low: interval(&found.iops, false),
        iops_high: interval(&found.iops, true),
        bandwidth: found.bandwidth.map(rounded),
        mean_ns: found.mean_ns.map(rounded),
        cpu_ns: found.cpu_ns.map(rounded),
        share: found.share.map(|share| rounded(share.value)),
        low: found.share.as_ref().and_then(|share| interval(share, false)),
        high: found.share.as_ref().and_then(|share| interval(share, true)),
        n: found.iops.n,
    }
}
