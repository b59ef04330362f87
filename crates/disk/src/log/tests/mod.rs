//! Tests of the log as a whole.

mod format;
mod memory;
