//! GUID partition tables (UEFI 2.10, §5): where partitions of given sizes lie, the bytes that say so, and the
//! partitions that such bytes have.
//!
//! A table is written as others write it: a protective MBR in sector 0, a header in sector 1, 128 entries of
//! 128 bytes behind it, and the same once more at the end, header last. Everything between the entries and
//! 1 MiB is zeros. Partitions begin and end at whole MiB, which suits the erase units and stripes of devices
//! better than any smaller unit, and follow each other without gaps from 1 MiB on.
//!
//! Reading checks both sums of the first table and leaves the second alone: it is for telling partitions
//! apart, not for repair.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use fsage_model::size::Bytes;

use super::identifier::guid;
use super::signature;

/// Unit of partitions: they begin and end at multiples of it.
pub const ALIGNMENT: u64 = 1 << 20;

/// Entries of a table, and thus most partitions.
pub const MOST: usize = 128;

/// Bytes of the beginning of a disk that hold its first table, and that [`decode`] needs.
pub const HEAD_BYTES: usize = 1 << 20;

const ENTRY_BYTES: usize = 128;
const ENTRIES_BYTES: usize = MOST * ENTRY_BYTES;
const HEADER_BYTES: usize = 92;
const MAGIC: &[u8] = b"EFI PART";

/// The type `Linux filesystem data`, 0FC63DAF-8483-4772-8E79-3D69D8477DE4, in the order of the table.
const LINUX: [u8; 16] =
    [0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4];

/// Why there is no table with partitions of these sizes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GptError {
    /// No partition is asked for.
    #[error("no partition is asked for")]
    None,
    /// There are too many.
    #[error("{count} partitions are too many: a partition table has {MOST}")]
    TooMany {
        /// How many are asked for.
        count: usize,
    },
    /// One is nothing.
    #[error("partition {number} would have no bytes")]
    Empty {
        /// Its number, from 1.
        number: usize,
    },
    /// One does not end at a whole MiB.
    #[error("partition {number} would have {bytes} bytes, which is not a multiple of 1 MiB")]
    Unaligned {
        /// Its number, from 1.
        number: usize,
        /// Its size.
        bytes: u64,
    },
    /// They are larger than the disk.
    #[error(
        "the partitions have {} together, and the disk has room for {}",
        Bytes(*.wanted_bytes), Bytes(*.room_bytes)
    )]
    TooLarge {
        /// Their sum; the largest number when it is more than that.
        wanted_bytes: u64,
        /// What all partitions of the disk can have together.
        room_bytes: u64,
    },
}

/// A partition's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub start_bytes: u64,
    /// Bytes.
    pub size_bytes: u64,
}

/// A partition as its table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number, from 1.
    pub number: u32,
    /// Where it is.
    pub extent: Extent,
    /// Its identifier, as it stands in the table.
    pub guid: [u8; 16],
}

impl Entry {
    /// Its identifier as everyone writes it.
    #[must_use]
    pub fn uuid(&self) -> String {
        guid(&self.guid)
    }
}

/// A table and its partitions, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its identifier, as it stands in the table.
    pub guid: [u8; 16],
    /// Partitions.
    pub entries: Vec<Entry>,
}

/// Checks what can be checked of partitions without their disk.
///
/// # Errors
/// None, too many, or one that has no size or no whole MiB.
pub fn check(sizes: &[u64]) -> Result<(), GptError> {
    if sizes.is_empty() {
        return Err(GptError::None);
    }
    if sizes.len() > MOST {
        return Err(GptError::TooMany { count: sizes.len() });
    }
    for (at, &bytes) in sizes.iter().enumerate() {
        let number = at + 1;
        if bytes == 0 {
            return Err(GptError::Empty { number });
        }
        if !bytes.is_multiple_of(ALIGNMENT) {
            return Err(GptError::Unaligned { number, bytes });
        }
    }
    Ok(())
}

