//! The agent: works on the target, beside the file system under test.

fn main() {}
