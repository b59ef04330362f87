//! What needs no rights of root works without them: images restored to plain files, and exported from there.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;
mod image_rig;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use cli_support::{FSAGE, Run, copy_programs, root};
use image_rig::Rig;

/// Nobody in particular.
const USER: u32 = 65534;

/// The programs in a folder that everybody can reach, another that belongs to the user, and an image.
struct User {
    folder: tempfile::TempDir,
}

impl User {
    fn new(rig: &Rig) -> Self {
        let user = Self { folder: tempfile::tempdir_in("/var/tmp").unwrap() };
        std::fs::set_permissions(user.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        copy_programs(user.folder.path());
        for name in ["home", "tmp"] {
            std::fs::create_dir(user.path(name)).unwrap();
            chown(user.path(name), Some(USER), Some(USER)).unwrap();
        }
        std::fs::copy(rig.path("image"), user.path("image")).unwrap();
        // An image is for its owner alone.
        chown(user.path("image"), Some(USER), Some(USER)).unwrap();
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// `fsage` as that user, without a session.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        let user = USER.to_string();
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps=-all", "--"]);
        command.arg(self.path("fsage")).args(arguments);
        command.env_remove("XDG_RUNTIME_DIR").env_remove("FSAGE_RUNTIME_DIR").env_remove("FSAGE_AGENT");
        command.env("TMPDIR", self.path("tmp")).current_dir(self.path("home"));
        command
    }

    fn fsage(&self, arguments: &[&str]) -> Run {
        Run::of(&mut self.command(arguments))
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Files below the user's folders, journals left out that no lease is open in.
    fn left(&self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        let mut folders = vec![self.path("home"), self.path("tmp")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                match entry.metadata().unwrap() {
                    found if found.is_dir() => folders.push(entry.path()),
                    _ => left.push(entry.path()),
                }
            }
        }
        left.sort();
        left
    }
}

fn rig() -> Rig {
    let rig = Rig::new();
    rig.make("volume", "100M", &["mkfs.ext4", "-q", "-b", "4096"]);
    rig.save("volume", "image");
    rig
}

#[test]
fn restoring_to_a_file_and_exporting_need_no_root() {
    if !root() {
        return;
    }
    let rig = rig();
    let user = User::new(&rig);
    let (image, copy) = (user.text("image"), user.text("home/copy"));
    let restored = user.fsage(&["image", "restore", &image, &copy, "--json"]).result();
    rig.run(&["e2fsck", "-fn", &copy]);
    rig.run(&["cp", &copy, &rig.text("copy")]);
    assert_eq!(rig.save("copy", "again")["digest"], restored["digest"]);
    assert_eq!(user.left(), [user.path("home/copy")]);
    // Once more, over what is there.
    user.fsage(&["image", "restore", &image, &copy, "--erase", &copy, "--json"]).result();
    let theirs = user.text("home/theirs");
    user.fsage(&["image", "export", &image, &theirs, "--json"]).result();
    assert_eq!(user.left(), [user.path("home/copy"), user.path("home/theirs")]);
    // A folder of that name that others may write into is not trusted.
    let place = user.path(&format!("tmp/fsage-{USER}"));
    std::fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).unwrap();
    let refused = user.fsage(&["image", "restore", &image, &user.text("home/other")]);
    assert!(refused.code == 2 && refused.stderr.contains("not the user's own"), "{refused:?}");
    assert!(!user.path("home/other").exists());
}

#[test]
fn a_killed_restore_of_an_ordinary_user_is_cleaned_by_that_user() {
    if !root() {
        return;
    }
    let rig = rig();
    let user = User::new(&rig);
    let copy = user.text("home/copy");
    // Killed as soon as the file is there; on a busy machine the end may come first.
    let arguments = ["image", "restore", &user.text("image"), &copy];
    let mut killed = false;
    for _ in 0..20 {
        let mut child = user.spawn(&arguments);
        while !user.path("home/copy").exists() && child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        killed = !child.wait().unwrap().success();
        if killed {
            break;
        }
        std::fs::remove_file(&copy).unwrap();
    }
    assert!(killed, "every restore ended before it could be killed");
    let run = user.fsage(&["clean", "--json"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!user.path("home/copy").exists(), "{run:?}");
    user.fsage(&["image", "restore", &user.text("image"), &copy, "--json"]).result();
}

#[test]
fn a_fact_that_is_none_is_refused_before_anything_is_begun() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::of(
        Command::new(FSAGE)
            .args(["image", "save", "volume", "image", "--fact", "no value"])
            .env("FSAGE_RUNTIME_DIR", folder.path())
            .current_dir(folder.path()),
    );
    assert!(run.code == 2 && run.stderr.contains("`--fact no value` is not NAME=VALUE"), "{run:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
