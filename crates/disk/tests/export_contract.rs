//! What every export must do, asked of each through the device that its users have.

#![expect(clippy::unwrap_used, reason = "tests panic")]

mod export_rig;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fsage_disk::request::Operation;
use fsage_model::disk::DiskTime;
use fsage_sys::mount;

use export_rig::{BLOCK, Chance, Client, skip, start_each, two_drives_each, unmount};

const MIB: u64 = 1 << 20;

/// A range of whole blocks within `size` bytes, more often short than long.
fn range(chance: &mut Chance, size: u64) -> (u64, u64) {
    let blocks = size / BLOCK as u64;
    let longest = 1 << chance.below(10);
    let length = 1 + chance.below(longest);
    let first = chance.below(blocks - length + 1);
    (first * BLOCK as u64, length * BLOCK as u64)
}

fn part(model: &mut [u8], offset: u64, length: u64) -> &mut [u8] {
    let start = usize::try_from(offset).unwrap();
    &mut model[start..start + usize::try_from(length).unwrap()]
}

#[test]
fn random_requests_leave_what_a_plain_array_would_hold() {
    let size = 24 * MIB;
    start_each(size, DiskTime::Model, |exported| {
        let client = &*exported.client;
        let mut chance = Chance::new(1);
        let mut model = vec![0; usize::try_from(size).unwrap()];
        for step in 0..600 {
            let (offset, length) = range(&mut chance, size);
            let wanted = part(&mut model, offset, length);
            match chance.below(16) {
                0..7 => {
                    chance.fill(wanted);
                    client.write(offset, wanted);
                }
                7 => {
                    wanted.fill(0);
                    client.discard(offset, length);
                }
                8 => {
                    wanted.fill(0);
                    client.zero(offset, length);
                }
                9 => client.flush(),
                _ => {
                    let mut data = vec![1; wanted.len()];
                    client.read(offset, &mut data);
                    assert!(data == wanted, "{}: step {step}, {length} bytes at {offset}", exported.name);
                }
            }
        }
        let mut data = vec![1; model.len()];
        client.read(0, &mut data);
        assert!(data == model, "{}: the whole disk", exported.name);
        exported.gate.with(|ram| {
            for operation in [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard] {
                assert!(ram.seen(operation) > 0, "{}: {operation:?}", exported.name);
            }
        });
    });
}

#[test]
fn bytes_of_any_alignment_pass_through_the_page_cache() {
    let size = 8 * MIB;
    start_each(size, DiskTime::Model, |exported| {
        let Some(device) = exported.client.device() else { return };
        let file = File::options().read(true).write(true).open(device).unwrap();
        let mut chance = Chance::new(2);
        let mut model = vec![0; usize::try_from(size).unwrap()];
        for _ in 0..300 {
            let length = 1 + chance.below(20_000);
            let offset = chance.below(size - length);
            let wanted = part(&mut model, offset, length);
            if chance.below(3) > 0 {
                chance.fill(wanted);
                file.write_all_at(wanted, offset).unwrap();
            } else {
                let mut data = vec![1; wanted.len()];
                file.read_exact_at(&mut data, offset).unwrap();
                assert!(data == wanted, "{}: {length} bytes at {offset}", exported.name);
            }
        }
        file.sync_all().unwrap();
        let mut data = vec![1; model.len()];
        exported.client.read(0, &mut data);
        assert!(data == model, "{}: the whole disk", exported.name);
    });
}

#[test]
fn users_side_by_side_do_not_disturb_each_other() {
    const USERS: u64 = 8;
    let share = 2 * MIB;
    start_each(USERS * share, DiskTime::Model, |exported| {
        let client = &*exported.client;
        std::thread::scope(|scope| {
            for user in 0..USERS {
                scope.spawn(move || use_share(client, user, share));
            }
        });
        let counts = exported.gate.counts();
        assert!(counts.largest_batch > 1, "{}: {counts:?}", exported.name);
        assert_eq!(counts.refused, 0, "{}", exported.name);
    });
}

fn use_share(client: &dyn Client, user: u64, share: u64) {
    let mut chance = Chance::new(100 + user);
    let mut model = vec![0; usize::try_from(share).unwrap()];
    for step in 0..150 {
        let (offset, length) = range(&mut chance, share);
        let wanted = part(&mut model, offset, length);
        if chance.below(2) == 0 {
            chance.fill(wanted);
            client.write(user * share + offset, wanted);
        } else {
            let mut data = vec![1; wanted.len()];
            client.read(user * share + offset, &mut data);
            assert!(data == wanted, "user {user}, step {step}");
        }
        if step % 40 == 0 {
            client.flush();
        }
    }
}

