//! See [`record`].
pub mod record;
