//! Finding out which of the missing requests do the damage.
//!
//! Half of those that are missing are put back, then quarters, and so on (Zeller and Hildebrandt's delta
//! debugging without its second half): what is left of the damage decides. At most [`TRIES`] further states
//! are tried of each kind of part.

use fsage_model::crash::{Attempt, CrashKind, CrashState, DamageKind, DriveBehaviour, FlashLoss};
use fsage_model::disk::call;

use super::{Bench, CrashError, CrashRun, Watch};

/// Most states that are tried for missing requests, and for lost pages.
const TRIES: usize = 40;

/// The state with as few requests missing and as few ranges of flash lost as still do damage of the same kind, and with
/// no request torn if that does it too.
pub(super) fn shrink(
    run: &CrashRun,
    place: &mut Bench<'_>,
    (state, attempt): (CrashState, Attempt),
    watch: &dyn Watch,
) -> Result<(CrashState, Attempt), CrashError> {
    let Some(kind) = attempt.damage.first().map(|damage| damage.kind) else { return Ok((state, attempt)) };
    let mut best = (state, attempt);
    if best.0.torn.is_some() {
        let whole = of_kind(CrashState { torn: None, ..best.0.clone() });
        does_it_too(run, place, &mut best, whole, kind)?;
    }
    // A request that destroys a page is in progress, so it is missing in any case.
    let is_in_progress = run.states.drive == DriveBehaviour::PairedPages;
    let parts = if is_in_progress { vec![Part::Flash] } else { vec![Part::Flash, Part::Lost] };
    for part in parts {
        let (mut chunk, mut left) = (part.len(&best.0).div_ceil(2), TRIES);
        while chunk > 0 {
            let mut at = 0;
            while at < part.len(&best.0) && left > 0 && !best.1.oops && !watch.is_over() {
                left -= 1;
                let smaller = part.without(&best.0, at, chunk);
                if !does_it_too(run, place, &mut best, smaller, kind)? {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }
    Ok(best)
}

/// What a state has less of when it is simpler.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Missing requests.
    Lost,
    /// Lost pages of flash or of its map, each whole.
    Flash,
}

impl Part {
    fn len(self, state: &CrashState) -> usize {
        match self {
            Self::Lost => state.lost.len(),
            Self::Flash => pages(state).len(),
        }
    }

    fn without(self, state: &CrashState, at: usize, count: usize) -> CrashState {
        of_kind(match self {
            Self::Lost => CrashState { lost: without(&state.lost, at, count), ..state.clone() },
            Self::Flash => {
                let left = without(&pages(state), at, count);
                let flash = state.flash.iter().filter(|loss| left.contains(&loss.page())).cloned().collect();
                CrashState { flash, ..state.clone() }
            }
        })
    }
}

/// The pages that are lost, in order.
fn pages(state: &CrashState) -> Vec<u64> {
    let mut pages: Vec<u64> = state.flash.iter().map(FlashLoss::page).collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}

/// The state with the kind that it has.
fn of_kind(state: CrashState) -> CrashState {
    let kind = match (&state.torn, state.lost.is_empty()) {
        _ if !state.flash.is_empty() => CrashKind::Flash,
        (Some(_), _) => CrashKind::Torn,
        (None, true) => CrashKind::Prefix,
        (None, false) => CrashKind::Loss,
    };
    CrashState { kind, ..state }
}

/// Whether a simpler state has damage of the same kind and class, or makes the kernel report a bug: then it is
/// the best.
fn does_it_too(
    run: &CrashRun,
    place: &mut Bench<'_>,
    best: &mut (CrashState, Attempt),
    simpler: CrashState,
    kind: DamageKind,
) -> Result<bool, CrashError> {
    place.show(call::ShowCrash { state: simpler.clone() })?;
    let attempt = match run.attempt(place, &simpler, kind == DamageKind::Check || kind == DamageKind::Use) {
        Err(CrashError::NoRoom) => return Ok(false),
        attempt => attempt?,
    };
    let alike = attempt.class == best.1.class && attempt.known.is_empty() == best.1.known.is_empty();
    let same = alike && attempt.damage.iter().any(|damage| damage.kind == kind);
    let is_better = same || attempt.oops;
    if is_better {
        *best = (simpler, attempt);
    }
    Ok(is_better)
}

/// The list without `count` entries from `at` on.
fn without<T: Clone>(all: &[T], at: usize, count: usize) -> Vec<T> {
    let (head, tail) = all.split_at(at.min(all.len()));
    head.iter().chain(tail.iter().skip(count)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use fsage_model::crash::{FlashFault, MAP_BYTES};

    use super::*;

    #[test]
    fn a_page_is_lost_whole_or_not_at_all() {
        let loss = |offset_bytes, fault| FlashLoss { offset_bytes, length_bytes: 4096, fault };
        let older = |offset_bytes| loss(offset_bytes, FlashFault::Older { before: 3 });
        let flash = vec![older(4096), older(12_288), older(MAP_BYTES), older(MAP_BYTES + 8192)];
        let state = CrashState {
            kind: CrashKind::Flash,
            cut: 9,
            durable: 4,
            pending: 2,
            lost: vec![5],
            torn: None,
            flash,
            image: 1,
        };
        assert_eq!(Part::Flash.len(&state), 2);
        let smaller = Part::Flash.without(&state, 0, 1);
        assert_eq!((smaller.flash, smaller.kind), (state.flash[2..].to_vec(), CrashKind::Flash));
        assert_eq!(Part::Flash.without(&state, 0, 2).kind, CrashKind::Loss);
        assert_eq!(Part::Lost.without(&state, 0, 1).flash.len(), 4);
        // A page of flash with two gaps is one.
        let seed = 77;
        let destroyed = [0, 16_384].map(|at| loss(at, FlashFault::Destroyed { seed })).to_vec();
        assert_eq!(Part::Flash.len(&CrashState { flash: destroyed, ..state }), 1);
    }

    #[test]
    fn a_part_is_left_out() {
        assert_eq!(without(&[1, 2, 3, 4], 1, 2), [1, 4]);
        assert_eq!(without(&[1, 2], 1, 5), [1]);
        assert_eq!(without::<u64>(&[], 0, 1), [0; 0]);
    }
}
