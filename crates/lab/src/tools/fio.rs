//! `fio`: runs jobs. The job comes as arguments (`--name=global …`, as `fio --showcmd` prints it), so nothing
//! has to be written where it runs; the result is its JSON on standard output.

pub mod plus;

use std::time::Duration;

use fsage_sys::errno::is_out_of_space;
use serde_json::Value;

use super::{Invocation, Program};

/// The program.
pub static PROGRAM: Program = Program::new("fio", Duration::from_secs(4 * 3600));

/// A run of the job's words.
#[must_use]
pub fn invoke(words: Vec<String>, time_limit: Duration) -> Invocation {
    let mut argv = vec![PROGRAM.name.to_owned(), "--output-format=json".to_owned()];
    argv.extend(words);
    Invocation::new(argv, PROGRAM.package.to_owned(), time_limit)
}

/// What a run of fio found, all its jobs together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FioResult {
    /// As fio has it (`fio-3.33`).
    pub version: String,
    /// Time its longest job ran.
    pub runtime_ns: u64,
    /// Reads.
    pub reads: FioDirection,
    /// Writes.
    pub writes: FioDirection,
    /// Mean time of an fsync; absent when there were none or this fio does not say.
    pub mean_sync_ns: Option<f64>,
}

/// One direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FioDirection {
    /// Bytes moved.
    pub bytes: u64,
    /// Operations.
    pub operations: u64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Mean completion latency over all operations.
    pub mean_ns: f64,
    /// 99th percentile of the completion latency, the largest of all jobs; absent when fio does not say.
    pub p99_ns: Option<f64>,
}

/// Why output of fio tells nothing.
#[derive(Debug, thiserror::Error)]
pub enum FioOutputError {
    /// It is not the JSON it should be.
    #[error("cannot parse the output of fio: {0}")]
    Format(String),
    /// A job failed.
    #[error("job `{job}` of fio failed with error {error}")]
    Job {
        /// Its name.
        job: String,
        /// fio's error, mostly an errno.
        error: u64,
    },
}

impl FioOutputError {
    /// Whether a job found no room for its files. fio's error is an errno then.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, Self::Job { error, .. } if i32::try_from(*error).is_ok_and(is_out_of_space))
    }
}

/// Reads fio's JSON. Versions from 3.0 on count nanoseconds and bytes, those before microseconds and KiB.
///
/// # Errors
/// It is no JSON of fio (notes before it are passed over), or a job failed.
pub fn parse(output: &str) -> Result<FioResult, FioOutputError> {
    let format = |what: &str| FioOutputError::Format(what.to_owned());
    let start = output.find('{').ok_or_else(|| format("there is no JSON in it"))?;
    // Some versions say something after it, too.
    let mut values = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Value>();
    let tree = values
        .next()
        .ok_or_else(|| format("there is no JSON in it"))?
        .map_err(|error| FioOutputError::Format(error.to_string()))?;
    let version = tree["fio version"].as_str().ok_or_else(|| format("it names no version"))?.to_owned();
    let old = version_of(&version).is_some_and(|(major, _)| major < 3);
    let jobs =
        tree["jobs"].as_array().filter(|jobs| !jobs.is_empty()).ok_or_else(|| format("it has no jobs"))?;
    let mut result = FioResult { version, ..FioResult::default() };
    let (mut syncs, mut sync_ns) = (0.0, 0.0);
    for job in jobs {
        if let Some(error) = job["error"].as_u64().filter(|error| *error != 0) {
            let job = job["jobname"].as_str().unwrap_or_default().to_owned();
            return Err(FioOutputError::Job { job, error });
        }
        for (name, sum) in [("read", &mut result.reads), ("write", &mut result.writes)] {
            sum.add(&job[name], old);
            let runtime = job[name]["runtime"].as_u64().unwrap_or(0).saturating_mul(1_000_000);
            result.runtime_ns = result.runtime_ns.max(runtime);
        }
        let count = job["sync"]["total_ios"].as_f64().unwrap_or(0.0);
        syncs += count;
        sync_ns += count * job["sync"]["lat_ns"]["mean"].as_f64().unwrap_or(0.0);
    }
    result.mean_sync_ns = (syncs > 0.0).then(|| sync_ns / syncs);
    Ok(result)
}

