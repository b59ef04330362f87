//! `fsage compare` on stores that a scripted agent filled: a slowdown put into it is found, a repeat is not.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod cli_support;
mod scripted;

use std::path::Path;

use cli_support::fsage;
use fsage_lab::run::{Quiet, RunOptions, run_study_with};
use fsage_lab::target::{Session, Target, TargetError};
use fsage_model::layout::LayoutSummary;
use fsage_model::load::{LatencySummary, LoadResult, StopReason};
use fsage_model::operation::OperationKind as K;
use fsage_model::protocol::{Call as _, Failure, Reply, Request, ToolOutput};
use fsage_model::quantity::{as_f64, to_u64};

const STUDY: &str = r#"
name = "scripted"
title = "t"
question = "q"
repeats = 6
[volume]
kind = "loop"
size = "400MiB"
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
stop.operations = 100
workload = { kind = "drift", slots = 10, file_size = { kind = "fixed", size = "8KiB" } }
"#;

/// A pure, seeded source of noise (SplitMix64, Steele et al. 2014): about normal, mean 0, deviation 1.
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        as_f64((z ^ (z >> 31)) >> 11) / 9_007_199_254_740_992.0
    }

    /// The sum of twelve uniform values less 6.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

fn latency(noise: &mut Noise, factor: f64) -> LatencySummary {
    let mut near = |value: f64| value * factor * (0.03 * noise.normal()).exp();
    let (mean_ns, p50, p99, p999, max) =
        (near(13_000.0), near(10_000.0), near(80_000.0), near(300_000.0), near(900_000.0));
    LatencySummary {
        count: 100,
        min_ns: 5_000,
        p50_ns: to_u64(p50),
        p90_ns: 20_000,
        p99_ns: to_u64(p99),
        p999_ns: to_u64(p999),
        max_ns: to_u64(max),
        mean_ns,
    }
}

fn result(noise: &mut Noise, factor: f64) -> LoadResult {
    let kinds = [K::Create, K::Append, K::Read, K::RandomRead, K::Delete];
    LoadResult {
        pace: None,
        operations: 100,
        missed: 0,
        elapsed_ns: to_u64(1e9 * factor * (0.03 * noise.normal()).exp()),
        failed: [].into(),
        succeeded: [].into(),
        bytes_written: 800_000,
        bytes_read: 0,
        cpu_user_ns: 600_000,
        cpu_sys_ns: 390_000,
        device_bytes_written: Some(900_000),
        device_bytes_before_materialise: Some(900_000),
        materialise_ns: 0,
        materialised: true,
        probes: 0,
        probe_ns: 0,
        failed_without_inode: 0,
        digest: "same".into(),
        digest_caveats: Vec::new(),
        stopped_by: StopReason::Operations,
        latency: kinds.into_iter().map(|kind| (kind, latency(noise, factor))).collect(),
        layout: LayoutSummary {
            files: 10,
            mapped_files: 10,
            one_extent_share: 0.9,
            ..LayoutSummary::default()
        },
        free_space: None,
        overhead_ns_per_operation: 500.0,
        files: 10,
        live_bytes: 80_000,
        disk: None,
    }
}

fn answer(noise: &mut Noise, factor: f64, request: &Request) -> Result<Reply, Failure> {
    if let Some(reply) = scripted::host(request) {
        return reply;
    }
    match request {
        Request::RunTool(run) => run.reply(&ToolOutput {
            argv: run.argv.clone(),
            status: 0,
            stdout: String::new(),
            stderr: String::new(),
            elapsed_ns: 1,
        }),
        Request::Load(load) => load.reply(&result(noise, factor)),
        _ => Ok(Reply::done()),
    }
}

/// Runs the study with an agent whose latencies are `factor` times what they were.
fn store(folder: &Path, name: &str, seed: u64, factor: f64) -> String {
    store_of(6, folder, name, seed, factor)
}

/// The same with so many repeats.
fn store_of(repeats: usize, folder: &Path, name: &str, seed: u64, factor: f64) -> String {
    let study = folder.join("s.toml");
    std::fs::write(&study, STUDY.replace("repeats = 6", &format!("repeats = {repeats}"))).unwrap();
    let store = folder.join(name);
    let options = RunOptions { study, store: Some(store.clone()), ..RunOptions::default() };
    let noise = std::sync::Arc::new(std::sync::Mutex::new(Noise(seed)));
    let mut start = || -> Result<Session, TargetError> {
        let noise = std::sync::Arc::clone(&noise);
        Ok(Target::scripted(Box::new(move |request, _| {
            Some(answer(&mut noise.lock().unwrap(), factor, request))
        })))
    };
    let summary = run_study_with(&options, &mut Quiet, &mut start).unwrap();
    assert_eq!((summary.complete, summary.failed), (repeats, 0));
    store.to_str().unwrap().to_owned()
}

