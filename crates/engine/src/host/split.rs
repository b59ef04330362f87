//! Giving a disk a new partition table.
//!
//! [`split`] writes only through one descriptor, which is the only one of the disk that was opened with
//! `O_EXCL` and whose identity was compared. Order, each step synced before the next:
//! 1. The first block says `fsage-unfinished` ([`signature::UNFINISHED`]): what was there is gone, and a
//!    split that is killed can be repeated without an identifier.
//! 2. The rest of the first MiB, the end of the disk, and the first 4 MiB and the last MiB of every
//!    partition become zeros: the bytes by which others recognise what a device carries ([`signature`]).
//! 3. The first table, then the second one at the end. A split that is killed between the two leaves a table
//!    with an identifier.
//! 4. The kernel reads the table again. One that was built without GUID partition tables finds nothing, and
//!    is told of each partition.
//!
//! udev reads a table again when it is told that the disk was closed, and partitions go and come back while
//! it does: what is reported was there twice, some time apart.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsage_model::protocol::{BlockFacts, DeviceIdentity, DiskPartition, SplitDisk};

use super::gpt::{self, Entry, Extent, Table};
use super::identifier::guid;
use super::partition::{self, Known};
use super::{HostError, block, held, read_trimmed, signature};

/// Where udev listens when it runs.
const UDEV: &str = "/run/udev/control";

/// Links that udev makes for partitions, by their own identifiers.
const LINKS: &str = "/dev/disk/by-partuuid";

/// Longest wait for devices and links.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two inspections.
const PAUSE: Duration = Duration::from_millis(200);

/// Where partitions of these sizes would lie on a disk.
///
/// # Errors
/// They do not fit, or the kernel makes no partitions of this device.
pub fn plan(facts: &BlockFacts, sizes: &[u64]) -> Result<Vec<Extent>, HostError> {
    let extents = gpt::place(sizes, facts.size_bytes, facts.sector_bytes)
        .map_err(|error| HostError::Senseless { what: error.to_string() })?;
    let folder = Path::new("/sys/block").join(&facts.disk);
    let says = |file: &str, number: &str| read_trimmed(folder.join(file)) == number;
    // `partscan` since Linux 6.10; a disk of one minor number has none whatever the kernel's version.
    let without = says("partscan", "0") || says("loop/partscan", "0") || says("ext_range", "1");
    if facts.is_partition() || without {
        let is_loop = facts.backing_file.is_some();
        return Err(HostError::NoPartitions { device: facts.path.clone(), is_loop });
    }
    Ok(extents)
}

/// Gives the disk at `path`, which must be the one of `identity`, partitions of these sizes.
///
/// # Errors
/// It is in use or another one, they do not fit, it cannot be written, or the kernel does not show them.
/// Nothing has been written where the error says what was refused.
pub fn split(path: &Path, identity: &DeviceIdentity, sizes: &[u64]) -> Result<SplitDisk, HostError> {
    let facts = block::facts(path)?;
    let extents = plan(&facts, sizes)?;
    let disk = Disk::open(&facts, identity)?;
    let table = new_table(&extents)?;
    disk.write(&table)?;
    let lasting = disk.announce(&table)?;
    drop(disk);
    let partitions = settled(&facts, &table)?;
    Ok(SplitDisk { device: facts.path, uuid: guid(&table.guid), partitions, lasting })
}

/// A table with identifiers that nobody has.
fn new_table(extents: &[Extent]) -> Result<Table, HostError> {
    let numbered = (1..).zip(extents);
    let entry =
        |(number, extent): (u32, &Extent)| Ok(Entry { number, extent: *extent, guid: random_guid()? });
    Ok(Table { guid: random_guid()?, entries: numbered.map(entry).collect::<Result<_, HostError>>()? })
}

