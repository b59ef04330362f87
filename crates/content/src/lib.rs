//! Self-describing file data: make it, recognise it, verify it.

#![forbid(unsafe_code)]
