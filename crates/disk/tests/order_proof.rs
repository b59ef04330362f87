//! The order in which the disk gets requests is one that the block layer allows: what was completed before
//! another was issued is also served before it. Checked against the kernel's block tracepoints, request by
//! request, while ext4 and direct writers load the disk.

#![expect(clippy::unwrap_used, reason = "tests panic")]

mod export_rig;

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_disk::request::{Operation, Request};
use fsage_model::disk::DiskTime;
use fsage_sys::mount;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use export_rig::{BLOCK, Chance, Client, skip, start_each};

const MIB: u64 = 1 << 20;

/// A request as both sides know it. A flush has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    kind: char,
    offset: u64,
    length: u64,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    is_issue: bool,
    key: Key,
}

/// A trace instance of our own for one device. Removed when dropped.
struct Trace {
    path: PathBuf,
    _tracefs: OwnedFd,
}

impl Trace {
    fn start(device: &Path) -> Option<Self> {
        let opened = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|context| {
            fsconfig_create(&context)?;
            fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        });
        let tracefs = match opened {
            Ok(tracefs) => tracefs,
            Err(error) => {
                skip::skip(format!("no tracefs: {error}"));
                return None;
            }
        };
        let number = device.metadata().unwrap().rdev();
        let number = (rustix::fs::major(number) << 20) | rustix::fs::minor(number);
        let instances = format!("/proc/self/fd/{}/instances", tracefs.as_raw_fd());
        let path = PathBuf::from(format!("{instances}/fsage-order-{}", number & 0xFFFFF));
        fs::create_dir(&path).unwrap();
        let trace = Self { path, _tracefs: tracefs };
        trace.write("buffer_size_kb", "32768");
        for event in ["block_rq_issue", "block_rq_complete"] {
            trace.write(&format!("events/block/{event}/filter"), &format!("dev == {number}"));
            trace.write(&format!("events/block/{event}/enable"), "1");
        }
        Some(trace)
    }

    fn write(&self, file: &str, value: &str) {
        fs::write(self.path.join(file), value).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// What happened, in order.
    fn events(&self) -> Vec<Event> {
        self.write("tracing_on", "0");
        let mut text = String::new();
        File::open(self.path.join("trace")).unwrap().read_to_string(&mut text).unwrap();
        assert!(!text.contains("LOST"), "events were lost");
        text.lines().filter(|line| !line.starts_with('#')).filter_map(event).collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("tracing_on"), "0");
        let _ = fs::remove_dir(&self.path);
    }
}

/// `… block_rq_issue: 7,0 WS 4096 () 264192 + 8 none,0,0 [dd]`
fn event(line: &str) -> Option<Event> {
    let (is_issue, rest) = match line.split_once(": block_rq_issue: ") {
        Some((_, rest)) => (true, rest),
        None => (false, line.split_once(": block_rq_complete: ")?.1),
    };
    let words: Vec<&str> = rest.split(' ').collect();
    let letters = words.get(1)?;
    let plus = words.iter().position(|word| *word == "+")?;
    let sectors: u64 = words.get(plus + 1)?.parse().ok()?;
    // A flush before a write comes as a request of its own, without a place.
    let letters = letters.trim_start_matches('F');
    let kind = match letters.chars().next() {
        None => 'F',
        _ if sectors == 0 => 'F',
        // Write zeroes.
        Some('W') if letters.contains('Z') => 'D',
        Some(other) => other,
    };
    let sector: u64 = if kind == 'F' { 0 } else { words.get(plus - 1)?.parse().ok()? };
    Some(Event { is_issue, key: Key { kind, offset: sector * 512, length: sectors * 512 } })
}

fn key(request: &Request) -> Key {
    let kind = match request.operation {
        Operation::Read => 'R',
        Operation::Write => 'W',
        Operation::Flush => 'F',
        // Both are distinguished by the block layer's letters only in newer kernels.
        Operation::Discard | Operation::Zero => 'D',
    };
    Key { kind, offset: request.offset_bytes, length: request.length_bytes }
}

/// What the comparison found.
#[derive(Debug, Default)]
struct Verdict {
    matched: u64,
    flushes: u64,
    violations: Vec<String>,
}