/// Where partitions of these sizes lie on a disk of `disk_bytes` with sectors of `sector_bytes`: one behind the
/// other from 1 MiB on.
///
/// # Errors
/// As [`check`], and what does not fit.
pub fn place(sizes: &[u64], disk_bytes: u64, sector_bytes: u32) -> Result<Vec<Extent>, GptError> {
    check(sizes)?;
    let end = disk_bytes.saturating_sub(tail_bytes(sector_bytes)) / ALIGNMENT * ALIGNMENT;
    let room_bytes = end.saturating_sub(ALIGNMENT);
    let wanted_bytes = sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
    if wanted_bytes > room_bytes {
        return Err(GptError::TooLarge { wanted_bytes, room_bytes });
    }
    let mut start_bytes = ALIGNMENT;
    let placed = sizes.iter().map(|&size_bytes| {
        let extent = Extent { start_bytes, size_bytes };
        start_bytes += size_bytes;
        extent
    });
    Ok(placed.collect())
}

/// Bytes at the end of a disk that hold its second table: entries, and one sector with the header.
#[must_use]
pub fn tail_bytes(sector_bytes: u32) -> u64 {
    let sector = u64::from(sector_bytes);
    (ENTRIES_BYTES as u64).next_multiple_of(sector) + sector
}

/// The first [`HEAD_BYTES`] and the last [`tail_bytes`] of a disk with this table. What is between is the
/// partitions'; entries must have come from [`place`] for the same disk.
#[must_use]
pub fn encode(table: &Table, disk_bytes: u64, sector_bytes: u32) -> (Vec<u8>, Vec<u8>) {
    let sector = u64::from(sector_bytes);
    let last = (disk_bytes / sector).saturating_sub(1);
    let entries = entries(table, sector);
    let entries_sectors = (ENTRIES_BYTES as u64).div_ceil(sector);
    let header = |own, other, entries_at| {
        let usable = (ALIGNMENT / sector, last - entries_sectors - 1);
        header(&table.guid, [own, other, usable.0, usable.1, entries_at], &entries)
    };
    let mut head = vec![0; HEAD_BYTES];
    protective_mbr(&mut head, last);
    let at = index(sector);
    put(&mut head, at, &header(1, last, 2));
    put(&mut head, at * 2, &entries);
    let mut tail = vec![0; index(tail_bytes(sector_bytes))];
    put(&mut tail, 0, &entries);
    put(&mut tail, index(entries_sectors * sector), &header(last, 1, last - entries_sectors));
    (head, tail)
}

/// How many partitions the table of a disk has, whatever the kernel shows of it: one of this kind, at the start or
/// (the second one, where the first is damaged) at the end, or a master boot record (§5.2.1). 0 where there is none, or
/// where a split was not finished.
///
/// # Errors
/// The disk cannot be read.
pub fn partitions_on(disk: &File, disk_bytes: u64, sector_bytes: u32) -> io::Result<usize> {
    let mut head = vec![0; HEAD_BYTES.min(index(disk_bytes))];
    disk.read_exact_at(&mut head, 0)?;
    if head.starts_with(&signature::unfinished_mark()) {
        return Ok(0);
    }
    // A disk may have been divided where its sectors had another size: behind a bridge, or as an image.
    let own = [sector_bytes, 512, 4096].into_iter().find_map(|sector| {
        let first = decode(&head, sector).map(|table| table.entries.len());
        let entries = first.or_else(|| decode_second(disk, disk_bytes / u64::from(sector), sector));
        entries.filter(|entries| *entries > 0)
    });
    // Of either kind of sector: the most that the disk could have.
    Ok(own.unwrap_or_else(|| boot_record(&head, disk_bytes / 512)))
}

/// Partitions of the second table, whose header is in the last sector (§5.3.2); `None` as of [`decode`].
fn decode_second(disk: &File, sectors: u64, sector_bytes: u32) -> Option<usize> {
    let (sector, last) = (u64::from(sector_bytes), sectors.checked_sub(1)?);
    let mut header = vec![0; index(sector)];
    disk.read_exact_at(&mut header, last * sector).ok()?;
    let entries = |from: u64, length: usize| {
        let mut bytes = vec![0; Some(length).filter(|length| *length <= HEAD_BYTES)?];
        disk.read_exact_at(&mut bytes, from).ok()?;
        Some(bytes)
    };
    let table = read_table(&header, last, sector, entries, |found, wanted| found == wanted)?;
    Some(table.entries.len())
}

