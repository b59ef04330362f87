//! What works beside the file system under test: workloads, the executor, traces, layout and probes.
//! The binary `fsage-agent` serves it over a byte stream ([`frame`]).

#![forbid(unsafe_code)]

pub mod agent;
pub mod copy;
pub mod crash;
pub mod csv;
pub mod device;
pub mod disk;
pub mod distribution;
pub mod executor;
pub mod export;
mod filesystem;
pub mod fio;
pub mod frame;
pub mod free;
pub mod geometry;
pub mod host;
pub mod image;
pub mod import;
pub mod latency;
pub mod layout;
pub mod load;
pub mod location;
pub mod lockstep;
pub mod measure;
pub mod replay;
pub mod settle;
#[cfg(test)]
#[path = "../../sys/tests/support/skip.rs"]
mod skip;
pub mod timed_read;
pub mod timed_write;
pub mod trace;
pub mod tree;
pub mod verify;
pub mod wear;
pub mod workload;
