//! Any bytes are the beginning of a frame, a whole frame that is written back the same, or refused; any payload is refused or a
//! request, event or reply.

#![no_main]

use fsage_engine::frame::{decode, write};
use fsage_model::protocol::{Event, Reply, Request};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((frame, length))) = decode(bytes) {
        let mut written = Vec::new();
        assert!(write(&mut written, frame.kind, frame.id, &frame.payload).is_ok());
        assert_eq!(written, bytes[..length]);
        drop(frame.json::<Request>());
        drop(frame.json::<Event>());
        drop(frame.json::<Reply>());
    }
    // Without the frame around it, so that the length need not be guessed.
    drop(serde_json::from_slice::<Request>(bytes));
});
