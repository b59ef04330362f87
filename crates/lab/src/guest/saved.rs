//! Saved states of guests that have booted. A guest made of the same starts from one, which takes a fraction of a second where booting takes some seconds.
//!
//! The memory is a file, which each guest maps for itself alone (`share=off`): it reads what it needs and keeps what it writes. All else of the
//! machine is in a stream of some 60 KB, as for a move between machines that have their memory in common (QEMU, `migration/ram.c`,
//! `x-ignore-shared`). What such guests would have in common besides is replaced when they wake ([`crate::target::waking`]).

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use fsage_model::study::GuestSpec;
use fsage_sys::folder::Folder;
use fsage_sys::new_file::{check_owner, open_unnamed};
use serde_json::json;

use super::monitor::Monitor;
use super::packages::{cache, workplace};
use super::sharing::escaped;
use super::{Guest, GuestError};
use crate::target::{Connection, Patience, TargetError};

/// States that are kept: those that were used last. Each takes as much room as a guest that has booted uses memory: 220 MB of 1 GiB.
const KEPT: usize = 4;

/// How long the state of a machine may take to be written.
const WRITTEN: Duration = Duration::from_secs(10);

/// How long a guest may take to answer that starts from a state.
const STARTS: Duration = Duration::from_secs(30);

/// Names of the files of a state.
const MEMORY: &str = "memory";
const MACHINE: &str = "machine";

/// How the names of folders begin in which a state is removed: as those of what a fetch leaves, which are removed after a day.
const REMOVED: &str = ".fetch-";

/// Name of the monitor's socket in a guest's folder.
const MONITOR: &str = "monitor";

/// The state of a guest that has booted.
#[derive(Debug)]
pub(crate) struct Saved {
    /// Where it is, once it is there.
    folder: PathBuf,
    memory_mib: u64,
}

/// Folder of all states.
fn states() -> PathBuf {
    cache().join("guests")
}

impl Saved {
    /// The state of guests that are made of what `build` is the hash of, with as much memory and as many processors; `line` is what they boot with.
    pub(super) fn of(build: &str, line: &str, spec: &GuestSpec) -> Self {
        let memory_mib = spec.memory.0.div_ceil(1 << 20);
        let hash = blake3::hash(format!("{build} {line}").as_bytes()).to_hex();
        Self { folder: states().join(format!("{}-{memory_mib}-{}", &hash[..16], spec.cpus)), memory_mib }
    }

    /// Whether it was saved, by root for root.
    pub(crate) fn is_there(&self) -> bool {
        let length = |name: &str| Some(open_unnamed(&self.folder.join(name)).ok()?.metadata().ok()?.len());
        length(MEMORY) == Some(self.memory_mib << 20) && length(MACHINE).is_some_and(|bytes| bytes > 0)
    }

    /// Removes it: moved away first, so that no other process finds a part of it.
    pub(crate) fn remove(&self) {
        remove(&self.folder);
    }

    /// Boots a guest, saves it and ends it.
    ///
    /// # Errors
    /// It does not boot in this way, or cannot be saved.
    pub(crate) fn save(&self, guest: &Guest, patience: Patience<'_>) -> Result<(), GuestError> {
        let place = states();
        let failed = |source| GuestError::Save { path: self.folder.clone(), source };
        let work = workplace(&place)?;
        Folder::open(&place).and_then(|folder| check_owner(&folder)).map_err(failed)?;
        // QEMU would end in the middle of a guest's work.
        has_room(&place, self.memory_mib << 20).and_then(|()| quoted(&self.folder)).map_err(failed)?;
        let monitor = guest.folder().join(MONITOR);
        let arguments = self.arguments(guest, &work.path().join(MEMORY), "on", false);
        let save = || write(&monitor, &work.path().join(MACHINE));
        let (program, name) = (guest.program.clone(), guest.name.clone());
        let saved = Connection::saved_after_boot(program, arguments, name, patience, &save)?;
        let _ = std::fs::remove_file(&monitor);
        saved.and_then(|()| self.keep(work)).map_err(failed)
    }

    /// Starts a guest from it.
    ///
    /// # Errors
    /// QEMU does not take it, or the guest does not answer.
    pub(crate) fn start(&self, guest: &Guest, patience: Patience<'_>) -> Result<Connection, TargetError> {
        let (monitor, machine) = (guest.folder().join(MONITOR), self.folder.join(MACHINE));
        let arguments = self.arguments(guest, &self.folder.join(MEMORY), "off", true);
        // The states that were used last are kept. One whose time cannot be set is still of use.
        let _ = File::open(&machine).and_then(|file| file.set_modified(SystemTime::now()));
        let identity = (guest.name.clone(), guest.machine);
        let resume = || read(&monitor, &machine);
        let patience = Patience { longest: patience.longest.min(STARTS), ..patience };
        Connection::guest(guest.program.clone(), arguments, identity, patience, Some(&resume))
    }

    fn arguments(&self, guest: &Guest, memory: &Path, share: &str, comes_in: bool) -> Vec<OsString> {
        let mut arguments = guest.arguments.clone();
        let object = format!(
            "memory-backend-file,id=memory,size={}M,mem-path={},share={share}",
            self.memory_mib,
            escaped(memory)
        );
        let monitor = format!("unix:{},server=on,wait=off", escaped(&guest.folder().join(MONITOR)));
        let words = ["-object", &object, "-machine", "memory-backend=memory", "-qmp", &monitor];
        arguments.extend(words.map(OsString::from));
        arguments
            .extend(comes_in.then_some(["-incoming", "defer"].map(OsString::from)).into_iter().flatten());
        arguments
    }