#[test]
fn a_flush_follows_the_writes_that_it_is_for() {
    start_each(4 * MIB, DiskTime::Model, |exported| {
        let data = vec![7; BLOCK];
        for block in 0..20 {
            exported.client.write(block * BLOCK as u64, &data);
            exported.client.flush();
            exported.gate.with(|ram| {
                let last: Vec<Operation> = ram.seen.iter().rev().take(2).map(|one| one.operation).collect();
                assert_eq!(last, [Operation::Flush, Operation::Write], "{}", exported.name);
            });
        }
    });
}

#[test]
fn a_flush_of_one_of_several_drives_is_of_that_drive() {
    two_drives_each(4 * MIB, |gate, drives| {
        let data = vec![7; BLOCK];
        for round in 1..3 {
            for (drive, base) in drives.iter().zip([0, 4 * MIB]) {
                drive.write(round * MIB, &data);
                drive.flush();
                gate.with(|ram| {
                    let last = ram.seen.iter().rfind(|one| one.operation == Operation::Flush).unwrap();
                    let written = base + round * MIB;
                    assert!(last.offset_bytes <= written && last.end_bytes() > written, "{last:?}");
                    assert!(last.offset_bytes >= base && last.end_bytes() <= base + 4 * MIB, "{last:?}");
                });
            }
        }
    });
}

#[test]
fn in_real_time_reads_and_writes_wait_and_flushes_do_not() {
    const REQUEST: Duration = Duration::from_millis(3);
    start_each(4 * MIB, DiskTime::Real, |exported| {
        exported.gate.with(|ram| ram.request_ns = u64::try_from(REQUEST.as_nanos()).unwrap());
        let data = vec![7; BLOCK];
        let started = Instant::now();
        for block in 0..20 {
            exported.client.write(block * BLOCK as u64, &data);
        }
        let took = started.elapsed();
        assert!(took >= REQUEST * 20, "{}: 20 writes took {took:?}", exported.name);
        let delay = exported.gate.delay_error();
        assert!(delay.answers >= 20 && delay.max_ns >= delay.mean_ns, "{}: {delay:?}", exported.name);
        // A flush of fifteen seconds is answered at once, and the disk is busy for these.
        exported.gate.with(|ram| ram.request_ns = 15_000_000_000);
        let started = Instant::now();
        exported.client.flush();
        assert!(started.elapsed() < Duration::from_secs(10), "{}", exported.name);
        assert!(exported.gate.clock_ns() > 15_000_000_000, "{}", exported.name);
    });
}

#[test]
fn ext4_keeps_its_files_over_a_remount() {
    start_each(96 * MIB, DiskTime::Model, |exported| {
        let Some(device) = exported.client.device() else { return };
        if !Path::new("/sbin/mkfs.ext4").exists() {
            skip::skip("no mkfs.ext4");
            return;
        }
        run("mkfs.ext4", &["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"], device);
        let mounted = Mounted::new(device);
        write_tree(&mounted, exported.name);
        drop(mounted);
        let mounted = Mounted::new(device);
        check_tree(&mounted);
        run("fstrim", &[], mounted.folder.path());
        drop(mounted);
        run("e2fsck", &["-f", "-n"], device);
        exported.gate.with(|ram| assert!(ram.seen(Operation::Discard) > 0, "{}", exported.name));
    });
}

fn run(program: &str, arguments: &[&str], object: &Path) {
    let output = Command::new(program).args(arguments).arg(object).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A mounted ext4. Unmounted when dropped.
struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    fn new(device: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        mount::mount(device, folder.path(), "ext4", &[]).unwrap();
        Self { folder }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A folder that stays mounted would be emptied with all that is on the disk.
        let unmounted = unmount(self.folder.path());
        if !std::thread::panicking() {
            unmounted.unwrap();
        }
    }
}

fn content(number: u64) -> Vec<u8> {
    let mut chance = Chance::new(number);
    let mut data = vec![0; usize::try_from(chance.below(300_000)).unwrap()];
    chance.fill(&mut data);
    data
}

fn write_tree(mounted: &Mounted, name: &str) {
    for number in 0..150 {
        let folder = mounted.folder.path().join(format!("{}", number % 7));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{number}"));
        fs::write(&file, content(number)).unwrap_or_else(|error| panic!("{name}: {error}"));
        if number % 10 == 0 {
            File::open(&file).unwrap().sync_all().unwrap();
        }
    }
}

fn check_tree(mounted: &Mounted) {
    for number in 0..150 {
        let file = mounted.folder.path().join(format!("{}/{number}", number % 7));
        assert!(fs::read(file).unwrap() == content(number), "file {number}");
    }
}
