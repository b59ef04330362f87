//! The `fsage` command.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    fsage::main(std::env::args_os())
}
