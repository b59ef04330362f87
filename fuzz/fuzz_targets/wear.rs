//! Any output of smartctl or nvme is read without harm, and what is read is within reason.

#![no_main]

use fsage_model::wear::WearKind;

libfuzzer_sys::fuzz_target!(|text: &str| {
    for found in fsage_engine::wear::parsed(text) {
        assert!(found.step > 0 && found.name.len() <= 60);
        assert!(found.kind != WearKind::Used || found.value <= 255);
        assert!(found.kind != WearKind::SpareLeft || found.value <= 100);
    }
});
