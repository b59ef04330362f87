//! Bytes with units, as users write them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A number of bytes; in TOML, JSON and flags a number, or text such as `"64KiB"` or `"1.5GiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, JsonSchema)]
#[schemars(with = "SizeText")]
pub struct Bytes(pub u64);

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only the shape is used")]
enum SizeText {
    Number(u64),
    Text(String),
}

/// Why a text is not a size.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{text}` is not a size: write a number of bytes or a number with KiB, MiB, GiB, TiB (1024s) or kB, MB, GB, TB (1000s)"
)]
pub struct SizeError {
    text: String,
}

const UNITS: [(&str, u64); 14] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("B", 1),
];

impl FromStr for Bytes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || SizeError { text: text.to_owned() };
        let trimmed = text.trim();
        let (number, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| trimmed.strip_suffix(unit).map(|n| (n.trim_end(), *factor)))
            .unwrap_or((trimmed, 1));
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Self).ok_or_else(error);
        }
        let value: f64 = number.parse().map_err(|_| error())?;
        #[expect(clippy::cast_precision_loss, reason = "a unit is an exact power below 2^53")]
        let bytes = value * factor as f64;
        if !bytes.is_finite() || !(0.0..9.0e18).contains(&bytes) {
            return Err(error());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked above")]
        Ok(Self(bytes.round() as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in UNITS[..4].iter().rev() {
            if self.0 >= *factor {
                if self.0.is_multiple_of(*factor) {
                    return write!(f, "{}{unit}", self.0 / factor);
                }
                #[expect(clippy::cast_precision_loss, reason = "display only")]
                return write!(f, "{:.1}{unit}", self.0 as f64 / *factor as f64);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes or text such as \"64KiB\"")
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Bytes, E> {
                Ok(Bytes(value))
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Bytes, E> {
                u64::try_from(value).map(Bytes).map_err(|_| E::custom("a size cannot be negative"))
            }

            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Bytes, E> {
                value.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
