//! From records to answers: statistics, claims, comparisons and pages. Sees only the vocabulary (`fsage_model`).

#![forbid(unsafe_code)]

pub mod compare;
pub mod device_fit;
mod dice;
pub mod export;
pub mod geometry;
pub mod power_cycle;
pub mod report;
pub mod stats;
