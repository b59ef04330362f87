//! Any first bytes of a disk are read as a partition table without harm, and what is read is within reason.

#![no_main]

use fsage_engine::host::gpt::decode_with;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for sector_bytes in [512, 4096] {
        if let Some(table) = decode_with(bytes, sector_bytes, |_, _| true) {
            assert!(table.entries.len() <= bytes.len() / 128);
            assert!(table.entries.iter().all(|entry| entry.extent.size_bytes > 0));
        }
    }
});
