//! The measure `fio`: a job of fio in a folder of its own, which is removed afterwards with whatever fio left
//! in it.

use std::path::Path;
use std::time::Duration;

use fsage_model::disk::{DiskTime, DiskUse};
use fsage_model::measure::{
    FioSpec, MOST_FIO_SPACE, MeasureMetric, MeasureResult, Work, disk_metrics, model_unit,
};
use fsage_model::protocol::call;
use fsage_model::quantity::{as_f64, share};

use super::job::Length;
use super::{Job, MeasureError, MeasureOrder};
use crate::target::Session;
use crate::tools::fio::{FioDirection, FioOutputError, FioResult, invoke, parse};

/// How much longer than asked for a job may take: laying out files and syncing are not in its time.
const GRACE: Duration = Duration::from_secs(900);

/// Longest a job runs that says for itself how long.
const LONGEST: Duration = Duration::from_secs(4 * 3600);

pub(super) fn run(
    spec: &FioSpec,
    order: &MeasureOrder,
    session: &mut Session,
) -> Result<MeasureResult, MeasureError> {
    let job = Job::of(spec)?;
    let space = match spec.space {
        Some(space) => space.0,
        None => {
            let usage = session.call(call::Usage { directory: order.directory.path.clone() })?;
            (usage.available_bytes / 2).min(MOST_FIO_SPACE)
        }
    };
    // One that is there is not ours to use or to remove.
    let folder = session.call(call::MakeMeasureFolder { directory: order.directory.clone() })?;
    let answer = in_folder(&job, &folder, space, (spec.seconds, order.seed), session);
    let removed = session.call(call::RemoveMeasureFolder { directory: order.directory.clone() });
    match (answer, removed) {
        (answer, Ok(_)) => answer,
        // A measure may be left out for lack of space, but not when what it wrote is still there.
        (Err(error), Err(_)) if !error.is_out_of_space() => Err(error),
        (_, Err(error)) => Err(error.into()),
    }
}

/// Runs the job, cold.
fn in_folder(
    job: &Job,
    folder: &Path,
    space: u64,
    (seconds, seed): (u64, u64),
    session: &mut Session,
) -> Result<MeasureResult, MeasureError> {
    session.call(call::Forget { directory: folder.to_owned() })?;
    session.call(call::DiskRest { directory: folder.to_owned() })?;
    let before = session.call(call::DiskStat { directory: folder.to_owned() })?;
    let length = match &before {
        // By wall-clock time it would do as much as this machine can, and so each time something else.
        Some(stat) if stat.time == DiskTime::Model => Length::Once,
        _ if seconds == 0 => Length::AsSaid,
        _ => Length::Seconds(seconds),
    };
    let words = job.words(&folder.display().to_string(), space, length, seed);
    let limit = match length {
        Length::Seconds(seconds) => Duration::from_secs(seconds).saturating_add(GRACE),
        Length::AsSaid | Length::Once => LONGEST,
    };
    let invocation = invoke(words, limit);
    let output = invocation.run(session)?;
    // What went wrong in a job is in the JSON; the status says only that something did.
    let found = match parse(&output.stdout) {
        Ok(found) if output.status == 0 => found,
        Ok(_) => return Err(invocation.failed(&output).into()),
        Err(FioOutputError::Format(_)) if output.status != 0 => {
            return Err(invocation.failed(&output).into());
        }
        Err(error) => return Err(error.into()),
    };
    let wall_ns = u64::try_from(output.elapsed.as_nanos()).unwrap_or(u64::MAX);
    // By the clock it does what it can in that time: the same job, though not as often.
    let job = (length != Length::Once).then_some(Work { bytes: space, ..Work::default() });
    let found = MeasureResult { job, ..result(&found, wall_ns) };
    let Some(before) = before else { return Ok(found) };
    // What fio left in memory is work for the disk as well.
    session.call(call::Sync { directory: folder.to_owned() })?;
    let after = session.call(call::DiskStat { directory: folder.to_owned() })?;
    let used = after.map(|after| after.since(&before));
    Ok(match used {
        Some(used) => on_disk(found, used),
        None => found,
    })
}

