//! What the agent does on its host for the lab: one file a group of requests.

pub mod mount;
