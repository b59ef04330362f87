//! `fsage boot`: the first process of a guest.

use clap::Args;
use fsage_lab::guest::GuestError;
use fsage_model::problem::{EXIT_INTERNAL, EXIT_OK, Problem};

use super::terminal::Terminal;

/// Arguments of `fsage boot`: the kernel's own.
#[derive(Debug, Args)]
pub struct BootArgs {}

/// Boots, does trials, and switches the guest off.
pub(crate) fn run(terminal: &Terminal) -> Result<u8, Problem> {
    let say = |error: &GuestError| terminal.error(&Problem::new(EXIT_INTERNAL, "cannot boot").because(error));
    fsage_lab::boot::boot(&say)?;
    Ok(EXIT_OK)
}
