//! Remedies for an aged file system, and the file systems on which each works.
//!
//! A remedy is written as one word (`defragment`, `free-20`), so that it can be a factor of a matrix. What
//! program does it is known for each file system in its row ([`crate::filesystem`]).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::filesystem::{ALL, FileSystemFacts, MountedProgram};

/// Range of the percentage of files that [`Remedy::Free`] deletes.
pub const FREE_PERCENT: std::ops::RangeInclusive<u8> = 1..=90;

/// Remedy for an aged file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remedy {
    /// Nothing: the control that the others are compared with.
    None,
    /// The defragmenter of the file system makes each file contiguous.
    Defragment,
    /// Block groups are rewritten (btrfs balance).
    Balance,
    /// Free space is discarded (`FITRIM`).
    Fstrim,
    /// Every file is copied to a new file system on another volume, which replaces the first.
    Copy,
    /// This percentage of the files ([`FREE_PERCENT`]) is deleted, each with equal probability.
    Free(u8),
}

impl Remedy {
    /// One of each kind, for tables and tests.
    pub const EACH: [Self; 6] =
        [Self::None, Self::Defragment, Self::Balance, Self::Fstrim, Self::Copy, Self::Free(20)];

    /// The program that does it on this file system; nothing where fsage does it itself, or nothing does.
    #[must_use]
    pub const fn program(self, facts: &FileSystemFacts) -> Option<MountedProgram> {
        match self {
            Self::Defragment => facts.defragment,
            Self::Balance => facts.balance,
            Self::None | Self::Fstrim | Self::Copy | Self::Free(_) => None,
        }
    }

    /// Why it does not suit the file system of this name (`ext4`); nothing where it does. A file system that
    /// fsage does not know has what needs no program of its own.
    #[must_use]
    pub fn objection(self, file_system: &str) -> Option<String> {
        let does = |facts: &FileSystemFacts| self.program(facts).is_some();
        let needs_program = matches!(self, Self::Defragment | Self::Balance);
        if !needs_program || crate::filesystem::by_name(file_system).is_some_and(does) {
            return None;
        }
        let suited: Vec<String> = ALL
            .iter()
            .filter_map(|facts| self.program(facts).map(|program| format!("{} ({program})", facts.name)))
            .collect();
        Some(format!(
            "`{self}` does not suit {file_system}: fsage knows no program that does it there while it is mounted; it suits {}",
            suited.join(", ")
        ))
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Defragment => f.write_str("defragment"),
            Self::Balance => f.write_str("balance"),
            Self::Fstrim => f.write_str("fstrim"),
            Self::Copy => f.write_str("copy"),
            Self::Free(percent) => write!(f, "free-{percent}"),
        }
    }
}

impl FromStr for Remedy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let simple = [Self::None, Self::Defragment, Self::Balance, Self::Fstrim, Self::Copy];
        if let Some(remedy) = simple.into_iter().find(|remedy| remedy.to_string() == text) {
            return Ok(remedy);
        }
        let percent = text.strip_prefix("free-").and_then(|percent| percent.parse().ok());
        percent.filter(|percent| FREE_PERCENT.contains(percent)).map(Self::Free).ok_or_else(|| {
            format!(
                "`{text}` is not a remedy: write none, defragment, balance, fstrim, copy, or free-N, where N is the percent \
                 of the files to delete ({} to {})",
                FREE_PERCENT.start(),
                FREE_PERCENT.end()
            )
        })
    }
}

impl Serialize for Remedy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Remedy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Remedy {
    fn schema_name() -> Cow<'static, str> {
        "Remedy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Remedy for an aged file system: `none`, `defragment`, `balance`, `fstrim`, `copy`, or \
                            `free-N`, which deletes N percent of the files (1 to 90).",
            "type": "string",
            "pattern": "^(none|defragment|balance|fstrim|copy|free-([1-9]|[1-8][0-9]|90))$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_is_read_as_it_is_written() {
        for remedy in Remedy::EACH {
            let text = serde_json::to_string(&remedy).unwrap();
            assert_eq!(serde_json::from_str::<Remedy>(&text).unwrap(), remedy, "{text}");
        }
        for wrong in ["", "free", "free-0", "free-91", "free-x", "Copy", "e4defrag"] {
            let error = wrong.parse::<Remedy>().unwrap_err();
            assert!(error.contains("free-N"), "{error}");
        }
    }

    #[test]
    fn each_remedy_says_which_file_systems_it_suits() {
        for file_system in ["ext4", "xfs", "btrfs"] {
            assert_eq!(Remedy::Defragment.objection(file_system), None);
        }
        let told = |remedy: Remedy, file_system| remedy.objection(file_system).unwrap_or_default();
        assert!(told(Remedy::Defragment, "ext2").contains("ext4 (e4defrag), xfs (xfs_fsr"));
        let balance = told(Remedy::Balance, "xfs");
        assert!(balance.contains("it suits btrfs (btrfs balance start"), "{balance}");
        // What no row is about: what needs no program of the file system's own is possible all the same.
        assert!(!told(Remedy::Defragment, "unheard-of").is_empty());
        for remedy in [Remedy::None, Remedy::Fstrim, Remedy::Copy, Remedy::Free(10)] {
            assert_eq!(remedy.objection("unheard-of"), None);
        }
    }
}
