//! The same logical tree once more: what the *unaged* state is made of.
//!
//! One thread walks the source in the order in which it lists its names and makes each thing where it is met,
//! so the copy is allocated as a fresh file system allocates a tree that is unpacked in one go. Copied are
//! bytes, permissions, symbolic links, hard links (as far as both names are in the tree) and empty
//! directories; holes stay holes. Of permissions only read, write and execute: the copy belongs to anyone who
//! makes it, and a set-user-ID bit would make somebody's program root's. Owners, times, extended attributes
//! and space reserved beyond the end of files are not; sockets, pipes and devices are refused.
//! Self-describing data says to which file identity it belongs, not under which name it lies, so a copy
//! verifies as its source does.
//!
//! At the end the copy is synced, dropped from the caches and read back: its digest must be that of what was
//! read.

mod digest;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fsage_model::location::Location;
use fsage_sys::aligned::AlignedBuffer;
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, fchmod, fstat, ftruncate, linkat, mkdirat, readlinkat,
    seek, statat, symlinkat,
};
use rustix::io::{Errno, pwrite, retry_on_intr};

use fsage_model::protocol::{Copied, DeviceBytes};

use crate::device::Device;
use crate::disk::Meter;
use crate::host::cache;
use crate::host::held::HeldDevices;
use crate::load::{Control, LoadSink};
use crate::location::{Anchor, Reach as _};
use crate::measure::MeasureError;
use crate::measure::listing::{Found, below, walk};
use digest::{CHUNK_BYTES, TreeDigest, fill};

pub use digest::tree_digest;

/// Copies the tree below `from` into the directory `to`, which must be empty (`lost+found` aside).
///
/// # Errors
/// [`MeasureError::Differs`] when what was read back is not what was copied; [`MeasureError::Leftover`] when
/// `to` holds something; anything that cannot be read or made. What was made until then stays.
pub fn run(
    from: &Path,
    to: &Path,
    control: &Control,
    sink: &mut dyn LoadSink,
) -> Result<Copied, MeasureError> {
    let (from, to) = (Location::from(from).open()?, Location::from(to).open_to_change()?);
    run_in(&from, &to, &HeldDevices::default(), control, sink)
}

/// As [`run`], between open directories; `held` mounts the target afresh before it is read back, where it can.
///
/// # Errors
/// As [`run`].
pub fn run_in(
    source: &Anchor,
    target: &Anchor,
    held: &HeldDevices,
    control: &Control,
    sink: &mut dyn LoadSink,
) -> Result<Copied, MeasureError> {
    let (from, to) = (source.path(), target.path());
    refuse_full(target)?;
    let mut cost = Cost::start([source, target]);
    let started = Instant::now();
    let mut copy = Copy {
        to: target,
        digest: TreeDigest::default(),
        buffer: AlignedBuffer::new(CHUNK_BYTES),
        made: HashMap::new(),
        modes: Vec::new(),
        files: 0,
        bytes: 0,
    };
    let unseen = walk(&source.held(), |found| {
        if control.is_stopped() {
            return Err(MeasureError::Stopped);
        }
        let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        sink.progress(copy.files, elapsed_ns, None, "copying");
        copy.take(found).map_err(|error| error.at(from, to, found.path))
    })?;
    if unseen.count > 0 {
        let path = from.join(unseen.first);
        return Err(MeasureError::System { what: "copy", path, errno: Errno::IO });
    }
    // Only now: a directory that may not be written could not have been filled. Inner ones first.
    for (path, mode) in copy.modes.iter().rev() {
        let folder = target.open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        let changed = folder.and_then(|folder| fchmod(folder, *mode));
        changed.map_err(MeasureError::system("set the mode of", &to.join(path)))?;
    }
    cache::sync(&target.held())?;
    let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (read_bytes, written_bytes) = cost.stop();
    // Where we may not, what is read back may come from memory: still the copy, though not surely the volume.
    if !held.mount_afresh(&target.held())? {
        let _ = cache::drop_caches();
    }
    let directories = copy.modes.len() as u64;
    let (files, bytes) = (copy.files, copy.bytes);
    let digest_from = copy.digest.finish().to_string();
    let digest_to = tree_digest(&target.held())?.to_string();
    if digest_from != digest_to {
        return Err(MeasureError::Differs { path: to.to_owned(), wanted: digest_from, found: digest_to });
    }
    Ok(Copied {
        files,
        bytes,
        directories,
        digest_from,
        digest_to,
        elapsed_ns,
        source_disk: cost.meters[0].take()?,
        target_disk: cost.meters[1].take()?,
        read_bytes,
        written_bytes,
    })
}

