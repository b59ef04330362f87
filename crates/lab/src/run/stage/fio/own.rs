//! A job file of the user's own, run as one point in a folder that only this stage has.
//!
//! The keys that it may have are those of the measure `fio` ([`crate::measure::Job`]). fio makes the job's files itself,
//! before its time begins, and removes them. An interrupted job is run again.

use std::path::Path;
use std::time::Duration;

use fsage_model::fio::{FioRecord, FioResult};
use fsage_model::measure::{FioSpec, MOST_FIO_SPACE};
use fsage_model::protocol::call;
use fsage_model::quantity::to_u64;
use fsage_model::record::StageRecord;
use fsage_model::study::FioStage;

use super::{GRACE, Run, SLOWEST};
use crate::measure::{Job, JobError, Length};
use crate::run::error::TrialError;
use crate::run::fio::FioError;
use crate::run::fio::ask::{self, line};
use crate::run::fio::job::FioTarget;
use crate::run::stage::StageContext;
use crate::run::warning::dropped;

impl Run<'_> {
    /// Runs the job file of the stage, which is called `name`.
    pub(super) fn own_job(
        mut self,
        name: String,
        version: String,
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        let job = read(self.stage).map_err(FioError::from)?;
        if context.file_system.is_bare() {
            return Err(FioError::Bare.into());
        }
        let bytes = self.stage.file_bytes(1, self.place.facts().size_bytes);
        // fio holds what it knows of files in pools of fixed sizes, which hundreds of thousands of them exhaust.
        let is_limited = self.stage.size.is_none() && job.fills_with_files();
        let bytes = if is_limited { bytes.min(MOST_FIO_SPACE) } else { bytes };
        let folder = self.place.folder(&self.stage.name);
        let FioTarget::Folder(path) = self.target(&folder, 0, context)? else {
            return Err(FioError::Bare.into());
        };
        let outcome = self.in_folder(&job, name, (&path, bytes), context);
        if context.session.is_lost() {
            return outcome.map(drop);
        }
        let removed = context.session.call(call::RemoveMeasureFolder { directory: folder });
        let job = Some(Box::new(outcome?));
        removed?;
        let name = self.stage.name.clone();
        let record = FioRecord { name, version, bytes, bare: false, results: Vec::new(), job };
        context.done.push(StageRecord::Fio(Box::new(record)));
        Ok(())
    }

    fn in_folder(
        &mut self,
        job: &Job,
        name: String,
        (folder, bytes): (&str, u64),
        context: &mut StageContext<'_>,
    ) -> Result<FioResult<String>, TrialError> {
        // Whether it goes through the page cache is the job's own.
        let settled = self.settle(false, context)?;
        let before = context.session.call(call::HostActivity)?;
        let watch = context.watch()?;
        let argv = argv(self.stage, job, (folder, bytes), context.planned.seed);
        let limit =
            GRACE + Duration::from_secs_f64(self.stage.runtime) + Duration::from_secs(bytes / SLOWEST);
        let run = self.fio(&name, argv, self.limits(limit), context)?;
        let now = context.session.call(call::HostActivity)?;
        let (host_cpu, dropped) = (watch.host_cpu(&now), dropped(&name, before, now));
        let planned_ns = seconds(self.stage).saturating_mul(1_000_000_000);
        let result = self.result(name, run, (settled, watch), context)?;
        let mut result = FioResult { host_cpu, planned_ns, ..result };
        if let Some(warning) = dropped {
            context.warn(warning.clone());
            result.warnings.push(warning);
        }
        Ok(result)
    }
}

fn read(stage: &FioStage) -> Result<Job, JobError> {
    let job = stage.job.clone().unwrap_or_default();
    Job::of(&FioSpec { job, text: stage.text.clone(), ..FioSpec::default() })
}

/// How long the job runs: whole seconds, at least one.
fn seconds(stage: &FioStage) -> u64 {
    to_u64(stage.runtime.ceil()).max(1)
}

/// fio's words, ours last in each section of the job.
fn argv(stage: &FioStage, job: &Job, (folder, bytes): (&str, u64), seed: u64) -> Vec<String> {
    let length = Length::Seconds(seconds(stage));
    let mut argv = vec!["fio".to_owned(), "--output-format=json+".to_owned()];
    for word in job.words(folder, bytes, length, seed) {
        // Before the job's own keys, so that it can say otherwise: offsets are those of the trial's seed.
        let own = word.starts_with("--name=").then(|| "--randrepeat=0".to_owned());
        argv.extend(std::iter::once(word).chain(own));
    }
    argv
}

/// What a dry run prints; of a job that cannot be read nothing.
pub(super) fn describe(stage: &FioStage, point: &Path, seed: u64) -> Vec<String> {
    let folder = point.join(&stage.name).join("fsage-measure").display().to_string();
    let bytes = stage.size.map_or(1 << 20, |size| size.0);
    let sizes = stage.size.is_none().then(|| ask::SIZES.to_owned());
    let own = read(stage).into_iter().map(|job| line(argv(stage, &job, (&folder, bytes), seed)));
    own.flat_map(|own| sizes.clone().into_iter().chain([own])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_runs_in_its_folder_for_the_time_of_the_stage() {
        let stage: FioStage = serde_json::from_str(
            r#"{"job": "own.fio", "text": "[a]\nrw=randread\nsize={size}\nruntime=999\n[b]\nrw=write\nsize=1m\n",
                "size": "8MiB", "runtime": 2.5}"#,
        )
        .unwrap();
        let lines = describe(&stage, Path::new("/m"), 7);
        assert_eq!(lines.len(), 1);
        let words: Vec<&str> = lines[0].split(' ').collect();
        let of = |key: &str| words.iter().filter(|word| word.starts_with(key)).copied().collect::<Vec<_>>();
        assert_eq!(of("--directory="), ["--directory=/m/fio/fsage-measure"; 2]);
        assert_eq!(of("--runtime="), ["--runtime=999", "--runtime=3", "--runtime=3"], "ours stands last");
        assert_eq!(of("--randrepeat="), ["--randrepeat=0"; 2]);
        assert!(of("--size=8388608").len() == 1 && of("--output-format=json+").len() == 1, "{words:?}");
    }

    #[test]
    fn a_job_that_reaches_beyond_its_folder_is_not_run() {
        let stage: FioStage =
            serde_json::from_str(r#"{"job": "own.fio", "text": "[a]\nfilename=/dev/sda\n"}"#).unwrap();
        assert!(matches!(read(&stage), Err(JobError::Key { .. })));
        assert_eq!(describe(&stage, Path::new("/m"), 7), [] as [String; 0]);
    }
}