/// The result on a virtual disk. fio knows the wall's time alone, which is nobody's on a disk in model time:
/// there only what it did and what that took by the disk's clock is reported.
fn on_disk(found: MeasureResult, used: DiskUse) -> MeasureResult {
    let mut metrics = if used.time == DiskTime::Real {
        found.metrics
    } else {
        let each = share(used.elapsed_ns, found.operations);
        let seconds = as_f64(used.elapsed_ns) / 1e9;
        let rate = if seconds > 0.0 { as_f64(found.operations) / seconds } else { 0.0 };
        vec![
            MeasureMetric::cost("time_per_operation", &model_unit("ns"), each),
            MeasureMetric::gain("operations_per_second", &model_unit("1/s"), rate),
        ]
    };
    metrics.extend(disk_metrics(&used));
    MeasureResult { metrics, disk: Some(used), ..found }
}

fn result(found: &FioResult, elapsed_ns: u64) -> MeasureResult {
    let mut metrics = Vec::new();
    for (name, direction) in [("read", &found.reads), ("write", &found.writes)] {
        if direction.operations > 0 {
            metrics.extend(direction_metrics(name, direction, found.runtime_ns));
        }
    }
    metrics.extend(found.mean_sync_ns.map(|ns| MeasureMetric::cost("mean_sync", "ns", ns)));
    MeasureResult {
        name: "fio".to_owned(),
        elapsed_ns: if found.runtime_ns > 0 { found.runtime_ns } else { elapsed_ns },
        bytes: found.reads.bytes + found.writes.bytes,
        operations: found.reads.operations + found.writes.operations,
        metrics,
        ..MeasureResult::default()
    }
}