/// What is asked of the devices under source and target meanwhile.
struct Cost {
    meters: [Meter; 2],
    devices: [Option<Device>; 2],
    before: [Option<DeviceBytes>; 2],
}

impl Cost {
    fn start(sides: [&Anchor; 2]) -> Self {
        let mut meters = sides.map(|side| Meter::under(&side.held()));
        let devices = sides.map(|side| Device::under(&side.held()));
        let before = devices.each_ref().map(|device| device.as_ref().and_then(Device::bytes));
        meters.iter_mut().for_each(Meter::start);
        Self { meters, devices, before }
    }

    /// Bytes read from the source's device and written to the target's, where the kernel counts them.
    fn stop(&mut self) -> (Option<u64>, Option<u64>) {
        self.meters.iter_mut().for_each(Meter::stop);
        let after = self.devices.each_ref().map(|device| device.as_ref().and_then(Device::bytes));
        let [source, target] = [0, 1].map(|side| Some((self.before[side]?, after[side]?)));
        (
            source.map(|(before, after)| after.read.saturating_sub(before.read)),
            target.map(|(before, after)| after.written.saturating_sub(before.written)),
        )
    }
}

/// The copy must be all there is.
fn refuse_full(target: &Anchor) -> Result<(), MeasureError> {
    let to = target.path();
    for entry in std::fs::read_dir(target.held()).map_err(MeasureError::io("open", to))? {
        let entry = entry.map_err(MeasureError::io("read", to))?;
        if entry.file_name() != "lost+found" {
            return Err(MeasureError::Leftover { path: to.join(entry.file_name()) });
        }
    }
    Ok(())
}

/// Which side a system call was about.
enum CopyError {
    From(&'static str, Errno),
    To(&'static str, Errno),
}

impl CopyError {
    fn at(self, from: &Path, to: &Path, path: &[u8]) -> MeasureError {
        match self {
            Self::From(what, errno) => MeasureError::System { what, path: below(from, path), errno },
            Self::To(what, errno) => MeasureError::System { what, path: below(to, path), errno },
        }
    }
}

const fn reading(errno: Errno) -> CopyError {
    CopyError::From("copy", errno)
}

const fn making(errno: Errno) -> CopyError {
    CopyError::To("make", errno)
}

/// A copy under way.
struct Copy<'a> {
    to: &'a Anchor,
    digest: TreeDigest,
    buffer: AlignedBuffer,
    /// Copies of files with several names (paths below `to`, as all here), by device and inode of the source.
    made: HashMap<(u64, u64), PathBuf>,
    /// Directories made and the permissions they get at the end.
    modes: Vec<(PathBuf, Mode)>,
    files: u64,
    bytes: u64,
}

impl Copy<'_> {
    fn take(&mut self, found: &Found<'_>) -> Result<(), CopyError> {
        let path = Path::new(OsStr::from_bytes(found.path));
        match found.kind {
            FileType::Directory => {
                let stat = statat(found.directory, found.name, AtFlags::SYMLINK_NOFOLLOW).map_err(reading)?;
                let (parent, name) = self.to.parent(path).map_err(making)?;
                mkdirat(parent, name, Mode::RWXU).map_err(making)?;
                self.modes.push((path.to_owned(), permissions(&stat)));
                self.digest.directory(found.path, stat.st_mode);
                Ok(())
            }
            FileType::Symlink => {
                let text = readlinkat(found.directory, found.name, Vec::new()).map_err(reading)?;
                let (parent, name) = self.to.parent(path).map_err(making)?;
                symlinkat(&text, parent, name).map_err(making)?;
                self.digest.symlink(found.path, text.as_bytes());
                Ok(())
            }
            FileType::RegularFile => self.file(found, path),
            _ => Err(CopyError::From("copy the special file", Errno::OPNOTSUPP)),
        }
    }

