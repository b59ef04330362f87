//! `fsage price`: what the requests of a log would take on other media.

mod render;
mod subject;

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use fsage_disk::log::convert::{self, FileError, Format, Opened, Options};
use fsage_disk::log::stream::Source as _;
use fsage_disk::media::Resolve as _;
use fsage_disk::price::{self, PriceError, Priced, Varied};
use fsage_model::medium::MediumSpec;
use fsage_model::problem::{EXIT_OK, EXIT_USAGE, Explain as _, Problem};
use fsage_model::quantity::share;
use serde::Serialize;

use self::subject::Subject;
use crate::terminal::Terminal;

/// Arguments of `fsage price`.
#[derive(Debug, Args)]
#[command(after_help = "\
LOG is what `fsage disk log save` wrote, text of blkparse, or the store of a study whose volume has `log = true`.
A request is issued when those it depends on are complete, so queueing is priced too. The recorded medium is priced first, as
a check: its deviation from the recorded times is the error. A log is priced only on media of the same class: that of a
rotational disk not on an SSD. See docs/disk.md.

Examples:
  sudo fsage disk log save old requests.log --without-data
  fsage price requests.log --medium hdd-10k --medium hdd-7200,write_cache_bytes=0
  fsage price requests.log --medium hdd-7200 --vary 20%
  fsage price store/aging --medium hdd-10k")]
pub struct PriceArgs {
    /// Logs, or stores whose trials kept their logs
    #[arg(value_name = "LOG|STORE", required = true)]
    pub logs: Vec<PathBuf>,
    /// Medium to price them on, such as hdd-10k, hdd-7200,rpm=5400 or a medium file; may be repeated
    #[arg(long, value_name = "MEDIUM", required_unless_present = "vary")]
    pub medium: Vec<String>,
    /// Medium they were recorded on, if the log does not name it
    #[arg(long, value_name = "MEDIUM")]
    pub recorded_on: Option<String>,
    /// Also price with each numeric parameter of each medium lowered and raised by this share, such as 20%
    /// [default medium: the recorded one]
    #[arg(long, value_name = "PERCENT")]
    pub vary: Option<Percent>,
}

/// A part of a value: 1 to 99 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(pub u64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim_end_matches('%').trim_end().parse().ok();
        number
            .filter(|percent| (1..100).contains(percent))
            .map(Self)
            .ok_or_else(|| "write it as 20%: a whole number from 1 to 99".to_owned())
    }
}

/// A log, priced.
#[derive(Debug, Serialize)]
struct PricedLog {
    /// The file.
    log: PathBuf,
    /// The trial that it is of; absent where the file was named.
    trial: Option<String>,
    /// The trial and its factors in words, or the file.
    #[serde(skip)]
    name: String,
    /// The medium it was recorded on.
    recorded_on: String,
    /// On that medium again: how far its `deviation` is from nothing is the error of pricing.
    check: Priced,
    /// On the media asked for, in their order.
    media: Vec<PricedMedium>,
}

/// A log on a medium.
#[derive(Debug, Serialize)]
struct PricedMedium {
    /// The medium.
    medium: String,
    /// Its time ÷ the recorded time; absent where nothing took time.
    ratio: Option<f64>,
    /// What it takes there.
    priced: Priced,
    /// With one parameter changed, in the order of the parameters.
    variations: Vec<PricedVariation>,
}

/// A parameter lowered and raised.
#[derive(Debug, Serialize)]
struct PricedVariation {
    /// The parameter.
    key: &'static str,
    /// Its unit.
    unit: &'static str,
    /// Its value.
    value: u64,
    /// Lowered.
    low: PricedValue,
    /// Raised.
    high: PricedValue,
}

/// A medium with another value of one parameter.
#[derive(Debug, Serialize)]
struct PricedValue {
    /// The value.
    value: u64,
    /// From the first request to the last answer; absent where there is no such medium.
    total_ns: Option<u64>,
    /// That ÷ the time with the parameter as it is.
    ratio: Option<f64>,
    /// Why there is no such medium.
    refused: Option<String>,
}

/// Does it.
pub(crate) fn run(args: &PriceArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let media = parsed(&args.medium)?;
    let recorded = args.recorded_on.as_deref().map(fsage_lab::medium_file::from_flag).transpose()?;
    let mut logs = Vec::new();
    for path in &args.logs {
        for subject in subject::all(path)? {
            logs.extend(priced_log(&subject, &media, recorded.as_ref(), args.vary, terminal)?);
        }
    }
    if logs.is_empty() {
        let message = "no trial kept a log that can be priced on these media";
        return Err(
            Problem::new(EXIT_USAGE, message).hint("name a medium of the class that the trials ran on")
        );
    }
    if terminal.json {
        terminal.json(&logs)?;
    } else {
        let text: Vec<String> = logs.iter().map(|log| render::log(log, args.vary)).collect();
        terminal.result(&text.join("\n"))?;
    }
    Ok(EXIT_OK)
}

/// The media asked for, each once.
fn parsed(media: &[String]) -> Result<Vec<MediumSpec>, Problem> {
    let mut found = Vec::new();
    for medium in media {
        let spec = fsage_lab::medium_file::from_flag(medium)?;
        if !found.contains(&spec) {
            found.push(spec);
        }
    }
    Ok(found)
}

