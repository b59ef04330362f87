//! The device model of a drive from the times of its reads: which reads to time, and what the parameters of the model are.
//!
//! [`plan`] says which reads are timed, [`hdd`] and [`ssd`] turn their times into parameters, each with a 95 % interval, and
//! [`held_out`] compares the model with reads that were not used. Parts: `seek` (the seek curve), `track` (tracks and places),
//! `queue` (parallel reads), `resample` (intervals).
//!
//! What reads cannot show (everything about writes, and what each module names) is left as the preset has it, and said to be, or
//! measured by [`writes`] where the device may be erased.

pub mod hdd;
pub mod held_out;
pub mod plan;
pub mod queue;
mod resample;
pub mod seek;
pub mod ssd;
pub mod track;
pub mod writes;

use fsage_model::medium::{MediumError, MediumSpec};
use fsage_model::number::percent;
use fsage_model::problem::{EXIT_FAILED, EXIT_USAGE, Explain};
use fsage_model::size::Bytes;
use serde::Serialize;
use serde_json::json;

/// Where the value of a parameter comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "origin", rename_all = "kebab-case")]
pub enum Origin {
    /// From times of this device, with a 95 % interval. Of a bracket (two sizes between which something changes) the interval is
    /// the bracket.
    Measured {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Follows from what was measured and what the device says of itself.
    Derived,
    /// The preset's, or the preset's relation to a value that was measured.
    Assumed,
}

/// A parameter of the fitted model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// Its key in a medium.
    pub key: &'static str,
    /// Its value as a medium has it: a number, or the name of a choice.
    pub value: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// How, in words.
    pub how: String,
}

impl Parameter {
    /// A measured number.
    fn measured(key: &'static str, value: u64, (low, high): (f64, f64), how: impl Into<String>) -> Self {
        Self { key, value: value.to_string(), origin: Origin::Measured { low, high }, how: how.into() }
    }

    /// A derived number.
    fn derived(key: &'static str, value: u64, how: impl Into<String>) -> Self {
        Self { key, value: value.to_string(), origin: Origin::Derived, how: how.into() }
    }

    /// An assumed number.
    fn assumed(key: &'static str, value: u64, how: impl Into<String>) -> Self {
        Self { key, value: value.to_string(), origin: Origin::Assumed, how: how.into() }
    }
}

/// The rate of sequential reads at a place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ZoneRate {
    /// Where, as a share of the bytes from the start.
    pub place: f64,
    /// Bytes per second, the median over the repeats.
    pub bytes_per_s: f64,
    /// The same by the fitted model.
    pub fitted_bytes_per_s: f64,
}

/// Random reads at a queue depth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DepthRate {
    /// Reads at a time.
    pub depth: u32,
    /// Reads per second.
    pub reads_per_s: f64,
}

/// The fitted model and what it was fitted to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// Every parameter that is not simply the preset's, and those of which there is something to say.
    pub parameters: Vec<Parameter>,
    /// Sequential reads by place.
    pub zones: Vec<ZoneRate>,
    /// Random reads by depth; empty where the depth could not be measured.
    pub depths: Vec<DepthRate>,
    /// What the user should know of it.
    pub notes: Vec<String>,
}

impl Fit {
    /// The value of a parameter; `None` where the preset's is kept and nothing is to say.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|parameter| parameter.key == key)
            .map(|parameter| parameter.value.as_str())
    }

    /// The same as a number.
    fn number(&self, key: &str) -> Option<u64> {
        self.value(key)?.parse().ok()
    }

    /// Takes a parameter in, for one of the same key if there is one.
    fn put(&mut self, parameter: Parameter) {
        match self.parameters.iter_mut().find(|known| known.key == parameter.key) {
            Some(known) => *known = parameter,
            None => self.parameters.push(parameter),
        }
    }

    /// The medium: the preset of that name with these parameters.
    ///
    /// # Errors
    /// There is no such preset, or it has no such parameters.
    pub fn medium(&self, preset: &str) -> Result<MediumSpec, MediumError> {
        let value =
            |one: &Parameter| one.value.parse::<u64>().map_or_else(|_| json!(one.value), |n| json!(n));
        let values = self.parameters.iter().map(|one| (one.key.to_owned(), value(one)));
        let mut table: serde_json::Map<String, serde_json::Value> = values.collect();
        table.insert("preset".to_owned(), json!(preset));
        serde_json::Value::Object(table).to_string().parse()
    }
}

/// Why a device cannot be fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Too little to read.
    #[error("{} is too small: at least {} are needed", Bytes(*.size_bytes), Bytes(*.least_bytes))]
    Small {
        /// The device.
        size_bytes: u64,
        /// What is needed.
        least_bytes: u64,
    },
    /// Too few or too many reads.
    #[error("{reads} reads are not between {least} and {most}")]
    Reads {
        /// What was asked for.
        reads: u32,
        /// Fewest.
        least: u32,
        /// Most.
        most: u32,
    },
    /// Too little room for what is to be written.
    #[error("{} is too small for these writes: at least {} are needed", Bytes(*.size_bytes), Bytes(*.least_bytes))]
    Room {
        /// The device.
        size_bytes: u64,
        /// What is needed.
        least_bytes: u64,
    },
    /// Too little or too much to write.
    #[error(
        "{} of long sequences of writes are not between {} and {}",
        Bytes(*.bytes),
        Bytes(*writes::BYTES.start()),
        Bytes(*writes::BYTES.end())
    )]
    Written {
        /// What was asked for.
        bytes: u64,
    },
    /// The times contradict each other too much.
    #[error("the times vary too much: {what} by {}, at most {} is accepted", percent(*.spread), percent(*.most))]
    Noise {
        /// Of what.
        what: &'static str,
        /// Relative spread.
        spread: f64,
        /// What is accepted.
        most: f64,
    },
    /// The times are none of such a drive.
    #[error("the times are not those of {kind}: {why}")]
    Unlike {
        /// The class.
        kind: &'static str,
        /// What speaks against it.
        why: &'static str,
    },
    /// Not all times are there.
    #[error("the times of {found} runs do not belong to a plan of {planned}")]
    Runs {
        /// Runs timed.
        found: usize,
        /// Runs planned.
        planned: usize,
    },
}

impl Explain for FitError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Small { .. } | Self::Reads { .. } | Self::Room { .. } | Self::Written { .. } => EXIT_USAGE,
            Self::Noise { .. } | Self::Unlike { .. } | Self::Runs { .. } => EXIT_FAILED,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Small { .. } => "fit a larger device, best the whole disk",
            Self::Reads { .. } => "give a number in this range with `--reads`",
            Self::Room { .. } => "write less, such as `--writes=256MiB`, or fit a larger device",
            Self::Written { .. } => "give a size in this range, such as `--writes=1GiB`",
            Self::Noise { .. } => "stop whatever else uses the device or the processors, then try again",
            Self::Unlike { .. } => "give the class of the device with `--class`",
            Self::Runs { .. } => "fsage and fsage-agent must be of the same version",
        };
        Some(hint.to_owned())
    }
}
