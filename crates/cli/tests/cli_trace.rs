//! `fsage trace`: imports of what strace and fio really write, inspected, replayed and exported again.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use std::path::Path;
use std::process::Command;

use cli_support::{Run, fsage, skip};

/// A sample that a program has written.
fn sample(name: &str) -> String {
    format!("{}/../engine/tests/data/import/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A folder on a real file system of the host.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Whether a program is there; says `skipped` when not.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skip(format!("{program} is not installed"));
    }
    found
}

/// Replays a trace below `folder` with every byte checked; the digest must be the recorded one.
fn replay(folder: &Path, trace: &str) -> serde_json::Value {
    let directory = folder.join("replayed");
    std::fs::create_dir(&directory).unwrap();
    let replayed = fsage(&["replay", trace, &text(&directory), "--verify", "--json"]).result();
    let info = fsage(&["trace", "info", trace, "--json"]).result();
    assert_eq!(replayed["digest"], info["digest"], "{replayed}");
    assert_eq!(replayed["failed"], serde_json::json!({}));
    assert_eq!(replayed["replay"]["recorded"], info["operations"]);
    replayed
}

#[test]
fn what_strace_wrote_is_imported_looked_at_replayed_and_exported() {
    let folder = folder();
    let trace = text(&folder.path().join("job.parquet"));
    let run = fsage(&[
        "trace",
        "import",
        "--from",
        "strace",
        &sample("strace-full.txt"),
        "-o",
        &trace,
        "--root",
        "/mnt/t",
    ]);
    assert_eq!(run.code, 0, "{run:?}");
    for part in [
        "operations from",
        "existed before: 3 files",
        "names were not kept",
        "left out",
        "failed when recorded",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let info = fsage(&["trace", "info", &trace]);
    for part in ["in 1 thread", "recorded by strace", "rename", "bytes per operation", "prelude"] {
        assert!(info.stdout.contains(part), "{part}: {}", info.stdout);
    }
    replay(folder.path(), &trace);

    let shown = fsage(&["trace", "show", &trace, "--kind", "rename,link", "--count", "2"]);
    assert_eq!(shown.stdout.lines().count(), 2, "{}", shown.stdout);
    assert!(
        shown.stdout.lines().all(|line| line.contains(" -> ") && line.ends_with(" ok")),
        "{}",
        shown.stdout
    );
    let row = fsage(&["trace", "show", &trace, "--from", "3", "--count", "1", "--json"]).result();
    assert_eq!(row["operation"], 3);

    let csv = text(&folder.path().join("job.csv"));
    let again = text(&folder.path().join("again.parquet"));
    assert_eq!(fsage(&["trace", "export", &trace, "--to", "csv", "-o", &csv]).code, 0);
    let imported = fsage(&["trace", "import", "--from", "csv", &csv, "-o", &again, "--json"]).result();
    let first = fsage(&["trace", "info", &trace, "--json"]).result();
    assert_eq!(imported["operations"], first["operations"]);
    assert_eq!(imported["origin"]["left_out"], serde_json::json!({}));
    let kinds = fsage(&["trace", "info", &again, "--json"]).result();
    assert_eq!(kinds["kinds"], first["kinds"]);
}

#[test]
fn a_script_is_recorded_imported_and_replayed() {
    if !has("strace") {
        return;
    }
    let folder = folder();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("old"), vec![b'x'; 30_000]).unwrap();
    let log = text(&folder.path().join("log"));
    let script = "cp old copy; cat old old > both; mkdir d; mv copy d; ln both hard; echo more >> old; \
                  truncate -s 100 both; (echo child > d/child); rm hard; cat d/child > /dev/null";
    let argv = ["-f", "-ttt", "-y", "-T", "-e", "trace=%file,%desc,%process", "-o", &log, "sh", "-c", script];
    let run = Run::of(Command::new("strace").args(argv).current_dir(&work));
    if run.code != 0 {
        skip("strace may not trace here");
        return;
    }
    let trace = text(&folder.path().join("trace"));
    let below = text(&work.canonicalize().unwrap());
    let report =
        fsage(&["trace", "import", "--from", "strace", &log, "-o", &trace, "--root", &below, "--json"]);
    let report = report.result();
    assert_eq!(report["prelude"], 1, "{report}");
    let replayed = replay(folder.path(), &trace);
    // What the script left: old, both, d/copy, d/child.
    let mut sizes: Vec<u64> = ["old", "both", "d/copy", "d/child"]
        .iter()
        .map(|name| std::fs::metadata(work.join(name)).unwrap().len())
        .collect();
    sizes.sort_unstable();
    assert_eq!(
        (replayed["files"].as_u64(), replayed["live_bytes"].as_u64()),
        (Some(4), Some(sizes.iter().sum()))
    );
}

