//! What the benchmarks compare fsage with.

#![forbid(unsafe_code)]