fn direction_metrics(name: &str, found: &FioDirection, runtime_ns: u64) -> Vec<MeasureMetric> {
    let mut metrics = vec![
        MeasureMetric::gain(&format!("{name}_throughput"), "B/s", found.bytes_per_second),
        MeasureMetric::cost(&format!("mean_{name}"), "ns", found.mean_ns),
    ];
    if runtime_ns > 0 {
        let rate = as_f64(found.operations) / (as_f64(runtime_ns) / 1e9);
        metrics.push(MeasureMetric::gain(&format!("{name}s_per_second"), "1/s", rate));
    }
    metrics.extend(found.p99_ns.map(|ns| MeasureMetric::cost(&format!("p99_{name}"), "ns", ns)));
    metrics
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use fsage_model::protocol::{Failure, FailureKind};

    use super::*;
    use crate::target::Target;
    use fsage_model::protocol::{Call as _, Reply, Request, ToolOutput, Usage};

    const DONE: &str = r#"{"fio version":"fio-3.33","jobs":[{"jobname":"x","error":0,"write":{"total_ios":2,
        "io_bytes":8192,"bw":8,"runtime":1000,"clat_ns":{"mean":5.0}}}]}"#;
    const NO_SPACE: &str = r#"fio: ENOSPC on laying out file, stopping
        {"fio version":"fio-3.33","jobs":[{"jobname":"x","error":28}]}"#;

    fn failure(errno: Option<i32>) -> Failure {
        Failure { message: "no".to_owned(), hint: String::new(), errno, kind: FailureKind::Failed }
    }

    /// Runs the preset against an agent of whose requests `fails` fails, and whose fio says that.
    fn reported(
        fails: &'static str,
        status: i32,
        stdout: &'static str,
    ) -> (Result<MeasureResult, MeasureError>, Vec<String>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let mut session = Target::scripted(Box::new(move |request, _| {
            let name = request.name();
            seen.lock().unwrap().push(name.clone());
            if name == fails {
                return Some(Err(failure(None)));
            }
            Some(match request {
                Request::Usage(usage) => {
                    let (used_bytes, total_bytes, available_bytes) = (0, 1 << 30, 1 << 30);
                    usage.reply(&Usage {
                        used_bytes,
                        total_bytes,
                        available_bytes,
                        file_system: "ext4".to_owned(),
                    })
                }
                Request::RunTool(run) => {
                    let argv = run.argv.clone();
                    assert!(argv.contains(&"--directory=/proc/7/fd/9".to_owned()), "{argv:?}");
                    let (stdout, stderr) = (stdout.to_owned(), "fio: bad".to_owned());
                    run.reply(&ToolOutput { argv, status, stdout, stderr, elapsed_ns: 5 })
                }
                Request::MakeMeasureFolder(folder) => folder.reply(&"/proc/7/fd/9".into()),
                Request::RemoveMeasureFolder(folder) => {
                    assert_eq!(folder.directory.path, Path::new("/mnt"));
                    folder.reply(&())
                }
                _ => Ok(Reply::done()),
            })
        }));
        let spec = FioSpec::default();
        let order = MeasureOrder {
            measure: fsage_model::measure::MeasureSpec::Fio(spec.clone()),
            directory: std::path::PathBuf::from("/mnt").into(),
            device: None,
            seed: 1,
            requests: false,
            mark: None,
            extra: None,
        };
        let answer = run(&spec, &order, &mut session);
        let asked = asked.lock().unwrap().clone();
        (answer, asked)
    }

    #[test]
    fn the_folder_goes_on_every_way_out() {
        let (answer, asked) = reported("", 0, DONE);
        assert_eq!(answer.unwrap().bytes, 8192);
        let wanted = [
            "usage",
            "make-measure-folder",
            "forget",
            "disk-rest",
            "disk-stat",
            "run-tool",
            "remove-measure-folder",
        ];
        assert_eq!(asked, wanted);
        for (fails, status, stdout) in
            [("forget", 0, DONE), ("run-tool", 0, DONE), ("", 137, ""), ("", 0, "no JSON"), ("", 1, NO_SPACE)]
        {
            let (answer, asked) = reported(fails, status, stdout);
            assert!(answer.is_err(), "{fails} {stdout}");
            assert_eq!(asked.last().map(String::as_str), Some("remove-measure-folder"), "{fails} {stdout}");
        }
        // What was there before is neither used nor removed.
        let (answer, asked) = reported("make-measure-folder", 0, DONE);
        assert!(matches!(answer, Err(MeasureError::Target(_))), "{answer:?}");
        assert_eq!(asked, ["usage", "make-measure-folder"]);
    }

    #[test]
    fn no_space_is_told_from_other_failures() {
        let error = reported("", 1, NO_SPACE).0.unwrap_err();
        assert!(error.is_out_of_space() && matches!(error, MeasureError::Output(_)), "{error:?}");
        for (status, stdout) in [(1, DONE), (1, ""), (137, "{")] {
            let error = reported("", status, stdout).0.unwrap_err();
            assert!(matches!(error, MeasureError::Tool(_)) && !error.is_out_of_space(), "{error:?}");
            assert!(error.to_string().contains("fio: bad"), "{error}");
        }
        assert!(matches!(reported("", 0, "{").0, Err(MeasureError::Output(FioOutputError::Format(_)))));
    }

    #[test]
    fn what_cannot_be_removed_is_an_error() {
        for (status, stdout) in [(0, DONE), (1, NO_SPACE)] {
            let error = reported("remove-measure-folder", status, stdout).0.unwrap_err();
            assert!(matches!(error, MeasureError::Target(_)) && !error.is_out_of_space(), "{error:?}");
        }
        assert!(matches!(reported("remove-measure-folder", 1, "").0, Err(MeasureError::Tool(_))));
    }
}
