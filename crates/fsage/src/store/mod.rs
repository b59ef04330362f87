//! See [`format`].
pub mod format;
