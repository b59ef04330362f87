//! What a profile may not say.

use super::PROFILE_VERSION;

/// Why a profile cannot be one of a tree. Keys are those of the TOML file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// Written in another version of the format.
    #[error("profile_version = {found} is not known: this fsage reads {PROFILE_VERSION}")]
    Version {
        /// What it says.
        found: u32,
    },
    /// No regular file.
    #[error("it has no regular files")]
    Empty,
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
    /// Rows that cannot be rows.
    #[error("{key}[{row}] {problem}")]
    Row {
        /// The key of the list.
        key: String,
        /// Which row, from 0.
        row: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Rows that do not add up.
    #[error("{key} add up to {sum}, which is not {total}")]
    Sum {
        /// The key of the list.
        key: String,
        /// What the rows make.
        sum: u64,
        /// What the total says.
        total: u64,
    },
}

impl ProfileError {
    /// The next step for the user.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Version { .. } => {
                "write it again with `fsage profile PATH -o FILE`, or use the fsage that wrote it"
            }
            Self::Empty => "name a directory that holds files and that you may read",
            Self::Range { .. } | Self::Row { .. } | Self::Sum { .. } => {
                "the file was changed or cut off: write it again with `fsage profile PATH -o FILE`"
            }
        }
    }
}

pub fn within(key: &str, value: impl ToString, good: bool, limit: &str) -> Result<(), ProfileError> {
    if good {
        return Ok(());
    }
    Err(ProfileError::Range { key: key.to_owned(), value: value.to_string(), limit: limit.to_owned() })
}

fn row(key: &str, row: usize, problem: &str) -> ProfileError {
    ProfileError::Row { key: key.to_owned(), row, problem: problem.to_owned() }
}

/// Sums that a `u64` cannot hold are taken for wrong ones.
fn sum(key: &str, values: impl Iterator<Item = u64>, total: u64) -> Result<(), ProfileError> {
    let sum = values.fold(0_u64, u64::saturating_add);
    if sum == total { Ok(()) } else { Err(ProfileError::Sum { key: key.to_owned(), sum, total }) }
}

pub fn check_counts(key: &str, rows: &[(u64, u64)], total: u64) -> Result<(), ProfileError> {
    for (n, pair) in rows.windows(2).enumerate() {
        if pair[0].0 >= pair[1].0 {
            return Err(row(key, n + 1, "is not above the row before it"));
        }
    }
    if let Some(n) = rows.iter().position(|(_, count)| *count == 0) {
        return Err(row(key, n, "counts nothing"));
    }
    sum(key, rows.iter().map(|(_, count)| *count), total)
}

/// Rows of sizes; `upper`: the bound is the largest size of the row, else the smallest.
pub fn check_sizes(
    key: &str,
    rows: &[(u64, u64, u64)],
    (count, bytes): (u64, u64),
    upper: bool,
) -> Result<(), ProfileError> {
    let counts: Vec<(u64, u64)> = rows.iter().map(|(bound, count, _)| (*bound, *count)).collect();
    check_counts(key, &counts, count)?;
    for (n, (bound, count, bytes)) in rows.iter().enumerate() {
        let limit = bound.saturating_mul(*count);
        if if upper { *bytes > limit } else { *bytes < limit } {
            return Err(row(key, n, "has a sum of sizes that its bound and count rule out"));
        }
        if i64::try_from(*bound).is_err() {
            return Err(row(key, n, "has a bound beyond every file size"));
        }
    }
    sum(key, rows.iter().map(|(_, _, bytes)| *bytes), bytes)
}