/// Partitions of a master boot record, but for one that only protects a table of the other kind. Boot code of
/// a file system has other bytes there than a table would.
fn boot_record(head: &[u8], sectors: u64) -> usize {
    if head.get(510..512) != Some(&[0x55, 0xaa]) {
        return 0;
    }
    let number = |record: &[u8], at: usize| {
        u64::from(u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]))
    };
    let records: Vec<&[u8]> = head[446..510].chunks_exact(16).filter(|record| record[4] != 0).collect();
    let is_record = |record: &&[u8]| record[0] & 0x7f == 0 && number(record, 8) > 0 && number(record, 12) > 0;
    // Those of a disk that was cut off may end beyond it.
    let is_table = records.iter().all(is_record) && records.iter().any(|record| number(record, 8) < sectors);
    if is_table { records.iter().filter(|record| record[4] != 0xee).count() } else { 0 }
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

/// One partition of type 0xEE over the whole disk, for programs that know no GPT (§5.2.3).
fn protective_mbr(head: &mut [u8], last: u64) {
    let sectors = u32::try_from(last).unwrap_or(u32::MAX);
    put(head, 446, &[0x00, 0x00, 0x02, 0x00, 0xee, 0xff, 0xff, 0xff]);
    put(head, 454, &1_u32.to_le_bytes());
    put(head, 458, &sectors.to_le_bytes());
    put(head, 510, &[0x55, 0xaa]);
}

/// §5.3.3.
fn entries(table: &Table, sector: u64) -> Vec<u8> {
    let mut bytes = vec![0; ENTRIES_BYTES];
    for (entry, room) in table.entries.iter().zip(bytes.chunks_exact_mut(ENTRY_BYTES)) {
        let Extent { start_bytes, size_bytes } = entry.extent;
        put(room, 0, &LINUX);
        put(room, 16, &entry.guid);
        put(room, 32, &(start_bytes / sector).to_le_bytes());
        put(room, 40, &((start_bytes + size_bytes) / sector - 1).to_le_bytes());
    }
    bytes
}

/// §5.3.2. `places`: the sectors of this header, the other one, the first and last usable sector, the entries.
fn header(disk: &[u8; 16], places: [u64; 5], entries: &[u8]) -> [u8; HEADER_BYTES] {
    let [own, other, first, last, entries_at] = places;
    let mut bytes = [0; HEADER_BYTES];
    put(&mut bytes, 0, MAGIC);
    put(&mut bytes, 8, &0x0001_0000_u32.to_le_bytes());
    put(&mut bytes, 12, &92_u32.to_le_bytes());
    for (at, sector) in [(24, own), (32, other), (40, first), (48, last)] {
        put(&mut bytes, at, &sector.to_le_bytes());
    }
    put(&mut bytes, 56, disk);
    put(&mut bytes, 72, &entries_at.to_le_bytes());
    put(&mut bytes, 80, &128_u32.to_le_bytes());
    put(&mut bytes, 84, &128_u32.to_le_bytes());
    put(&mut bytes, 88, &crc32(entries).to_le_bytes());
    let sum = crc32(&bytes);
    put(&mut bytes, 16, &sum.to_le_bytes());
    bytes
}

/// The sum of IEEE 802.3, as UEFI wants it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}

/// The table in the first bytes of a disk; `None` when there is none, it is damaged, or it does not lie within
/// these bytes.
#[must_use]
pub fn decode(head: &[u8], sector_bytes: u32) -> Option<Table> {
    decode_with(head, sector_bytes, |found, wanted| found == wanted)
}

/// As [`decode`], where `agree` says whether the sum that was found may stand for the one that is wanted: a
/// fuzzer would never get past them.
#[must_use]
pub fn decode_with(head: &[u8], sector_bytes: u32, agree: impl Fn(u32, u32) -> bool) -> Option<Table> {
    let sector = u64::from(sector_bytes);
    let entries = |from: u64, length: usize| {
        let from = index(from);
        Some(head.get(from..from.checked_add(length)?)?.to_vec())
    };
    read_table(head.get(index(sector)..)?, 1, sector, entries, agree)
}

