//! `fsage explain` on real file systems.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;
mod sample_store;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use cli_support::{Mounted, fsage, root};
use fsage_engine::layout::PlacedFile;
use fsage_lab::explain::estimate;
use fsage_lab::store::Store;
use fsage_model::explanation::Explanation;
use fsage_model::quantity::as_f64;
use fsage_model::record::{PlacesRecord, STORE_VERSION, VolumePlaces};

/// A directory of whole files, and one whose files grew side by side.
fn fragment(mounted: &Mounted) {
    for name in ["tree/good", "tree/bad"] {
        std::fs::create_dir_all(mounted.join(name)).unwrap();
    }
    for n in 0..4 {
        std::fs::write(mounted.join(&format!("tree/good/{n}")), vec![7; 1 << 20]).unwrap();
    }
    let open = |n| std::fs::File::create(mounted.join(&format!("tree/bad/{n}"))).unwrap();
    let mut files: Vec<std::fs::File> = (0..4).map(open).collect();
    for _ in 0..16 {
        for file in &mut files {
            file.write_all(&[1; 65_536]).unwrap();
            file.sync_all().unwrap();
        }
    }
}

#[test]
fn the_worst_directory_is_named_mapped_and_what_would_mend_it_is_told() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("128M");
    fragment(&mounted);
    let tree = mounted.join("tree");
    let found = fsage(&["explain", "--json", &tree]).result();
    assert_eq!((&found["tree"]["files"], &found["medium"]), (&8.into(), &"hdd-7200".into()), "{found}");
    let worst = &found["directories"][0];
    assert_eq!(worst["path"], "bad", "{found}");
    assert!(worst["now_ns"].as_u64() > worst["copied_ns"].as_u64(), "{worst}");
    assert!(found["files"][0]["path"].as_str().unwrap().starts_with("bad/"), "{found}");
    assert_eq!(found["used"].as_array().unwrap().len(), 1024, "{found}");
    assert_eq!(found["notes"].as_array().unwrap().len(), 0, "{found}");
    let page = mounted.join("../why.html");
    let run = fsage(&["explain", &tree, "-o", &page]);
    assert_eq!(run.code, 0, "{run:?}");
    for part in
        ["Suggested fixes", "copy it to a fresh volume", "Worst directories", "Where bad lies", "█ its data"]
    {
        assert!(run.stdout.contains(part), "{part} is not in\n{}", run.stdout);
    }
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    for part in ["<svg", "class=\"own\"", "bad", "defragmented"] {
        assert!(html.contains(part), "{part}");
    }
    // Memory does not seek: there is nothing to fix.
    let ram = fsage(&["explain", &tree, "--medium", "ram"]);
    assert!(ram.stdout.contains("nothing that would save"), "{}", ram.stdout);
}

#[test]
fn wrong_input_is_told_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (arguments, code, words) in [
        (vec!["explain", "/nowhere/at/all"], 2, "cannot inspect `/nowhere/at/all`"),
        (vec!["explain", path, "--medium", "drum"], 2, "`fsage disk media` lists them"),
        (vec!["explain", path], 4, "no file there has data on the volume"),
        (vec!["explain", path, "--worst", "x"], 2, "--worst"),
    ] {
        let run = fsage(&arguments);
        assert_eq!(run.code, code, "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(words), "{arguments:?}: {}", run.stderr);
    }
}

/// What a volume with one bad directory gives, its numbers made up.
fn explanation() -> Explanation {
    let file = |path: &str, extents: &[(u64, u64)]| {
        let size = extents.iter().map(|(_, length)| length).sum();
        PlacedFile { path: path.to_owned(), size, extents: extents.to_vec() }
    };
    let bad = |n: u64| [(n << 20, 65_536), ((800 - n) << 20, 65_536), ((300 + n) << 20, 65_536)];
    let mut files: Vec<PlacedFile> = (0..8).map(|n| file(&format!("bad/{n}"), &bad(n * 20 + 10))).collect();
    files.push(file("good/0", &[(0, 1 << 20)]));
    let found = estimate(&files, 1 << 30, &"hdd-7200".parse().unwrap(), 20).unwrap();
    Explanation { used: vec![0.5; 1024], notes: vec!["a note".to_owned()], ..found }
}

/// Writes what a trial kept.
fn keep(store: &Store, id: &str, version: u32) -> PathBuf {
    let of = |volume: &str| VolumePlaces {
        stage: "lockstep".to_owned(),
        volume: volume.to_owned(),
        explanation: explanation().coarse(),
    };
    let record = PlacesRecord { version, volumes: vec![of("full"), of("empty")] };
    let path = store.trial_directory(id).join("explain.json");
    std::fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    path
}

/// Runs `fsage explain` on a store.
fn explain(store: &Path, more: &[&str]) -> cli_support::Run {
    fsage(&[&["explain", store.to_str().unwrap()], more].concat())
}

