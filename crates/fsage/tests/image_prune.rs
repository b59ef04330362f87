//! `fsage image prune` removes what is of no use to anybody, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::{FSAGE, Run, fsage, root};
use serde_json::{Value, json};

/// A store with images that need no volume.
struct Store {
    folder: tempfile::TempDir,
}

impl Store {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("plan.json"), b"{}").unwrap();
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
        std::fs::write(self.file(&format!("{key}.fsage")), b"image").unwrap();
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
    store.image("own", json!({}));
    store.image("other", json!({"basis": {"kernel": "2.6.32"}}));
    store.image("newer", json!({"version": fsage_model::record::STORE_VERSION + 1}));
    store.image("nameless", json!({"basis": {"kernel": ""}}));
    store.image("cut", json!({"file_bytes": 6}));
    store
}

#[test]
fn what_a_newer_fsage_wrote_is_kept_and_named() {
    let store = store();
    let path = store.path().to_str().unwrap();
    let run = fsage(&["image", "prune", path]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.starts_with("1 image removed"), "{run:?}");
    assert!(run.stderr.contains("newer is kept: a newer fsage wrote it"), "{run:?}");
    assert!(run.stderr.contains("nameless is kept: its record does not tell the kernel"), "{run:?}");
    assert_eq!(store.keys(), ["nameless", "newer", "own"]);
    assert!(store.file("newer.json").exists());
    let again = fsage(&["image", "prune", path, "--json"]).result();
    assert_eq!((&again["removed"], &again["freed_bytes"]), (&json!(0), &json!(0)));
    let kept: Vec<&str> =
        again["kept"].as_array().unwrap().iter().map(|image| image["key"].as_str().unwrap()).collect();
    assert_eq!(kept, ["newer", "nameless"]);
    let all = fsage(&["image", "prune", path, "--all", "--json"]).result();
    assert_eq!((&all["removed"], &all["kept"]), (&json!(3), &json!([])));
    assert_eq!(std::fs::read_dir(store.path().join("images")).unwrap().count(), 0);
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
    assert!(store.keys().contains(&"own".to_owned()), "{run:?}");
}
