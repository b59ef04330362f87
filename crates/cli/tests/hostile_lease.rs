//! Leases that somebody else wrote, folders that somebody else made again: nothing of them is believed.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

#[allow(clippy::duplicate_mod, reason = "both bring their own way to say that a test was skipped")]
mod cli_support;
mod support;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use cli_support::{FSAGE, Run, root};
use fsage_engine::host::process::start_ticks;
use fsage_engine::host::setting;
use fsage_lab::lease::Journal;
use fsage_lab::lease::record::Lease;
use fsage_model::protocol::Made;
use fsage_sys::loopdev::{self, AttachOptions};

/// Nobody in particular.
const USER: u32 = 65534;

const STUDY: &str = r#"
name = "hostile"
title = "Hostile"
question = "is anything touched that was never named?"
[volume]
kind = "loop"
size = "32MiB"
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
[stage.workload]
kind = "drift"
slots = 4
file_size = { kind = "uniform", min = "4KiB", max = "64KiB" }
io_size = { kind = "uniform", min = "4KiB", max = "32KiB" }
[stage.stop]
operations = 1
"#;

/// Things of root's that no lease of fsage's names, in a folder of its own.
struct Victims {
    folder: tempfile::TempDir,
    process: Child,
    device: PathBuf,
    read_ahead: String,
}

