//! Any file is a request log, or an error; and any payload of a chunk is its items, or an error.

#![no_main]

use std::io::Cursor;

use fsage_disk::log::file::{Reader, chunk};
use fsage_disk::log::show::Line;
use fsage_disk::log::stream::Source;
use fsage_disk::log::{heat, summary};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut reader) = Reader::new(Cursor::new(bytes)) {
        let _ = reader.skip_to(9);
        let mut data = Vec::new();
        while let Ok(Some(item)) = reader.next_item(&mut data) {
            let _ = Line { number: 0, item: &item }.to_string();
        }
    }
    // Behind the hashes the fuzzer reaches little: here it need not find them.
    let Some((count, plain)) = bytes.split_first() else { return };
    let mut summary = summary::Collector::default();
    let mut map = heat::Heat::new(1 << 40, 16, 16, heat::Axis::Model);
    let _ = chunk::decode(plain.to_vec(), u32::from(*count), |number, item, _data| {
        if let fsage_disk::log::stream::Item::Entry(entry) = item {
            summary.add(entry);
            map.add(number, entry);
        }
    });
    let _ = map.finish();
    let found = summary.finish();
    for share in [found.reads.layout_score, found.writes.sequential_share].into_iter().flatten() {
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
});
