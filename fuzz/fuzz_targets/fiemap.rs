//! Any answer to FS_IOC_FIEMAP decodes to what its bytes hold, or to nothing.

#![no_main]

use fsage_sys::fiemap::decode;

libfuzzer_sys::fuzz_target!(|answer: &[u8]| {
    if let Some(extents) = decode(answer) {
        let declared = extents.len();
        assert!(answer.len() >= 32 + declared * 56);
        assert_eq!(extents.count(), declared);
    }
});