/// Checks each issue against everything completed before it.
fn compare(events: &[Event], seen: &[Request]) -> Verdict {
    let mut places = HashMap::<Key, VecDeque<usize>>::new();
    for (place, request) in seen.iter().enumerate() {
        places.entry(key(request)).or_default().push_back(place);
    }
    let mut under_way = HashMap::<Key, VecDeque<usize>>::new();
    let (mut verdict, mut latest_done) = (Verdict::default(), None::<usize>);
    for Event { is_issue, key } in events {
        if *is_issue {
            let Some(place) = places.get_mut(key).and_then(VecDeque::pop_front) else {
                verdict.violations.push(format!("{key:?} never reached the disk"));
                continue;
            };
            if latest_done.is_some_and(|done| done > place) {
                verdict
                    .violations
                    .push(format!("{key:?} was served before what was done when it was issued"));
            }
            under_way.entry(*key).or_default().push_back(place);
            verdict.matched += 1;
            verdict.flushes += u64::from(key.kind == 'F');
        } else if let Some(place) = under_way.get_mut(key).and_then(VecDeque::pop_front) {
            latest_done = latest_done.max(Some(place));
        } else if key.kind != 'F' {
            // A flush that someone asked for is done by one that the block layer issues for several: its own
            // completion is a second one.
            verdict.violations.push(format!("{key:?} was done without having been issued"));
        }
    }
    let left: usize = places.values().map(VecDeque::len).sum();
    if left > 0 {
        verdict.violations.push(format!("{left} requests that the block layer does not know of"));
    }
    verdict
}

#[test]
fn no_request_overtakes_one_that_it_was_issued_after() {
    start_each(160 * MIB, DiskTime::Model, |exported| {
        let Some(device) = exported.client.device() else { return };
        let options = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        // The file system ends at 128 MiB; behind it direct writers work.
        let made = Command::new("mkfs.ext4").args(options).arg(device).arg("32768").status();
        assert!(made.unwrap().success());
        let Some(trace) = Trace::start(device) else { return };
        exported.gate.with(|ram| ram.seen.clear());
        load(&*exported.client, device);
        let events = trace.events();
        let seen = exported.gate.with(|ram| ram.seen.clone());
        let verdict = compare(&events, &seen);
        let shown = &verdict.violations[..verdict.violations.len().min(5)];
        assert!(
            verdict.violations.is_empty(),
            "{}: {} of them: {shown:#?}",
            exported.name,
            verdict.violations.len()
        );
        assert!(verdict.matched > 1000 && verdict.flushes > 20, "{}: {verdict:?}", exported.name);
        if std::env::var_os("FSAGE_SHOW").is_some() {
            let Verdict { matched, flushes, .. } = verdict;
            println!(
                "{}: {matched} requests matched, {flushes} of them flushes, no violation",
                exported.name
            );
        }
    });
}

fn load(client: &dyn Client, device: &Path) {
    let folder = tempfile::tempdir().unwrap();
    mount::mount(device, folder.path(), "ext4", &["discard".to_owned()]).unwrap();
    let mounted = Mounted(folder.path());
    let point = mounted.0;
    std::thread::scope(|scope| {
        for writer in 0..3_u64 {
            scope.spawn(move || write_files(point, writer));
            scope.spawn(move || write_directly(client, 128 + 8 * writer));
        }
    });
}

/// Unmounts when dropped, and only then are all its requests done.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        mount::unmount(self.0).unwrap();
    }
}

fn write_files(point: &Path, writer: u64) {
    let mut chance = Chance::new(writer);
    let mut data = vec![0; 100_000];
    for round in 0..60 {
        chance.fill(&mut data);
        let path = point.join(format!("{writer}.{}", round % 9));
        fs::write(&path, &data[..usize::try_from(chance.below(100_000)).unwrap()]).unwrap();
        match round % 3 {
            0 => File::open(&path).unwrap().sync_all().unwrap(),
            1 => fs::remove_file(&path).unwrap(),
            _ => {}
        }
    }
}

fn write_directly(client: &dyn Client, first_mib: u64) {
    let mut chance = Chance::new(first_mib);
    let mut data = vec![0; 16 * BLOCK];
    for round in 0..250 {
        let length = (1 + usize::try_from(chance.below(16)).unwrap()) * BLOCK;
        let offset = first_mib * MIB + chance.below(1500) * BLOCK as u64;
        chance.fill(&mut data[..length]);
        client.write(offset, &data[..length]);
        match round % 25 {
            0 => client.flush(),
            5 => client.discard(offset, length as u64),
            _ => {}
        }
    }
}

/// The comparison itself finds what it is for.
#[test]
fn a_request_that_overtook_is_found() {
    let write = |block: u64| Request::new(Operation::Write, block * 4096, 4096);
    let event = |is_issue, block| Event { is_issue, key: key(&write(block)) };
    let in_turn = [event(true, 1), event(false, 1), event(true, 2), event(false, 2)];
    assert!(compare(&in_turn, &[write(1), write(2)]).violations.is_empty());
    assert_eq!(compare(&in_turn, &[write(2), write(1)]).violations.len(), 1);
    assert_eq!(compare(&in_turn, &[write(1)]).violations.len(), 2);
    assert_eq!(compare(&in_turn, &[write(1), write(2), write(3)]).violations.len(), 1);
    let side_by_side = [event(true, 1), event(true, 2), event(false, 1), event(false, 2)];
    assert!(compare(&side_by_side, &[write(2), write(1)]).violations.is_empty());
}
