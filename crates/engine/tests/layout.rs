//! The layout scan and the free-space map against what the file systems' own tools say, on real mounts.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic")]

#[path = "../../sys/tests/support/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_engine::layout::{ScanOptions, free_space, scan};
use fsage_model::layout::{FreeSpace, FreeSpaceMethod};
use fsage_sys::{btrfs, loopdev, mount};

const SIZE: u64 = 640 << 20;
const BLOCK: u64 = 4096;

/// A mounted file system on a sparse file; gone when dropped, also by a panic.
struct Volume {
    device: PathBuf,
    point: PathBuf,
    /// Last: removed when all else is undone.
    _folder: tempfile::TempDir,
}

impl Volume {
    fn new(kind: &str, mkfs_options: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip::skip("mounting needs root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("volume");
        File::create(&file).unwrap().set_len(SIZE).unwrap();
        let point = folder.path().join("mount");
        fs::create_dir(&point).unwrap();
        let options =
            loopdev::AttachOptions { file, offset: 0, size: 0, sector_bytes: 4096, direct_io: true };
        let device = loopdev::attach(&options).unwrap();
        let volume = Self { device, point, _folder: folder };
        let mkfs = format!("mkfs.{kind}");
        let output = Command::new(&mkfs).args(mkfs_options).arg(&volume.device).output().unwrap();
        assert!(output.status.success(), "{mkfs}: {}", String::from_utf8_lossy(&output.stderr));
        mount::mount(&volume.device, &volume.point, kind, &["noatime".to_owned()]).unwrap();
        Some(volume)
    }

    fn sync(&self) {
        fsage_sys::syncfs(File::open(&self.point).unwrap().as_fd()).unwrap();
    }

    /// Free and available bytes by statfs.
    fn statfs(&self) -> (u64, u64) {
        let status = rustix::fs::statvfs(&self.point).unwrap();
        (status.f_bfree * status.f_frsize, status.f_bavail * status.f_frsize)
    }

    /// Fills the volume with small files, deletes two of three and lets large files grow through the holes in
    /// turns.
    fn fragment(&self) {
        let data = vec![0x5a_u8; 1 << 20];
        for index in 0..6000_usize {
            let folder = self.point.join(format!("small/d{:02}", index % 40));
            fs::create_dir_all(&folder).unwrap();
            let size = 1000 + index * 7919 % 60_000;
            fs::write(folder.join(format!("f{index:05}")), &data[..size]).unwrap();
        }
        self.sync();
        for index in (0..6000).filter(|index| index % 3 != 0) {
            fs::remove_file(self.point.join(format!("small/d{:02}/f{index:05}", index % 40))).unwrap();
        }
        self.sync();
        fs::create_dir(self.point.join("large")).unwrap();
        let open = |index| File::create(self.point.join(format!("large/f{index}"))).unwrap();
        let mut files: Vec<File> = (0..8).map(open).collect();
        for _ in 0..40 {
            for file in &mut files {
                file.write_all(&data[..300 * 1024]).unwrap();
                file.sync_data().unwrap();
            }
        }
        self.add_oddities(&data);
        self.sync();
    }

    fn add_oddities(&self, data: &[u8]) {
        let odd = self.point.join("odd");
        fs::create_dir(&odd).unwrap();
        File::create(odd.join("empty")).unwrap();
        File::create(odd.join("hole")).unwrap().set_len(1 << 30).unwrap();
        let preallocated = File::create(odd.join("preallocated")).unwrap();
        rustix::fs::fallocate(&preallocated, rustix::fs::FallocateFlags::empty(), 0, 256 * 1024).unwrap();
        for (name, size) in [("space beyond the end", 10_000), ("space and no size", 0)] {
            fs::write(odd.join(name), &data[..size]).unwrap();
            let file = File::options().write(true).open(odd.join(name)).unwrap();
            let ahead = rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, ahead, 1 << 20, 256 * 1024).unwrap();
        }
        fs::write(odd.join("linked"), &data[..20_000]).unwrap();
        fs::create_dir(odd.join("links")).unwrap();
        fs::hard_link(odd.join("linked"), odd.join("links/again")).unwrap();
        fs::hard_link(odd.join("linked"), odd.join("links/and again")).unwrap();
        std::os::unix::fs::symlink("/", odd.join("everything")).unwrap();
        std::os::unix::fs::symlink("linked", odd.join("symbolic")).unwrap();
        let pipe = odd.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    }

