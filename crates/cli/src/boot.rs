//! `fsage boot`: the first process of a guest.

use clap::Args;
use fsage_model::problem::{EXIT_OK, Problem};

/// Arguments of `fsage boot`: the kernel's own.
#[derive(Debug, Args)]
pub struct BootArgs {}

/// Boots, does trials, and switches the guest off.
pub(crate) fn run() -> Result<u8, Problem> {
    fsage_lab::boot::boot()?;
    Ok(EXIT_OK)
}