    fn file(&mut self, found: &Found<'_>, path: &Path) -> Result<(), CopyError> {
        let source = found.open().map_err(reading)?;
        let stat = fstat(&source).map_err(reading)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let inode = (stat.st_dev, stat.st_ino);
        self.digest.file(found.path, stat.st_mode, size);
        if stat.st_nlink > 1 {
            self.digest.link(inode, found.path);
            if let Some(first) = self.made.get(&inode) {
                let (old, old_name) = self.to.parent(first).map_err(making)?;
                let (parent, name) = self.to.parent(path).map_err(making)?;
                linkat(old, old_name, parent, name, AtFlags::empty()).map_err(making)?;
                // The content is in the digest once for each name, as it is when the copy is read.
                return self.content(found.path, &source, None);
            }
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let target = self.to.open(path, flags, Mode::RUSR | Mode::WUSR).map_err(making)?;
        self.content(found.path, &source, Some(&target))?;
        // The length of a file that ends in a hole.
        ftruncate(&target, size).map_err(making)?;
        fchmod(&target, permissions(&stat)).map_err(making)?;
        self.files += 1;
        self.bytes += size;
        if stat.st_nlink > 1 {
            self.made.insert(inode, path.to_owned());
        }
        Ok(())
    }

    /// Digests the content of a file and writes it to `target`.
    fn content(&mut self, path: &[u8], source: &OwnedFd, target: Option<&OwnedFd>) -> Result<(), CopyError> {
        let mut at = 0;
        loop {
            let count = fill(source, at, &mut self.buffer).map_err(reading)?;
            let chunk = &self.buffer[..count];
            if count > 0 {
                self.digest.content(path, at, chunk);
            }
            if let Some(target) = target {
                write_data(source, target, at, chunk)?;
            }
            if count < self.buffer.len() {
                return Ok(());
            }
            at += count as u64;
        }
    }
}

/// Writes the parts of a chunk at `at` that are data in the source.
fn write_data(source: &OwnedFd, target: &OwnedFd, at: u64, chunk: &[u8]) -> Result<(), CopyError> {
    let end = at + chunk.len() as u64;
    let mut from = at;
    while from < end {
        let data = match seek(source, SeekFrom::Data(from)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()),
            // The file system knows no holes.
            Err(_) => from,
        };
        if data >= end {
            return Ok(());
        }
        let hole = seek(source, SeekFrom::Hole(data)).unwrap_or(end).clamp(data, end);
        let hole = if hole == data { end } else { hole };
        let part = |place: u64| usize::try_from(place - at).unwrap_or(chunk.len());
        write_all(target, data, &chunk[part(data)..part(hole)])?;
        from = hole;
    }
    Ok(())
}

fn write_all(target: &OwnedFd, at: u64, bytes: &[u8]) -> Result<(), CopyError> {
    let mut done = 0;
    while done < bytes.len() {
        match retry_on_intr(|| pwrite(target, &bytes[done..], at + done as u64)) {
            Ok(0) => return Err(CopyError::To("write", Errno::NOSPC)),
            Ok(count) => done += count,
            Err(errno) => return Err(CopyError::To("write", errno)),
        }
    }
    Ok(())
}

