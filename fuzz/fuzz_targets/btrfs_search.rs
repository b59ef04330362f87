//! Any answer to BTRFS_IOC_TREE_SEARCH_V2 decodes to items within it; any item is a chunk whose places lie on
//! its stripes, or none; any bitmap gives runs in order.

#![no_main]

use fsage_sys::btrfs::{Chunk, bitmap_runs, decode};

libfuzzer_sys::fuzz_target!(|answer: &[u8]| {
    let mut bytes = 0;
    for item in decode(answer).flatten() {
        bytes += 32 + item.body.len();
        assert!(bytes <= answer.len());
        if let Some(chunk) = Chunk::decode(item.offset, item.body) {
            assert!(!chunk.stripes.is_empty() && chunk.end() > chunk.logical && chunk.copies() >= 1);
            assert_eq!(chunk.place(chunk.end()), None);
            if let Some((device, _)) = chunk.place(chunk.logical + chunk.length / 2) {
                assert!(chunk.stripes.iter().any(|stripe| stripe.device == device));
            }
        }
        let mut behind = 0;
        let mut set = 0;
        for (start, length) in bitmap_runs(item.body) {
            assert!(length > 0 && (start > behind || behind == 0));
            behind = start + length;
            set += length;
        }
        assert_eq!(set, item.body.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>());
    }
});
