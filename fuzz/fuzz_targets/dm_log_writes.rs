//! Any file is a log of dm-log-writes that can be written again, or an error.

#![no_main]

use std::io::Cursor;

use fsage_disk::log::dm_log_writes::{Reader, Writer};
use fsage_disk::log::stream::{Source, copy};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes)) else { return };
    let mut again = Cursor::new(Vec::new());
    let Ok(writer) = Writer::new(&mut again, reader.geometry()) else { return };
    if copy(&mut reader, writer).is_ok() {
        let size = reader.geometry();
        let reader = Reader::new(Cursor::new(again.into_inner())).expect("what we write can be read");
        assert_eq!(reader.geometry(), size);
    }
});
