//! The bare device: no file system at all, so that what one costs can be measured against it. It is made by
//! nothing, cannot be mounted and needs no check; only stages that work on a device run on it
//! ([`FileSystem::is_bare`]).

use std::time::Duration;

use fsage_model::filesystem::BARE;
use fsage_model::study::FileSystemOptions;

use super::{FileSystem, FileSystemError, FreeSpaceTolerance};
use crate::tools::Invocation;

/// Smallest device: what is left free at both ends, and as much between them.
const MINIMUM_BYTES: u64 = 16 << 20;

/// Takes no options.
///
/// # Errors
/// Options were given.
pub(super) fn resolve(options: &FileSystemOptions) -> Result<FileSystem, FileSystemError> {
    if *options != FileSystemOptions::default() {
        return Err(FileSystemError::BareOptions);
    }
    Ok(FileSystem {
        kind: BARE.name.to_owned(),
        mount_type: BARE.name.to_owned(),
        mount_options: Vec::new(),
        mkfs: Invocation::new(Vec::new(), String::new(), Duration::ZERO),
        fsck: None,
        mount: None,
        before_mount: Vec::new(),
        cluster: None,
        after_mount: Vec::new(),
        block_bytes: 512,
        minimum_bytes: MINIMUM_BYTES,
        free_space_tolerance: FreeSpaceTolerance::ESTIMATE,
        afresh: false,
        bare: true,
        built_in: None,
    })
}
