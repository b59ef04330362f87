//! What the kernel logs about a device, and whether it found an error there, or a bug of its own.
//!
//! `/dev/kmsg` gives one record a read: `priority,sequence,time,flags;text` and continuation lines
//! (Documentation/ABI/testing/dev-kmsg). A reader that was too slow gets `EPIPE` once and goes on. Where the
//! log cannot be read, the kernel's taint still says that something was wrong (bits 7 `DIE` and 9 `WARN`).

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, SeekFrom, open, seek};
use rustix::io::{Errno, read};

/// How lines begin by which the kernel says that it has a bug.
const BUGS: [&str; 7] = [
    "BUG: ",
    "Oops: ",
    "kernel BUG at ",
    "general protection fault",
    "------------[ cut here ]",
    "UBSAN: ",
    "watchdog: BUG: ",
];

/// How lines begin by which `block/blk-core.c` and `fs/buffer.c` say that a device failed a request.
const FAILURES: [&str; 2] = ["I/O error, dev ", "Buffer I/O error on dev "];

/// How the lines of file systems begin. Others may hold words of any user (names of processes, arguments of mounts).
const FILE_SYSTEMS: [&str; 6] = ["EXT4-fs ", "EXT2-fs ", "EXT3-fs ", "XFS (", "BTRFS ", "F2FS-fs ("];

/// `KERN_ERR`.
const ERROR: u32 = 3;

/// Most lines that are kept of one state.
const MOST_LINES: usize = 20;

/// `TAINT_DIE` and `TAINT_WARN`.
const TAINTED: u64 = 1 << 7 | 1 << 9;

/// The kernel's log from a moment on.
#[derive(Debug)]
pub struct KernelLog {
    log: Option<OwnedFd>,
    tainted: u64,
}

/// What was logged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logged {
    /// Lines about the device, and those by which the kernel says that it has a bug.
    pub lines: Vec<String>,
    /// It has.
    pub bug: bool,
    /// The first line about the device of level `KERN_ERR` or worse (`include/linux/kern_levels.h`).
    pub error: Option<String>,
    /// The first line by which the block layer says that the device failed a request: no file system's fault.
    pub failed: Option<String>,
}