impl Victims {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("fsage-hostile-").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join("precious"), "precious").unwrap();
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        std::fs::write(folder.path().join("backing"), vec![0; 1 << 20]).unwrap();
        let file = folder.path().join("backing");
        let options = AttachOptions { file, offset: 0, size: 0, sector_bytes: 512, direct_io: false };
        let device = loopdev::attach(&options).unwrap();
        let process = Command::new("sleep").arg("600").spawn().unwrap();
        let mut victims = Self { folder, process, device, read_ahead: String::new() };
        victims.read_ahead = std::fs::read_to_string(victims.setting()).unwrap().trim().to_owned();
        victims
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn setting(&self) -> PathBuf {
        let name = self.device.file_name().unwrap();
        Path::new("/sys/class/block").join(name).join("queue/max_sectors_kb")
    }

    /// How a lease says that it is this very file or directory.
    fn made(&self, name: &str) -> String {
        let facts = std::fs::metadata(self.path(name)).unwrap();
        let identity =
            fsage_engine::host::file::identity(std::fs::File::open(self.path(name)).unwrap()).unwrap();
        assert_eq!(identity.inode, facts.ino());
        let made = Made { staged: format!(".{name}.0123456789abcdef.partial"), identity: Some(identity) };
        serde_json::to_string(&made).unwrap()
    }

    /// The lines of a journal that names all of them, and the leases' numbers are what they would be.
    fn leases(&self) -> String {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let (pid, ticks) = (self.process.id(), start_ticks(self.process.id()).unwrap());
        let group = format!("/sys/fs/cgroup/../../..{}", self.path("empty").display());
        let leases = [
            format!(r#""lease":"process","pid":{pid},"start_ticks":{ticks}"#),
            format!(
                r#""lease":"setting","path":"{}","old":"77","new":"{}""#,
                self.setting().display(),
                self.read_ahead
            ),
            format!(
                r#""lease":"file","path":"{}","made":{}"#,
                self.path("precious").display(),
                self.made("precious")
            ),
            format!(r#""lease":"memory-group","path":"{group}""#),
            format!(
                r#""lease":"directory","path":"{}","made":{}"#,
                self.path("empty").display(),
                self.made("empty")
            ),
            format!(r#""lease":"loop","file":"{}""#, self.path("backing").display()),
        ];
        let lines = leases.iter().zip(1..).map(|(lease, number)| {
            format!(r#"{{"number":{number},"boot_id":"{}","state":"taken",{lease}}}"#, boot.trim()) + "\n"
        });
        lines.collect()
    }

    /// A store of the user's, whose journal names all of them.
    fn store(&self, below: &Path, name: &str) -> PathBuf {
        let store = below.join(name);
        std::fs::create_dir(&store).unwrap();
        std::fs::write(store.join("leases.jsonl"), self.leases()).unwrap();
        for path in [store.join("leases.jsonl"), store.clone()] {
            chown(path, Some(USER), Some(USER)).unwrap();
        }
        store
    }

    /// What is not as it was.
    fn touched(&mut self) -> Vec<String> {
        let mut touched = Vec::new();
        let mut note = |right: bool, what: &str| {
            if !right {
                touched.push(what.to_owned());
            }
        };
        note(self.process.try_wait().unwrap().is_none(), "a foreign process was ended");
        note(self.path("precious").exists(), "root's file was removed");
        note(self.path("empty").exists(), "root's directory was removed");
        let now = std::fs::read_to_string(self.setting()).unwrap_or_default();
        note(now.trim() == self.read_ahead, "a setting was written");
        let devices = loopdev::by_backing_file(&self.path("backing")).unwrap();
        note(devices == [self.device.clone()], "a loop device was detached");
        touched
    }
}

impl Drop for Victims {
    fn drop(&mut self) {
        let _ = loopdev::detach(&self.device);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `fsage` with places of its own for what it keeps outside of stores.
fn fsage(own: &Path, arguments: &[&str]) -> Run {
    let mut command = Command::new(FSAGE);
    command.args(arguments).env("FSAGE_RUNTIME_DIR", own.join("runtime"));
    command.env("FSAGE_STATE_DIR", own.join("state")).current_dir(own);
    Run::of(&mut command)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn leases_written_by_the_owner_of_a_store_touch_nothing() {
    if !root() {
        return;
    }
    let mut victims = Victims::new();
    let own = tempfile::tempdir().unwrap();
    let store = victims.store(own.path(), "store");
    let run = fsage(own.path(), &["clean", text(&store)]);
    assert_eq!(victims.touched(), [] as [&str; 0], "{run:?}");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("leases.jsonl") && run.stdout.contains("ignored"), "{run:?}");
}

#[test]
fn a_run_on_a_store_with_foreign_leases_touches_nothing() {
    if !root() {
        return;
    }
    let mut victims = Victims::new();
    let own = tempfile::tempdir().unwrap();
    let store = victims.store(own.path(), "store");
    std::fs::write(own.path().join("study.toml"), STUDY).unwrap();
    let run = fsage(own.path(), &["run", "study.toml", "--store", text(&store), "--allow-foreign-owner"]);
    assert_eq!(victims.touched(), [] as [&str; 0], "{run:?}");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(store.join("plan.json").exists(), "it ran in that store: {run:?}");
}

#[test]
fn a_folder_made_again_in_a_sticky_directory_is_not_followed() {
    if !root() {
        return;
    }
    let mut victims = Victims::new();
    let own = tempfile::tempdir().unwrap();
    let sticky = own.path().join("sticky");
    std::fs::create_dir(&sticky).unwrap();
    std::fs::set_permissions(&sticky, PermissionsExt::from_mode(0o1777)).unwrap();
    let store = victims.store(&sticky, "store");
    // As an earlier version wrote down that the folder, then root's, has open leases.
    let stores = own.path().join("runtime/stores");
    std::fs::create_dir_all(&stores).unwrap();
    std::fs::write(stores.join("0123456789abcdef"), text(&store)).unwrap();
    let run = fsage(own.path(), &["clean"]);
    assert_eq!(victims.touched(), [] as [&str; 0], "{run:?}");
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn a_journal_that_is_a_link_is_not_written_through() {
    if !root() {
        return;
    }
    let own = tempfile::tempdir().unwrap();
    let (store, secret) = (own.path().join("store"), own.path().join("secret"));
    std::fs::create_dir(&store).unwrap();
    std::fs::write(&secret, "secret without an end of line").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    symlink(&secret, store.join("leases.jsonl")).unwrap();
    let run = fsage(own.path(), &["clean", text(&store)]);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret without an end of line", "{run:?}");
}

#[test]
fn a_directory_for_journals_that_others_can_change_is_refused() {
    if !root() {
        return;
    }
    let own = tempfile::tempdir().unwrap();
    let (store, state) = (own.path().join("store"), own.path().join("state"));
    let above = own.path().join("above");
    for folder in [&store, &state, &above, &above.join("state")] {
        std::fs::create_dir(folder).unwrap();
    }
    let refused = |state: &Path, why: &str| {
        let mut command = Command::new(FSAGE);
        command.args(["clean", text(&store)]).env("FSAGE_STATE_DIR", state).current_dir(own.path());
        let run = Run::of(&mut command);
        assert!(run.code == 2 && run.stderr.contains(why), "{run:?}");
        assert!(run.stderr.contains("chown") && run.stderr.contains("FSAGE_STATE_DIR"), "{run:?}");
    };
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(&state, 0o777);
    refused(&state, "others may write into it");
    mode(&state, 0o1777);
    refused(&state, "others may write into it");
    mode(&state, 0o700);
    chown(&state, Some(USER), Some(USER)).unwrap();
    refused(&state, "belongs to user 65534");
    mode(&above, 0o777);
    refused(&above.join("state"), "others may write into it");
    mode(&above, 0o700);
    let link = own.path().join("link");
    symlink(above.join("state"), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(USER), Some(USER)).unwrap();
    refused(&link, "belongs to user 65534");
}

#[test]
fn a_journal_that_is_no_file_of_the_users_own_is_refused() {
    if !root() {
        return;
    }
    let own = tempfile::tempdir().unwrap();
    let secret = own.path().join("secret");
    let state = own.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(&secret, "secret without an end of line").unwrap();
    let journal = state.join("0123456789abcdef.jsonl");
    let failed = |why: &str| {
        let run = fsage(own.path(), &["clean"]);
        assert!(run.code != 0 && format!("{}{}", run.stdout, run.stderr).contains(why), "{run:?}");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret without an end of line");
    };
    symlink(&secret, &journal).unwrap();
    failed("0123456789abcdef.jsonl");
    std::fs::remove_file(&journal).unwrap();
    std::fs::hard_link(&secret, &journal).unwrap();
    failed("only its user may write");
    std::fs::remove_file(&journal).unwrap();
    std::fs::write(&journal, "").unwrap();
    chown(&journal, Some(USER), None).unwrap();
    failed("only its user may write");
}

#[test]
fn root_trusts_no_session_folder_of_its_environment() {
    if !root() {
        return;
    }
    let mut victims = Victims::new();
    let own = tempfile::tempdir().unwrap();
    let store = victims.store(own.path(), "store");
    let stores = own.path().join("session/fsage/stores");
    std::fs::create_dir_all(&stores).unwrap();
    std::fs::write(stores.join("0123456789abcdef"), text(&store)).unwrap();
    // In a mount namespace of its own, so that what this host has in /run and /var/lib is left alone.
    let script = "mount -t tmpfs none /run && mount -t tmpfs none /var/lib && exec \"$0\" clean";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, FSAGE]);
    command.env("XDG_RUNTIME_DIR", own.path().join("session"));
    command.env_remove("FSAGE_RUNTIME_DIR").env_remove("FSAGE_STATE_DIR");
    let run = Run::of(&mut command);
    assert_eq!(victims.touched(), [] as [&str; 0], "{run:?}");
    assert_eq!((run.code, run.stdout.as_str()), (0, "nothing to clean\n"), "{run:?}");
}

/// Makes a file and a directory, and waits to be killed.
#[test]
fn helper_makes_a_file_and_a_directory() {
    let Some(store) = support::helper_argument() else { return };
    let mut journal = Journal::open(&store).unwrap();
    journal.make(Lease::File { path: store.join("volume") }).unwrap();
    journal.make(Lease::Directory { path: store.join("mount") }).unwrap();
    support::ready_to_be_killed();
}

#[test]
fn a_users_later_file_of_the_same_name_survives() {
    let own = tempfile::tempdir().unwrap();
    let store = own.path().canonicalize().unwrap();
    let (file, directory) = (store.join("volume"), store.join("mount"));
    let clean = || {
        let mut command = Command::new(FSAGE);
        Run::of(command.args(["clean", text(&store)]).env("FSAGE_AGENT", support::agent()))
    };
    for later in [true, false] {
        let mut lab = support::helper("helper_makes_a_file_and_a_directory", &store);
        lab.kill().unwrap();
        lab.wait().unwrap();
        assert!(file.is_file() && directory.is_dir());
        if later {
            // Made while ours are there, so that they cannot get their inode numbers.
            std::fs::write(store.join("later"), "the user's").unwrap();
            std::fs::create_dir(store.join("later too")).unwrap();
            std::fs::rename(store.join("later"), &file).unwrap();
            std::fs::rename(store.join("later too"), &directory).unwrap();
        }
        let run = clean();
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!((file.exists(), directory.exists()), (later, later), "{run:?}");
        assert_eq!(run.stdout.contains("another file has that name"), later, "{run:?}");
        assert_eq!(run.stdout.contains("another directory has that name"), later, "{run:?}");
        if later {
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "the user's");
            std::fs::remove_file(&file).unwrap();
            std::fs::remove_dir(&directory).unwrap();
        }
        let run = clean();
        assert!(run.code == 0 && run.stdout.contains("nothing left to release"), "{run:?}");
    }
}

/// Another size of requests in KiB than a device has now: a number of a loop device keeps its setting after
/// it was detached.
fn another(now: &str) -> String {
    if now == "64" { "68" } else { "64" }.to_owned()
}

/// Changes the setting that a file in the store names, makes a file, and waits to be killed.
#[test]
fn helper_changes_a_setting() {
    let Some(store) = support::helper_argument() else { return };
    let path = PathBuf::from(std::fs::read_to_string(store.join("path")).unwrap());
    let mut journal = Journal::open(&store).unwrap();
    let old = setting::get(&path).unwrap();
    let new = another(&old);
    journal.take(Lease::Setting { path: path.clone(), old, new: new.clone() }).unwrap();
    setting::set(&path, &new).unwrap();
    journal.make(Lease::File { path: store.join("volume") }).unwrap();
    support::ready_to_be_killed();
}

#[test]
fn any_command_puts_back_what_a_killed_lab_had_set() {
    if !root() {
        return;
    }
    let victims = Victims::new();
    let own = tempfile::tempdir().unwrap();
    let store = own.path().canonicalize().unwrap();
    let path = victims.setting().with_file_name("max_sectors_kb");
    let before = setting::get(&path).unwrap();
    std::fs::write(store.join("path"), text(&path)).unwrap();
    let command = || Run::of(Command::new(FSAGE).args(["study", "list"]));
    let mut lab = support::helper("helper_changes_a_setting", &store);
    let run = command();
    assert_eq!(setting::get(&path).unwrap(), another(&before), "a lab that lives keeps what it set");
    assert!(run.code == 0 && !run.stderr.contains(text(&store)), "{run:?}");
    lab.kill().unwrap();
    lab.wait().unwrap();
    let run = command();
    assert_eq!(setting::get(&path).unwrap(), before, "{run:?}");
    let said = |what: &str| run.stderr.lines().any(|line| line.contains(text(&store)) && line.contains(what));
    assert!(said("max_sectors_kb") && said("restored") && said("fsage clean"), "{run:?}");
    assert!(store.join("volume").exists(), "only settings are restored without being asked");
    let mut clean = Command::new(FSAGE);
    let run = Run::of(clean.args(["clean", text(&store)]).env("FSAGE_AGENT", support::agent()));
    assert!(run.code == 0 && !store.join("volume").exists(), "{run:?}");
    assert!(!command().stderr.contains(text(&store)));
}