#[test]
fn a_slowdown_of_ten_per_cent_is_found_and_stops_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let a = store(folder.path(), "a", 1, 1.0);
    let b = store(folder.path(), "b", 2, 1.1);
    let gate = "latency.read.mean_ns > 1.02";
    let run = fsage(&["compare", &a, &b, "--json", "--fail-if", gate]);
    assert_eq!(run.code, 6, "{run:?}");
    let result: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["version"], 4);
    let rows = result["rows"].as_array().unwrap();
    let latencies: Vec<_> =
        rows.iter().filter(|row| row["metric"].as_str().unwrap().starts_with("latency.")).collect();
    assert_eq!(latencies.len(), 25);
    let worse = latencies.iter().filter(|row| row["finding"] == "worse").count();
    assert!(worse >= 22, "{worse} of 25 are worse");
    assert!(latencies.iter().all(|row| row["finding"] != "better" && row["units"] == 6));
    assert_eq!(result["fired"][0]["metric"], "latency.read.mean_ns");
    assert_eq!(result["gates"][0]["family"], 1);
    assert!(result["gates"][0]["detectable"].as_f64().unwrap() > 1.0);
    assert!(
        run.stderr.contains(&format!("gate `{gate}` fires with 80 % probability on a change of ")),
        "{run:?}"
    );

    let page = folder.path().join("page.html");
    let run = fsage(&["compare", &a, &b, "--metric", "latency.read.mean_ns", "-o", page.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("slower by ") && run.stdout.contains("large"), "{}", run.stdout);
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("slower by ") && html.contains("latency.read.mean_ns"));
    assert!(!html.contains("http://") && !html.contains("https://"), "the page needs the network");

    let run = fsage(&["compare", &a, &b, "--fail-if", "latency.read.mean_ns > 1.5"]);
    assert_eq!(run.code, 0, "a proven change within the limit: {run:?}");
}

#[test]
fn a_gate_that_cannot_tell_has_its_own_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let a = store_of(1, folder.path(), "a", 1, 1.0);
    let b = store_of(1, folder.path(), "b", 2, 1.5);
    let gate = "latency.read.mean_ns > 1.10";
    let run = fsage(&["compare", &a, &b, "--json", "--fail-if", gate]);
    assert_eq!(run.code, 7, "{run:?}");
    assert!(
        run.stderr.contains(&format!("warning: gate `{gate}` is inconclusive: one trial per side")),
        "{run:?}"
    );
    let result: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["gates"][0]["tested"], false);
    assert_eq!(result["gates"][0]["cannot_tell"][0]["metric"], "latency.read.mean_ns");

    // Too few repeats for the limit, and enough of them for a wider one.
    let (c, d) = (store_of(3, folder.path(), "c", 5, 1.0), store_of(3, folder.path(), "d", 6, 1.0));
    let run = fsage(&["compare", &c, &d, "--fail-if", "latency.read.mean_ns > 1.001"]);
    assert_eq!(run.code, 7, "{run:?}");
    assert!(run.stderr.contains("the smallest change that fires it with 80 % probability is "), "{run:?}");
    let run = fsage(&["compare", &c, &d, "--fail-if", "latency.read.mean_ns > 2.0"]);
    assert_eq!(run.code, 0, "{run:?}");

    let more = store(folder.path(), "more", 3, 1.5);
    let run = fsage(&["compare", &store(folder.path(), "base", 4, 1.0), &more, "--json", "--fail-if", gate]);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(!run.stderr.contains("inconclusive"), "{run:?}");
    let result: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["gates"][0]["tested"], true);
}

#[test]
fn a_repeat_of_itself_shows_no_evidence_in_nineteen_of_twenty_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (mut tested, mut called, mut runs_with_a_call) = (0, 0, 0);
    for round in 0..20 {
        let a = store(folder.path(), &format!("a{round}"), 1_000 + 2 * round, 1.0);
        let b = store(folder.path(), &format!("b{round}"), 1_001 + 2 * round, 1.0);
        let sides = (fsage::compare::side(&a).unwrap(), fsage::compare::side(&b).unwrap());
        let found = fsage_analysis::compare::compare(
            &sides.0,
            &sides.1,
            &fsage_analysis::compare::Options::default(),
        )
        .unwrap();
        let noisy: Vec<_> = found.rows.iter().filter(|row| row.p.is_some_and(|p| p < 1.0)).collect();
        assert!(noisy.len() >= 20, "{} rows vary", noisy.len());
        let differing =
            noisy.iter().filter(|row| row.finding != fsage_analysis::compare::Finding::NoEvidence).count();
        assert!(differing <= noisy.len() / 20 + 2, "{differing} of {} rows in round {round}", noisy.len());
        tested += noisy.len();
        called += differing;
        runs_with_a_call += usize::from(differing > 0);
    }
    println!("{called} of {tested} rows called in 20 comparisons, {runs_with_a_call} of which had a call");
    assert!(called * 20 <= tested, "{called} of {tested} rows");
    // Any call at all is expected in 5 % of the comparisons; more than 5 of 20 would be 4 σ.
    assert!(runs_with_a_call <= 5, "{runs_with_a_call} of 20 comparisons call a row");
}

#[test]
fn mistakes_have_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let a = store(folder.path(), "a", 1, 1.0);
    let hint = |arguments: &[&str]| {
        let run = fsage(&[&["compare", "--json"], arguments].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        run.error_object()["hint"].as_str().unwrap().to_owned()
    };
    assert_eq!(hint(&[&a, &format!("{a}:file_system.knd=ext4")]), "did you mean `file_system.kind`?");
    assert_eq!(hint(&[&a, &format!("{a}:file_system.kind=xfs")]), "the trials have file_system.kind = ext4");
    assert_eq!(hint(&[&a, &a, "--metric", "latency.raed.mean_ns"]), "did you mean `latency.read.mean_ns`?");
    assert!(hint(&[&a, &a, "--fail-if", "latency is 3"]).contains("gate"));
    assert!(hint(&[&a, &a, "--fail-if", "grep > 1.1"]).starts_with("both have "));
    // Without any spread the ratio is known to be 1, whatever the limit.
    let run = fsage(&["compare", &a, &a, "--fail-if", "latency > 1.0"]);
    assert_eq!(run.code, 0, "a store against itself: {run:?}");
    assert!(run.stdout.contains("the same in every trial"), "{}", run.stdout);
    assert_eq!(fsage(&["compare", "/nonexistent", &a]).code, 2);
}
