//! A program as the load of a run: the user's own, or SQLite.

use fsage_disk::log::convert::{FileError, Options, open, visit};
use fsage_disk::log::stream::Item;
use fsage_disk::log::{Entry, Filter, LogError};
use fsage_disk::request::Operation;
use fsage_model::crash::{CrashKind, CrashState, CutFate, CutRequest, Failing, ProgramRun};
use fsage_model::disk::call::{self as disk_call, Marked};
use fsage_model::protocol::{Call, Event};

use super::{Bench, CrashError, CrashRun, SHOWN, Watch};
use crate::target::Incoming;

/// Requests before a cut that are shown, beside those that are missing.
const REQUESTS: usize = 16;

/// Most missing requests that are shown.
const MISSING: usize = 24;

/// Asks the agent to run the load, to its end or until the run is over.
pub(super) fn run(
    place: &mut Bench<'_>,
    call: impl Call<Reply = ProgramRun>,
    watch: &mut dyn Watch,
) -> Result<ProgramRun, CrashError> {
    let control = place.session.control();
    let run = place.session.call_with(call, &mut |incoming| {
        if let Incoming::Event(Event::Progress { operations, .. }) = incoming {
            watch.working(operations);
        }
        if watch.is_over() {
            control.stop();
        }
    })?;
    Ok(run)
}

/// The end of the log, when the load had ended and the volume was unmounted.
pub(super) fn end(place: &Bench<'_>) -> Result<Marked, CrashError> {
    place.ask(disk_call::Mark { name: "unmounted".to_owned() })
}

/// The check has to accept what the load left where nothing was cut: else its word is worth nothing.
pub(super) fn check_end(run: &CrashRun, place: &mut Bench<'_>, end: u64) -> Result<(), CrashError> {
    let Some(program) = run.work.programs() else { return Ok(()) };
    let (lost, torn) = (Vec::new(), None);
    let state = CrashState {
        kind: CrashKind::Prefix,
        cut: end,
        durable: end,
        pending: 0,
        lost,
        torn,
        flash: Vec::new(),
        image: 0,
    };
    place.show(disk_call::ShowCrash { state: state.clone() })?;
    let attempt = run.attempt(place, &state, false)?;
    let argv = program.check.join(" ");
    if attempt.undecided {
        return Err(CrashError::Slow { argv, seconds: program.check_timeout_ms / 1000 });
    }
    match attempt.damage.into_iter().next() {
        Some(damage) => Err(CrashError::Check { argv, reason: damage.what }),
        None => Ok(()),
    }
}

/// Says what led to a failing state: acknowledgements and requests.
pub(super) fn describe(place: &Bench<'_>, run: &ProgramRun, failing: &mut Failing) -> Result<(), CrashError> {
    let before = run.acknowledged.partition_point(|one| one.position <= failing.state.cut);
    let shown = run.acknowledged.get(before.saturating_sub(SHOWN)..before);
    failing.acknowledged = shown.unwrap_or_default().to_vec();
    failing.requests = requests(place, &failing.state)?;
    Ok(())
}

/// The last requests before a cut, and those that are missing.
fn requests(place: &Bench<'_>, state: &CrashState) -> Result<Vec<CutRequest>, CrashError> {
    let file = place.scratch("requests.log");
    // Of a run that was killed here.
    let _ = std::fs::remove_file(&file);
    place.ask(disk_call::SaveLog { file: file.clone(), without_data: true })?;
    let read = read(&file, state);
    let _ = std::fs::remove_file(&file);
    let mut requests = read?;
    let (mut there, mut missing) = (REQUESTS, MISSING);
    requests.reverse();
    requests.retain(|request| {
        let left = if request.fate == CutFate::There { &mut there } else { &mut missing };
        let is_shown = *left > 0;
        *left = left.saturating_sub(1);
        is_shown
    });
    requests.reverse();
    Ok(requests)
}

fn read(file: &std::path::Path, state: &CrashState) -> Result<Vec<CutRequest>, CrashError> {
    let torn = state.torn.as_ref().map(|torn| torn.entry);
    let until = torn.map_or(state.cut, |torn| state.cut.max(torn + 1));
    let mut requests = Vec::new();
    let mut source = open(file, &Options::default())?;
    let filter = Filter::default();
    let visited = visit(&mut source, 0, &filter, |number, item, _| {
        if number >= until {
            return Ok(false);
        }
        if let Item::Entry(entry) = item
            && let Some(operation) = word(entry)
        {
            let is_flush = entry.request.operation == Operation::Flush;
            requests.push(CutRequest {
                entry: number,
                operation: operation.to_owned(),
                offset_bytes: if is_flush { 0 } else { entry.request.offset_bytes },
                length_bytes: if is_flush { 0 } else { entry.request.length_bytes },
                forced: entry.request.fua,
                fate: fate(number, state),
            });
        }
        Ok::<_, LogError>(true)
    });
    visited.map_err(|source| FileError::Read { path: file.to_owned(), source })?;
    Ok(requests)
}

/// What a request that matters for a cut is called.
const fn word(entry: &Entry) -> Option<&'static str> {
    match entry.request.operation {
        Operation::Write => Some("write"),
        Operation::Discard => Some("discard"),
        Operation::Zero => Some("zero"),
        Operation::Flush => Some("flush"),
        Operation::Read => None,
    }
}

fn fate(entry: u64, state: &CrashState) -> CutFate {
    if state.lost.binary_search(&entry).is_ok() {
        CutFate::Missing
    } else if state.torn.as_ref().is_some_and(|torn| torn.entry == entry) {
        CutFate::Torn
    } else {
        CutFate::There
    }
}
