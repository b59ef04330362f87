//! The `fsage` command.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    fsage::cli::main(std::env::args_os())
}
