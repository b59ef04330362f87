//! fio's JSON of one group of jobs (`--output-format=json+ --group_reporting`): what is taken from it beside the
//! file itself. Times of latencies are nanoseconds, those of runs milliseconds, CPU use percent of the run time of
//! all jobs together.

use fsage_model::fio::{Distribution, FioLatency, LatencyAt};
use fsage_model::quantity::{as_f64, to_u64};
use serde_json::Value;

use super::{FioOutputError, version_of};

/// Oldest version whose JSON and options are known to be right.
pub const OLDEST: (u32, u32) = (3, 33);

/// What one run says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// As fio has it.
    pub version: String,
    /// Milliseconds since the epoch when it wrote this, which is when its jobs had ended; 0 where it does not say.
    pub written_ms: u64,
    /// Time of the longest job, ramp left out.
    pub runtime_ns: u64,
    /// Reads.
    pub read: FioLatency,
    /// Writes.
    pub write: FioLatency,
    /// How long reads took.
    pub read_times: Latencies,
    /// How long writes took.
    pub write_times: Latencies,
    /// CPU time of all jobs in user mode.
    pub user_ns: u64,
    /// CPU time of all jobs in the kernel.
    pub system_ns: u64,
    /// Context switches of all jobs.
    pub context_switches: u64,
}

/// Latencies of one direction, all jobs together: from submission on where fio keeps that, otherwise completion latencies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latencies {
    /// By bin, in nanoseconds.
    pub bins: Distribution,
    /// Shortest in nanoseconds; nothing without operations.
    min_ns: Option<f64>,
    /// Longest in nanoseconds.
    max_ns: f64,
    /// Operations that were timed.
    timed: u64,
}

impl Latencies {
    /// Percentiles; none where the bins do not hold every operation that was timed, so that they would be of a part.
    #[must_use]
    pub fn percentiles(&self) -> Vec<LatencyAt> {
        let whole = self.bins.operations() == self.timed;
        let min_ns = self.min_ns.filter(|_| whole);
        min_ns.map(|min_ns| self.bins.percentiles(min_ns, self.max_ns)).unwrap_or_default()
    }

    fn add(&mut self, latency: &Value) {
        let number = |key: &str| latency[key].as_f64().unwrap_or(0.0);
        self.timed = self.timed.saturating_add(latency["N"].as_u64().unwrap_or(0));
        self.min_ns = Some(self.min_ns.unwrap_or(f64::MAX).min(number("min")));
        self.max_ns = self.max_ns.max(number("max"));
        for (middle_ns, operations) in latency["bins"].as_object().into_iter().flatten() {
            let bin = middle_ns.parse().ok().zip(operations.as_u64());
            bin.into_iter().for_each(|(middle_ns, operations)| self.bins.add(middle_ns, operations));
        }
    }
}

/// Whether a version is new enough; one that is not understood is.
#[must_use]
pub fn is_new_enough(version: &str) -> bool {
    version_of(version).is_none_or(|found| found >= OLDEST)
}

