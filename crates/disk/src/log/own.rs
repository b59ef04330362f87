//! Marks that the disk itself sets, so that a log says what is not in its requests.
//!
//! They stand among the user's marks, in every format that has marks; an older program shows them as marks.
//! Their names begin with `fsage:`, and no mark of a user does.
//!
//! | mark | where | what it says |
//! | --- | --- | --- |
//! | `fsage:medium SPEC` | before the first request | the medium that the times are of, as a flag names it |
//! | `fsage:partitions SIZE@START …` | there too | the partitions of the drive, in the order of the offsets |
//! | `fsage:rest` | between two requests | the medium was brought to rest ([`Model::rest`](crate::media::Model::rest)) |

use std::fmt;

/// How the names of all of them begin.
pub const OWN: &str = "fsage:";

const MEDIUM: &str = "fsage:medium ";
const PARTITIONS: &str = "fsage:partitions ";
const REST: &str = "fsage:rest";

/// A mark of the disk's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnMark<'a> {
    /// The medium, as a flag names it (`hdd-7200,rpm=5400`).
    Medium(&'a str),
    /// The partitions of the drive, as flags name them, with blanks between.
    Partitions(&'a str),
    /// The medium was brought to rest here.
    Rest,
}

impl<'a> OwnMark<'a> {
    /// What a mark of that name says; nothing where it is a user's, or of a newer program.
    #[must_use]
    pub fn read(name: &'a str) -> Option<Self> {
        let medium = name.strip_prefix(MEDIUM).map(Self::Medium);
        let partitions = || name.strip_prefix(PARTITIONS).map(Self::Partitions);
        medium.or_else(partitions).or_else(|| (name == REST).then_some(Self::Rest))
    }
}

impl fmt::Display for OwnMark<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Medium(medium) => write!(f, "{MEDIUM}{medium}"),
            Self::Partitions(partitions) => write!(f, "{PARTITIONS}{partitions}"),
            Self::Rest => f.write_str(REST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_they_are_written_and_a_users_are_not() {
        for mark in [OwnMark::Medium("hdd-7200,rpm=5400"), OwnMark::Partitions("1@0 2"), OwnMark::Rest] {
            let name = mark.to_string();
            assert_eq!(OwnMark::read(&name), Some(mark));
            assert!(name.starts_with(OWN));
        }
        for name in ["rest", "fsage:resting", "half way", "fsage:medium"] {
            assert_eq!(OwnMark::read(name), None, "{name}");
        }
    }
}