impl KernelLog {
    /// From now on.
    pub fn from_now() -> Self {
        let opened = open("/dev/kmsg", OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        let log = opened.ok().filter(|log| seek(log, SeekFrom::End(0)).is_ok());
        Self { log, tainted: tainted() }
    }

    /// What was logged since, about `device`.
    pub fn since(&self, device: &Path) -> Logged {
        let name = device.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut logged = Logged::default();
        let mut record = vec![0; 8192];
        while let Some(log) = &self.log {
            match read(log, &mut record) {
                Ok(length) => {
                    let text = String::from_utf8_lossy(record.get(..length).unwrap_or_default()).into_owned();
                    logged.note(&text, name);
                }
                Err(Errno::PIPE | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if tainted() & TAINTED & !self.tainted != 0 {
            logged.bug = true;
        }
        logged
    }
}

impl Logged {
    fn note(&mut self, record: &str, device: &str) {
        let Some(text) = record.split_once(';').and_then(|(_, text)| text.lines().next()) else { return };
        let level = level(record);
        let bug = level.is_some() && is_bug(text);
        self.bug |= bug;
        let is_named = names(text, device);
        if is_named && level.is_some_and(|level| level <= ERROR) {
            let begins = |all: &[&str]| all.iter().any(|begin| text.starts_with(begin));
            if begins(&FAILURES) {
                self.failed.get_or_insert_with(|| text.to_owned());
            } else if begins(&FILE_SYSTEMS) {
                self.error.get_or_insert_with(|| text.to_owned());
            }
        }
        if (bug || is_named) && self.lines.len() < MOST_LINES {
            self.lines.push(text.to_owned());
        }
    }
}

/// The level of a record that was written by the kernel (facility 0, syslog(2)): root's programs may write others.
fn level(record: &str) -> Option<u32> {
    let (priority, _) = record.split_once(',')?;
    priority.parse().ok().filter(|number| *number < 8)
}

/// Whether the kernel says that it has a bug. What it says of a program that failed begins with the program's name,
/// which may be anything of up to 15 bytes, and number (`arch/x86/mm/fault.c`, `show_signal_msg`).
fn is_bug(text: &str) -> bool {
    let of_program = text.match_indices('[').take_while(|(at, _)| *at <= 15).any(|(at, _)| {
        let rest = text[at + 1..].trim_start_matches(|digit: char| digit.is_ascii_digit());
        rest.len() < text.len() - at - 1 && rest.starts_with(']')
    });
    !of_program && BUGS.iter().any(|bug| text.starts_with(bug))
}

/// Whether a line names a device: `loop1` is not in `loop12`.
fn names(text: &str, device: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric());
    !device.is_empty()
        && text.match_indices(device).any(|(at, _)| text.get(at + device.len()..).is_some_and(is_end))
}

fn tainted() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/tainted").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_device_and_bugs_are_kept() {
        let mut logged = Logged::default();
        logged.note("6,17468,13553263007,-;XFS (loop6): Ending clean mount\n SUBSYSTEM=x\n", "loop6");
        logged.note("6,17469,13553263008,-;XFS (loop61): Ending clean mount\n", "loop6");
        logged.note("4,17470,13553263009,-;EXT4-fs warning (device loop6): odd\n", "loop6");
        logged.note("2,17471,13553263009,-;EXT4-fs error (device loop61): bad\n", "loop6");
        logged.note("11,17471,13553263009,-;EXT4-fs error (device loop6): says a program\n", "loop6");
        assert_eq!(logged.error, None);
        logged.note("2,17472,13553263009,-;EXT4-fs error (device loop6): bad\n", "loop6");
        logged.note("3,17473,13553263009,-;EXT4-fs error (device loop6): worse\n", "loop6");
        logged.note("nonsense", "loop6");
        assert_eq!(logged.error.as_deref(), Some("EXT4-fs error (device loop6): bad"));
        assert_eq!((logged.lines.len(), &logged.failed), (5, &None));
        let mut others = Logged::default();
        others.note("3,1,1,-;overlayfs: failed to resolve '/x I/O error, dev loop6': -2\n", "loop6");
        others.note("3,1,1,-;Memory cgroup out of memory: Killed process 9 (loop6) total-vm:8kB\n", "loop6");
        assert_eq!((&others.failed, &others.error), (&None, &None), "words of any user");
        logged.note("3,17473,1,-;I/O error, dev loop6, sector 8 op 0x0:(READ) flags 0x0", "loop6");
        assert!(logged.failed.as_deref().is_some_and(|line| line.ends_with("flags 0x0")));
        assert!(!logged.bug);
        logged.note("4,1,2,-;------------[ cut here ]------------\n", "loop6");
        assert!(logged.bug && logged.lines.len() == 7);
    }

    #[test]
    fn programs_that_fail_are_no_bug_of_the_kernel() {
        for text in [
            "traps: gpf[4711] general protection fault ip:401000 sp:7ffd error:0 in gpf[401000+1000]",
            "BUG: [4711]: segfault at 0 ip 0000000000401000 sp 00007ffd error 4 in x[401000+1000]",
            "kernel BUG at [1]: segfault at 8 ip 0000000000401000 sp 00007ffd error 4",
            "a process says Oops: and BUG: ",
        ] {
            assert!(!is_bug(text), "{text}");
        }
        for text in [
            "BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "Oops: 0002 [#1] SMP NOPTI",
            "Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1]",
            "kernel BUG at fs/btrfs/inode.c:1234!",
            "watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [mount:4711]",
            "UBSAN: array-index-out-of-bounds in fs/xfs/xfs_log.c:1:2",
        ] {
            assert!(is_bug(text), "{text}");
        }
        let mut logged = Logged::default();
        logged.note("12,1,2,-;BUG: written by a program to /dev/kmsg\n", "loop6");
        assert!(!logged.bug && logged.lines.is_empty());
    }
}
