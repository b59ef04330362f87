//! Makes blocks: eight xorshift64 generators side by side, which compilers turn into vector code.

use crate::header::{GOLDEN, mix};
use crate::{BLOCK_BYTES, HEADER_BYTES, Header};

const LANES: usize = 8;
const ROW_BYTES: usize = LANES * 8;

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

/// Writes the whole stream that follows from `check`, its first 32 bytes included.
#[inline]
pub(crate) fn write_stream(block: &mut [u8; BLOCK_BYTES], check: u64) {
    let mut lanes = seeds(check);
    let (rows, _) = block.as_chunks_mut::<ROW_BYTES>();
    for row in rows {
        for lane in &mut lanes {
            *lane ^= *lane << 13;
            *lane ^= *lane >> 7;
            *lane ^= *lane << 17;
        }
        let (words, _) = row.as_chunks_mut::<8>();
        for (word, lane) in words.iter_mut().zip(lanes) {
            *word = lane.to_le_bytes();
        }
    }
}

/// Writes the block that `header` names.
#[inline]
pub(crate) fn write_block(block: &mut [u8; BLOCK_BYTES], header: &Header) {
    let check = header.check();
    write_stream(block, check);
    block[..HEADER_BYTES].copy_from_slice(&header.encode(check));
}

/// Fills `buffer` with the blocks of `file` from byte `offset` (a multiple of 4096) on, all of `version`.
/// The last block may be partial: it is a prefix of its block. Cost: memory speed, see
/// docs/benchmarks.md; no allocation.
pub fn fill(buffer: &mut [u8], file: u64, offset: u64, version: u32) {
    debug_assert_eq!(offset % 4096, 0, "data is made of whole blocks from their beginning");
    let mut header = Header { file, offset, version };
    let (blocks, tail) = buffer.as_chunks_mut::<BLOCK_BYTES>();
    for block in blocks {
        write_block(block, &header);
        header.offset = header.offset.wrapping_add(4096);
    }
    if !tail.is_empty() {
        let mut block = [0; BLOCK_BYTES];
        write_block(&mut block, &header);
        tail.copy_from_slice(&block[..tail.len()]);
    }
}