/// RFC 9562, §5.4, with the first groups swapped as the table has them.
fn random_guid() -> Result<[u8; 16], HostError> {
    let source = "/dev/urandom";
    let mut bytes = [0; 16];
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(HostError::file("read", source))?;
    bytes[7] = (bytes[7] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Ok(bytes)
}

/// A disk that is open for nobody else.
struct Disk {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    sector_bytes: u32,
}

impl Disk {
    fn open(facts: &BlockFacts, identity: &DeviceIdentity) -> Result<Self, HostError> {
        let path = facts.path.clone();
        let opened = fsage_sys::block::open_exclusive(&path);
        let file = File::from(opened.map_err(HostError::kernel(format!("have {} alone", path.display())))?);
        held::same(&path, identity, &block::identity(&file, &path)?)?;
        held::quiet_udev(&file, &path)?;
        let partitions = gpt::partitions_on(&file, facts.size_bytes, facts.sector_bytes)
            .map_err(HostError::file("read", &path))?;
        if partitions > 0 {
            return Err(HostError::Partitioned { device: path, partitions });
        }
        Ok(Self { path, file, size_bytes: facts.size_bytes, sector_bytes: facts.sector_bytes })
    }

    /// Steps 1 to 3.
    fn write(&self, table: &Table) -> Result<(), HostError> {
        let (head, tail) = gpt::encode(table, self.size_bytes, self.sector_bytes);
        let sector = u64::from(self.sector_bytes);
        let tail_at = (self.size_bytes / sector * sector).saturating_sub(tail.len() as u64);
        self.put(&signature::unfinished_mark(), 0)?;
        self.sync()?;
        let mark = signature::UNFINISHED_BYTES as u64;
        self.clear(mark, head.len() as u64)?;
        self.clear(self.size_bytes.saturating_sub(signature::TAIL_BYTES as u64), self.size_bytes)?;
        for Entry { extent: Extent { start_bytes, size_bytes }, .. } in &table.entries {
            let end = start_bytes + size_bytes;
            let from = |bytes: usize| end - (*size_bytes).min(bytes as u64);
            self.clear(*start_bytes, end.min(start_bytes + signature::HEAD_BYTES as u64))?;
            self.clear(from(signature::TAIL_BYTES), end)?;
        }
        self.sync()?;
        self.put(&head, 0)?;
        self.sync()?;
        self.put(&tail, tail_at)?;
        self.sync()
    }

    fn clear(&self, from: u64, to: u64) -> Result<(), HostError> {
        static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
        let mut at = from;
        while at < to {
            let length = usize::try_from(to - at).unwrap_or(usize::MAX).min(ZEROS.len());
            self.put(&ZEROS[..length], at)?;
            at += length as u64;
        }
        Ok(())
    }

    fn put(&self, bytes: &[u8], at: u64) -> Result<(), HostError> {
        self.file.write_all_at(bytes, at).map_err(HostError::file("write the partition table of", &self.path))
    }

    fn sync(&self) -> Result<(), HostError> {
        self.file.sync_all().map_err(HostError::file("write the partition table of", &self.path))
    }

    /// Step 4; whether the kernel reads such tables by itself.
    fn announce(&self, table: &Table) -> Result<bool, HostError> {
        let what =
            || format!("have the kernel read the partition table that {} has now", self.path.display());
        fsage_sys::partition::reread(self.file.as_fd()).map_err(HostError::kernel(what()))?;
        let known = partition::of_disk(&name(&self.path));
        let missing: Vec<&Entry> =
            table.entries.iter().filter(|entry| partition::find(&known, entry).is_none()).collect();
        for Entry { number, extent, .. } in &missing {
            let Extent { start_bytes, size_bytes } = *extent;
            fsage_sys::partition::add(self.file.as_fd(), *number, start_bytes, size_bytes).map_err(
                HostError::kernel(format!(
                    "tell the kernel of partition {number} of {}",
                    self.path.display()
                )),
            )?;
        }
        Ok(missing.is_empty())
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The partitions, when they and their links are there to stay.
fn settled(facts: &BlockFacts, table: &Table) -> Result<Vec<DiskPartition>, HostError> {
    let udev = Path::new(UDEV).exists();
    let since = Instant::now();
    let mut before = None;
    loop {
        let found = found(&facts.disk, table);
        let complete = found.as_ref().is_some_and(|all| !udev || all.iter().all(|one| one.link.is_some()));
        let late = since.elapsed() >= PATIENCE;
        match found {
            // Without udev nothing takes them away again.
            Some(found) if complete && (!udev || before.as_ref() == Some(&found)) || late => {
                return Ok(found);
            }
            None if late => {
                return Err(HostError::NotShown { device: facts.path.clone() });
            }
            found => before = found,
        }
        std::thread::sleep(PAUSE);
    }
}

/// All partitions, if the kernel has them all and each has its node.
fn found(disk: &str, table: &Table) -> Option<Vec<DiskPartition>> {
    let known = partition::of_disk(disk);
    let one = |entry: &Entry| {
        let Known { device, .. } =
            partition::find(&known, entry).filter(|known| known.device.exists())?.clone();
        let part_uuid = entry.uuid();
        let link = link(&part_uuid, &device);
        let Extent { start_bytes, size_bytes } = entry.extent;
        Some(DiskPartition { number: entry.number, device, link, part_uuid, start_bytes, size_bytes })
    };
    table.entries.iter().map(one).collect()
}

/// The link that udev made for a partition, if there is one.
#[must_use]
pub fn link(part_uuid: &str, device: &Path) -> Option<PathBuf> {
    let link = Path::new(LINKS).join(part_uuid);
    link.canonicalize().is_ok_and(|target| target == device).then_some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn identifiers_are_random_ones_of_version_4() {
        let [one, other] = [random_guid().unwrap(), random_guid().unwrap()];
        assert_ne!(one, other);
        let text = guid(&one);
        assert_eq!((&text[14..15], text.len()), ("4", 36), "{text}");
        assert!("89ab".contains(&text[19..20]), "{text}");
    }

    #[test]
    fn a_partition_has_none_of_its_own() {
        let facts = BlockFacts {
            path: "/dev/sdz1".into(),
            disk: "sdz".into(),
            size_bytes: 64 * MIB,
            sector_bytes: 512,
            ..BlockFacts::default()
        };
        let error = plan(&facts, &[MIB]).unwrap_err();
        assert_eq!(error.to_string(), "the kernel creates no partitions on /dev/sdz1");
        assert_eq!(error.kind(), fsage_model::protocol::FailureKind::Usage);
        let whole = BlockFacts { path: "/dev/sdz".into(), ..facts };
        assert_eq!(plan(&whole, &[MIB]).unwrap(), [Extent { start_bytes: MIB, size_bytes: MIB }]);
        assert!(plan(&whole, &[64 * MIB]).is_err_and(|error| error.to_string().contains("has room for")));
    }

    #[test]
    fn what_is_written_is_the_table_and_zeros_where_others_look() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let size_bytes = 64 * MIB;
        file.as_file().write_all_at(&vec![0xff; 64 << 20], 0).unwrap();
        let opened = File::options().read(true).write(true).open(file.path()).unwrap();
        let disk = Disk { path: file.path().to_owned(), file: opened, size_bytes, sector_bytes: 512 };
        let extents = gpt::place(&[8 * MIB, 2 * MIB, 40 * MIB], size_bytes, 512).unwrap();
        let table = new_table(&extents).unwrap();
        disk.write(&table).unwrap();
        let mut bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(gpt::decode(&bytes[..gpt::HEAD_BYTES], 512).as_ref(), Some(&table));
        let found = signature::of_file(file.as_file(), size_bytes);
        assert_eq!((found.name.as_str(), found.uuid), ("gpt", guid(&table.guid)));
        for Extent { start_bytes, size_bytes } in extents {
            let [from, size] = [start_bytes, size_bytes].map(|number| usize::try_from(number).unwrap());
            let part = &bytes[from..from + size];
            let (head, end) = (&part[..size.min(4 << 20)], &part[size - (1 << 20)..]);
            assert!(head.iter().chain(end).all(|byte| *byte == 0), "from {from}");
        }
        // Between them nothing was touched.
        bytes.drain(..5 << 20);
        assert_eq!((bytes[0], bytes[2 << 20]), (0xff, 0xff));
    }
}
