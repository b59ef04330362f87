//! Partitions of one drive: what is asked for, and where each lies.
//!
//! Partitions with a position of their own are placed first. The others follow one another from the outer edge
//! in their order, each behind what is in its way. Sizes and starts are multiples of 1 MiB.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::at::{ALIGNMENT_BYTES, At, AtError};
use crate::extent::Extent;
use crate::size::Bytes;

/// A partition as it is asked for; as a flag `5GiB`, `5GiB@inner` or `5GiB@100GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionSpec {
    /// Its size, a multiple of 1 MiB.
    pub size: Bytes,
    /// Its position on the drive; absent: after the previous partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<At>,
}

/// Why partitions cannot be had on a drive. Numbers count from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// A size that no partition has.
    #[error("a partition of {size_bytes} bytes: its size must be a multiple of 1MiB, and at least that")]
    Size {
        /// The partition.
        number: usize,
        /// Its size.
        size_bytes: u64,
    },
    /// It does not fit at its position.
    #[error("{source}")]
    At {
        /// The partition.
        number: usize,
        /// Why.
        source: AtError,
    },
    /// Two have bytes in common.
    #[error(
        "the partition of {} at {} overlaps the one of {} at {}",
        Bytes(.extent.size_bytes), .extent.start_bytes, Bytes(.other.size_bytes), .other.start_bytes
    )]
    Overlap {
        /// The later one in the order given.
        number: usize,
        /// Where it lies.
        extent: Extent,
        /// Where the other lies.
        other: Extent,
    },
    /// No room is left behind the partitions before it.
    #[error(
        "no room for a partition of {size}: the drive has {capacity}, and what is before it ends at {end_bytes}"
    )]
    Room {
        /// The partition.
        number: usize,
        /// Its size.
        size: Bytes,
        /// Of the drive.
        capacity: Bytes,
        /// Where it would begin.
        end_bytes: u64,
    },
}

impl PartitionError {
    /// Which partition, in the order given, from 0.
    #[must_use]
    pub const fn number(&self) -> usize {
        match self {
            Self::Size { number, .. }
            | Self::At { number, .. }
            | Self::Overlap { number, .. }
            | Self::Room { number, .. } => *number,
        }
    }

    /// The next step.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Size { .. } => "write it as 5GiB or 512MiB",
            Self::Overlap { .. } => "give one of them another position, or leave the positions out",
            Self::At { .. } | Self::Room { .. } => {
                "take smaller partitions, other positions, or a larger drive"
            }
        }
    }
}

/// Where each of the partitions lies on a drive of that capacity, in the order given; a drive without a
/// capacity of its own (`ram`) is as large as they are together.
///
/// # Errors
/// The first partition that cannot be had, and why.
pub fn place(
    partitions: &[PartitionSpec],
    capacity_bytes: Option<u64>,
) -> Result<Vec<Extent>, PartitionError> {
    let all = partitions.iter().fold(0_u64, |sum, partition| sum.saturating_add(partition.size.0));
    let capacity_bytes = capacity_bytes.unwrap_or(all);
    let mut placed: Vec<Option<Extent>> = Vec::with_capacity(partitions.len());
    for (number, PartitionSpec { size: Bytes(size_bytes), at }) in partitions.iter().copied().enumerate() {
        if size_bytes == 0 || !size_bytes.is_multiple_of(ALIGNMENT_BYTES) {
            return Err(PartitionError::Size { number, size_bytes });
        }
        let start = at.map(|at| at.start_bytes(size_bytes, capacity_bytes)).transpose();
        let start = start.map_err(|source| PartitionError::At { number, source })?;
        let extent = start.map(|start_bytes| Extent { start_bytes, size_bytes });
        let other = |extent: &Extent| placed.iter().flatten().find(|other| other.overlaps(extent)).copied();
        if let Some((extent, other)) = extent.and_then(|extent| Some((extent, other(&extent)?))) {
            return Err(PartitionError::Overlap { number, extent, other });
        }
        placed.push(extent);
    }
    let mut obstacles: Vec<Extent> = placed.iter().flatten().copied().collect();
    obstacles.sort_unstable_by_key(|extent| extent.start_bytes);
    let mut start_bytes = 0;
    let mut found = Vec::with_capacity(partitions.len());
    for (number, extent) in placed.into_iter().enumerate() {
        let size = partitions.get(number).map_or(Bytes(0), |partition| partition.size);
        found.push(match extent {
            Some(extent) => extent,
            None => {
                let extent = behind(start_bytes, size.0, &obstacles);
                if extent.end_bytes() > capacity_bytes {
                    let (capacity, end_bytes) = (Bytes(capacity_bytes), extent.start_bytes);
                    return Err(PartitionError::Room { number, size, capacity, end_bytes });
                }
                start_bytes = extent.end_bytes();
                extent
            }
        });
    }
    Ok(found)
}

