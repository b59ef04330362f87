//! Points of fio that a trial has, for looking up their metrics.

use fsage_model::fio::{FioEnd, FioPoint, FioRecord, LatencyAt};
use fsage_model::metric;
use fsage_model::record::StageRecord;
use fsage_model::warning::WarningKind;

/// One point.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// How the names of its metrics begin: with the name of its stage, if it is not the first.
    pub prefix: String,
    /// Its parameters.
    pub point: FioPoint,
    /// Whether it ended steady.
    pub steady: bool,
    /// What makes its numbers doubtful.
    pub warnings: Vec<WarningKind>,
    /// Percentiles of the latency of reads; none in old records.
    pub read: Vec<LatencyAt>,
    /// The same of writes.
    pub write: Vec<LatencyAt>,
}

/// A job file that a trial ran.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// How the names of its metrics begin ([`Point::prefix`]).
    pub prefix: String,
    /// Its name in metrics.
    pub name: String,
}

/// The job files of a trial's `fio` stages.
pub fn jobs(stages: &[StageRecord]) -> Vec<Job> {
    let one = |(index, record): (usize, &FioRecord)| {
        let prefix = metric::prefix(&record.name, index == 0);
        record.job.as_ref().map(|job| Job { prefix, name: job.point.clone() })
    };
    records(stages).enumerate().filter_map(one).collect()
}

fn records(stages: &[StageRecord]) -> impl Iterator<Item = &FioRecord> {
    stages.iter().filter_map(|stage| if let StageRecord::Fio(fio) = stage { Some(&**fio) } else { None })
}

/// The points of a trial's `fio` stages.
pub fn of(stages: &[StageRecord]) -> Vec<Point> {
    let mut points = Vec::new();
    for (index, record) in records(stages).enumerate() {
        let prefix = metric::prefix(&record.name, index == 0);
        points.extend(record.results.iter().map(|result| Point {
            prefix: prefix.clone(),
            point: result.point.clone(),
            steady: result.end == FioEnd::Steady,
            warnings: result.warnings.iter().map(|warning| warning.kind.clone()).collect(),
            read: result.read_percentiles.clone(),
            write: result.write_percentiles.clone(),
        }));
    }
    points
}
