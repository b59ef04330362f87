//! From what a run holds to its bytes.

use fsage_content::fill;

use super::arena::Arena;
use super::code::{BLOCK, BLOCK_BYTES, Code, Described};
use super::error::StoreError;
use super::map::Map;
use super::number::{index, wide};

/// Reads what a map holds from a byte on.
pub(super) fn read(map: &Map, arena: &mut Arena, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
    let (mut at, mut rest) = (offset, buffer);
    while !rest.is_empty() {
        let within = index(at % BLOCK);
        let blocks = wide(within + rest.len()).div_ceil(BLOCK);
        let (code, blocks) = map.run_at(at / BLOCK, blocks);
        let length = rest.len().min(index(blocks * BLOCK) - within);
        let (now, later) = rest.split_at_mut(length);
        produce(arena, code, blocks, within, now)?;
        at += wide(length);
        rest = later;
    }
    Ok(())
}

/// Bytes of a run of `blocks` blocks, from byte `within` of its first block on.
pub(super) fn produce(
    arena: &mut Arena,
    code: Code,
    blocks: u64,
    within: usize,
    buffer: &mut [u8],
) -> Result<(), StoreError> {
    match code {
        Code::Zero => buffer.fill(0),
        Code::Raw(page) => arena.read(page, within, buffer)?,
        Code::Described(run) => describe(run, blocks, within, buffer),
    }
    Ok(())
}

/// Makes self-describing blocks again.
fn describe(run: Described, blocks: u64, within: usize, buffer: &mut [u8]) {
    let Described { file, version, first, tail_bytes } = run;
    let valid = index((blocks - 1) * BLOCK) + usize::from(tail_bytes);
    let valid = valid.saturating_sub(within).min(buffer.len());
    let (bytes, zeros) = buffer.split_at_mut(valid);
    zeros.fill(0);
    if within == 0 {
        return fill(bytes, file, first * BLOCK, version);
    }
    let mut block = [0; BLOCK_BYTES];
    fill(&mut block, file, first * BLOCK, version);
    let (head, rest) = bytes.split_at_mut(bytes.len().min(BLOCK_BYTES - within));
    head.copy_from_slice(&block[within..within + head.len()]);
    if !rest.is_empty() {
        fill(rest, file, (first + 1) * BLOCK, version);
    }
}
