//! The lab: reads studies, plans trials, drives agents, stores, computes and reports. It never touches the
//! file system under test itself.

#![forbid(unsafe_code)]

pub mod bisect;
pub mod boot;
pub mod crash;
pub mod disk;
pub mod doctor;
pub mod explain;
pub mod filesystem;
pub mod fleet;
pub mod guest;
pub mod image;
pub mod lease;
pub mod measure;
pub mod medium_file;
pub mod plan;
pub mod power_cycle;
pub mod price;
pub mod profile;
pub mod run;
pub mod source;
pub mod store;
pub mod study;
pub mod target;
pub mod time;
pub mod tools;
pub mod volume;
