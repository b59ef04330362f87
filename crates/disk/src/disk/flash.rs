//! What flash lost, put on the view of a crash state ([`FlashLoss`]): above what the state has, and dropped with it.

use fsage_model::crash::{FlashFault, FlashLoss};
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::recorder::Recorder;
use crate::request::Operation;
use crate::store::{Store, StoreError, ViewId};

/// Most that is in memory beside the store.
const CHUNK_BYTES: u64 = 1 << 20;

/// Puts the losses on a view; what lies beyond the end of the disk is left out.
pub(super) fn lose(
    store: &mut Store,
    recorder: &Recorder,
    view: ViewId,
    losses: &[FlashLoss],
) -> Result<(), StoreError> {
    let size = store.size_bytes();
    let mut parts = Vec::new();
    for loss in losses {
        let end = loss.offset_bytes.saturating_add(loss.length_bytes).min(size);
        let mut offset = loss.offset_bytes;
        while offset < end {
            let length = (end - offset).min(CHUNK_BYTES);
            match &loss.fault {
                FlashFault::Unmapped => store.zero_view(view, offset, length)?,
                FlashFault::Older { before } => {
                    let mut bytes = buffer(length)?;
                    store.read_snapshot(recorder.base, offset, &mut bytes)?;
                    parts.push(Older { before: *before, offset, bytes });
                }
                FlashFault::Destroyed { seed } => {
                    let mut bytes = buffer(length)?;
                    Xoshiro256PlusPlus::seed_from_u64(seed ^ offset).fill_bytes(&mut bytes);
                    store.write_view(view, offset, &bytes)?;
                }
                FlashFault::Flipped { bits } => {
                    let mut bytes = buffer(length)?;
                    store.read_view(view, offset, &mut bytes)?;
                    flip(&mut bytes, offset - loss.offset_bytes, bits);
                    store.write_view(view, offset, &bytes)?;
                }
            }
            offset += length;
        }
    }
    older(store, recorder, &mut parts)?;
    for part in &parts {
        store.write_view(view, part.offset, &part.bytes)?;
    }
    Ok(())
}

fn buffer(length: u64) -> Result<Vec<u8>, StoreError> {
    Ok(vec![0; usize::try_from(length).map_err(|_| StoreError::Full)?])
}

/// `first`: of these bytes, in the range that the bits are counted from.
fn flip(bytes: &mut [u8], first: u64, bits: &[u64]) {
    for bit in bits {
        let at = (bit / 8).checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(byte) = at.and_then(|at| bytes.get_mut(at)) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// A range that holds what it held before a request of the log.
struct Older {
    before: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// Brings ranges, as they were at the start of the log, to what they were before their request. Cost: the log is gone
/// through once, and of its writes those are read that lie in a range.
fn older(store: &mut Store, recorder: &Recorder, parts: &mut [Older]) -> Result<(), StoreError> {
    parts.sort_by_key(|part| part.offset);
    let last = parts.iter().map(|part| part.before).max().unwrap_or(0);
    for (number, entry) in (0..last).zip(recorder.log.entries(0)) {
        let request = entry.request;
        let end_of = |part: &Older| part.offset + u64::try_from(part.bytes.len()).unwrap_or(0);
        let first = parts.partition_point(|part| end_of(part) <= request.offset_bytes);
        let mut data = None;
        for part in parts.iter_mut().skip(first).take_while(|part| part.offset < request.end_bytes()) {
            if !entry.changes() || number >= part.before {
                continue;
            }
            let (from, to) = (request.offset_bytes.max(part.offset), request.end_bytes().min(end_of(part)));
            let place = |byte: u64, start: u64| usize::try_from(byte - start).unwrap_or(usize::MAX);
            let Some(there) = part.bytes.get_mut(place(from, part.offset)..place(to, part.offset)) else {
                continue;
            };
            if request.operation != Operation::Write {
                there.fill(0);
                continue;
            }
            if data.is_none() {
                let mut bytes = Vec::new();
                recorder.read(store, &entry, &mut bytes)?;
                data = Some(bytes);
            }
            let range = place(from, request.offset_bytes)..place(to, request.offset_bytes);
            if let Some(new) = data.as_ref().and_then(|data| data.get(range)) {
                there.copy_from_slice(new);
            }
        }
    }
    Ok(())
}
