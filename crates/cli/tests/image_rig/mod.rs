//! Aged volumes in files, and `fsage image` with a runtime folder of its own.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_engine::host::tool;

use crate::cli_support::{FSAGE, Run};

/// A folder with volumes and images; whatever happens nothing of it stays mounted or attached.
pub struct Rig {
    folder: tempfile::TempDir,
}

impl Rig {
    pub fn new() -> Self {
        let rig = Self { folder: tempfile::tempdir_in("/var/tmp").unwrap() };
        std::fs::create_dir(rig.path("point")).unwrap();
        std::fs::create_dir(rig.path("run")).unwrap();
        rig
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(FSAGE);
        command.args(arguments).env("FSAGE_RUNTIME_DIR", self.path("run"));
        command
    }

    pub fn fsage(&self, arguments: &[&str]) -> Run {
        Run::of(&mut self.command(arguments))
    }

    /// Runs a program that must succeed.
    pub fn run(&self, argv: &[&str]) -> Run {
        let run = Run::of(Command::new(argv[0]).args(&argv[1..]));
        assert_eq!(run.code, 0, "{argv:?}: {run:?}");
        run
    }

    pub fn make(&self, name: &str, size: &str, mkfs: &[&str]) {
        let file = self.text(name);
        self.run(&["truncate", "-s", size, &file]);
        let words: Vec<String> = mkfs.iter().map(|word| (*word).to_owned()).chain([file]).collect();
        let output = tool::run(&tool::Children::default(), &words, None).unwrap();
        assert_eq!(output.status, 0, "{words:?}: {}", output.stderr);
    }

    /// Mounts a volume, with options, does `work` in it and unmounts it.
    pub fn mounted<T>(&self, name: &str, options: &str, work: impl FnOnce(&Path) -> T) -> T {
        let point = self.path("point");
        let options = format!("loop{options}");
        self.run(&["mount", "-o", &options, &self.text(name), point.to_str().unwrap()]);
        let done = work(&point);
        self.run(&["umount", point.to_str().unwrap()]);
        done
    }

    /// Ages a volume with a little churn of files of all sizes, tails among them.
    pub fn age(&self, name: &str, operations: &str) {
        self.mounted(name, "", |point| {
            let directory = point.join("aged");
            std::fs::create_dir(&directory).unwrap();
            let directory = directory.to_str().unwrap();
            let size = ["--set", "file_size.kind=lognormal", "--set", "file_size.mu=9.9"];
            let size = [
                &size[..],
                &["--set", "file_size.sigma=1.5", "--set", "file_size.min=1", "--set", "file_size.max=8MiB"],
            ]
            .concat();
            let more = ["--operations", operations, "--set", "slots=400", "--seed", "3"];
            let run = self.fsage(&[&["age", directory, "--json"], &more[..], &size].concat());
            assert_eq!(run.code, 0, "{run:?}");
            std::fs::write(point.join("foreign"), b"not of fsage\n".repeat(3000)).unwrap();
            std::fs::write(point.join("inline"), b"tiny").unwrap();
        });
    }

    /// The good blocks of the aged tree, all being good.
    pub fn verified(&self, name: &str, options: &str) -> u64 {
        self.mounted(name, options, |point| {
            let run = self.fsage(&["verify", point.to_str().unwrap(), "--json"]);
            run.result()["good_blocks"].as_u64().unwrap()
        })
    }

    pub fn save(&self, volume: &str, file: &str) -> serde_json::Value {
        self.fsage(&["image", "save", &self.text(volume), &self.text(file), "--json"]).result()
    }

    pub fn restore(&self, file: &str, volume: &str) -> serde_json::Value {
        self.fsage(&["image", "restore", &self.text(file), &self.text(volume), "--json"]).result()
    }

    /// No file with part of an image, no loop device, mount or workplace.
    pub fn assert_nothing_left(&self) {
        let folder = self.folder.path().to_str().unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(folder), "still mounted");
        for entry in std::fs::read_dir("/sys/block").unwrap().flatten() {
            let file = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            assert!(!file.starts_with(folder), "{:?} is still attached to {file}", entry.file_name());
        }
        for entry in std::fs::read_dir(self.folder.path()).unwrap().flatten() {
            assert!(!entry.file_name().to_str().unwrap().ends_with(".partial"), "{entry:?} is left");
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path("point")).output();
        let _ = self.command(&["clean"]).output();
    }
}

/// A loop device that stands in for a disk, with a link that is a stable path. Its file is in a folder of its
/// own.
pub struct Disk {
    pub device: PathBuf,
    pub link: PathBuf,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Disk {
    pub fn new(mebibytes: u64) -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = folder.path().join("disk");
        std::fs::File::create(&file).unwrap().set_len(mebibytes << 20).unwrap();
        let device = fsage_engine::host::loopback::attach(&file, None, 512, false).unwrap();
        let links = Path::new("/dev/disk/by-id");
        std::fs::create_dir_all(links).unwrap();
        let name = device.file_name().unwrap().to_str().unwrap();
        let link = links.join(format!("fsage-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&device, &link).unwrap();
        Self { device, link, file, _folder: folder }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.link);
        let _ = fsage_engine::host::loopback::detach(&self.file);
    }
}
