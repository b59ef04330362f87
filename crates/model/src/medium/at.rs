//! The position of a volume on its drive.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::size::Bytes;

/// Partitions begin at multiples of this, as partitioning programs place them.
pub(super) const ALIGNMENT_BYTES: u64 = 1 << 20;

/// The position of a volume on its drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum At {
    /// The beginning: the outermost tracks of a hard disk.
    #[default]
    Outer,
    /// The end: the innermost tracks.
    Inner,
    /// Offset in bytes from the beginning.
    Offset(Bytes),
}

/// Why a volume does not fit on its drive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AtError {
    /// It is larger than the drive, or reaches beyond its end.
    #[error("a volume of {size} at {at} does not fit on the drive's {capacity}")]
    Beyond {
        /// Of the volume.
        size: Bytes,
        /// Where.
        at: At,
        /// Of the drive.
        capacity: Bytes,
    },
    /// The offset is not a multiple of 1 MiB.
    #[error("a volume begins at a multiple of 1MiB, not at {0} bytes")]
    Unaligned(u64),
}

impl At {
    /// The first byte of a volume of `size_bytes` on a drive of `capacity_bytes`.
    ///
    /// # Errors
    /// It does not fit there.
    pub fn start_bytes(self, size_bytes: u64, capacity_bytes: u64) -> Result<u64, AtError> {
        let start = match self {
            Self::Outer => 0,
            Self::Inner => capacity_bytes.saturating_sub(size_bytes) / ALIGNMENT_BYTES * ALIGNMENT_BYTES,
            Self::Offset(Bytes(start)) if !start.is_multiple_of(ALIGNMENT_BYTES) => {
                return Err(AtError::Unaligned(start));
            }
            Self::Offset(Bytes(start)) => start,
        };
        if start.checked_add(size_bytes).is_none_or(|end| end > capacity_bytes) {
            return Err(AtError::Beyond {
                size: Bytes(size_bytes),
                at: self,
                capacity: Bytes(capacity_bytes),
            });
        }
        Ok(start)
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outer => f.write_str("outer"),
            Self::Inner => f.write_str("inner"),
            Self::Offset(bytes) => write!(f, "{}", bytes.0),
        }
    }
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "outer" => Ok(Self::Outer),
            "inner" => Ok(Self::Inner),
            other => other.parse().map(Self::Offset).map_err(|_| {
                format!(
                    "`{other}` is not a position on a drive: write `outer`, `inner` or a size such as 10GiB"
                )
            }),
        }
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Offset(bytes) => bytes.serialize(serializer),
            edge => serializer.collect_str(edge),
        }
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Ok(Self::Offset(Bytes(bytes))),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl JsonSchema for At {
    fn schema_name() -> Cow<'static, str> {
        "At".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "minimum": 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_within_the_drive() {
        let drive = 100 << 30;
        assert_eq!(At::Outer.start_bytes(5 << 30, drive), Ok(0));
        assert_eq!(At::Inner.start_bytes(5 << 30, drive + 5), Ok(95 << 30));
        assert_eq!("1GiB".parse::<At>().unwrap().start_bytes(99 << 30, drive), Ok(1 << 30));
        for (at, size) in [("outer", 101_u64 << 30), ("inner", 101 << 30), ("1GiB", 100 << 30), ("4096", 1)] {
            assert!(at.parse::<At>().unwrap().start_bytes(size, drive).is_err(), "{at}");
        }
        assert!("middle".parse::<At>().unwrap_err().contains("`outer`, `inner`"));
    }

    #[test]
    fn places_are_written_as_they_are_read() {
        for text in ["\"outer\"", "\"inner\"", "1048576"] {
            let at: At = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&at).unwrap(), text);
            assert_eq!(at.to_string().parse(), Ok(at));
        }
        assert_eq!(serde_json::from_str::<At>("\"2MiB\"").unwrap(), At::Offset(Bytes(2 << 20)));
    }
}
