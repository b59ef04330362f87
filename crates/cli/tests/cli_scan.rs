//! `fsage scan` and `fsage doctor` against the real host.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use std::io::Write as _;
use std::process::Command;

use cli_support::{FSAGE, Mounted, Run, copy_programs, fsage, root};

/// A tree with one file in one piece and one in many.
fn fragment(mounted: &Mounted) {
    std::fs::create_dir(mounted.join("tree")).unwrap();
    std::fs::write(mounted.join("tree/whole"), vec![7; 1 << 20]).unwrap();
    let mut pieces = std::fs::File::create(mounted.join("tree/pieces")).unwrap();
    let mut other = std::fs::File::create(mounted.join("other")).unwrap();
    for _ in 0..20 {
        for file in [&mut pieces, &mut other] {
            file.write_all(&[1; 65_536]).unwrap();
            file.sync_all().unwrap();
        }
    }
}

#[test]
fn a_fragmented_file_is_found_and_named() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("128M");
    fragment(&mounted);
    let report = fsage(&["scan", "--json", &mounted.join("tree")]).result();
    assert_eq!(report["layout"]["files"], 2);
    assert_eq!(report["layout"]["worst"][0]["path"], "pieces");
    let extents = report["layout"]["worst"][0]["extents"].as_u64().unwrap();
    assert!(extents > 1, "{report}");
    assert_eq!(report["file_system"], "ext4");
    assert_eq!(report["free_space"]["method"], "getfsmap");
    assert_eq!(report["free_space_unknown"], "");
    for histogram in ["/layout/extent_histogram", "/layout/file_histogram", "/free_space/histogram"] {
        let of = |key: &str| -> Vec<u64> {
            serde_json::from_value(report.pointer(histogram).unwrap()[key].clone()).unwrap()
        };
        let (count, bytes, from, below) = (of("count"), of("bytes"), of("from_bytes"), of("below_bytes"));
        assert!(count.iter().sum::<u64>() > 0, "{histogram}");
        assert_eq!((from.len(), below.len()), (count.len(), count.len()), "{histogram}");
        for bucket in 0..count.len() {
            // What is in a bucket lies within its bounds.
            let (least, most) = (count[bucket] * from[bucket], count[bucket] * below[bucket]);
            let fits = least <= bytes[bucket] && (bytes[bucket] < most || count[bucket] == 0);
            assert!(fits, "{histogram}: bucket {bucket} of {report}");
        }
        assert!(from[0] == 0 && from[1..] == below[..below.len() - 1], "{histogram}: no gap");
    }
    assert!(report["verdict"]["sentences"].as_array().unwrap().len() == 2);

    let text = fsage(&["scan", &mounted.join("tree")]);
    assert_eq!(text.code, 0, "{text:?}");
    for part in ["2 files in", "Used extents by size", "Free extents by size (GETFSMAP)", "pieces", "█"] {
        assert!(text.stdout.contains(part), "{part} is not in\n{}", text.stdout);
    }
}

#[test]
fn what_is_mounted_below_is_only_crossed_into_when_asked() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("64M");
    std::fs::create_dir(mounted.join("t00")).unwrap();
    // Zeros in a file of ours: damage, where it is inspected.
    std::fs::write(mounted.join("t00/f00000001"), vec![0; 4096]).unwrap();
    let outer = mounted.path().parent().unwrap().join("outer");
    std::fs::create_dir_all(outer.join("mount")).unwrap();
    std::fs::write(outer.join("note"), "x").unwrap();
    let bound = Bound::new(&mounted.path(), &outer.join("mount"));
    let outer = outer.to_str().unwrap().to_owned();
    let files = |arguments: &[&str], key: &str| {
        let found = fsage(&[arguments, &["--json", &outer]].concat()).result();
        found[key]["files"].as_u64().or(found[key]["count"].as_u64()).unwrap()
    };
    assert_eq!((files(&["scan"], "layout"), files(&["scan", "--cross-mounts"], "layout")), (1, 2));
    assert_eq!((files(&["profile"], "files"), files(&["profile", "--cross-mounts"], "files")), (1, 2));
    let verify = |more: &[&str]| fsage(&[&["verify", &outer], more].concat()).code;
    assert_eq!((verify(&[]), verify(&["--cross-mounts"])), (0, 5));
    drop(bound);
}

/// A tree mounted at a second place.
struct Bound(std::path::PathBuf);

impl Bound {
    fn new(from: &std::path::Path, to: &std::path::Path) -> Self {
        let run = Run::of(Command::new("mount").arg("--bind").arg(from).arg(to));
        assert_eq!(run.code, 0, "{run:?}");
        Self(to.to_owned())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn an_empty_directory_has_no_layout_to_judge() {
    let folder = tempfile::tempdir().unwrap();
    let run = fsage(&["scan", folder.path().to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("No file has an extent"), "{}", run.stdout);
}

#[test]
fn bars_are_ascii_where_the_locale_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), vec![1; 100_000]).unwrap();
    let line = format!("LC_ALL=C {FSAGE} scan {}", folder.path().display());
    let run = Run::of(Command::new("sh").args(["-c", &line]));
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!run.stdout.contains('█'));
    assert!(run.stdout.contains("####"), "{}", run.stdout);
}

#[test]
fn without_root_own_files_are_scanned_and_the_rest_is_said() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("64M");
    std::fs::write(mounted.join("file"), vec![1; 8192]).unwrap();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let programs = folder.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    copy_programs(&programs);
    for path in [folder.path(), mounted.path().parent().unwrap()] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, open).unwrap();
    }
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(programs.join("fsage"));
        Run::of(command.args(arguments))
    };
    let mount = mounted.join("");
    let scan = as_nobody(&["scan", "--json", &mount]);
    let report = scan.result();
    assert_eq!(report["layout"]["files"], 1, "{scan:?}");

    for arguments in [&["run", "aging", "--quick"][..], &["clean"]] {
        let run = as_nobody(arguments);
        assert_eq!(run.code, 3, "{run:?}");
        assert!(run.stderr.contains("needs root") && run.stderr.contains("hint: run `sudo "), "{run:?}");
    }
    assert_eq!(as_nobody(&["doctor"]).code, 3);
}

#[test]
fn the_doctor_says_what_is_here() {
    let run = fsage(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["ready"], run.code == 0);
    assert!(report["host"]["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()));
    // What is installed is found: the agent looks for every program that the lab may call.
    let checks = report["checks"].as_array().unwrap();
    let programs: Vec<_> = checks.iter().filter(|check| check["group"] == "programs").collect();
    assert!(programs.len() >= 12, "{programs:?}");
    for check in programs {
        let name = check["name"].as_str().unwrap();
        let folders = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
        let installed = folders.iter().any(|folder| std::path::Path::new(folder).join(name).exists());
        assert!(!installed || check["state"] == "ok", "{check}");
    }
    // tracefs need not be mounted for it: root may reach it by a mount of its own.
    let tracefs = checks.iter().find(|check| check["name"] == "tracefs").unwrap();
    let known = std::fs::read_to_string("/proc/filesystems").unwrap().contains("tracefs");
    assert_eq!(tracefs["state"] == "ok", known && report["host"]["root"] == true, "{tracefs}");
    let text = fsage(&["doctor"]);
    assert_eq!(text.code, run.code);
    assert!(text.stdout.contains("mke2fs") && text.stdout.contains("fio"), "{}", text.stdout);
}
