//! What a virtual disk is made of: media with a name, and what may be changed of them.

mod at;
pub mod hdd;
pub mod kind;
mod parameter;
pub mod partition;
pub mod preset;
pub mod sd;
mod spec;
pub mod ssd;

pub use at::{At, AtError};
pub use kind::Parameters;
pub use parameter::{OutOfRange, Parameter};
pub use partition::{PartitionError, PartitionSpec};
pub use preset::{Preset, presets};
pub use spec::{MediumError, MediumSpec};
