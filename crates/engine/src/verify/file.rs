//! Checks one file.

use std::fs::File;
use std::io::{self, Read};

use std::ops::Range;
use std::os::fd::AsFd as _;

use fsage_content::{BLOCK_BYTES, Block, BlockVerdict, Expected, HEADER_BYTES, recognise, verify};
use fsage_model::verify::FINDINGS;
use fsage_model::verify::VerifyResult;
use fsage_sys::fiemap::{self, Reader};
use rustix::io::Errno;

/// Bytes read at once.
pub const CHUNK_BYTES: usize = 1 << 20;

/// What is said of a block that a load in fast mode did not get to write.
const UNWRITTEN: &str =
    "space is reserved but nothing written: a load in fast mode ended before its data was in place";

/// Reads a file and adds what it holds to `found`. `name` is its path as findings tell it, `is_ours` whether
/// a load makes such a path.
pub fn check_file(
    file: Result<File, Errno>,
    name: &str,
    is_ours: bool,
    buffer: &mut [u8],
    found: &mut VerifyResult,
) {
    let mut file = match file {
        Ok(file) => file,
        Err(errno) => {
            found.files += 1;
            return found.unreadable(name, 0, &io::Error::from(errno).to_string());
        }
    };
    // A second one, because the first is read from; where there is none, zeros are zeros.
    let map = file.try_clone().ok();
    let mut check = Check {
        identity: None,
        blocks: 0,
        pending: Vec::new(),
        name,
        found: VerifyResult::default(),
        map,
        unwritten: None,
    };
    let mut offset = 0;
    loop {
        match read_full(&mut file, buffer) {
            Ok(0) => break,
            Ok(length) => {
                for block in buffer[..length].chunks(BLOCK_BYTES) {
                    check.block(block, offset);
                    offset += as_u64(block.len());
                }
                if length < buffer.len() {
                    break;
                }
            }
            Err(error) => {
                check.found.unreadable(name, offset, &error.to_string());
                break;
            }
        }
    }
    check.finish(offset, is_ours, found);
}

/// Fills the buffer unless the file ends.
fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// A file under way.
struct Check<'a> {
    /// The identity that the first block of ours named.
    identity: Option<u64>,
    blocks: u64,
    /// Blocks not ours before that: (kind, offset, what). At most as many as findings are kept; the rest is
    /// in `found`.
    pending: Vec<(&'static str, u64, String)>,
    name: &'a str,
    found: VerifyResult,
    /// To ask where space is reserved but not written.
    map: Option<File>,
    /// Those stretches, once they were asked for.
    unwritten: Option<Vec<Range<u64>>>,
}

impl Check<'_> {
    fn block(&mut self, block: &[u8], offset: u64) {
        self.blocks += 1;
        let seen = recognise(block);
        if let Block::Good { header, length } = seen
            && header.file == *self.identity.get_or_insert(header.file)
            && header.offset == offset
            && length == block.len()
        {
            self.found.good_blocks += 1;
            return;
        }
        if let Block::Torn { header: Some(header), .. } = seen
            && header.offset == offset
        {
            self.identity.get_or_insert(header.file);
        }
        // A prefix too short for its version tells nothing more.
        if matches!(seen, Block::Fragment { .. }) && block.len() < 8 {
            self.found.good_blocks += 1;
            return;
        }
        let (kind, what) = match self.judge(block, offset) {
            BlockVerdict::Good { .. } | BlockVerdict::Stale { .. } => {
                self.found.good_blocks += 1;
                return;
            }
            BlockVerdict::Zero if self.is_unwritten(offset) => ("unwritten", UNWRITTEN.to_owned()),
            BlockVerdict::Zero => ("zero", "zeros where data was written".to_owned()),
            BlockVerdict::Torn { sectors, .. } => {
                ("torn", format!("sectors {sectors:#010b} are not the block's"))
            }
            BlockVerdict::Misplaced { found } => {
                ("misplaced", format!("data of file {} from offset {}", found.file, found.offset))
            }
            BlockVerdict::Foreign => ("foreign", "not self-describing data".to_owned()),
        };
        if self.identity.is_none() && self.pending.len() < FINDINGS {
            self.pending.push((kind, offset, what));
        } else {
            self.found.bad(kind, self.name, offset, what);
        }
    }

    /// Whether what is at `offset` is only reserved. The file's map is asked for at the first block of zeros.
    fn is_unwritten(&mut self, offset: u64) -> bool {
        let map = &self.map;
        let stretches = self.unwritten.get_or_insert_with(|| {
            let mut stretches = Vec::new();
            let Some(file) = map else { return stretches };
            // What zeros lie in the page cache is written first. Where there is no map, zeros are zeros.
            let _ = Reader::synced().visit(file.as_fd(), |extent| {
                if extent.flags & fiemap::UNWRITTEN != 0 {
                    stretches.push(extent.logical..extent.logical.saturating_add(extent.length));
                }
            });
            stretches
        });
        let next = stretches.partition_point(|stretch| stretch.end <= offset);
        stretches.get(next).is_some_and(|stretch| stretch.contains(&offset))
    }

    /// What the block is, measured against what the file's others say.
    fn judge(&self, block: &[u8], offset: u64) -> BlockVerdict {
        // A short tail has its version but not its check: it is right if it is what that version makes.
        let named =
            block.get(4..8).filter(|_| block.len() < HEADER_BYTES).and_then(|bytes| bytes.try_into().ok());
        let versions = named.map_or(1..=u32::MAX, |bytes| {
            let version = u32::from_le_bytes(bytes);
            version..=version
        });
        match self.identity {
            Some(file) => verify(block, &Expected { file, offset, versions }),
            None if block.iter().all(|byte| *byte == 0) => BlockVerdict::Zero,
            None => match recognise(block) {
                Block::Fragment { .. } if block.len() < HEADER_BYTES => BlockVerdict::Good { version: 0 },
                Block::Good { header, .. } => BlockVerdict::Misplaced { found: header },
                _ => BlockVerdict::Foreign,
            },
        }
    }

    /// Adds the file to what was found. One that has nothing of ours is only counted, unless its path is ours
    /// (`named`): then all of it was lost.
    fn finish(mut self, bytes: u64, named: bool, total: &mut VerifyResult) {
        total.files += 1;
        total.bytes += bytes;
        let unreadable = self.found.bad_blocks.contains_key("unreadable");
        let nothing = self.identity.is_none() && self.found.good_blocks == 0 && self.blocks > 0;
        if nothing && !named && !unreadable {
            total.foreign_files += 1;
            return;
        }
        for (kind, offset, what) in std::mem::take(&mut self.pending) {
            self.found.bad(kind, self.name, offset, what);
        }
        total.good_blocks += self.found.good_blocks;
        for (kind, count) in self.found.bad_blocks {
            *total.bad_blocks.entry(kind).or_default() += count;
        }
        let room = FINDINGS.saturating_sub(total.findings.len());
        total.findings.extend(self.found.findings.into_iter().take(room));
    }
}

