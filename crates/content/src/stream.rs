//! Makes blocks: eight xorshift64 generators side by side, which compilers turn into vector code.
//!
//! One block's generators form a chain of six dependent steps a row, so that a CPU has time to spare: two
//! blocks are made at once, with the widest vectors the CPU has. The bytes are the same either way.

use fsage_sys::cpu::{Vectorise, with_widest_vectors};

use crate::header::{GOLDEN, mix};
use crate::{BLOCK_BYTES, HEADER_BYTES, Header};

const LANES: usize = 8;
const ROW_BYTES: usize = LANES * 8;
const ROWS: usize = BLOCK_BYTES / ROW_BYTES;

#[inline]
fn seeds(check: u64) -> [u64; LANES] {
    let mut lanes = [0; LANES];
    let mut state = check;
    for lane in &mut lanes {
        state = state.wrapping_add(GOLDEN);
        let seed = mix(state);
        *lane = if seed == 0 { GOLDEN } else { seed };
    }
    lanes
}

/// Writes the streams that follow from `checks` side by side.
#[inline(always)]
fn write_streams<const N: usize>(blocks: [&mut [u8; BLOCK_BYTES]; N], checks: [u64; N]) {
    let mut lanes = checks.map(seeds);
    let mut rows = blocks.map(|block| block.as_chunks_mut::<ROW_BYTES>().0.iter_mut());
    for _ in 0..ROWS {
        for (lanes, rows) in lanes.iter_mut().zip(&mut rows) {
            for lane in lanes.iter_mut() {
                *lane ^= *lane << 13;
                *lane ^= *lane >> 7;
                *lane ^= *lane << 17;
            }
            let Some(row) = rows.next() else { return };
            let (words, _) = row.as_chunks_mut::<8>();
            for (word, lane) in words.iter_mut().zip(lanes) {
                *word = lane.to_le_bytes();
            }
        }
    }
}

/// Writes the whole stream that follows from `check`, its first 32 bytes included.
#[inline]
pub(crate) fn write_stream(block: &mut [u8; BLOCK_BYTES], check: u64) {
    write_streams([block], [check]);
}

/// Writes the blocks that `headers` name.
#[inline(always)]
fn write_blocks<const N: usize>(mut blocks: [&mut [u8; BLOCK_BYTES]; N], headers: [Header; N]) {
    let checks = headers.map(|header| header.check());
    write_streams(blocks.each_mut().map(|block| &mut **block), checks);
    for ((block, header), check) in blocks.into_iter().zip(headers).zip(checks) {
        block[..HEADER_BYTES].copy_from_slice(&header.encode(check));
    }
}

/// Writes the block that `header` names.
#[inline]
pub(crate) fn write_block(block: &mut [u8; BLOCK_BYTES], header: &Header) {
    write_blocks([block], [*header]);
}

/// Whether a block is the one that `check` stands for, but for its header, which is not inspected.
struct Agree<'a> {
    block: &'a [u8; BLOCK_BYTES],
    check: u64,
    agrees: &'a mut bool,
}

impl Vectorise for Agree<'_> {
    #[inline(always)]
    fn run(self) {
        let mut lanes = seeds(self.check);
        let mut differences = [0; LANES];
        let mut compared = [0, 0, 0, 0, u64::MAX, u64::MAX, u64::MAX, u64::MAX];
        for row in self.block.as_chunks::<ROW_BYTES>().0 {
            for lane in &mut lanes {
                *lane ^= *lane << 13;
                *lane ^= *lane >> 7;
                *lane ^= *lane << 17;
            }
            let (words, _) = row.as_chunks::<8>();
            for n in 0..LANES {
                differences[n] |= (u64::from_le_bytes(words[n]) ^ lanes[n]) & compared[n];
            }
            // Only the first row begins with the header.
            compared = [u64::MAX; LANES];
        }
        *self.agrees = differences.iter().all(|difference| *difference == 0);
    }
}

/// Whether what follows a block's header is what `check` stands for. Costs less than making the block.
#[inline]
pub(crate) fn agrees(block: &[u8; BLOCK_BYTES], check: u64) -> bool {
    let mut agrees = false;
    with_widest_vectors(Agree { block, check, agrees: &mut agrees });
    agrees
}

/// Blocks to make, from the one that `first` names on.
struct Fill<'a> {
    buffer: &'a mut [u8],
    first: Header,
}

impl Vectorise for Fill<'_> {
    #[inline(always)]
    fn run(self) {
        let mut header = self.first;
        let mut next = || {
            let this = header;
            header.offset = header.offset.wrapping_add(4096);
            this
        };
        let (blocks, tail) = self.buffer.as_chunks_mut::<BLOCK_BYTES>();
        let (pairs, single) = blocks.as_chunks_mut::<2>();
        for pair in pairs {
            write_blocks(pair.each_mut(), [next(), next()]);
        }
        for block in single {
            write_blocks([block], [next()]);
        }
        if !tail.is_empty() {
            let mut block = [0; BLOCK_BYTES];
            write_blocks([&mut block], [next()]);
            tail.copy_from_slice(&block[..tail.len()]);
        }
    }
}

/// Fills `buffer` with the blocks of `file` from byte `offset` (a multiple of 4096) on, all of `version`.
/// The last block may be partial: it is a prefix of its block. Cost: memory speed, see
/// docs/benchmarks.md; no allocation.
pub fn fill(buffer: &mut [u8], file: u64, offset: u64, version: u32) {
    debug_assert_eq!(offset % 4096, 0, "data is made of whole blocks from their beginning");
    with_widest_vectors(Fill { buffer, first: Header { file, offset, version } });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_format() {
        // Worked out from the description in the crate's documentation by another program.
        let known: [(u64, u64); 2] =
            [(0x14ba_a220_a980_d91e, 0x8b37_4deb_67cd_a1d7), (0x3c49_f347_db36_bfa7, 0x9af2_d327_227c_37c2)];
        let mut buffer = vec![0; 2 * BLOCK_BYTES];
        fill(&mut buffer, 77, 40_960, 3);
        for (block, (check, last)) in buffer.chunks(BLOCK_BYTES).zip(known) {
            assert_eq!(block[24..32], check.to_be_bytes());
            assert_eq!(block[4088..], last.to_be_bytes());
        }
    }

    #[test]
    fn wide_and_portable_paths_give_the_same_bytes() {
        for length in [0, 1, 31, 4096, 4097, 8192, 12_288, 20_000, 65_536] {
            let first = Header { file: 77, offset: 40_960, version: 3 };
            let (mut wide, mut portable) = (vec![0; length], vec![0; length]);
            fill(&mut wide, first.file, first.offset, first.version);
            Fill { buffer: &mut portable, first }.run();
            assert_eq!(wide, portable);
            let mut header = first;
            for piece in portable.chunks(BLOCK_BYTES) {
                let mut block = [0; BLOCK_BYTES];
                write_block(&mut block, &header);
                assert_eq!(piece, &block[..piece.len()], "{length}");
                header.offset += 4096;
            }
        }
    }
}
