//! The virtual disk: a block device of any size in memory, with a model of the medium it is made of, a log of
//! every request, and faults on demand.
//!
//! A [`request::Transfer`] goes through [`disk::Disk`]: the faults say whether it fails, the [`store`] holds
//! the bytes, the [`media`] model says how long it takes, the [`log`] keeps it. [`price`] says what a log takes
//! on another medium, [`crash`] what the disk may hold after a power cut. [`export`] makes it a block device; [`server`] is the process that does all this beside
//! the load.

#![forbid(unsafe_code)]

pub mod crash;
pub mod disk;
pub mod export;
pub mod fault;
pub mod log;
pub mod media;
pub mod price;
pub mod request;
pub mod server;
pub mod store;
