//! Why a workload's description is invalid.

use crate::size::Bytes;

/// Why a workload's description is invalid. Each names the key as it stands in TOML.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// A number outside its range.
    #[error("{key} = {value} is out of range: it must be {limit}")]
    Range {
        /// The key.
        key: String,
        /// What it says.
        value: String,
        /// What it may say, in words.
        limit: String,
    },
    /// Two numbers that contradict each other.
    #[error("{key} = {value} contradicts {other_key} = {other_value}: {rule}")]
    Contradiction {
        /// The one key.
        key: String,
        /// What it says.
        value: String,
        /// The other key.
        other_key: String,
        /// What that says.
        other_value: String,
        /// What must hold between them.
        rule: String,
    },
    /// A size that the volume cannot hold.
    #[error("{key} = {value} is larger than the volume, which has {volume}")]
    LargerThanVolume {
        /// The key.
        key: String,
        /// What it says.
        value: Bytes,
        /// Size of the volume.
        volume: Bytes,
    },
    /// A profile that is none.
    #[error("like: {source}")]
    Profile {
        /// What is wrong with it.
        source: crate::profile::ProfileError,
    },
    /// No operation has a weight.
    #[error("weights are all 0: there is nothing to do")]
    NoWeights,
    /// Operations that work on files, and none that makes them.
    #[error("weights.create is 0: without files no other operation finds an object")]
    NoCreate,
    /// A text that is not of its form.
    #[error("{key}, line {line}: {what}")]
    Text {
        /// The key.
        key: String,
        /// 1-based.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A table without rows.
    #[error("{key} is empty")]
    EmptyTable {
        /// The key.
        key: String,
    },
    /// More directories than fit the tree.
    #[error(
        "directories.count = {count} needs {needed} directories per thread, but directories.fan_out = {fan_out} and directories.depth = {depth} have room for {room}"
    )]
    TreeTooSmall {
        /// `directories.count`.
        count: u64,
        /// What each thread would need.
        needed: u64,
        /// `directories.fan_out`.
        fan_out: u64,
        /// `directories.depth`.
        depth: u32,
        /// Directories a tree of that shape has.
        room: u64,
    },
}

impl WorkloadError {
    /// A number that is out of its range.
    pub fn range(key: &str, value: impl ToString, limit: &str) -> Self {
        Self::Range { key: key.to_owned(), value: value.to_string(), limit: limit.to_owned() }
    }

    /// Refuses what is no share above 0 and at most 1.
    pub fn share(key: &str, value: f64) -> Result<f64, Self> {
        if value > 0.0 && value <= 1.0 {
            Ok(value)
        } else {
            Err(Self::range(key, value, "above 0 and at most 1"))
        }
    }

    /// Refuses what is not in `range`.
    pub fn within(key: &str, value: u64, range: std::ops::RangeInclusive<u64>) -> Result<u64, Self> {
        if range.contains(&value) {
            return Ok(value);
        }
        let (least, most) = (range.start(), range.end());
        let limit =
            if *most == u64::MAX { format!("at least {least}") } else { format!("in {least}..={most}") };
        Err(Self::range(key, value, &limit))
    }

    /// The key that is wrong; empty where it is none alone.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Range { key, .. }
            | Self::Contradiction { key, .. }
            | Self::LargerThanVolume { key, .. }
            | Self::Text { key, .. }
            | Self::EmptyTable { key } => key,
            Self::Profile { .. } => "like",
            Self::NoWeights => "weights",
            Self::NoCreate => "weights.create",
            Self::TreeTooSmall { .. } => "directories",
        }
    }

    /// The next step for the user; empty when the message says it all.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Profile { source } => source.hint().to_owned(),
            Self::NoWeights => {
                "give at least create a weight: weights = { create = 10, delete = 8 }".to_owned()
            }
            Self::NoCreate => "give create a weight above 0".to_owned(),
            Self::LargerThanVolume { key, volume, .. } => smaller(key, *volume),
            Self::TreeTooSmall { .. } => "raise directories.fan_out or directories.depth".to_owned(),
            Self::EmptyTable { .. } => "give at least one row: rows = [[\"4KiB\", 1.0]]".to_owned(),
            Self::Text { .. } => {
                "a profile file of Geriatrix has the number of rows, then as many rows; the rest is ignored"
                    .to_owned()
            }
            Self::Range { .. } | Self::Contradiction { .. } => String::new(),
        }
    }
}

/// How to ask for a size that a volume can hold: the largest power of two in a sixteenth of it, so that
/// several files have room.
fn smaller(key: &str, volume: Bytes) -> String {
    let fits = (volume.0 / 16).max(4096);
    let fits = Bytes(1 << fits.ilog2());
    if key.ends_with(".max") || key.ends_with(".size") {
        format!(
            "use a larger volume, or smaller sizes: `--set {key}={fits}`, in a study's workload `{key} = \"{fits}\"`"
        )
    } else {
        format!("use a larger volume, or smaller sizes, such as {fits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_size_is_named_with_its_key() {
        let hint = |key: &str, mebibytes: u64| {
            let (value, volume) = (Bytes(1 << 30), Bytes(mebibytes << 20));
            WorkloadError::LargerThanVolume { key: key.to_owned(), value, volume }.hint()
        };
        assert!(hint("file_size.max", 240).contains("`--set file_size.max=8MiB`"));
        assert!(hint("io_size.size", 1000).contains("`io_size.size = \"32MiB\"`"));
        assert!(hint("file_size.rows", 64).ends_with("such as 4MiB"));
        assert!(hint("file_size.max", 0).contains("4KiB"));
    }
}
