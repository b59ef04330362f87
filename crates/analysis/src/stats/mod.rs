//! Statistics: smoothing, quantiles, intervals, effect sizes and the judgement of claims.
//!
//! Nothing here is random: the same input gives the same numbers on every machine. Simulations that prove it
//! have fixed seeds.

pub mod benjamini_hochberg;
pub mod claim;
pub mod doubt;
pub mod effect;
pub mod estimator;
pub mod evidence;
pub mod grain;
pub mod histogram;
pub mod holm;
pub mod interval;
pub mod merit;
pub mod outlier;
pub mod proportion;
pub mod quantile;
pub mod savitzky_golay;
pub mod scale;
pub mod scaling;
pub mod series;
pub mod shared;
pub mod tree;
pub mod work;

pub use claim::{ClaimVerdict, Judgement, Part, Varied, by_media, foresee, judge, planned};
pub use doubt::Doubt;
pub use evidence::{Estimate, Evidence, Series, Unit};
pub use interval::Interval;
pub use tree::Trees;