fn permissions(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & digest::PERMISSIONS)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};

    use super::*;
    use crate::load::NoSink;

    fn copy(from: &Path, to: &Path) -> Result<Copied, MeasureError> {
        run(from, to, &Control::new(), &mut NoSink)
    }

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("t00/d0001/empty")).unwrap();
        let mut data = vec![0; 3_000_001];
        fsage_content::fill(&mut data, 7, 0, 1);
        fs::write(path("t00/f00000001"), &data).unwrap();
        fs::write(path("t00/d0001/f00000002"), &data[..5000]).unwrap();
        fs::write(path("t00/d0001/nothing"), b"").unwrap();
        fs::hard_link(path("t00/f00000001"), path("t00/d0001/f00000003")).unwrap();
        std::os::unix::fs::symlink("../nowhere", path("t00/d0001/f00000004")).unwrap();
        let sparse = fs::File::create(path("sparse")).unwrap();
        sparse.write_all_at(b"in the middle", 5 << 20).unwrap();
        sparse.set_len(9 << 20).unwrap();
        fs::set_permissions(path("t00/d0001/f00000002"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::set_permissions(path("t00/d0001/empty"), fs::Permissions::from_mode(0o500)).unwrap();
        fs::create_dir(path("lost+found")).unwrap();
        folder
    }

    #[test]
    fn a_copy_is_the_same_tree_and_verifies() {
        let (from, to) = (tree(), tempfile::tempdir().unwrap());
        let copied = copy(from.path(), to.path()).unwrap();
        assert_eq!((copied.files, copied.directories), (4, 3));
        assert_eq!(copied.bytes, 3_000_001 + 5000 + (9 << 20));
        assert_eq!(copied.digest_from, tree_digest(from.path()).unwrap().to_string());
        assert_eq!(copied.digest_from, copied.digest_to);
        let names = ["t00/f00000001", "t00/d0001/f00000003"].map(|name| to.path().join(name));
        let [first, second] = names.map(|path| fs::metadata(path).unwrap().ino());
        assert_eq!(first, second);
        let sparse = fs::metadata(to.path().join("sparse")).unwrap();
        assert!(sparse.blocks() * 512 < 1 << 20, "{} blocks", sparse.blocks());
        let verified = [from.path(), to.path()].map(|path| crate::verify::run(path, 1, false).unwrap());
        assert!(verified[0].good_blocks > 1000);
        assert_eq!(verified[0].good_blocks, verified[1].good_blocks);
        assert_eq!(verified[0].bad_blocks, verified[1].bad_blocks);
    }

    #[test]
    fn every_difference_is_seen() {
        let from = tree();
        let whole = tree_digest(from.path()).unwrap();
        let path = |name: &str| from.path().join(name);
        let mut seen = vec![whole];
        let mut differs = |what: &str| {
            let now = tree_digest(from.path()).unwrap();
            assert!(!seen.contains(&now), "{what}");
            seen.push(now);
        };
        fs::File::options().write(true).open(path("sparse")).unwrap().write_all_at(&[1], 9_000_000).unwrap();
        differs("one byte in a hole");
        fs::File::options().write(true).open(path("sparse")).unwrap().set_len(9_100_000).unwrap();
        differs("a size");
        fs::rename(path("t00/d0001/nothing"), path("t00/d0001/something")).unwrap();
        differs("a name");
        fs::remove_dir(path("t00/d0001/empty")).unwrap();
        differs("an empty directory");
        fs::set_permissions(path("sparse"), fs::Permissions::from_mode(0o600)).unwrap();
        differs("permissions");
        fs::copy(path("t00/f00000001"), path("copied")).unwrap();
        fs::remove_file(path("t00/d0001/f00000003")).unwrap();
        fs::rename(path("copied"), path("t00/d0001/f00000003")).unwrap();
        differs("two files in place of one");
        fs::remove_file(path("t00/d0001/f00000004")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", path("t00/d0001/f00000004")).unwrap();
        differs("what a link says");
        fs::write(path("lost+found/x"), b"x").unwrap();
        assert_eq!(tree_digest(from.path()).unwrap(), *seen.last().unwrap());
    }

    #[test]
    fn what_cannot_be_copied_is_refused() {
        let (from, to) = (tree(), tempfile::tempdir().unwrap());
        fs::write(to.path().join("mine"), b"").unwrap();
        assert!(matches!(copy(from.path(), to.path()), Err(MeasureError::Leftover { .. })));
        fs::remove_file(to.path().join("mine")).unwrap();
        let stopped = Control::new();
        stopped.stop();
        let error = run(from.path(), to.path(), &stopped, &mut NoSink);
        assert!(matches!(error, Err(MeasureError::Stopped)));
        let pipe = from.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let error = copy(from.path(), to.path()).unwrap_err().to_string();
        assert!(error.starts_with("cannot copy the special file") && error.contains("pipe"), "{error}");
    }
}