/// The first place from `start_bytes` on that none of the obstacles, in their order on the drive, is in the way of.
fn behind(start_bytes: u64, size_bytes: u64, obstacles: &[Extent]) -> Extent {
    let mut extent = Extent { start_bytes, size_bytes };
    for obstacle in obstacles {
        if extent.overlaps(obstacle) {
            extent.start_bytes = obstacle.end_bytes();
        }
    }
    extent
}

impl FromStr for PartitionSpec {
    type Err = String;

    /// Reads `5GiB` or `5GiB@outer`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (size, at) = match text.split_once('@') {
            Some((size, at)) => (size, Some(at.parse()?)),
            None => (text, None),
        };
        Ok(Self { size: size.parse().map_err(|error: crate::size::SizeError| error.to_string())?, at })
    }
}

/// As a flag, with sizes in bytes.
impl fmt::Display for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.size.0)?;
        self.at.map_or(Ok(()), |at| write!(f, "@{at}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn starts(partitions: &[&str], capacity_gib: u64) -> Result<Vec<u64>, PartitionError> {
        let partitions: Vec<PartitionSpec> = partitions.iter().map(|text| text.parse().unwrap()).collect();
        let placed = place(&partitions, Some(capacity_gib * GIB))?;
        assert!(placed.iter().zip(&partitions).all(|(extent, asked)| extent.size_bytes == asked.size.0));
        Ok(placed.into_iter().map(|extent| extent.start_bytes / GIB).collect())
    }

    #[test]
    fn partitions_follow_one_another_around_those_with_a_position() {
        assert_eq!(starts(&["5GiB", "50GiB", "5GiB"], 100), Ok(vec![0, 5, 55]));
        assert_eq!(starts(&["5GiB@outer", "50GiB", "1GiB@inner"], 100), Ok(vec![0, 5, 99]));
        assert_eq!(starts(&["5GiB", "50GiB", "1GiB@outer", "2GiB@8GiB"], 100), Ok(vec![1, 10, 0, 8]));
        assert_eq!(starts(&["5GiB", "95GiB"], 100), Ok(vec![0, 5]));
        let ram = place(&[PartitionSpec { size: Bytes(GIB), at: None }; 2], None).unwrap();
        assert_eq!(ram[1], Extent { start_bytes: GIB, size_bytes: GIB });
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_number() {
        for (partitions, number, said) in [
            (&["5GiB", "96GiB"][..], 1, "no room for a partition of 96GiB"),
            (&["5GiB", "101GiB@inner"], 1, "does not fit on the drive's 100GiB"),
            (&["5GiB@outer", "5GiB@4GiB"], 1, "overlaps the one of 5GiB at 0"),
            (&["50GiB@inner", "60GiB@outer"], 1, "overlaps"),
            (&["1GiB@12345"], 0, "multiple of 1MiB"),
            (&["4096"], 0, "multiple of 1MiB"),
            (&["0"], 0, "at least that"),
        ] {
            let error = starts(partitions, 100).unwrap_err();
            assert!(error.number() == number && error.to_string().contains(said), "{partitions:?}: {error}");
            assert!(!error.hint().is_empty());
        }
        assert!("5GiB@middle".parse::<PartitionSpec>().unwrap_err().contains("`outer`, `inner`"));
        assert!("five@outer".parse::<PartitionSpec>().unwrap_err().contains("not a size"));
    }

    #[test]
    fn a_partition_is_written_as_it_is_read() {
        for text in ["1073741824", "1073741824@outer", "1073741824@2097152"] {
            assert_eq!(text.parse::<PartitionSpec>().unwrap().to_string(), text);
        }
    }
}
