//! Random numbers and the distributions that workloads draw from.
//!
//! Results must not change with a compiler, a C library or a dependency, since they decide which operations a
//! seed stands for. So everything from 64 random bits to a number is done here, in integers or in the four
//! IEEE operations and square root, which every machine rounds alike; logarithm and exponential are our own
//! (`normal`). Golden tests hold the values.

mod alias;
mod normal;
mod random;
mod size;

pub use alias::Alias;
pub use normal::{exponential, inverse_normal, logarithm, normal_share};
pub use random::Random;
pub use size::{AGRAWAL_MU, AGRAWAL_SIGMA, Sizes};

#[cfg(test)]
mod profile_tests;