/// Nothing where none of the media is of the class of a trial's: a store may hold trials of several.
fn priced_log(
    subject: &Subject,
    media: &[MediumSpec],
    recorded: Option<&MediumSpec>,
    vary: Option<Percent>,
    terminal: &Terminal,
) -> Result<Option<PricedLog>, Problem> {
    let recorded = match recorded {
        Some(recorded) => recorded.clone(),
        None => recorded_medium(subject)?,
    };
    let own = [recorded.clone()];
    let mut fitting = Vec::new();
    // Refused before anything is priced.
    for medium in if media.is_empty() { &own[..] } else { media } {
        match price::check_class(&recorded, medium) {
            Ok(()) => fitting.push(medium),
            Err(error) if subject.trial.is_some() => {
                terminal.note(&format!("note: {}: {error}", subject.name))
            }
            Err(error) => return Err(problem(subject, error)),
        }
    }
    if fitting.is_empty() {
        return Ok(None);
    }
    let check = price_on(subject, &recorded)?;
    let mut found = Vec::new();
    for medium in fitting {
        let priced = if *medium == recorded { check.clone() } else { price_on(subject, medium)? };
        let variations = vary
            .map_or(Ok(Vec::new()), |percent| priced_variations(subject, medium, percent, priced.total_ns))?;
        found.push(PricedMedium {
            medium: medium.to_string(),
            ratio: ratio(priced.total_ns, priced.recorded_ns),
            priced,
            variations,
        });
    }
    let Subject { log, trial, name, store: _ } = subject.clone();
    Ok(Some(PricedLog { log, trial, name, recorded_on: recorded.to_string(), check, media: found }))
}

/// `part / whole`, where there is a whole.
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| share(part, whole))
}

/// Opens a log whose requests have times.
fn open(subject: &Subject) -> Result<Opened, Problem> {
    let file = subject.file();
    let file = file.map_err(|source| FileError::Io { what: "open", path: subject.log.clone(), source })?;
    let opened = convert::of_file(file, &subject.log, &Options::default())?;
    if opened.format() == Format::DmLogWrites {
        let message = format!(
            "{} has no times: its format does not record which request waited for which",
            subject.log.display()
        );
        return Err(Problem::new(EXIT_USAGE, message)
            .hint("`fsage disk replay LOG --model MEDIUM --iodepth N` assumes a queue"));
    }
    Ok(opened)
}

/// The medium that a log names.
fn recorded_medium(subject: &Subject) -> Result<MediumSpec, Problem> {
    let named = price::recorded_medium(&mut open(subject)?)
        .map_err(|source| FileError::Read { path: subject.log.clone(), source })?;
    match named {
        Some(named) => named.parse().map_err(|error: fsage_model::medium::MediumError| {
            Problem::new(EXIT_USAGE, format!("{} was recorded on `{named}`", subject.log.display()))
                .because(&error)
                .hint("name the most similar existing medium with `--recorded-on`")
        }),
        None => Err(Problem::new(
            EXIT_USAGE,
            format!("{} does not name the medium it was recorded on", subject.log.display()),
        )
        .hint(
            "name it with `--recorded-on MEDIUM`; for a real disk the most similar one (`fsage disk media` lists them)",
        )),
    }
}

fn price_on(subject: &Subject, medium: &MediumSpec) -> Result<Priced, Problem> {
    let mut opened = open(subject)?;
    let mut model = medium.resolve(opened.geometry().size_bytes)?;
    price::price(&mut opened, &mut model).map_err(|error| problem(subject, error))
}

fn problem(subject: &Subject, error: PriceError) -> Problem {
    match error {
        PriceError::Log(source) => FileError::Read { path: subject.log.clone(), source }.into(),
        error => {
            let problem = Problem::new(error.exit_code(), format!("cannot price {}", subject.log.display()));
            let problem = problem.because(&error);
            match error.hint() {
                Some(hint) => problem.hint(hint),
                None => problem,
            }
        }
    }
}

fn priced_variations(
    subject: &Subject,
    medium: &MediumSpec,
    percent: Percent,
    base_ns: u64,
) -> Result<Vec<PricedVariation>, Problem> {
    price::variations(medium, percent.0)
        .into_iter()
        .map(|variation| {
            Ok(PricedVariation {
                key: variation.key,
                unit: variation.unit,
                value: variation.value,
                low: priced_value(subject, variation.low, base_ns)?,
                high: priced_value(subject, variation.high, base_ns)?,
            })
        })
        .collect()
}

/// Parameters that contradict each other are no error of the user's here: the row says so.
fn priced_value(subject: &Subject, varied: Varied, base_ns: u64) -> Result<PricedValue, Problem> {
    let mut opened = open(subject)?;
    let size_bytes = opened.geometry().size_bytes;
    let model = varied.medium.and_then(|medium| medium.resolve(size_bytes));
    Ok(match model {
        Ok(mut model) => {
            let priced = price::price(&mut opened, &mut model).map_err(|error| problem(subject, error))?;
            let total_ns = priced.total_ns;
            PricedValue {
                value: varied.value,
                total_ns: Some(total_ns),
                ratio: ratio(total_ns, base_ns),
                refused: None,
            }
        }
        Err(error) => {
            PricedValue { value: varied.value, total_ns: None, ratio: None, refused: Some(error.to_string()) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_whole_number_of_percent() {
        for text in ["20%", "20", "20 %"] {
            assert_eq!(text.parse(), Ok(Percent(20)), "{text}");
        }
        for text in ["", "%", "0%", "100%", "-5%", "2.5%", "a%"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_medium_is_priced_once_however_it_is_written() {
        let media = ["hdd-10k", "hdd-7200,rpm=5400", "{\"preset\":\"hdd-10k\"}"].map(str::to_owned);
        let found: Vec<String> = parsed(&media)
            .unwrap_or_else(|problem| panic!("{}", problem.render(false)))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, ["hdd-10k", "hdd-7200,rpm=5400"]);
    }
}
