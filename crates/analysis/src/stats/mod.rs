//! Statistics: smoothing, quantiles, intervals, effect sizes and the judgement of claims.
//!
//! Everything random takes a seed; the same input and seed give the same numbers on every machine.

pub mod bca;
pub mod benjamini_hochberg;
pub mod bootstrap;
pub mod claim;
pub mod effect;
pub mod evidence;
pub mod histogram;
pub mod hodges_lehmann;
pub mod mann_whitney;
pub mod outlier;
pub mod quantile;
pub mod repeats;
pub mod savitzky_golay;
pub mod shared;
pub mod steady_state;
pub mod student;
pub mod t_test;

pub use bootstrap::{Bootstrap, Interval};
pub use claim::{ClaimVerdict, Judgement, Part, judge};
pub use evidence::{Estimate, Evidence, Series, Unit};
