//! Which file system a descriptor is on.

use fsage_model::filesystem::{self, FileSystemFacts};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// What is known of the file system that a descriptor is on.
///
/// # Errors
/// `statfs` fails.
pub fn facts(directory: BorrowedFd<'_>) -> Result<&'static FileSystemFacts, Errno> {
    const UNKNOWN: FileSystemFacts = FileSystemFacts::unknown("");
    // Signed on some targets; the magic numbers are 32 bits.
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "the low 32 bits are what counts"
    )]
    let kind = rustix::fs::fstatfs(directory)?.f_type as u32;
    Ok(filesystem::by_statfs_type(kind).unwrap_or(&UNKNOWN))
}
