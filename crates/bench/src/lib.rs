//! What the benchmarks compare fsage with, and what they share.

#![forbid(unsafe_code)]

pub mod mix;
pub mod served;
pub mod spread;
pub mod volume;
