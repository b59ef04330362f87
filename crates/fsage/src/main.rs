//! The `fsage` command.

fn main() {}
