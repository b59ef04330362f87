//! Any text is a log that comes back the same when it is written and read again, or an error.

#![no_main]

use fsage_disk::log::blkparse::{Clock, Issue, Writer, read};
use fsage_disk::log::stream::{LogSource, NoContents, copy};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for issue in [Issue::Device, Issue::Queue] {
        let Ok(log) = read(bytes, issue, None) else { continue };
        let mut text = Vec::new();
        copy(&mut LogSource::new(&log, NoContents), Writer::new(&mut text, Clock::Model))
            .expect("what was read can be written");
        let again = read(&text[..], Issue::Device, None).expect("what we write can be read");
        assert_eq!((log.len(), log.geometry()), (again.len(), again.geometry()));
        let requests = log.entries(0).map(|entry| (entry.request, entry.issued_ns));
        assert!(requests.eq(again.entries(0).map(|entry| (entry.request, entry.issued_ns))));
    }
});
