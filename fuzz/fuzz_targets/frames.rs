//! Any bytes are the beginning of a frame, a whole frame that is written back the same, or refused; any
//! payload is refused or a request, event or reply.

#![no_main]

use fsage_engine::frame::{decode, write};
use fsage_model::protocol::{Event, Reply, Request, call};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((frame, length))) = decode(bytes) {
        let mut written = Vec::new();
        assert!(write(&mut written, frame.kind, frame.id, &frame.payload).is_ok());
        assert_eq!(written, bytes[..length]);
        drop(frame.json::<Request>());
        drop(frame.json::<Event>());
        let reply = Reply::from_json(frame.payload);
        drop(reply.to::<call::Hello>());
        drop(reply.to::<call::HostFacts>());
        drop(reply.to::<call::BlockFacts>());
        drop(reply.to::<call::Scan>());
        drop(reply.to::<call::Load>());
        drop(reply.to::<call::ImageInfo>());
    }
    // Without the frame around it, so that the length need not be guessed.
    drop(serde_json::from_slice::<Request>(bytes));
});