#[test]
fn what_trials_kept_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let root = sample_store::sample(&folder.path().join("aging"), 1);
    let store = Store::open(&root).unwrap();
    let ids: Vec<String> = store.plan().trials.iter().map(|trial| trial.id.clone()).collect();
    // A store of an older fsage.
    let run = explain(&root, &[]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(
        run.stderr.contains("recorded the layout of its files") && run.stderr.contains("hint: "),
        "{}",
        run.stderr
    );
    keep(&store, &ids[0], STORE_VERSION);
    keep(&store, &ids[1], STORE_VERSION);
    let page = folder.path().join("why.html");
    let run = explain(&root, &["--trial", &ids[0], "--worst", "2", "-o", page.to_str().unwrap()]);
    assert_eq!((run.code, run.stderr.matches(": a note").count()), (0, 2), "{run:?}");
    for part in [
        ", full: 9 files",
        ", empty: 9 files",
        "Suggested fixes",
        "Worst directories",
        "Where bad lies",
        "hdd-7200",
    ] {
        assert!(run.stdout.contains(part), "{part} is not in\n{}", run.stdout);
    }
    assert!(!run.stdout.contains(&ids[1]), "{}", run.stdout);
    let html = std::fs::read_to_string(page).unwrap();
    for part in [
        "id=\"0-files\"",
        "id=\"1-directories\"",
        "class=\"own\"",
        "copy it to a fresh volume",
        "class=\"rest\"",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let shown = explain(&root, &["--json"]).result();
    let volumes = shown["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), 4, "{shown}");
    assert_eq!((&volumes[0]["trial"], &volumes[1]["volume"]), (&ids[0].as_str().into(), &"empty".into()));
    assert_eq!(volumes[0]["explanation"]["directories"][0]["path"], "bad");
    // What is newer or damaged is reported, and the rest is shown.
    keep(&store, &ids[2], STORE_VERSION + 1);
    std::fs::write(keep(&store, &ids[3], STORE_VERSION), "{").unwrap();
    let run = explain(&root, &["--worst", "0"]);
    assert_eq!((run.code, run.stdout.matches(": 9 files").count()), (0, 4), "{run:?}");
    for part in [
        format!("the file layout of trial {}: it has store version", ids[2]),
        format!("the file layout of trial {}: it ends after 1 bytes", ids[3]),
    ] {
        assert!(run.stderr.contains(&part), "{part}: {}", run.stderr);
    }
    let page = fsage_analysis::report::render(
        &fsage_lab::store::Reader::open(&root).unwrap(),
        &fsage_analysis::report::ReportOptions::default(),
    )
    .unwrap();
    for part in [
        "<section id=\"places\"",
        "data-block=\"3\"",
        "layout cannot be read and was left out: it has store version",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("data-block=\"4\""));
}

#[test]
fn the_copy_that_was_made_is_promised_and_not_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let root = sample_store::sample(&folder.path().join("aging"), 1);
    let store = Store::open(&root).unwrap();
    let path = keep(&store, &store.plan().trials[0].id, STORE_VERSION);
    let mut record: PlacesRecord = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let tree = record.volumes[0].explanation.tree.clone();
    let made_ns = tree.copied_ns + (tree.now_ns - tree.copied_ns) / 4;
    record.volumes[1].volume = "unaged".to_owned();
    record.volumes[1].explanation.tree.now_ns = made_ns;
    std::fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    let shown = explain(&root, &["--json"]).result();
    assert_eq!(shown["volumes"][0]["copy_ns"], made_ns);
    let run = explain(&root, &[]);
    let line = run.stdout.lines().find(|line| line.contains("copy it to a fresh volume")).unwrap();
    let share = |ns: u64| as_f64(ns) / as_f64(tree.now_ns) * 100.0;
    assert!(share(made_ns) - share(tree.copied_ns) > 2.0, "the two would be reported alike");
    assert!(line.ends_with(&format!("({:.0} %)", share(made_ns))), "{line}");
}

#[test]
fn wrong_questions_about_a_store_are_told_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let root = sample_store::sample(&folder.path().join("aging"), 1);
    let store = Store::open(&root).unwrap();
    let id = store.plan().trials[0].id.clone();
    keep(&store, &id, STORE_VERSION);
    for (more, code, words) in [
        (vec!["--medium", "ssd"], 2, "leave `--medium` out"),
        (vec!["--trial", "no-such"], 2, "begins with `no-such`"),
        (vec!["--trial", &id, "--trial", "zz"], 2, "it has 15 trials: "),
        (vec!["-o", "/nowhere/at/all.html"], 4, "cannot write the page"),
    ] {
        let run = explain(&root, &more);
        assert_eq!(run.code, code, "{more:?}: {run:?}");
        assert!(run.stderr.contains(words), "{more:?}: {}", run.stderr);
    }
    // Not a store, but a trial is asked for.
    let run = explain(folder.path(), &["--trial", &id]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("is not a store") && run.stderr.contains("hint: "), "{}", run.stderr);
    let run = explain(&folder.path().join("missing"), &[]);
    assert!(run.code == 2 && run.stderr.contains("hint: give a directory, or the folder that"), "{run:?}");
    // A store without a complete trial.
    for trial in &store.plan().trials {
        std::fs::remove_file(store.trial_directory(&trial.id).join("trial.json")).unwrap();
    }
    let run = explain(&root, &[]);
    assert!(run.code == 4 && run.stderr.contains("is complete"), "{run:?}");
}
