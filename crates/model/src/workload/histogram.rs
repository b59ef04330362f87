//! Parameters of `histogram`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Parameters;
use crate::size::Bytes;

/// Parameters of `histogram`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HistogramSpec {
    /// File sizes: `[upper bound, weight]` in ascending order, uniform within a row. In a profile file of
    /// Geriatrix, a row is a size, not a bound. No file is empty: rows of 0 and of 1 byte are combined into
    /// files of one byte.
    pub sizes: HistogramSource<(Bytes, f64)>,
    /// File depths: `[depth, weight, directories]` in ascending order: weight of the files in directories of
    /// this depth, and number of these directories (0 counts as 1). The directory of the thread has depth 0.
    pub depths: HistogramSource<(u32, f64, u32)>,
    /// File ages: `[upper bound, weight]` in ascending order. Only the ratios of the bounds matter: the last
    /// one is the time since the first file, measured in files created and deleted.
    pub ages: HistogramSource<(f64, f64)>,
    /// Share of the volume (above 0, at most 1) to hold.
    pub target: f64,
    /// Share of the files' bytes (above 0, at most 100) that a round rewrites.
    pub replace: f64,
    /// Maximum number of rounds (at least 1).
    pub rounds: u64,
    /// Distance of the histograms (0..=1) at which the workload ends: no histogram has more than this share
    /// of the files in the wrong row.
    pub accuracy: f64,
}

/// A histogram, distinguished by `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum HistogramSource<Row> {
    /// Rows.
    Rows {
        /// The rows.
        rows: Vec<Row>,
    },
    /// A profile file of Geriatrix, unchanged: the number of rows, then the rows; anything after them is
    /// ignored.
    Geriatrix {
        /// Content of the file, instead of `path`.
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
