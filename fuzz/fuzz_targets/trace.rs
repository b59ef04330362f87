//! Any file is a trace whose records can be read one by one, or an error.

#![no_main]

use std::io::Write as _;

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    // The reader turns the Parquet library's panics into errors: they must not end the process from the hook.
    init: std::panic::set_hook(Box::new(|_| ())),
    |bytes: &[u8]| {
        let Ok(mut file) = tempfile::NamedTempFile::new_in("/dev/shm") else { return };
        if file.write_all(bytes).is_ok()
            && let Ok(reader) = fsage_engine::trace::read(file.path())
        {
            // A damaged footer may promise more records than anyone can wait for.
            for record in reader.take(100_000) {
                if record.is_err() {
                    break;
                }
            }
        }
    }
);