/// Major and minor number of `fio-3.33`, `fio-3.41-66-g1a2b`, …; nothing of a build without a number.
fn version_of(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("fio-")?.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next().and_then(Result::ok).unwrap_or(0)))
}

impl FioDirection {
    fn add(&mut self, part: &Value, old: bool) {
        let number = |key: &str| part[key].as_f64().unwrap_or(0.0);
        let operations = part["total_ios"].as_u64().unwrap_or(0);
        if operations == 0 {
            return;
        }
        let (latency, to_ns) = if old { (&part["clat"], 1000.0) } else { (&part["clat_ns"], 1.0) };
        let bytes = part["io_bytes"].as_u64().unwrap_or(0);
        self.bytes += if old { bytes.saturating_mul(1024) } else { bytes };
        self.bytes_per_second += number("bw") * 1024.0;
        let (before, now) =
            (fsage_model::quantity::as_f64(self.operations), fsage_model::quantity::as_f64(operations));
        let mean = latency["mean"].as_f64().unwrap_or(0.0) * to_ns;
        self.mean_ns = (self.mean_ns * before + mean * now) / (before + now);
        let p99 = latency["percentile"]["99.000000"].as_f64().map(|value| value * to_ns);
        self.p99_ns = [self.p99_ns, p99].into_iter().flatten().reduce(f64::max);
        self.operations += operations;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_fio_3_is_read() {
        let found = parse(include_str!("../../tests/data/fio-3.33.json")).unwrap();
        assert_eq!((found.version.as_str(), found.runtime_ns), ("fio-3.33", 1_001_000_000));
        assert_eq!(
            (found.reads, found.writes.bytes, found.writes.operations),
            (FioDirection::default(), 20_054_016, 4896)
        );
        assert!((found.writes.bytes_per_second / 20_033_982.0 - 1.0).abs() < 1e-4, "{found:?}");
        assert_eq!((found.writes.mean_ns, found.writes.p99_ns), (2_851.079_044, Some(15_936.0)));
        assert_eq!(found.mean_sync_ns, Some(5_784_311.745_098));
    }

    #[test]
    fn the_units_of_fio_2_are_known() {
        let text = r#"fio: some note
{ "fio version" : "fio-2.16", "jobs" : [
  { "jobname" : "a", "error" : 0, "read" : { "io_bytes" : 8000, "bw" : 800, "runtime" : 10000, "total_ios" : 2000,
    "clat" : { "mean" : 50.0, "percentile" : { "99.000000" : 90 } } } },
  { "jobname" : "b", "error" : 0, "read" : { "io_bytes" : 8000, "bw" : 800, "runtime" : 9000, "total_ios" : 2000,
    "clat" : { "mean" : 150.0, "percentile" : { "99.000000" : 300 } } } } ] }
trailing"#;
        let found = parse(text).unwrap();
        let reads = FioDirection {
            bytes: 16_384_000,
            operations: 4000,
            bytes_per_second: 1_638_400.0,
            mean_ns: 100_000.0,
            p99_ns: Some(300_000.0),
        };
        assert_eq!((found.reads, found.runtime_ns), (reads, 10_000_000_000));
    }

    #[test]
    fn failures_are_told() {
        let failed = r#"{"fio version":"fio-3.33","jobs":[{"jobname":"x","error":28}]}"#;
        assert!(parse(failed).is_err_and(|error| error.is_out_of_space()));
        let other = parse(&failed.replace("28", "5")).unwrap_err();
        assert!(matches!(other, FioOutputError::Job { error: 5, .. }) && !other.is_out_of_space());
        // As fio 3.33 says it, with a note before.
        let noted = format!("fio: ENOSPC on laying out file, stopping\n{failed}");
        assert!(parse(&noted).is_err_and(|error| error.is_out_of_space()));
        for text in ["", "fio: no job", "{", "{}", r#"{"fio version":"fio-3.33","jobs":[]}"#] {
            assert!(matches!(parse(text), Err(FioOutputError::Format(_))), "{text}");
        }
    }
}
