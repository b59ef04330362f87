//! Parameters of `histogram`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Parameters;
use crate::size::Bytes;

/// Parameters of `histogram`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HistogramSpec {
    /// Sizes of files: `[upper bound, weight]` in ascending order; uniform within a row. In a profile file of
    /// Geriatrix a row is a size, not a bound. No file is empty: its rows of 0 and of 1 byte together are the
    /// files of one byte.
    pub sizes: HistogramSource<(Bytes, f64)>,
    /// Depths of files: `[depth, weight, directories]` in ascending order: weight of the files in directories
    /// of that depth, and how many such directories there are (0 stands for 1). The thread's own directory
    /// has depth 0.
    pub depths: HistogramSource<(u32, f64, u32)>,
    /// Ages of files: `[upper bound, weight]` in ascending order. Only the ratios of the bounds matter: the
    /// last one is the whole time since the first file, measured in files created and deleted.
    pub ages: HistogramSource<(f64, f64)>,
    /// Share of the volume (above 0, at most 1) that is held.
    pub target: f64,
    /// Share of the files' bytes (above 0, at most 100) that a round rewrites.
    pub replace: f64,
    /// Rounds after which it ends at the latest, at least 1.
    pub rounds: u64,
    /// It ends after the round in which every histogram is this close (0..=1): the share of the files that
    /// would have to be in another row.
    pub accuracy: f64,
}

/// A histogram, distinguished by `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum HistogramSource<Row> {
    /// Row by row.
    Rows {
        /// The rows.
        rows: Vec<Row>,
    },
    /// The content of a profile file of Geriatrix as it is: the number of rows, then the rows, then anything.
    Geriatrix {
        /// The file's text.
        text: String,
    },
}

impl Parameters for HistogramSpec {
    fn target(&self) -> Option<f64> {
        Some(self.target)
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.rounds)
    }
}

impl Default for HistogramSpec {
    /// Sizes: the lognormal of Agrawal et al. 2007 by factors of four, cut at 4 MiB. The rest are numbers of
    /// our own.
    fn default() -> Self {
        let sizes = [(1, 15.0), (4, 17.0), (16, 22.0), (64, 21.0), (256, 14.0), (1024, 7.5), (4096, 2.8)];
        let sizes = sizes.map(|(kibibytes, weight)| (Bytes(kibibytes << 10), weight)).to_vec();
        let depths = vec![(1, 1.0, 4), (2, 3.0, 20), (3, 5.0, 50), (4, 4.0, 50), (5, 2.0, 25), (6, 1.0, 10)];
        let ages = vec![(2.0, 5.0), (8.0, 15.0), (25.0, 30.0), (60.0, 35.0), (100.0, 15.0)];
        Self {
            sizes: HistogramSource::Rows { rows: sizes },
            depths: HistogramSource::Rows { rows: depths },
            ages: HistogramSource::Rows { rows: ages },
            target: 0.8,
            replace: 1.0,
            rounds: 100,
            accuracy: 0.05,
        }
    }
}