    /// Unmounts and mounts again, so that nothing is set aside in memory.
    fn remount(&self, kind: &str) {
        fsage_engine::host::mount::unmount(&self.point).unwrap();
        mount::mount(&self.device, &self.point, kind, &["noatime".to_owned()]).unwrap();
    }

    fn free_space(&self) -> FreeSpace {
        self.sync();
        free_space(&self.point).unwrap()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let unmounted = fsage_engine::host::mount::unmount(&self.point);
        let detached = loopdev::detach(&self.device);
        if !std::thread::panicking() {
            unmounted.unwrap();
            detached.unwrap();
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The number after `label` on its line.
fn number_after(text: &str, label: &str) -> u64 {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(label)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// What filefrag says of every file below `folder`: mapped extents as filefrag merges none, hence merged
/// here: (extents, jumps, blocks) by path.
fn filefrag(folder: &Path) -> BTreeMap<String, (u64, u64, u64)> {
    let script =
        format!("cd '{}' && find . -xdev -type f -links 1 -print0 | xargs -0 filefrag -v", folder.display());
    let text = run("sh", &["-c", &script]);
    let mut files = BTreeMap::new();
    let (mut current, mut last) = ((0, 0, 0), None);
    for line in text.lines() {
        // "   0:        0..       1:      34816..     34817:      2:             last,eof"
        let fields: Vec<&str> = line.split(':').map(str::trim).collect();
        if let [index, logical, physical, length, ..] = fields[..]
            && index.parse::<u64>().is_ok()
        {
            let start = |range: &str| range.split("..").next().unwrap().trim().parse::<u64>().unwrap();
            let (logical, physical, length) =
                (start(logical), start(physical), length.parse::<u64>().unwrap());
            if line.contains("inline") {
                continue;
            }
            let step = last
                .map(|(next_logical, next_physical)| (next_logical == logical, next_physical == physical));
            current.0 += u64::from(step != Some((true, true)));
            current.1 += u64::from(step.is_some_and(|(_, follows)| !follows));
            current.2 += length;
            last = Some((logical + length, physical + length));
        } else if let Some((path, _)) = line.rsplit_once(": ").filter(|(_, rest)| rest.contains(" extent")) {
            files.insert(path.trim_start_matches("./").to_owned(), current);
            (current, last) = ((0, 0, 0), None);
        }
    }
    files
}

/// Gives the inter-file score.
fn scan_agrees_with_filefrag(volume: &Volume) -> f64 {
    let options = |threads| ScanOptions { threads, one_file_system: true };
    let mut summary = scan(&volume.point, &options(1)).unwrap();
    let score = summary.inter_file_score.take().unwrap();
    assert_eq!(summary, scan(&volume.point, &options(4)).unwrap());
    assert!((score - in_reading_order(&volume.point)).abs() < 1e-12, "{score}");
    assert_eq!(summary.failed, BTreeMap::new());
    let expected = filefrag(&volume.point);
    // One of three links has to be added: none of them is in filefrag's list.
    let linked = filefrag_one(&volume.point.join("odd/linked"));
    let all: Vec<_> = expected.values().chain([&linked]).collect();
    let mapped: Vec<_> = all.iter().filter(|file| file.0 > 0).collect();
    assert_eq!(summary.files, u64::try_from(all.len()).unwrap());
    assert_eq!(summary.files, 2000 + 8 + 6);
    assert_eq!(summary.mapped_files, u64::try_from(mapped.len()).unwrap());
    assert_eq!(summary.extents, mapped.iter().map(|file| file.0).sum::<u64>());
    assert_eq!(summary.mapped_bytes, mapped.iter().map(|file| file.2 * BLOCK).sum::<u64>());
    assert_eq!(summary.unwritten_bytes, 3 * 256 * 1024);
    let single = u32::try_from(mapped.iter().filter(|file| file.0 == 1).count()).unwrap();
    let share = f64::from(single) / f64::from(u32::try_from(mapped.len()).unwrap());
    assert!((summary.one_extent_share - share).abs() < 1e-12);
    let (steps, jumps) = mapped.iter().fold((0, 0), |sum, file| (sum.0 + file.2 - 1, sum.1 + file.1));
    let float = |count: u64| f64::from(u32::try_from(count).unwrap());
    assert!((summary.layout_score - (1.0 - float(jumps) / float(steps))).abs() < 1e-12);
    assert_eq!(summary.extent_histogram.total_count(), summary.extents);
    let worst = expected.values().map(|file| file.0).max().unwrap();
    assert!(worst > 2, "the volume is not fragmented");
    assert_eq!(summary.worst[0].extents, worst);
    assert_eq!(expected[&summary.worst[0].path].0, worst);
    score
}

/// The inter-file score, from the places of the files in reading order.
fn in_reading_order(root: &Path) -> f64 {
    let found = fsage_engine::layout::places(root).unwrap().files;
    let ends: Vec<_> = found.iter().filter_map(|f| Some((f.extents.first()?.0, f.extents.last()?))).collect();
    let near = ends.windows(2).filter(|pair| pair[0].1.0 + pair[0].1.1 == pair[1].0).count();
    let float = |count: usize| f64::from(u32::try_from(count).unwrap());
    float(near) / float(ends.len() - 1)
}

fn filefrag_one(file: &Path) -> (u64, u64, u64) {
    let copy = file.with_extension("folder");
    fs::create_dir(&copy).unwrap();
    let text = run("filefrag", &["-v", file.to_str().unwrap()]);
    fs::remove_dir(&copy).unwrap();
    let blocks: u64 =
        text.lines().filter_map(|line| line.split(':').nth(3)?.trim().parse::<u64>().ok()).sum();
    (1, 0, blocks)
}

#[test]
fn ext4_agrees_with_filefrag_and_e2freefrag() {
    let options = ["-F", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"];
    let Some(volume) = Volume::new("ext4", &options) else { return };
    volume.fragment();
    // ext4 lists by hashed names, in another order than that in which the files were made.
    let _ = scan_agrees_with_filefrag(&volume);
    volume.remount("ext4");
    let free = volume.free_space();
    let text = run("e2freefrag", &[volume.device.to_str().unwrap()]);
    assert_eq!(free.method, FreeSpaceMethod::Getfsmap);
    assert_eq!(free.bytes, number_after(&text, "Free blocks:") * BLOCK);
    assert_eq!(free.extents, number_after(&text, "Num. free extent:"));
    assert_eq!(free.largest_bytes, number_after(&text, "Max. free extent:") * 1024);
    // "    4K...    8K-  :           111           111    0.10%"
    let rows = text.lines().filter_map(|line| line.split_once("-  :"));
    let mut total = 0;
    for (range, counts) in rows {
        let from = range.split("...").next().unwrap().trim();
        let (number, unit) = from.split_at(from.len() - 1);
        let factor =
            1_u64 << [("K", 10), ("M", 20), ("G", 30)].iter().find(|(name, _)| *name == unit).unwrap().1;
        let bucket = usize::try_from((number.parse::<u64>().unwrap() * factor).ilog2()).unwrap();
        let count: u64 = counts.split_whitespace().next().unwrap().parse().unwrap();
        assert_eq!(free.histogram.count[bucket], count, "{range}");
        total += count;
    }
    assert_eq!(total, free.extents);
    assert_eq!(free.bytes, volume.statfs().0);
    assert_eq!(free.caveat, "");
}

#[test]
fn xfs_agrees_with_filefrag_and_xfs_spaceman() {
    let Some(volume) = Volume::new("xfs", &["-q", "-f", "-K"]) else { return };
    volume.fragment();
    assert!(scan_agrees_with_filefrag(&volume) > 0.0, "no file lies behind another");
    let free = volume.free_space();
    let text = run("xfs_spaceman", &["-c", "freesp", volume.point.to_str().unwrap()]);
    // "      1       1      86      86   0.05", powers of two as ours
    let rows = text
        .lines()
        .map(|line| line.split_whitespace().map(str::parse::<u64>).map_while(Result::ok).collect::<Vec<_>>());
    let mut extents = 0;
    for row in rows.filter(|row| row.len() >= 4) {
        let bucket = usize::try_from((row[0] * BLOCK).ilog2()).unwrap();
        assert_eq!(
            (free.histogram.count[bucket], free.histogram.bytes[bucket]),
            (row[2], row[3] * BLOCK),
            "{row:?}"
        );
        extents += row[2];
    }
    assert_eq!((free.extents, free.method), (extents, FreeSpaceMethod::Getfsmap));
    // XFS keeps blocks back for its own trees, which statfs does not show as free.
    let (reported, _) = volume.statfs();
    assert!(free.bytes >= reported && free.bytes - reported < SIZE / 12, "{} {reported}", free.bytes);
}

#[test]
fn btrfs_agrees_with_filefrag_statfs_and_itself() {
    let Some(volume) = Volume::new("btrfs", &["-q", "-f", "-K"]) else { return };
    volume.fragment();
    assert!(scan_agrees_with_filefrag(&volume) > 0.0, "no file lies behind another");
    let free = volume.free_space();
    let (_, available) = volume.statfs();
    assert_eq!(free.method, FreeSpaceMethod::BtrfsTree);
    assert!(free.bytes.abs_diff(available) <= 2 << 20, "{} {available}", free.bytes);
    assert!(free.extents > 20);
    let directory = File::open(&volume.point).unwrap();
    let from = |source| {
        let mut extents = Vec::new();
        let summary =
            btrfs::free_space_from(directory.as_fd(), source, |extent| extents.push(extent)).unwrap();
        (extents, summary.data_free_bytes, summary.metadata_free_bytes, summary.unallocated_bytes)
    };
    let tree = from(btrfs::Source::FreeSpaceTree);
    assert_eq!(tree, from(btrfs::Source::ExtentTree));
    assert_eq!(tree.0.iter().map(|extent| extent.length).sum::<u64>(), free.bytes);
    assert!(tree.0.iter().all(|extent| extent.device == 1 && extent.start + extent.length <= SIZE));
    // No two free extents overlap on the device.
    let mut sorted = tree.0;
    sorted.sort_by_key(|extent| extent.start);
    assert!(sorted.windows(2).all(|pair| pair[0].start + pair[0].length <= pair[1].start));
}

/// Unmounts when dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        // A child of another test may hold a file of it for a moment.
        let unmounted = fsage_engine::host::mount::unmount(&self.0);
        if !std::thread::panicking() {
            unmounted.unwrap();
        }
    }
}

#[test]
fn without_a_map_of_its_own_free_is_what_no_file_claims() {
    let Some(volume) = Volume::new("ext4", &["-F", "-q", "-b", "4096"]) else { return };
    let folder = |name: &str| {
        let path = volume.point.join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let (lower, upper, work, merged) = (folder("lower"), folder("upper"), folder("work"), folder("merged"));
    fs::write(lower.join("below"), vec![1; 3 << 20]).unwrap();
    let layers =
        format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    let mut overlay = Command::new("mount");
    overlay.args(["-t", "overlay", "-o", &layers, "overlay"]).arg(&merged);
    assert!(overlay.status().unwrap().success());
    let _mounted = Mounted(merged.clone());
    fs::write(merged.join("above"), vec![2; 5 << 20]).unwrap();
    volume.sync();
    let summary = scan(&merged, &ScanOptions::default()).unwrap();
    assert_eq!((summary.files, summary.mapped_bytes, summary.failed.len()), (2, 8 << 20, 0));
    let free = free_space(&merged).unwrap();
    let status = rustix::fs::statvfs(&merged).unwrap();
    assert_eq!(free.method, FreeSpaceMethod::FiemapComplement);
    assert_eq!(free.bytes, status.f_blocks * status.f_frsize - (8 << 20));
    assert!(free.caveat.starts_with("an upper estimate"), "{}", free.caveat);
}

#[test]
fn a_file_system_without_maps_gives_an_error_with_its_number() {
    let point = Path::new("/dev/shm");
    if !rustix::process::geteuid().is_root() || !point.exists() {
        skip::skip("no tmpfs to try");
        return;
    }
    let folder = tempfile::tempdir_in(point).unwrap();
    fs::write(folder.path().join("file"), "content").unwrap();
    let summary = scan(folder.path(), &ScanOptions::default()).unwrap();
    assert_eq!((summary.files, summary.failed.get("EOPNOTSUPP")), (1, Some(&1)));
    let error = free_space(folder.path()).unwrap_err();
    assert_eq!(fsage_sys::errno::name(error.errno()), "EOPNOTSUPP");
}

#[test]
fn deep_and_wide_trees_are_scanned_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut fd = rustix::fs::open(folder.path(), rustix::fs::OFlags::RDONLY, 0.into()).unwrap();
    // Deeper than PATH_MAX and than the descriptors of a thread.
    for level in 0..1500 {
        let name = format!("level-{level:04}");
        rustix::fs::mkdirat(&fd, &name, 0o700.into()).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        fd = rustix::fs::openat(&fd, &name, flags, 0.into()).unwrap();
        let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
        drop(rustix::fs::openat(&fd, "file", flags, 0o600.into()).unwrap());
    }
    for index in 0..3000 {
        fs::write(folder.path().join(format!("wide-{index}")), "x").unwrap();
    }
    for threads in [1, 2, 5] {
        let summary = scan(folder.path(), &ScanOptions { threads, one_file_system: true }).unwrap();
        assert_eq!((summary.directories, summary.files), (1501, 4500));
        assert_eq!(summary.failed, BTreeMap::new());
    }
}

/// Each directory that waits holds its path, and each is opened from the root again: anyone could make a tree
/// that takes root's memory.
#[test]
fn what_lies_too_deep_is_counted_as_failed() {
    let folder = tempfile::tempdir().unwrap();
    let mut fd = rustix::fs::open(folder.path(), rustix::fs::OFlags::RDONLY, 0.into()).unwrap();
    // 64 KiB are 256 such names.
    for level in 0..260 {
        let name = format!("{level:0>255}");
        rustix::fs::mkdirat(&fd, &name, 0o700.into()).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        fd = rustix::fs::openat(&fd, &name, flags, 0.into()).unwrap();
    }
    for threads in [1, 3] {
        let summary = scan(folder.path(), &ScanOptions { threads, one_file_system: true }).unwrap();
        assert_eq!(summary.directories, 257, "{:?}", summary.failed);
        assert_eq!(summary.failed, BTreeMap::from([("ENAMETOOLONG".to_owned(), 1)]));
    }
}

#[test]
fn files_of_any_length_are_added_up() {
    let folder = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    for index in 0..3 {
        let file = File::create(folder.path().join(format!("huge-{index}"))).unwrap();
        file.set_len(9_223_372_036_854_771_712).unwrap();
    }
    let summary = scan(folder.path(), &ScanOptions { threads: 2, one_file_system: true }).unwrap();
    assert_eq!((summary.files, summary.size_bytes), (3, u64::MAX));
}

#[test]
fn files_that_vanish_are_no_errors() {
    let folder = tempfile::tempdir().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let inner = folder.path().join("folder");
                fs::create_dir(&inner).unwrap();
                for index in 0..50 {
                    fs::write(inner.join(format!("f{index}")), "x").unwrap();
                }
                fs::remove_dir_all(&inner).unwrap();
            }
        });
        for _ in 0..200 {
            let summary = scan(folder.path(), &ScanOptions { threads: 2, one_file_system: true }).unwrap();
            assert_eq!(summary.failed, BTreeMap::new());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn other_file_systems_below_are_left_out_when_asked() {
    let Some(volume) = Volume::new("ext4", &["-F", "-q", "-b", "4096"]) else { return };
    fs::write(volume.point.join("inside"), "x").unwrap();
    let folder = volume.point.parent().unwrap();
    let files = |one_file_system| scan(folder, &ScanOptions { threads: 1, one_file_system }).unwrap().files;
    assert_eq!((files(true), files(false)), (1, 2));
}

#[test]
fn a_missing_directory_is_an_error_with_its_path() {
    let error = scan(Path::new("/nonexistent/folder"), &ScanOptions::default()).unwrap_err();
    assert_eq!(error.errno(), 2);
    assert!(error.to_string().contains("/nonexistent/folder"));
    assert_eq!(scan(Path::new("/proc/version"), &ScanOptions::default()).unwrap_err().errno(), 20);
}
