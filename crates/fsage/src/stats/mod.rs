//! Statistics: smoothing, quantiles, intervals, effect sizes and the judgement of claims.
//!
//! Everything random takes a seed; the same input and seed give the same numbers on every machine.

pub mod bootstrap;
pub mod claim;
pub mod effect;
pub mod evidence;
pub mod histogram;
pub mod quantile;
pub mod savitzky_golay;
pub mod student;

pub use bootstrap::{Bootstrap, Interval};
pub use claim::{Judgement, Verdict, judge};
pub use evidence::{Estimate, Evidence, Series, Unit};
