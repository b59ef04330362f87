//! A drive-managed shingled disk: the write cliff and its recovery, what stays fast, and what it costs to read
//! what was written again.

#![allow(dead_code, reason = "the example uses the rest of the rig")]

mod media_rig;

use fsage_disk::request::Operation;
use media_rig::{Bench, cliff, counter};

const GIB: u64 = 1 << 30;

/// The literature's figures: a map of some 200,000 ranges; behind it one or two random writes per second when each
/// goes to another band; cleaning in idle time makes room again.
#[test]
fn random_writes_fall_off_a_cliff_and_a_rest_makes_room() {
    let found = cliff::shingled("smr,bands=written", 400_000);
    // What waits in the buffer comes to the ranges that the map holds.
    assert!((200_000.0..225_000.0).contains(&found.until), "{found:?}");
    assert!(found.before > 1000.0, "{found:?}");
    assert!((0.8..3.0).contains(&found.behind), "{found:?}");
    // 16,384 of them wait in the buffer, the others find room in the map: a rest of ten minutes cleans some 900 bands.
    assert!(found.rested > 1000.0 && (17_000.0..19_000.0).contains(&found.rested_until), "{found:?}");
}

/// Skylight measured 0.6 to 1.6 s.
#[test]
fn a_band_is_cleaned_in_the_time_that_was_measured() {
    let seconds = cliff::band_clean_s();
    assert!((0.6..1.6).contains(&seconds), "{seconds}");
}

#[test]
fn sequential_writes_pass_the_persistent_cache() {
    for bands in ["empty", "written"] {
        let mut bench = Bench::new(&format!("smr,bands={bands}"), 64 * GIB);
        let first = bench.sequential(Operation::Write, 0, 4 * GIB, 1 << 20, 1);
        let again = bench.sequential(Operation::Write, 0, 4 * GIB, 1 << 20, 1);
        bench.one(Operation::Flush, 0, 0);
        let of = |name| counter(&bench.medium, name);
        assert!(first > 170e6 && again > 170e6, "{bands}: {first} {again}");
        assert!(
            of("media_cache_write_bytes") < 0.02 * of("host_write_bytes"),
            "{bands}: {} B",
            of("media_cache_write_bytes")
        );
        assert!(of("band_cleans").abs() < 0.5, "{bands}");
    }
}

#[test]
fn what_was_written_again_is_slow_to_read_until_it_is_cleaned() {
    let [new, aged, rested] = cliff::shingled_read();
    assert!(new > 5.0 * aged, "{new} {aged}");
    assert!(rested > 0.95 * new, "{new} {rested}");
}

/// Everything that was written is on the platters once, whatever was cleaned meanwhile.
#[test]
fn cleaning_is_counted() {
    let mut bench = Bench::new("smr,bands=written,media_cache_ranges=100", 8 * GIB);
    bench.random(Operation::Write, 4096, 1, 20_000);
    bench.one(Operation::Flush, 0, 0);
    let of = |name| counter(&bench.medium, name);
    assert!(of("band_cleans") > 100.0);
    // Twice the band, beside the log and home.
    let per_band = of("cleaning_write_bytes") / of("band_cleans") / f64::from(30 << 20);
    assert!((1.9..=2.0).contains(&per_band), "{per_band}");
    assert!(of("media_cache_used_bytes") < 100.0 * 4096.0 * 100.0);
}
