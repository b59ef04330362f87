//! `fsage image prune` removes what is of no use to anybody, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::{FSAGE, Run, fsage, root};
use serde_json::{Value, json};

const OWN: &str = "0000000000000001";
const OTHER: &str = "0000000000000002";
const CUT: &str = "0000000000000003";
const NEWER: &str = "000000000000000a";
const NAMELESS: &str = "000000000000000b";

/// A store with images that need no volume.
struct Store {
    folder: tempfile::TempDir,
}

impl Store {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let study = fsage_lab::study::load(
            Path::new("digest"),
            &fsage_lab::study::Overrides::default(),
            fsage_lab::study::Consent::Given,
        )
        .unwrap();
        let plan = fsage_lab::plan::plan(&study);
        drop(fsage_lab::store::Store::create(folder.path(), &plan, &study.text).unwrap());
        std::fs::create_dir(folder.path().join("images")).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join("images").join(name)
    }

    /// Five bytes of an image and its record, with what `record` has instead.
    fn image(&self, key: &str, record: Value) {
        std::fs::write(self.file(&format!("{key}.fsage")), b"fsage").unwrap();
        let mut whole = json!({
            "version": 2, "key": key, "basis": {"kernel": kernel(), "seed": 1}, "made": "2026-01-01T00:00:00Z",
            "file_bytes": 5, "used_bytes": 10, "volume_bytes": 20, "stages": [], "warnings": [],
        });
        for (name, value) in record.as_object().unwrap() {
            whole[name] = value.clone();
        }
        std::fs::write(self.file(&format!("{key}.json")), whole.to_string()).unwrap();
    }

    /// Keys of the images that are there.
    fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for entry in std::fs::read_dir(self.path().join("images")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            keys.extend(name.strip_suffix(".fsage").map(str::to_owned));
        }
        keys.sort();
        keys
    }
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim().to_owned()
}

/// One image of each kind.
fn store() -> Store {
    let store = Store::new();
    store.image(OWN, json!({}));
    store.image(OTHER, json!({"basis": {"kernel": "2.6.32"}}));
    store.image(NEWER, json!({"version": fsage_model::record::STORE_VERSION + 1}));
    store.image(NAMELESS, json!({"basis": {"kernel": ""}}));
    store.image(CUT, json!({"file_bytes": 6}));
    store
}

#[test]
fn what_a_newer_fsage_wrote_is_kept_and_named() {
    let store = store();
    let path = store.path().to_str().unwrap();
    let run = fsage(&["image", "prune", path]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.starts_with("1 image removed"), "{run:?}");
    assert!(run.stderr.contains(&format!("{NEWER} is kept: a newer fsage wrote it")), "{run:?}");
    assert!(
        run.stderr.contains(&format!("{NAMELESS} is kept: its record does not name the kernel")),
        "{run:?}"
    );
    assert_eq!(store.keys(), [OWN, NEWER, NAMELESS]);
    assert!(store.file(&format!("{NEWER}.json")).exists());
    let again = fsage(&["image", "prune", path, "--json"]).result();
    assert_eq!((&again["removed"], &again["freed_bytes"]), (&json!(0), &json!(0)));
    let kept: Vec<&str> =
        again["kept"].as_array().unwrap().iter().map(|image| image["key"].as_str().unwrap()).collect();
    assert_eq!(kept, [NEWER, NAMELESS]);
    let all = fsage(&["image", "prune", path, "--all", "--json"]).result();
    assert_eq!((&all["removed"], &all["kept"]), (&json!(3), &json!([])));
    assert_eq!(std::fs::read_dir(store.path().join("images")).unwrap().count(), 0);
}

/// Puts a checkpoint of a trial there: an image of 8 bytes and a record of 2.
fn checkpoint(store: &Store, trial: &str) -> PathBuf {
    let folder = store.path().join("checkpoints").join(trial);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("checkpoint.json"), "{}").unwrap();
    std::fs::write(folder.join("round-50-volume-0.fsage"), "fsageIMG").unwrap();
    folder
}

/// Says that a trial is complete.
fn complete(store: &Store, trial: &str) {
    let folder = store.path().join("trials").join(trial);
    std::fs::create_dir_all(&folder).unwrap();
    let record = json!({"version": fsage_model::record::STORE_VERSION, "id": trial, "status": "complete"});
    std::fs::write(folder.join("trial.json"), record.to_string()).unwrap();
}