/// Reads one complete document.
///
/// # Errors
/// It is cut off or no JSON of fio, or a job failed.
pub fn parse(json: &str) -> Result<Figures, FioOutputError> {
    let format = |what: &str| FioOutputError::Format(what.to_owned());
    let tree: Value =
        serde_json::from_str(json).map_err(|error| FioOutputError::Format(error.to_string()))?;
    let version = tree["fio version"].as_str().ok_or_else(|| format("it names no version"))?.to_owned();
    let jobs =
        tree["jobs"].as_array().filter(|jobs| !jobs.is_empty()).ok_or_else(|| format("it has no jobs"))?;
    let written_ms = tree["timestamp_ms"].as_u64().unwrap_or(0);
    let mut figures = Figures { version, written_ms, ..Figures::default() };
    for job in jobs {
        if let Some(error) = job["error"].as_u64().filter(|error| *error != 0) {
            let job = job["jobname"].as_str().unwrap_or_default().to_owned();
            return Err(FioOutputError::Job { job, error });
        }
        let ms = |value: &Value| value.as_u64().unwrap_or(0).saturating_mul(1_000_000);
        figures.runtime_ns =
            figures.runtime_ns.max(ms(&job["read"]["runtime"])).max(ms(&job["write"]["runtime"]));
        let busy =
            |key: &str| to_u64(job[key].as_f64().unwrap_or(0.0) / 100.0 * as_f64(ms(&job["job_runtime"])));
        figures.user_ns += busy("usr_cpu");
        figures.system_ns += busy("sys_cpu");
        figures.context_switches += job["ctx"].as_u64().unwrap_or(0);
        // With group reporting there is one entry; the first of several would speak for its own jobs alone.
        add(&mut figures.read, &mut figures.read_times, &job["read"]);
        add(&mut figures.write, &mut figures.write_times, &job["write"]);
    }
    if figures.read.operations + figures.write.operations == 0 {
        return Err(format("no operation was completed"));
    }
    Ok(figures)
}

