//! See [`spec`].
pub mod spec;
