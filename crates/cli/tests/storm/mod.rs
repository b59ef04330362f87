//! What tests that kill share: victims, and what of ours is on the host.

#![allow(dead_code, reason = "every test uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

pub mod host;
pub mod phase;
pub mod place;
pub mod victim;
