//! Any answer to FS_IOC_GETFSMAP decodes to what its bytes hold, or to nothing.

#![no_main]

use fsage_sys::fsmap::{FsmapRecord, decode};

libfuzzer_sys::fuzz_target!(|answer: &[u8]| {
    if let Some(records) = decode(answer) {
        let declared = records.len();
        assert!(answer.len() >= 192 + declared * 64);
        assert!(records.filter(FsmapRecord::is_free).count() <= declared);
    }
});
