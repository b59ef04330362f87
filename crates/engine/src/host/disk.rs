//! Ending a virtual disk, whatever state it was left in.
//!
//! The server's own program knows best what it made (`fsage-disk clean`); when it is missing or fails, the
//! rest is done here. A server is known by its command line, which names the folder, so that one that was
//! killed before it wrote anything down is found too. Its FUSE mount goes lazily: what still holds it gets
//! `EIO`, and nobody waits. Its folder is removed only as far as it holds what a disk makes there, so that a
//! folder named by mistake loses nothing else.

use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use super::process::{self, Identity};
use super::tool::{self, Children};
use super::{HostError, mount};
use fsage_sys::folder::Folder;
use fsage_sys::loopdev;
use fsage_sys::new_file::check_owner;

/// The exported file within a disk's folder.
pub const FILE: &str = "mount/disk";
/// The socket within a disk's folder.
pub const CONTROL: &str = "control";
/// The disk's time within a disk's folder.
pub const CLOCK: &str = "clock";

/// CPU time that passes on the disk's clock, within a disk's folder.
pub const THINK: &str = "think";

/// How long a killed server may take to leave the kernel.
const LIMIT: Duration = Duration::from_secs(10);

/// How long its own program may take to clean up after it.
const CLEAN_LIMIT: Duration = Duration::from_secs(60);

/// What a server makes in its folder, besides the mount point.
const FILES: [&str; 6] = [CONTROL, CLOCK, THINK, "nbd", "pid", "log.txt"];

/// The server's program.
pub const PROGRAM: &str = "fsage-disk";

/// Folder of the mount within a disk's folder.
const MOUNT: &str = "mount";

/// Ends the disk served from `directory`, even while it is in use, and removes the folder; gone already is fine.
///
/// # Errors
/// The server cannot be killed, or the mount or the folder cannot be removed; another user could change the folder,
/// and nothing was done.
pub fn end(children: &Children, directory: &Path) -> Result<(), HostError> {
    match Folder::open(directory).and_then(|folder| check_owner(&folder)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(HostError::file("clean up", directory)(error));
        }
        _ => {}
    }
    let point = directory.join(MOUNT);
    let recorded = recorded(directory);
    forget_loops(&directory.join(FILE));
    if directory.exists() {
        let argv = [PROGRAM, "clean", "--directory"].map(str::to_owned).into_iter();
        let argv: Vec<String> = argv.chain([directory.display().to_string()]).collect();
        // What it does not do is done below.
        let _ = tool::run(children, &argv, Some(CLEAN_LIMIT));
    }
    // One that was killed already has no command line while its memory is freed: it is known by what it wrote
    // down.
    if let Some(server) = recorded {
        process::wait_if_ending(server, LIMIT)?;
    }
    for server in servers(directory) {
        process::end(server, LIMIT)?;
    }
    while mount::is_mount_point(&point) {
        fsage_sys::mount::unmount_lazily(&point)
            .map_err(HostError::kernel(format!("unmount {}", point.display())))?;
    }
    for file in FILES {
        super::file::remove(&directory.join(file))?;
    }
    for folder in [&point, directory] {
        match std::fs::remove_dir(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(HostError::file("remove directory", folder)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The process that wrote itself down as the server.
fn recorded(directory: &Path) -> Option<Identity> {
    #[derive(serde::Deserialize)]
    struct Record {
        pid: u32,
        start_ticks: u64,
    }
    let text = fsage_sys::input::read_trusted(&directory.join("pid"), 4096).ok()?;
    let Record { pid, start_ticks } = serde_json::from_slice(&text).ok()?;
    Some(Identity { pid, start_ticks })
}

/// Detaches what is attached to the disk, now or when its last user goes. Once the mount is gone the kernel
/// has no name for its file by which it could be found.
fn forget_loops(file: &Path) {
    // Who holds the lease of the device says what went wrong with it.
    let _ = loopdev::detach_named(&file.display().to_string());
}

/// The living processes that serve a disk from `directory`, or are about to.
#[must_use]
pub fn servers(directory: &Path) -> Vec<Identity> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let serves = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // Anybody can give a program of theirs such a command line.
        is_server(&line, directory) && process::is_ours(*pid)
    };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(serves)
        .filter_map(|pid| Some(Identity { pid, start_ticks: process::start_ticks(pid)? }))
        .filter(|identity| identity.is_alive())
        .collect()
}

/// Whether this command line, words ended by zeros, is a server's of this folder.
fn is_server(line: &[u8], directory: &Path) -> bool {
    let mut words = line.split(|&byte| byte == 0);
    let program = words.next().unwrap_or_default();
    let ours = program.rsplit(|&byte| byte == b'/').next() == Some(PROGRAM.as_bytes());
    let serves = words.next().is_some_and(|word| word == b"serve" || word == b"up");
    let mut words = words.skip_while(|word| *word != b"--directory").skip(1);
    ours && serves && words.next() == Some(directory.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_folder_without_a_server_is_removed_with_what_a_disk_makes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, children) = (folder.path().join("disk"), Children::default());
        end(&children, &directory).unwrap();
        std::fs::create_dir_all(directory.join("mount")).unwrap();
        for file in [CONTROL, CLOCK, "log.txt", "keep"] {
            std::fs::write(directory.join(file), "x").unwrap();
        }
        std::fs::write(directory.join("pid"), r#"{"pid":4000000,"start_ticks":12}"#).unwrap();
        let error = end(&children, &directory).unwrap_err();
        assert!(error.to_string().contains("remove directory"), "{error}");
        let left: Vec<_> = std::fs::read_dir(&directory).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["keep"]);
        std::fs::remove_file(directory.join("keep")).unwrap();
        end(&children, &directory).unwrap();
        assert!(!directory.exists());
    }

    #[test]
    fn a_server_is_known_by_its_command_line() {
        let is = |line: &str| is_server(line.replace(' ', "\0").as_bytes(), Path::new("/run/fsage/disks/a"));
        assert!(is("/opt/bin/fsage-disk up --directory /run/fsage/disks/a --size 7 "));
        assert!(is("fsage-disk serve --directory /run/fsage/disks/a"));
        assert!(!is("fsage-disk clean --directory /run/fsage/disks/a"));
        assert!(!is("fsage-disk up --directory /run/fsage/disks/ab"));
        assert!(!is("fsage-disk up --size 7 /run/fsage/disks/a"));
        assert!(!is("vi serve --directory /run/fsage/disks/a"));
        assert!(!is(""));
    }

    #[test]
    fn a_server_that_does_not_answer_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("disk");
        std::fs::create_dir(&directory).unwrap();
        // A shell under the server's name, with a script's name and words after it: a process that stays and
        // answers nothing.
        std::fs::write(folder.path().join("serve"), "read nothing\n").unwrap();
        let mut child = Command::new("sh")
            .arg0(PROGRAM)
            .args(["serve", "--directory"])
            .arg(&directory)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let ticks = process::start_ticks(child.id()).unwrap();
        // The kernel lets the parent go on a moment before the command line of the new program can be read.
        let begin = std::time::Instant::now();
        while servers(&directory).is_empty() && begin.elapsed() < LIMIT {
            std::thread::yield_now();
        }
        assert_eq!(servers(&directory), [Identity { pid: child.id(), start_ticks: ticks }]);
        assert!(servers(folder.path()).is_empty());
        end(&Children::default(), &directory).unwrap();
        assert!(!child.wait().unwrap().success() && !directory.exists());
        assert!(servers(&directory).is_empty());
    }
}
