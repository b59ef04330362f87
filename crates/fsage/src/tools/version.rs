//! Versions of programs: dotted numbers, compared number by number.

use std::fmt;

/// A version such as `1.47.0` or `6.2`. Missing parts count as 0 in comparisons; suffixes (`-rc1`) are dropped.
#[derive(Debug, Clone)]
pub struct Version {
    parts: Vec<u32>,
}

impl Version {
    /// Reads the dotted number at the start of `text`; a leading `v` is allowed. `None` when there is none.
    #[must_use]
    pub fn leading(text: &str) -> Option<Self> {
        let text = text.trim_start();
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number = text[..end].trim_end_matches('.');
        let parts: Option<Vec<u32>> = number.split('.').map(|part| part.parse().ok()).collect();
        parts.map(|parts| Self { parts })
    }

    /// Reads the dotted number after the first occurrence of `marker`.
    #[must_use]
    pub fn after(text: &str, marker: &str) -> Option<Self> {
        text.find(marker).and_then(|at| Self::leading(&text[at + marker.len()..]))
    }

    /// Reads the first word of `text` that begins with a dotted number of at least two parts.
    #[must_use]
    pub fn anywhere(text: &str) -> Option<Self> {
        text.split_whitespace().filter_map(Self::leading).find(|version| version.parts.len() > 1)
    }

    fn significant(&self) -> &[u32] {
        let end = self.parts.iter().rposition(|part| *part != 0).map_or(0, |last| last + 1);
        &self.parts[..end]
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.significant() == other.significant()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.significant().cmp(other.significant())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, part) in self.parts.iter().enumerate() {
            if position > 0 {
                f.write_str(".")?;
            }
            write!(f, "{part}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::leading(text).expect("a version")
    }

    #[test]
    fn reads_numbers_and_drops_suffixes() {
        assert_eq!(version("v6.2-rc1").to_string(), "6.2");
        assert_eq!(version("1.47.0 (5-Feb-2023)").to_string(), "1.47.0");
        assert!(Version::leading("none").is_none());
        assert!(Version::leading("1..2").is_none());
        assert!(Version::leading("99999999999").is_none());
    }

    #[test]
    fn compares_by_number() {
        assert!(version("1.9") < version("1.10"));
        assert_eq!(version("6"), version("6.0.0"));
        assert!(version("6.0.1") > version("6"));
    }
}
