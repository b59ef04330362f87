//! Logs that other programs write and read: QEMU's blklogwrites, blktrace's blkparse.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../sys/tests/support/skip.rs"]
mod skip;

use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Command, Stdio};

use fsage_disk::log::blkparse::{self, Issue};
use fsage_disk::log::dm_log_writes::Reader;
use fsage_disk::log::stream::{Item, Source};
use fsage_disk::request::{IoError, Operation, Request};
use skip::skip;

/// Whether the shell finds a program.
fn has(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    let found = found.unwrap().success();
    if !found {
        skip(format_args!("{program} is not installed"));
    }
    found
}

#[test]
fn a_log_of_qemu_makes_the_disk_again() {
    if !has("qemu-io") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (disk, log) = (directory.path().join("disk"), directory.path().join("log"));
    File::create(&disk).unwrap().set_len(1 << 20).unwrap();
    File::create(&log).unwrap();
    let image = format!(
        "driver=blklogwrites,file.driver=file,file.filename={},log.driver=file,log.filename={},log-sector-size=512",
        disk.display(),
        log.display()
    );
    let mut qemu = Command::new("timeout");
    qemu.args(["60", "qemu-io", "--image-opts"]);
    for command in [
        "write -P 17 0 64k",
        "write -f -P 34 4k 8k",
        "flush",
        "write -P 51 60k 4k",
        "discard 32k 4k",
        "write -P 68 512 512",
        "flush",
    ] {
        qemu.args(["-c", command]);
    }
    let output = qemu.arg(image).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut reader = Reader::new(File::open(&log).unwrap()).unwrap();
    let (mut again, mut data, mut seen) = (vec![0; 1 << 20], Vec::new(), Vec::new());
    while let Some(item) = reader.next_item(&mut data).unwrap() {
        let Item::Entry(entry) = item else { continue };
        let Request { operation, offset_bytes, .. } = entry.request;
        seen.push(operation);
        let begin = usize::try_from(offset_bytes).unwrap();
        let range = begin..usize::try_from(entry.request.end_bytes()).unwrap();
        match operation {
            Operation::Write => again[range].copy_from_slice(&data),
            Operation::Discard => again[range].fill(0),
            _ => {}
        }
    }
    assert!(again == fs::read(&disk).unwrap());
    let count = |wanted| seen.iter().filter(|operation| **operation == wanted).count();
    assert_eq!((count(Operation::Write), count(Operation::Discard)), (4, 1), "{seen:?}");
    assert!(count(Operation::Flush) >= 2, "{seen:?}");
}

/// An event of blktrace's file (struct blk_io_trace), native byte order.
struct Event {
    sequence: u32,
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    error: u16,
}

impl Event {
    fn encode(&self, file: &mut Vec<u8>) {
        const MAGIC: u32 = 0x6561_7407;
        const PID: u32 = 42;
        // Major 8, minor 16 of the kernel's dev_t.
        const DEVICE: u32 = 8 << 20 | 16;
        file.extend_from_slice(&MAGIC.to_ne_bytes());
        file.extend_from_slice(&self.sequence.to_ne_bytes());
        file.extend_from_slice(&self.time_ns.to_ne_bytes());
        file.extend_from_slice(&self.sector.to_ne_bytes());
        for word in [self.bytes, self.action, PID, DEVICE, 0] {
            file.extend_from_slice(&word.to_ne_bytes());
        }
        file.extend_from_slice(&self.error.to_ne_bytes());
        file.extend_from_slice(&0_u16.to_ne_bytes());
    }
}

// Actions and categories of include/uapi/linux/blktrace_api.h.
const ISSUE: u32 = 7 | 1 << (16 + 6);
const COMPLETE: u32 = 8 | 1 << (16 + 7);
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const DISCARD: u32 = 1 << (16 + 13);
const FUA: u32 = 1 << (16 + 15);

#[test]
fn what_blkparse_prints_is_read() {
    if !has("blkparse") {
        return;
    }
    let events = [
        (1_000, 2048, 4096, ISSUE | WRITE, 0),
        (2_500, 2048, 4096, COMPLETE | WRITE, 0),
        (3_000, 0, 0, ISSUE | FLUSH, 0),
        (4_000, 8, 512, ISSUE | WRITE | FUA, 0),
        (5_000, 0, 0, COMPLETE | FLUSH, 0),
        (6_000, 8, 512, COMPLETE | WRITE | FUA, 0),
        (7_000, 1 << 33, 131_072, ISSUE | READ, 0),
        (2_000_007_000, 1 << 33, 131_072, COMPLETE | READ, 5),
        (2_000_008_000, 64, 1 << 20, ISSUE | DISCARD | WRITE, 0),
        (2_000_009_000, 64, 1 << 20, COMPLETE | DISCARD | WRITE, 0),
    ];
    let mut binary = Vec::new();
    for (sequence, (time_ns, sector, bytes, action, error)) in (1..).zip(events) {
        // The kernel notes errors as negative numbers in an unsigned field.
        let error = if error == 0 { 0 } else { u16::MAX - error + 1 };
        Event { sequence, time_ns, sector, bytes, action, error }.encode(&mut binary);
    }
    let mut child = Command::new("timeout")
        .args(["20", "blkparse", "-i", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&binary).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let log = blkparse::read(text.as_bytes(), Issue::Device, Some((8, 16))).unwrap_or_else(|error| {
        panic!("{error}:\n{text}");
    });
    let found: Vec<_> = log.entries(0).map(|entry| (entry.request, entry.result)).collect();
    let of = Request::new;
    let expected = [
        (of(Operation::Write, 2048 * 512, 4096), Ok(())),
        (of(Operation::Flush, 0, 0), Ok(())),
        (Request { fua: true, ..of(Operation::Write, 4096, 512) }, Ok(())),
        (of(Operation::Read, 512 << 33, 131_072), Err(IoError::Medium)),
        (of(Operation::Discard, 64 * 512, 1 << 20), Ok(())),
    ];
    assert_eq!(found, expected, "{text}");
    let took: Vec<_> = log.entries(0).map(|entry| entry.done_ns - entry.issued_ns).collect();
    assert_eq!(took, [1500, 2000, 2000, 2_000_000_000, 1000], "{text}");
}
