//! Any answer to FS_IOC_GETFSMAP decodes to what its bytes hold, or to nothing.

#![no_main]

use fsage_sys::fsmap::decode;

libfuzzer_sys::fuzz_target!(|answer: &[u8]| {
    if let Some(records) = decode(answer) {
        let declared = records.len();
        assert!(answer.len() >= 192 + declared * 64);
        assert_eq!(records.filter(|record| record.length == 0 || record.length > 0).count(), declared);
    }
});