/// The table with this header, which has to be that of sector `own`; `entries` reads bytes of the disk.
fn read_table(
    header: &[u8],
    own: u64,
    sector: u64,
    entries: impl Fn(u64, usize) -> Option<Vec<u8>>,
    agree: impl Fn(u32, u32) -> bool,
) -> Option<Table> {
    let header = header.get(..HEADER_BYTES)?;
    let number = |at| u32_at(header, at);
    if !header.starts_with(MAGIC) || number(12)? != 92 || u64_at(header, 24)? != own {
        return None;
    }
    let mut summed = header.to_vec();
    summed[16..20].fill(0);
    let (count, entry_bytes) = (number(80)?, number(84)?);
    let from = u64_at(header, 72)?.checked_mul(sector)?;
    let entries = entries(from, index(u64::from(count).checked_mul(u64::from(entry_bytes))?))?;
    let summed_right = agree(crc32(&summed), number(16)?) && agree(crc32(&entries), number(88)?);
    if !summed_right || entry_bytes < 128 {
        return None;
    }
    let entry = |(number, bytes): (u32, &[u8])| entry(number, bytes, sector);
    let numbered = (1..=count).zip(entries.chunks_exact(index(u64::from(entry_bytes))));
    Some(Table { guid: *header.get(56..)?.first_chunk()?, entries: numbered.filter_map(entry).collect() })
}

