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
    for loss in losses {
        let end = loss.offset_bytes.saturating_add(loss.length_bytes).min(size);
        let mut offset = loss.offset_bytes;
        while offset < end {
            let length = (end - offset).min(CHUNK_BYTES);
            lose_part(store, recorder, view, loss, (offset, length))?;
            offset += length;
        }
    }
    Ok(())
}

fn lose_part(
    store: &mut Store,
    recorder: &Recorder,
    view: ViewId,
    loss: &FlashLoss,
    (offset, length): (u64, u64),
) -> Result<(), StoreError> {
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| StoreError::Full)?];
    match &loss.fault {
        FlashFault::Unmapped => return store.zero_view(view, offset, length),
        FlashFault::Destroyed { seed } => {
            Xoshiro256PlusPlus::seed_from_u64(seed ^ offset).fill_bytes(&mut bytes);
        }
        FlashFault::Older { before } => older(store, recorder, *before, offset, &mut bytes)?,
        FlashFault::Flipped { bits } => {
            store.read_view(view, offset, &mut bytes)?;
            let first = offset - loss.offset_bytes;
            for bit in bits {
                let at = (bit / 8).checked_sub(first).and_then(|at| usize::try_from(at).ok());
                if let Some(byte) = at.and_then(|at| bytes.get_mut(at)) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
    }
    store.write_view(view, offset, &bytes)
}

/// What was at `offset` before a request of the log. Cost: every request before it is looked at.
fn older(
    store: &mut Store,
    recorder: &Recorder,
    before: u64,
    offset: u64,
    bytes: &mut [u8],
) -> Result<(), StoreError> {
    store.read_snapshot(recorder.base, offset, bytes)?;
    let end = offset + u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    for (_, entry) in (0..before).zip(recorder.log.entries(0)) {
        let request = entry.request;
        let (from, to) = (request.offset_bytes.max(offset), request.end_bytes().min(end));
        if !entry.changes() || from >= to {
            continue;
        }
        let place = |byte: u64, start: u64| usize::try_from(byte - start).unwrap_or(usize::MAX);
        let Some(there) = bytes.get_mut(place(from, offset)..place(to, offset)) else { continue };
        if request.operation != Operation::Write {
            there.fill(0);
            continue;
        }
        let mut data = Vec::new();
        recorder.read(store, &entry, &mut data)?;
        if let Some(new) = data.get(place(from, request.offset_bytes)..place(to, request.offset_bytes)) {
            there.copy_from_slice(new);
        }
    }
    Ok(())
}