/// A block length as part of an offset.
const fn as_u64(length: usize) -> u64 {
    length as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &[u8]) -> VerifyResult {
        check_at("file", content)
    }

    fn check_at(name: &str, content: &[u8]) -> VerifyResult {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        let mut found = VerifyResult::default();
        let file = File::open(&path).map_err(|_| Errno::IO);
        check_file(file, name, crate::tree::is_file_path(&path), &mut vec![0; CHUNK_BYTES], &mut found);
        found
    }

    fn data(length: usize) -> Vec<u8> {
        let mut data = vec![0; length];
        fsage_content::fill(&mut data, 7, 0, 3);
        data
    }

    #[test]
    fn every_length_of_tail_is_good() {
        for length in
            [1, 3, 4, 7, 8, 20, 31, 32, 33, 512, 4095, 4096, 4097, 4100, 4104, 4127, 4128, 9000, 1 << 20]
        {
            let found = check(&data(length));
            assert!(found.bad_blocks.is_empty(), "{length}: {found:?}");
            assert_eq!(found.good_blocks, as_u64(length.div_ceil(4096)), "{length}");
            assert_eq!((found.files, found.foreign_files, found.bytes), (1, 0, as_u64(length)));
        }
    }

    #[test]
    fn damage_is_named() {
        let bad = |content: &[u8]| check(content).bad_blocks.into_keys().collect::<Vec<_>>();
        let mut flipped = data(20_000);
        flipped[5000] ^= 1;
        assert_eq!(bad(&flipped), ["torn"]);
        let mut zeroed = data(20_000);
        zeroed[..4096].fill(0);
        assert_eq!(bad(&zeroed), ["zero"]);
        let mut swapped = data(20_000);
        swapped.copy_within(0..4096, 8192);
        assert_eq!(bad(&swapped), ["misplaced"]);
        let mut overwritten = data(20_000);
        overwritten[4096..8192].fill(0x55);
        assert_eq!(bad(&overwritten), ["foreign"]);
        let mut cut = data(20_000);
        cut[18_000..].fill(0);
        assert_eq!(bad(&cut), ["torn"]);
    }

    #[test]
    fn what_is_not_ours_is_not_damage() {
        let found = check(b"some text of somebody else");
        assert!(found.bad_blocks.is_empty());
        assert_eq!((found.files, found.foreign_files, found.good_blocks), (1, 1, 0));
        assert_eq!(check(&[]).foreign_files, 0, "an empty file is nobody's");
    }

    #[test]
    fn a_file_of_our_name_that_lost_everything_is_damage() {
        for name in ["t00/f00000001", "t12/d0001/d001a/f000001ff"] {
            for (content, kind, blocks) in [
                (vec![0; 4096], "zero", 1),
                (vec![0; 20_000], "zero", 5),
                (vec![0x55; 4096], "foreign", 1),
                (b"some text of somebody else".to_vec(), "foreign", 1),
            ] {
                let found = check_at(name, &content);
                assert_eq!(found.bad_blocks.get(kind), Some(&blocks), "{name}: {found:?}");
                assert_eq!((found.files, found.foreign_files, found.good_blocks), (1, 0, 0), "{found:?}");
                assert_eq!(found.findings[0].path, name);
            }
            let empty = check_at(name, &[]);
            assert!(empty.bad_blocks.is_empty() && empty.foreign_files == 0, "{empty:?}");
        }
    }
}