/// One that is in use.
fn entry(number: u32, bytes: &[u8], sector: u64) -> Option<Entry> {
    let used = bytes.get(..16)?.iter().any(|byte| *byte != 0);
    let (first, last) = (u64_at(bytes, 32)?, u64_at(bytes, 40)?);
    let sectors = last.checked_sub(first)?.checked_add(1)?;
    let extent = Extent { start_bytes: first.checked_mul(sector)?, size_bytes: sectors.checked_mul(sector)? };
    used.then_some(Entry { number, extent, guid: *bytes.get(16..)?.first_chunk()? })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn table(extents: &[Extent]) -> Table {
        let entry = |(at, extent): (usize, &Extent)| {
            let number = u32::try_from(at).unwrap() + 1;
            Entry { number, extent: *extent, guid: [u8::try_from(at).unwrap() + 1; 16] }
        };
        Table { guid: [7; 16], entries: extents.iter().enumerate().map(entry).collect() }
    }

    #[test]
    fn the_sum_is_that_of_ieee_802_3() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926, "the check value of CRC-32/ISO-HDLC");
    }

    #[test]
    fn partitions_follow_each_other_from_the_first_mib_on() {
        let placed = place(&[5 * MIB, MIB, 40 * MIB], 64 * MIB, 512).unwrap();
        let extent = |start, size| Extent { start_bytes: start * MIB, size_bytes: size * MIB };
        assert_eq!(placed, [extent(1, 5), extent(6, 1), extent(7, 40)]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let of = |sizes: &[u64]| place(sizes, 64 * MIB, 4096).unwrap_err();
        assert_eq!(of(&[]), GptError::None);
        assert_eq!(of(&[MIB, 0]), GptError::Empty { number: 2 });
        assert_eq!(of(&[MIB + 512]), GptError::Unaligned { number: 1, bytes: MIB + 512 });
        assert_eq!(of(&[MIB; 129]), GptError::TooMany { count: 129 });
        let room_bytes = 62 * MIB;
        assert_eq!(of(&[63 * MIB]), GptError::TooLarge { wanted_bytes: 63 * MIB, room_bytes });
        let huge = u64::MAX / MIB * MIB;
        assert_eq!(of(&[huge, huge]), GptError::TooLarge { wanted_bytes: u64::MAX, room_bytes });
        assert!(place(&[62 * MIB], 64 * MIB, 4096).is_ok(), "the last MiB is the second table's");
        for disk_bytes in [0, 512, MIB, 2 * MIB] {
            let error = place(&[MIB], disk_bytes, 512).unwrap_err();
            assert_eq!(error, GptError::TooLarge { wanted_bytes: MIB, room_bytes: 0 });
        }
    }

    #[test]
    fn partitions_are_counted_whatever_the_kernel_shows() {
        let file = tempfile::tempfile().unwrap();
        let size = 64 * MIB;
        let count = |head: &[u8]| {
            file.set_len(0).unwrap();
            file.set_len(size).unwrap();
            file.write_all_at(head, 0).unwrap();
            partitions_on(&file, size, 512).unwrap()
        };
        let extents = place(&[5 * MIB, MIB], size, 512).unwrap();
        let (mut head, _) = encode(&table(&extents), size, 512);
        assert_eq!(count(&head), 2);
        assert_eq!(count(&encode(&table(&[]), size, 512).0), 0);
        put(&mut head, 0, &signature::unfinished_mark());
        assert_eq!(count(&head), 0, "a split that was killed is repeated");
        let mut old = vec![0; 512];
        put(&mut old, 510, &[0x55, 0xaa]);
        assert_eq!(count(&old), 0);
        put(&mut old, 446, &[0x80, 0, 0, 0, 0x83, 0, 0, 0]);
        put(&mut old, 454, &[2048_u32.to_le_bytes(), 4096_u32.to_le_bytes()].concat());
        assert_eq!(count(&old), 1);
        put(&mut old, 458, &u32::MAX.to_le_bytes());
        assert_eq!(count(&old), 1, "of a disk that was cut off");
        put(&mut old, 446, b"no table but code");
        assert_eq!(count(&old), 0);
        // The first table is damaged, the second one is there.
        let (mut head, tail) = encode(&table(&extents), size, 512);
        head[512 + 56] ^= 1;
        assert_eq!(count(&head), 0);
        file.write_all_at(&tail, size - tail.len() as u64).unwrap();
        assert_eq!(partitions_on(&file, size, 512).unwrap(), 2);
        let large = encode(&table(&place(&[5 * MIB], size, 4096).unwrap()), size, 4096).0;
        assert_eq!(count(&large), 1, "written where sectors had 4096 bytes");
    }

    #[test]
    fn a_damaged_table_is_none() {
        let extents = place(&[5 * MIB], 64 * MIB, 512).unwrap();
        let (head, _) = encode(&table(&extents), 64 * MIB, 512);
        assert!(decode(&head, 512).is_some());
        assert_eq!(decode(&head, 4096), None, "of other sectors");
        for at in [512, 512 + 17, 512 + 60, 1024, 1024 + 40] {
            let mut damaged = head.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged, 512), None, "at {at}");
        }
        assert_eq!(decode(&head[..2048], 512), None, "cut off");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_written_is_read_and_both_tables_agree(
            mebibytes in prop::collection::vec(1_u64..9, 1..=MOST),
            sector_bytes in prop::sample::select(vec![512_u32, 4096, 65536]),
        ) {
            let sizes: Vec<u64> = mebibytes.iter().map(|size| size * MIB).collect();
            let disk_bytes = 2048 * MIB;
            let table = table(&place(&sizes, disk_bytes, sector_bytes).unwrap());
            let (head, tail) = encode(&table, disk_bytes, sector_bytes);
            prop_assert_eq!(decode(&head, sector_bytes), Some(table));
            let at = usize::try_from(sector_bytes).unwrap();
            let second = &tail[tail.len() - at..];
            prop_assert_eq!(&tail[..ENTRIES_BYTES], &head[at * 2..at * 2 + ENTRIES_BYTES]);
            let last = disk_bytes / u64::from(sector_bytes) - 1;
            prop_assert_eq!((u64_at(second, 24), u64_at(second, 32)), (Some(last), Some(1)));
            prop_assert_eq!(u64_at(&head[at..], 32), Some(last));
        }

        #[test]
        fn no_bytes_do_harm(
            bytes in prop::collection::vec(any::<u8>(), 0..2048),
            places in prop::collection::vec((0_usize..1024, any::<u8>()), 0..8),
        ) {
            prop_assert_eq!(decode(&bytes, 512), None);
            let (mut head, _) = encode(&table(&place(&[MIB], 64 * MIB, 512).unwrap()), 64 * MIB, 512);
            for (at, byte) in places {
                head[512 + at] = byte;
            }
            let found = decode_with(&head, 512, |_, _| true);
            prop_assert!(found.is_none_or(|table| table.entries.iter().all(|one| one.extent.size_bytes > 0)));
        }
    }
}
