//! Media to price (`price` in a study): when the trials are done, each one that kept its request logs is
//! priced on the media that the study lists, without running the kernel again, and the result is kept beside
//! its record.
//!
//! What was priced before on the same media is left alone. A log that cannot be priced is reported and fails
//! no run: the trial's own results do not depend on it.

use std::path::Path;

use fsage_disk::log::LogError;
use fsage_disk::log::convert::{self, FileError, Opened, Options};
use fsage_disk::log::stream::Source as _;
use fsage_disk::media::Resolve as _;
use fsage_disk::price::{self, PriceError, Priced};
use fsage_model::cause::in_one_line;
use fsage_model::medium::{MediumError, MediumSpec};
use fsage_model::priced::{PricedLog, PricedOn, PricedPart, PricedRecord};
use fsage_model::record::{STORE_VERSION, TrialStatus};
use fsage_sys::input;

use crate::store::{StoreError, Writer};

/// Why a log has no price.
#[derive(Debug, thiserror::Error)]
pub enum PricingError {
    /// It cannot be opened.
    #[error(transparent)]
    File(#[from] FileError),
    /// It cannot be read to its end, or holds nothing that can be priced.
    #[error(transparent)]
    Price(#[from] PriceError),
    /// Its beginning cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// It does not say what it was recorded on.
    #[error("it does not name the medium it was recorded on")]
    Unnamed,
    /// What it names is no medium, or the volume does not fit on the drive.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// Prices the complete trials of the store on `media` and keeps what was found; `says` hears of each trial that was priced or
/// could not be, and `goes_on` is asked before each.
///
/// # Errors
/// The store cannot be written to.
pub fn price_trials(
    store: &Writer,
    media: &[MediumSpec],
    goes_on: &dyn Fn() -> bool,
    says: &mut dyn FnMut(String),
) -> Result<(), StoreError> {
    let asked: Vec<String> = media.iter().map(ToString::to_string).collect();
    if asked.is_empty() {
        return Ok(());
    }
    for id in store.plan().trials.iter().map(|trial| &trial.id) {
        if !goes_on() {
            break;
        }
        let complete = matches!(store.trial(id), Ok(Some(trial)) if trial.status == TrialStatus::Complete);
        let logs = store.request_logs(id);
        let known = store.priced(id).ok().flatten();
        if !complete || logs.is_empty() || known.is_some_and(|known| known.asked == asked) {
            continue;
        }
        let mut record = PricedRecord { version: STORE_VERSION, asked: asked.clone(), logs: Vec::new() };
        for log in logs {
            let file = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match price_log(store.root(), &log, media) {
                Ok(priced) => record.logs.push(PricedLog { file, ..priced }),
                Err(error) => says(format!("{file} of trial {id} is not priced: {}", in_one_line(&error))),
            }
        }
        store.keep_priced(id, &record)?;
        says(format!("trial {id}: priced on {}", asked.join(", ")));
    }
    Ok(())
}

/// Prices a log on those of the media that are of its class.
fn price_log(store: &Path, log: &Path, media: &[MediumSpec]) -> Result<PricedLog, PricingError> {
    let named = price::recorded_medium(&mut open(store, log)?)?;
    let recorded: MediumSpec = named.ok_or(PricingError::Unnamed)?.parse()?;
    let check = price_on(store, log, &recorded)?;
    let mut found = PricedLog {
        recorded_on: recorded.to_string(),
        deviating: check.deviation.requests,
        largest_ns: check.deviation.largest_ns,
        ..PricedLog::default()
    };
    for medium in media.iter().filter(|medium| price::check_class(&recorded, medium).is_ok()) {
        // The volume lies at the same place of the other drive.
        let priced = if *medium == recorded {
            check.clone()
        } else {
            price_on(store, log, &medium.placed(recorded.at()))?
        };
        found.media.push(on(medium, priced));
    }
    Ok(found)
}

/// Opens a log of a store; no link leads to it.
fn open(store: &Path, log: &Path) -> Result<Opened, FileError> {
    let opened = input::open_below(store, log.strip_prefix(store).unwrap_or(log));
    let file = opened.map_err(|source| FileError::Io { what: "open", path: log.to_owned(), source })?;
    convert::of_file(file, log, &Options::default())
}

fn price_on(store: &Path, log: &Path, medium: &MediumSpec) -> Result<Priced, PricingError> {
    let mut opened = open(store, log)?;
    let mut model = medium.resolve(opened.geometry().size_bytes)?;
    Ok(price::price(&mut opened, &mut model)?)
}

fn on(medium: &MediumSpec, priced: Priced) -> PricedOn {
    let parts = priced.intervals.into_iter().map(|interval| PricedPart {
        mark: interval.mark.unwrap_or_default(),
        requests: interval.requests,
        recorded_ns: interval.recorded_ns,
        total_ns: interval.total_ns,
    });
    PricedOn {
        medium: medium.to_string(),
        recorded_ns: priced.recorded_ns,
        total_ns: priced.total_ns,
        parts: parts.collect(),
    }
}
