//! The card, as flashbench finds it: the geometry comes from times alone and must be the one that was
//! configured.

#![allow(dead_code, reason = "other tests and the example use the rest of the rig")]

mod media_rig;

use fsage_disk::request::Operation;
use media_rig::Bench;
use media_rig::flashbench::{README_RATES, align, boundaries, most_open, open_units};

/// What is configured: unit, page, planes, open units, and whether pages may be written in any order.
const GEOMETRIES: [(&str, u64, u64, u64, u64, bool); 4] = [
    ("sd", 4 << 20, 8192, 2, 2, false),
    ("sd,unit_bytes=2097152,open_units=5,page_bytes=16384", 2 << 20, 16384, 2, 5, false),
    ("sd,unit_bytes=8388608,open_units=7,page_bytes=4096,planes=4,order=any", 8 << 20, 4096, 4, 7, true),
    ("sd,unit_bytes=1048576,open_units=1,page_bytes=8192,planes=1,order=any", 1 << 20, 8192, 1, 1, true),
];

#[test]
fn boundaries_are_where_time_jumps() {
    for (card, unit, page, planes, ..) in GEOMETRIES {
        let rows = align(&mut Bench::new(card, 4 << 30), 1024);
        let mut expected = vec![page, page * planes, unit];
        expected.dedup();
        assert_eq!(boundaries(&rows), expected, "{card}: {rows:?}");
    }
}

/// Throughput collapses once more units are written in turn than may be open. The unit is the one the times
/// gave.
#[test]
fn open_units_are_where_throughput_collapses() {
    for (card, _, _, _, open, any) in GEOMETRIES {
        let rows = align(&mut Bench::new(card, 4 << 30), 1024);
        let unit = *boundaries(&rows).last().expect("a card has units");
        let block = unit / 32;
        assert_eq!(most_open(card, unit, block, true), open, "{card}, in order");
        // A card that takes pages only upwards is slow in random order however few units are open.
        assert_eq!(
            most_open(card, unit, block, false),
            if any { open } else { 0 },
            "{card}, in random order"
        );
    }
}

/// The tables of the tool's README: one card, times of reads and rates of writes.
#[test]
fn the_preset_is_the_card_of_the_readme() {
    let rows = align(&mut Bench::new("sd", 4 << 30), 1024);
    for row in &rows {
        let published_us = match row.align_bytes {
            ..8192 => 5.0,
            8192 => 53.3,
            // The means of the table.
            8193..0x40_0000 => 164.0,
            _ => 306.0,
        };
        assert!((row.difference_us() - published_us).abs() < 8.0, "{row:?}: {published_us}");
        assert!((row.pre_us / 740.0 - 1.0).abs() < 0.08, "{row:?}");
    }
    for (units, block, published) in README_RATES {
        let rate = open_units("sd", 4 << 20, block, units, true) / f64::from(1 << 20);
        let deviation = rate / published - 1.0;
        println!(
            "{units} units, {} KiB: {rate:.2} MiB/s, published {published}, {:+.1} %",
            block >> 10,
            100.0 * deviation
        );
        assert!(deviation.abs() < 0.14, "{units} units, {} KiB: {rate:.2} against {published}", block >> 10);
    }
}

/// Speed class 10: 10 MB/s of writes of 512 KiB in sequence into empty allocation units. Anything smaller that jumps
/// about is far from that.
#[test]
fn a_class_10_card_writes_what_the_class_promises() {
    let mut card = Bench::new("sd-class10", 4 << 30);
    let rate = card.sequential(Operation::Write, 0, 256 << 20, 512 << 10, 1);
    assert!((10.0e6..10.5e6).contains(&rate), "{rate}");
    let jumping = card.random(Operation::Write, 4096, 1, 200);
    assert!((1.0..10.0).contains(&jumping), "{jumping}");
}
