//! Any bytes are a FUSE request or refused, and what is understood stays within what was given.

#![no_main]

use fsage_sys::fuse::request::{Message, Request, decode, fixed_bytes, header};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // As the device gives it: one piece, cut by the kind.
    let (head, rest) = bytes.split_at(bytes.len().min(40));
    let whole = Message { header: head, fixed: rest, payload: &[] };
    let Ok(found) = header(&whole) else {
        assert!(head.len() < 40);
        return;
    };
    let (fixed, payload) = rest.split_at(fixed_bytes(found.opcode).min(rest.len()));
    // As the ring gives it: a fixed part of 128 bytes, whatever the kind.
    let (wide, tail) = rest.split_at(rest.len().min(128));
    for message in [whole, Message { header: head, fixed, payload }, Message { header: head, fixed: wide, payload: tail }] {
        match decode(&found, &message) {
            Ok(Request::Write(range)) => assert_eq!(range.size as usize, message.payload.len()),
            Ok(Request::Lookup { name }) => {
                assert!(name.len() < message.payload.len() && !name.contains(&0));
            }
            Ok(Request::Read(_)) => assert!(message.fixed.len() >= 20),
            Ok(_) | Err(_) => {}
        }
    }
});
