//! Any first and last bytes of a volume are inspected without harm, and only zeros count as blank.

#![no_main]

use fsage_engine::host::signature::identify;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (size, rest) = bytes.split_first_chunk::<8>().map_or((0, bytes), |(size, rest)| {
        (u64::from_le_bytes(*size), rest)
    });
    let (head, tail) = rest.split_at(rest.len() / 2);
    let found = identify(head, tail, size);
    assert_eq!(found.name.is_empty(), rest.iter().all(|byte| *byte == 0));
    assert!(found.label.is_empty() || !found.name.is_empty());
});
