//! The `fsage` command.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    fsage_sys::process::keep_absolute_path();
    fsage::main(std::env::args_os())
}