    /// Moves a state to its place, and removes those that were not used for longest.
    fn keep(&self, work: tempfile::TempDir) -> io::Result<()> {
        // A state of which the host lost a part would start a guest that does anything.
        for name in [MEMORY, MACHINE] {
            File::open(work.path().join(name))?.sync_all()?;
        }
        // Unless another run was faster.
        if !self.is_there() {
            self.remove();
            std::fs::rename(work.path(), &self.folder)?;
            drop(work.keep());
        }
        remove_old(&states(), KEPT);
        Ok(())
    }
}

/// Removes all states but those that were used last.
fn remove_old(place: &Path, kept: usize) {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| {
            Some((entry.path().join(MACHINE).metadata().ok()?.modified().ok()?, entry.path()))
        })
        .filter(|(_, path)| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")))
        .collect();
    found.sort();
    found.iter().rev().skip(kept).for_each(|(_, path)| remove(path));
}

/// Removes the folder of a state. What cannot be removed is tried again by the next.
fn remove(folder: &Path) {
    let Some(place) = folder.parent() else { return };
    let away = tempfile::Builder::new().prefix(REMOVED).tempdir_in(place);
    // The rest is removed with the folder that it was moved to.
    let _ = away.and_then(|away| std::fs::rename(folder, away.path().join("state")));
}

/// Refuses a folder whose file system has no room for so many bytes.
fn has_room(place: &Path, bytes: u64) -> io::Result<()> {
    let found = rustix::fs::statvfs(place)?;
    if found.f_bavail.saturating_mul(found.f_frsize) < bytes {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(())
}

/// Has only what is not in the memory's file come and go.
fn without_memory(monitor: &mut Monitor) -> io::Result<()> {
    let wanted = json!({ "capabilities": [{ "capability": "x-ignore-shared", "state": true }] });
    monitor.ask("migrate-set-capabilities", &wanted).map(drop)
}

/// Stops a machine and writes its state.
fn write(socket: &Path, to: &Path) -> io::Result<()> {
    let mut monitor = Monitor::meet(socket)?;
    monitor.ask("stop", &json!({}))?;
    without_memory(&mut monitor)?;
    // QEMU does not wait for the program that writes it, nor for its success.
    let part = quoted(&to.with_extension("part"))?;
    monitor.ask("migrate", &json!({ "uri": format!("exec:cat > {part} && mv {part} {}", quoted(to)?) }))?;
    let passing = ["none", "setup", "active", "device", "pre-switchover", "cancelling"];
    match &*monitor.settled("query-migrate", &passing)? {
        "completed" => {
            let deadline = Instant::now() + WRITTEN;
            while !to.exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
            monitor.ask("quit", &json!({})).map(drop)
        }
        status => Err(io::Error::other(format!("QEMU cannot save it: {status}"))),
    }
}

/// Reads the state of a machine and has it go on.
fn read(socket: &Path, from: &Path) -> io::Result<()> {
    let mut monitor = Monitor::meet(socket)?;
    without_memory(&mut monitor)?;
    monitor.ask("migrate-incoming", &json!({ "uri": format!("exec:cat {}", quoted(from)?) }))?;
    match &*monitor.settled("query-status", &["inmigrate"])? {
        "running" => Ok(()),
        _ => monitor.ask("cont", &json!({})).map(drop),
    }
}

/// A path as a word of the shell's.
fn quoted(path: &Path) -> io::Result<String> {
    let text = path.to_str().filter(|text| !text.contains('\''));
    text.map(|text| format!("'{text}'"))
        .ok_or_else(|| io::Error::other("its path has characters that a shell changes"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_states_used_last_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["b", "a", ".fetch-x", "d", "c", "other"];
        for (age, name) in names.iter().enumerate() {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            if *name != "other" {
                let file = File::create(folder.path().join(name).join(MACHINE)).unwrap();
                let then = SystemTime::now() - Duration::from_secs(age as u64 * 100);
                file.set_modified(then).unwrap();
            }
        }
        remove_old(folder.path(), 2);
        let left = names.map(|name| folder.path().join(name).exists());
        assert_eq!(left, [true, true, true, false, false, true]);
    }

    #[test]
    fn room_is_looked_for_before() {
        let folder = tempfile::tempdir().unwrap();
        assert!(has_room(folder.path(), 1).is_ok());
        assert_eq!(has_room(folder.path(), u64::MAX).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn paths_are_one_word() {
        assert_eq!(quoted(Path::new("/a b/$c")).unwrap(), "'/a b/$c'");
        assert!(quoted(Path::new("/a'b")).is_err());
    }

    #[test]
    fn guests_of_other_sizes_have_other_states() {
        let spec = |json: &str| serde_json::from_str(json).unwrap();
        let of = |line: &str, json: &str| Saved::of("abc", line, &spec(json)).folder;
        let one = of("quiet", "{}");
        assert!(one.to_string_lossy().ends_with("-1024-1"), "{}", one.display());
        assert!(one != of("quiet", r#"{"cpus":2}"#) && one != of("quiet", r#"{"memory":"2GiB"}"#));
        assert_ne!(one, of("loud", "{}"));
    }

    #[test]
    fn a_part_of_a_state_is_none_and_goes() {
        let place = tempfile::tempdir().unwrap();
        let saved = Saved { folder: place.path().join("state"), memory_mib: 1 };
        std::fs::create_dir(&saved.folder).unwrap();
        std::fs::write(saved.folder.join(MACHINE), "x").unwrap();
        assert!(!saved.is_there());
        let memory = File::create(saved.folder.join(MEMORY)).unwrap();
        assert!(!saved.is_there());
        memory.set_len(1 << 20).unwrap();
        assert!(saved.is_there());
        saved.remove();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