#[test]
fn checkpoints_that_no_run_continues_from_are_removed() {
    let store = Store::new();
    let path = store.path().to_str().unwrap();
    let planned = fsage_lab::store::Store::open(store.path()).unwrap().plan().trials[0].id.clone();
    let (wanted, gone) = (checkpoint(&store, &planned), checkpoint(&store, "00000000000000aa"));
    std::fs::write(gone.join("diary.txt"), "mine").unwrap();
    std::fs::create_dir(store.path().join("checkpoints/photos")).unwrap();
    let listed = fsage(&["image", "list", path]);
    for words in [
        format!("checkpoint of trial {planned}, 10 B: `fsage run` continues from it"),
        "checkpoint of trial 00000000000000aa, 14 B: no run continues from it".to_owned(),
    ] {
        assert!(listed.stderr.contains(&words), "{listed:?}");
    }
    let run = fsage(&["image", "prune", path]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.starts_with("0 images and 1 checkpoint removed, 10 B freed"), "{run:?}");
    for strange in ["checkpoints/photos is kept", "checkpoints/00000000000000aa/diary.txt is kept"] {
        assert!(run.stderr.contains(strange), "{run:?}");
    }
    assert!(wanted.join("checkpoint.json").exists() && gone.join("diary.txt").exists());
    assert!(!gone.join("checkpoint.json").exists() && !gone.join("round-50-volume-0.fsage").exists());
    // The trial is complete by now: in a store that was copied together, say.
    complete(&store, &planned);
    let run = fsage(&["image", "prune", path, "--json"]).result();
    assert_eq!((&run["removed"], &run["removed_checkpoints"]), (&json!(0), &json!(1)), "{run}");
    assert_eq!(run["freed_bytes"], json!(10));
    assert!(!wanted.exists());
}

#[test]
fn every_checkpoint_is_removed_when_everything_is() {
    let store = Store::new();
    let planned = fsage_lab::store::Store::open(store.path()).unwrap().plan().trials[0].id.clone();
    checkpoint(&store, &planned);
    let run = fsage(&["image", "prune", store.path().to_str().unwrap(), "--all"]);
    assert!(run.stdout.contains("1 checkpoint removed"), "{run:?}");
    assert!(!store.path().join("checkpoints").exists());
}

#[test]
fn a_kernel_whose_name_cannot_be_read_costs_no_image() {
    if !root() {
        return;
    }
    let store = store();
    let empty = store.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    // In a mount namespace of its own.
    let script = "mount --bind \"$1\" /proc/sys/kernel/osrelease && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", empty.to_str().unwrap(), FSAGE, "image", "prune"]);
    let run = Run::of(command.arg(store.path()));
    assert_eq!(run.code, 0, "{run:?}");
    assert!(store.keys().contains(&OWN.to_owned()), "{run:?}");
}

#[test]
fn only_files_of_images_in_a_real_store_are_removed() {
    let store = store();
    let path = store.path().to_str().unwrap();
    std::fs::write(store.file("holiday.jpg"), "mine").unwrap();
    std::fs::write(store.file("00000000000000ff.fsage"), "mine too").unwrap();
    std::fs::write(store.file("00000000000000fe.fsage"), "fsageIMG and a half").unwrap();
    let run = fsage(&["image", "prune", path]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("holiday.jpg is kept"), "{run:?}");
    assert!(run.stderr.contains("00000000000000ff.fsage is kept"), "{run:?}");
    assert!(store.file("holiday.jpg").exists() && store.file("00000000000000ff.fsage").exists());
    assert!(!store.file("00000000000000fe.fsage").exists(), "a half of an image: {run:?}");
    // A folder that only has the name of a plan in it.
    let other = Store { folder: tempfile::tempdir().unwrap() };
    std::fs::create_dir(other.path().join("images")).unwrap();
    std::fs::write(other.path().join("plan.json"), "{}").unwrap();
    std::fs::write(other.file("0123456789abcdef.fsage"), "fsageIMG").unwrap();
    let run = fsage(&["image", "prune", other.path().to_str().unwrap()]);
    assert!(run.code != 0 && other.file("0123456789abcdef.fsage").exists(), "{run:?}");
}