#[test]
fn a_job_of_fio_is_recorded_imported_and_replayed_and_fio_reads_what_is_exported() {
    if !has("fio") {
        return;
    }
    let folder = folder();
    let log = text(&folder.path().join("log"));
    let below = text(folder.path());
    let job = [
        "--name=job",
        "--size=256k",
        "--rw=randrw",
        "--bs=4k",
        "--ioengine=sync",
        "--number_ios=40",
        "--fsync=7",
        &format!("--directory={below}"),
        &format!("--write_iolog={log}"),
    ]
    .map(str::to_owned);
    let run = Run::of(Command::new("fio").args(&job));
    assert_eq!(run.code, 0, "{run:?}");
    let trace = text(&folder.path().join("trace"));
    let report = fsage(&["trace", "import", "--from", "fio", &log, "-o", &trace, "--json"]).result();
    assert_eq!(
        (&report["prelude"], &report["origin"]["left_out"]),
        (&1.into(), &serde_json::json!({})),
        "{report}"
    );
    let replayed = replay(folder.path(), &trace);
    let lines = std::fs::read_to_string(&log).unwrap();
    let data =
        lines.lines().filter(|line| [" read ", " write ", " sync "].iter().any(|one| line.contains(one)));
    assert_eq!(replayed["operations"].as_u64(), Some(u64::try_from(data.count()).unwrap() + 1));

    let iolog = text(&folder.path().join("iolog"));
    let prefix = text(&folder.path().join("replayed"));
    let exported = fsage(&["trace", "export", &trace, "--to", "fio", "-o", &iolog, "--prefix", &prefix]);
    assert_eq!(exported.code, 0, "{exported:?}");
    let read = format!("--read_iolog={iolog}");
    let again =
        Run::of(Command::new("fio").args(["--name=again", &read, "--replay_no_stall=1", "--ioengine=sync"]));
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stdout.contains("again:"), "{}", again.stdout);
}

#[test]
fn what_cannot_be_imported_is_refused_by_its_line_with_a_way_out() {
    let folder = folder();
    let output = text(&folder.path().join("out"));
    let input = folder.path().join("in");
    let import = |from: &str, content: &[u8], more: &[&str]| {
        std::fs::write(&input, content).unwrap();
        fsage(&[&["trace", "import", "--from", from, &text(&input), "-o", &output], more].concat())
    };
    let wrong = import("strace", b"1 1.5 close(3) = 0\nwhat is this\n", &[]);
    assert_eq!(wrong.code, 5, "{wrong:?}");
    assert!(wrong.stderr.contains("/in, line 2: ") && wrong.stderr.contains("docs/traces.md"), "{wrong:?}");
    let cut = import("strace", b"1 1.5 mkdir(\"/d\", 0777) = 0\n1 1.6 mkdir(\"/e", &[]);
    assert_eq!(cut.code, 5, "{cut:?}");
    assert!(
        cut.stderr.contains("line 2: the last line is truncated") && cut.stderr.contains("--allow-truncated")
    );
    let allowed =
        import("strace", b"1 1.5 mkdir(\"/d\", 0777) = 0\n1 1.6 mkdir(\"/e", &["--allow-truncated"]);
    assert_eq!(allowed.code, 0, "{allowed:?}");
    assert!(allowed.stdout.contains("last line, cut off"), "{}", allowed.stdout);
    let blocks = import("blkparse", b"", &[]);
    assert_eq!(blocks.code, 2, "{blocks:?}");
    assert!(blocks.stderr.contains("fsage disk replay"), "{}", blocks.stderr);
    let nothing = fsage(&["trace", "import", "--from", "csv", "/nonexistent", "-o", &output]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
    for command in ["info", "show"] {
        assert_eq!(fsage(&["trace", command, "/nonexistent"]).code, 2);
        assert_eq!(fsage(&["trace", command, &text(&input)]).code, 5);
    }
    let kind = fsage(&["trace", "show", &text(&input), "--kind", "eat"]);
    assert_eq!(kind.code, 2);
    assert!(kind.stderr.contains("random_write"), "{}", kind.stderr);
}
