//! Any bytes are a tar file that is listed, or an error that names a place within them.

#![no_main]

use std::io::Write as _;

use fsage_lab::source::{SourceError, tar};

const BLOCK: usize = 512;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, archive)) = bytes.split_first() else { return };
    let mut archive = archive.to_vec();
    if first & 1 == 0 {
        archive.chunks_exact_mut(BLOCK).for_each(seal);
    }
    if first & 2 == 0 {
        archive.resize(archive.len().next_multiple_of(BLOCK) + BLOCK, 0);
    }
    let Ok(mut file) = tempfile::NamedTempFile::new_in("/dev/shm") else { return };
    if file.write_all(&archive).is_err() {
        return;
    }
    match tar::list(file.path()) {
        Ok(listing) => assert!(listing.keys().all(|name| !name.is_empty())),
        Err(SourceError::Tar { offset, packed, .. }) => {
            assert!(packed || offset <= u64::try_from(archive.len()).expect("it fits"));
        }
        Err(error) => assert!(matches!(error, SourceError::Read { .. }), "{error}"),
    }
});

/// Gives a block the checksum of a header, which chance would hardly find. Empty ones stay as they are.
fn seal(block: &mut [u8]) {
    if block.iter().all(|byte| *byte == 0) {
        return;
    }
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}
