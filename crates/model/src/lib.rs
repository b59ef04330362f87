//! The one vocabulary: what lab, agent and reports must agree on, as plain data and pure functions.
//!
//! Nothing here touches a file or a device.

#![forbid(unsafe_code)]

mod calls;
pub mod cause;
pub mod cluster;
pub mod crash;
pub mod digest;
pub mod disk;
pub mod escape;
pub mod explanation;
pub mod extent;
pub mod fault;
pub mod filesystem;
pub mod fio;
pub mod fit;
pub mod geometry;
pub mod image;
pub mod layer;
pub mod layout;
pub mod load;
pub mod location;
pub mod lockstep;
pub mod measure;
pub mod medium;
pub mod memory;
pub mod metric;
pub mod nearest;
pub mod number;
pub mod one_or_many;
pub mod operation;
pub mod power_cycle;
pub mod precondition;
pub mod priced;
pub mod problem;
pub mod profile;
pub mod protocol;
pub mod quantity;
pub mod reading;
pub mod record;
pub mod remedy;
pub mod replay;
pub mod search;
pub mod size;
pub mod steady_state;
pub mod study;
pub mod timed_read;
pub mod timed_write;
pub mod verify;
pub mod warning;
pub mod wear;
pub mod workload;
