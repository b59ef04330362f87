//! What survived power cuts, one sentence for each configuration.

use serde::Serialize;

use crate::report::power::{self, Sum};
use crate::report::text::grouped;
use crate::report::view::View;
use crate::stats::evidence::SEEDS;
use crate::stats::proportion::clopper_pearson;

/// What survived on one configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Survived {
    /// The file system with its options.
    pub configuration: String,
    /// Each drive that was tried.
    pub drives: Vec<OnDrive>,
    /// Fewer than three seeds: it is of this run only.
    pub in_run: bool,
}

/// What survived on one drive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnDrive {
    /// The drive in words.
    pub drive: String,
    /// Crash states that were tried.
    pub tried: u64,
    /// Of these, states in which everything promised was there.
    pub kept: u64,
    /// Of these, states that the file system's own program checked and that were written to.
    pub kept_inspected: u64,
    /// States with damage that nobody promised to prevent.
    pub documented: u64,
    /// States in which a promise was broken.
    pub broken: u64,
    /// Of these, states that known findings explain.
    pub known: u64,
    /// Ends of the exact interval of the share with damage, of states drawn like these.
    pub low: f64,
    /// The upper one.
    pub high: f64,
}

impl Survived {
    /// What stands before the finding, and the finding.
    #[must_use]
    pub fn parts(&self) -> (String, String) {
        let drives: Vec<String> = self.drives.iter().map(OnDrive::text).collect();
        let run = if self.in_run { "In this run, " } else { "" };
        (format!("{run}power cuts on {}: ", self.configuration), drives.join("; "))
    }

    /// The sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let (before, found) = self.parts();
        let mut text = format!("{before}{found}.");
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        text
    }
}

impl OnDrive {
    fn new(drive: &str, sum: &Sum, confidence: f64) -> Self {
        let interval = clopper_pearson(sum.documented + sum.broken, sum.tried, confidence);
        Self {
            drive: drive.to_owned(),
            tried: sum.tried,
            kept: sum.kept,
            kept_inspected: sum.kept_inspected,
            documented: sum.documented,
            broken: sum.broken,
            known: sum.known,
            low: interval.low,
            high: interval.high,
        }
    }

    /// In short: how many states the file system's program checked stands in the section.
    fn text(&self) -> String {
        let Self { drive, tried, documented, broken, known, .. } = self;
        let [tried, damaged, failed] = [tried, documented, broken].map(|count| grouped(*count));
        let known = match known {
            0 => String::new(),
            known if known == broken => " (known findings)".to_owned(),
            known => format!(" ({} by known findings)", grouped(*known)),
        };
        let found = match (documented, broken) {
            (0, 0) => {
                format!("nothing lost in {tried} states (damage in at most {})", power::chance(self.high))
            }
            (_, 0) => format!("documented damage in {damaged} of {tried} states"),
            (0, _) => format!("promises broken in {failed} of {tried} states{known}"),
            _ => format!(
                "promises broken in {failed}{known}, documented damage in {damaged} of {tried} states"
            ),
        };
        format!("{drive} drive, {found}")
    }
}

/// Every configuration, those with broken promises that nothing explains first.
pub fn all(view: &View) -> Vec<Survived> {
    of(&power::all(view), view.confidence)
}

fn of(found: &[power::Survival], confidence: f64) -> Vec<Survived> {
    let power::Matrix { drives, rows } = power::matrix(found);
    let mut all: Vec<Survived> = rows
        .into_iter()
        .map(|power::MatrixRow { configuration, cells }| {
            let tried = || drives.iter().zip(&cells).filter_map(|(drive, sum)| Some((drive, sum.as_ref()?)));
            Survived {
                configuration,
                drives: tried().map(|(drive, sum)| OnDrive::new(drive, sum, confidence)).collect(),
                in_run: tried().any(|(_, sum)| sum.seeds < SEEDS),
            }
        })
        .collect();
    all.sort_by_key(|one| !one.drives.iter().any(|drive| drive.broken > drive.known));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::power::sample::survival;

    #[test]
    fn a_sentence_says_what_was_kept_and_what_was_promised_otherwise_comes_first() {
        let found = [
            survival("ext4", [600, 0, 0, 0]),
            survival("ext2", [600, 200, 0, 0]),
            survival("btrfs", [600, 0, 9, 9]),
        ];
        let text: Vec<String> = of(&found, 0.95).iter().map(Survived::text).collect();
        assert_eq!(
            text,
            [
                "In this run, power cuts on ext4: honest drive, nothing lost in 600 states (damage in at most 0.61\u{202f}%).",
                "In this run, power cuts on ext2: honest drive, documented damage in 200 of 600 states.",
                "In this run, power cuts on btrfs: honest drive, promises broken in 9 of 600 states (known findings).",
            ]
        );
        let found = [survival("ext4", [600, 0, 0, 0]), survival("xfs", [600, 1, 2, 0])];
        let all = of(&found, 0.95);
        assert_eq!(all[0].configuration, "xfs");
        assert!(
            all[0].text().contains("promises broken in 2, documented damage in 1 of 600 states."),
            "{}",
            all[0].text()
        );
        assert!(all[0].drives[0].low > 0.0 && all[0].drives[0].high < 0.02);
        // Three seeds are an answer.
        let mut seeds = survival("ext4", [600, 0, 0, 0]);
        seeds.seeds = SEEDS;
        assert!(of(&[seeds], 0.95)[0].text().starts_with("Power cuts on ext4: "));
    }
}