fn add(sum: &mut FioLatency, times: &mut Latencies, part: &Value) {
    let operations = part["total_ios"].as_u64().unwrap_or(0);
    if operations == 0 {
        return;
    }
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    // Where a file system waits in the submission (btrfs, buffered writes), completion alone says little. The whole is there
    // with `lat_percentiles`.
    let has_bins = part["lat_ns"]["bins"].as_object().is_some_and(|bins| !bins.is_empty());
    let latency = if has_bins { &part["lat_ns"] } else { &part["clat_ns"] };
    times.add(latency);
    let percentile = |key: &str| number(&latency["percentile"][key]);
    let (before, now) = (as_f64(sum.operations), as_f64(operations));
    sum.mean_ns = (sum.mean_ns * before + number(&latency["mean"]) * now) / (before + now);
    sum.p50_ns = sum.p50_ns.max(percentile("50.000000"));
    sum.p99_ns = sum.p99_ns.max(percentile("99.000000"));
    sum.p999_ns = sum.p999_ns.max(percentile("99.900000"));
    sum.max_ns = sum.max_ns.max(number(&latency["max"]));
    sum.operations += operations;
    sum.bytes += part["io_bytes"].as_u64().unwrap_or(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: &str = include_str!("../../../tests/data/fio-3.33-plus.json");

    #[test]
    fn every_figure_is_found_where_fio_has_it() {
        let found = parse(SAVED).unwrap();
        let tree: Value = serde_json::from_str(SAVED).unwrap();
        let job = &tree["jobs"][0];
        assert_eq!(found.version, "fio-3.33");
        assert_eq!(found.read.operations, job["read"]["total_ios"].as_u64().unwrap());
        assert_eq!(found.write.bytes, job["write"]["io_bytes"].as_u64().unwrap());
        assert!(found.read.p50_ns > 0.0 && found.read.p50_ns <= found.read.p99_ns);
        assert!(found.read.p99_ns <= found.read.p999_ns && found.read.p999_ns <= found.read.max_ns * 1.01);
        assert!(found.user_ns > 0 && found.system_ns > 0 && found.context_switches > 0);
        assert!(found.user_ns + found.system_ns < found.runtime_ns * 4, "percent, not shares: {found:?}");
    }

    /// A whole histogram, unlike [`SAVED`], whose bins were cut.
    const BINS: &str = include_str!("../../../tests/data/fio-3.33-bins.json");

    #[test]
    fn latency_begins_with_the_submission_where_fio_has_its_histogram() {
        let mut tree: Value = serde_json::from_str(BINS).unwrap();
        let read = &mut tree["jobs"][0]["read"];
        let operations = read["lat_ns"]["N"].as_u64().unwrap();
        let whole_ns = read["lat_ns"]["mean"].as_f64().unwrap();
        let completion_ns = parse(BINS).unwrap().read.mean_ns;
        assert!(completion_ns < whole_ns, "without a histogram it is completion");
        read["lat_ns"]["bins"] = serde_json::json!({"1744000": operations});
        read["lat_ns"]["percentile"] = serde_json::json!({"50.000000": 1_744_000});
        let found = parse(&tree.to_string()).unwrap();
        assert!((found.read.mean_ns - whole_ns).abs() < 1e-6 && (found.read.p50_ns - 1.744e6).abs() < 1.0);
        assert_eq!(found.read_times.bins.operations(), operations);
        assert!((found.write.mean_ns - parse(BINS).unwrap().write.mean_ns).abs() < 1e-6);
    }

    #[test]
    fn percentiles_of_the_bins_are_those_that_fio_prints() {
        let found = parse(BINS).unwrap();
        let tree: Value = serde_json::from_str(BINS).unwrap();
        for (times, way) in [(&found.read_times, "read"), (&found.write_times, "write")] {
            let latency = &tree["jobs"][0][way]["clat_ns"];
            let percentiles = times.percentiles();
            assert_eq!(times.bins.operations(), latency["N"].as_u64().unwrap(), "{way}");
            let mut compared = 0;
            for at in &percentiles {
                let theirs = &latency["percentile"][format!("{:.6}", at.percent)];
                let Some(theirs) = theirs.as_f64() else { continue };
                // fio's are the middles of bins, which may lie beyond the shortest and the longest.
                let theirs =
                    theirs.max(latency["min"].as_f64().unwrap()).min(latency["max"].as_f64().unwrap());
                assert_eq!(at.ns, theirs, "{way}, {} %", at.percent);
                compared += 1;
            }
            assert!(compared >= 12, "{way}: {compared}");
            assert!(percentiles.windows(2).all(|pair| pair[0].ns <= pair[1].ns));
        }
        assert_eq!(
            found.read.p99_ns,
            found.read_times.percentiles().iter().find(|at| at.percent == 99.0).unwrap().ns
        );
    }

    #[test]
    fn bins_that_do_not_hold_every_operation_give_no_percentiles() {
        let found = parse(SAVED).unwrap();
        assert!(found.read.operations > 0 && found.read_times.bins.operations() == 6);
        assert_eq!(found.read_times.percentiles(), []);
        assert_eq!(Latencies::default().percentiles(), []);
        // Two jobs that report by themselves are one distribution.
        let mut tree: Value = serde_json::from_str(BINS).unwrap();
        let job = tree["jobs"][0].clone();
        tree["jobs"].as_array_mut().unwrap().push(job);
        let (one, two) = (parse(BINS).unwrap(), parse(&tree.to_string()).unwrap());
        assert_eq!(two.read_times.bins.operations(), 2 * one.read_times.bins.operations());
        let common = |found: &Figures| found.read_times.percentiles()[..12].to_vec();
        assert_eq!(common(&two), common(&one));
    }

    #[test]
    fn what_is_cut_off_is_no_result_wherever_it_is_cut() {
        let end = SAVED.trim_end().len();
        for at in [0, 1, end / 4, end / 2, end - 1] {
            assert!(matches!(parse(&SAVED[..at]), Err(FioOutputError::Format(_))), "at {at}");
        }
    }

    #[test]
    fn failures_and_runs_without_operations_are_no_results() {
        let failed = r#"{"fio version":"fio-3.33","jobs":[{"jobname":"x","error":28}]}"#;
        assert!(parse(failed).is_err_and(|error| error.is_out_of_space()));
        let idle = failed.replace("28", "0");
        assert!(parse(&idle).is_err_and(|error| error.to_string().contains("no operation")));
    }

    #[test]
    fn old_versions_are_known() {
        for (version, new) in [
            ("fio-3.33", true),
            ("fio-3.32", false),
            ("fio-2.16", false),
            ("fio-4.0", true),
            ("fio-3.41-66-g1a2b", true),
        ] {
            assert_eq!(is_new_enough(version), new, "{version}");
        }
        assert!(is_new_enough("fio-local"), "a build without a number is given the benefit of the doubt");
    }
}
