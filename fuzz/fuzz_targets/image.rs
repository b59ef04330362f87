//! Any bytes are a chunk of an image that fits its stretch, or an error; and any file is an image, or an
//! error.

#![no_main]

use std::io::Write as _;

use fsage_engine::image::{Chunk, decode, format::Frame, info};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut chunk = Chunk::new(64 * 4096);
    if decode(bytes, 64, &mut chunk).is_ok() {
        let used: u64 = chunk.runs.iter().map(|run| u64::from(run.1)).sum();
        assert_eq!(used, chunk.totals.used_blocks);
        assert!(chunk.runs.iter().all(|(first, count)| *count > 0 && first + count <= 64));
    }
    // Behind their hashes little is reached; what is must not panic.
    let _ = Frame::decode(bytes);
    let Ok(mut file) = tempfile::NamedTempFile::new_in("/dev/shm") else { return };
    if file.write_all(bytes).is_ok() {
        let _ = info(file.path());
    }
});
