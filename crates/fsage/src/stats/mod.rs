//! Statistics: smoothing, quantiles, intervals, effect sizes and the judgement of claims.
//!
//! Everything random takes a seed; the same input and seed give the same numbers on every machine.
