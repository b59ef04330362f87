//! Which media a log can be priced on: those of the class that it was recorded on.
//!
//! File systems and the kernel's block layer ask what a device is and place and merge requests by it, so a
//! log holds for devices that look alike: whether it turns, whether it takes discards, its sector size. Every
//! virtual disk takes discards, whatever its medium does with them, and a medium has no sector size of its
//! own: that of the log stands. So of two media only whether they turn can differ.

use fsage_model::medium::MediumSpec;

use super::PriceError;

/// Refuses a medium that looks to the kernel unlike the one recorded.
///
/// # Errors
/// One of them turns and the other does not.
pub fn check(recorded: &MediumSpec, wanted: &MediumSpec) -> Result<(), PriceError> {
    let turns = recorded.preset().is_rotational();
    if turns == wanted.preset().is_rotational() {
        return Ok(());
    }
    Err(PriceError::Class {
        recorded: recorded.to_string(),
        wanted: wanted.to_string(),
        recorded_turns: turns,
    })
}
