//! `fsage measure` as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use cli_support::{Mounted, Run, fsage, root, skip};

fn measure(arguments: &[&str]) -> Run {
    fsage(&[&["measure"], arguments].concat())
}

/// Forty files of 20 kB in four directories.
fn planted() -> Mounted {
    let mounted = Mounted::ext4("256M");
    for number in 0..40 {
        let folder = mounted.path().join(format!("d{}", number % 4));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("f{number}")), vec![7; 20_000]).unwrap();
    }
    mounted
}

#[test]
fn the_list_has_every_measure() {
    let text = fsage(&["measure", "list"]);
    let lines: serde_json::Value =
        serde_json::from_str(&fsage(&["measure", "list", "--json"]).stdout).unwrap();
    let names: Vec<_> = lines.as_array().unwrap().iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 8);
    for name in names {
        assert!(text.stdout.contains(name), "{name}: {text:?}");
    }
}

#[test]
fn senseless_command_lines_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (arguments, said) in [
        (&["grab", path][..], "it is one of grep"),
        (&["grep"], "give a directory"),
        (&["grep", path, "--set", "reads=1"], "does not fit `grep`"),
        (&["append", path], "--yes-change-files"),
        (&["delete", path], "--yes-change-files"),
        (&["grep", "/nowhere"], "cannot inspect `/nowhere`"),
    ] {
        let run = measure(arguments);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains(said), "{said}: {run:?}");
    }
}

#[test]
fn a_volume_is_measured_and_stays_as_it_was() {
    if !root() {
        return;
    }
    let mounted = planted();
    let point = mounted.join("");
    let point = point.trim_end_matches('/');
    let grep = measure(&["grep", point, "--remount", "--json"]).result();
    assert_eq!((grep["files"].as_u64(), grep["bytes"].as_u64()), (Some(40), Some(800_000)));
    assert_eq!(grep["metrics"][0]["name"], "time_per_du_gib");
    // mount(8) without direct I/O: the trap is named.
    let kinds: Vec<_> = grep["warnings"].as_array().unwrap().iter().map(|w| w["kind"].clone()).collect();
    assert!(kinds.contains(&"cache-too-large".into()), "{grep}");
    if !kinds.contains(&"no-requests".into()) {
        assert!(grep["requests"]["reads"]["bytes"].as_u64().unwrap() >= 800_000, "{grep}");
    }
    let text = measure(&["create", point, "--set", "files=20", "--no-requests"]);
    assert_eq!(text.code, 0, "{text:?}");
    assert!(text.stdout.contains("per GiB") && text.stdout.contains("20 files"), "{text:?}");
    let append = measure(&["append", point, "--yes-change-files", "--json"]).result();
    assert_eq!(append["files"], 4);
    let files = || std::fs::read_dir(point).unwrap().count();
    assert_eq!(files(), 5, "four directories and lost+found");
    let delete =
        measure(&["delete", point, "--yes-change-files", "--set", "file_share=0.25", "--json"]).result();
    assert_eq!((delete["files"].as_u64(), files()), (Some(10), 4));
    let inside = mounted.join("d1");
    let refused = measure(&["walk", &inside, "--remount"]);
    let other = mounted.join("d2");
    let run = if refused.stderr.contains("cannot inspect") {
        measure(&["walk", &other, "--remount"])
    } else {
        refused
    };
    assert!(run.code == 2 && run.stderr.contains("it is not a mount point"), "{run:?}");
}

#[test]
fn fio_runs_its_preset_and_a_file_and_leaves_nothing() {
    if !root() {
        return;
    }
    if std::process::Command::new("fio").arg("--version").output().is_err() {
        skip("fio is not installed");
        return;
    }
    let mounted = planted();
    let point = mounted.join("");
    let preset = measure(&["fio", &point, "--set", "seconds=1", "--json"]).result();
    let metric = |name: &str| {
        let metrics = preset["metrics"].as_array().unwrap();
        metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name}: {preset}"))["value"].clone()
    };
    assert!(
        metric("write_throughput").as_f64().unwrap() > 0.0 && metric("mean_write").as_f64().unwrap() > 0.0
    );
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.fio");
    std::fs::write(&job, "[read]\nrw=randread\nbs=4k\nsize=1m\nioengine=psync\n").unwrap();
    let set = format!("job={}", job.display());
    let own = measure(&["fio", &point, "--set", &set, "--json"]).result();
    assert_eq!(own["bytes"], 1 << 20);
    let others =
        own["warnings"].as_array().unwrap().iter().filter(|w| w["kind"] != "cache-too-large").count();
    assert_eq!(others, 0, "{own}");
    assert!(!mounted.path().join("fsage-measure").exists());
    std::fs::write(&job, "[read]\nfilename=/dev/null\n").unwrap();
    let refused = measure(&["fio", &point, "--set", &set]);
    assert!(refused.code == 2 && refused.stderr.contains("stay within"), "{refused:?}");
}
