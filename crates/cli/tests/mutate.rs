//! Mutants of every kind of file that somebody else may have written: none panics, hangs or exhausts memory,
//! and none that is accepted changes anything but what was named.
//!
//! `FSAGE_MUTANTS` sets how many of each kind (300), `FSAGE_SEED` which (printed); `scripts/mutate` makes
//! many.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

#[path = "mutate/mod.rs"]
mod mutants;

mod dice;
mod sample_store;
mod support;

use std::process::Command;

use dice::number;
use mutants::FORMATS;
use mutants::worker::{self, mutate};
use support::Scratch;

/// Room for what mutants write: they end when it is full.
const SIZE: &str = "size=192m,mode=700";

#[test]
fn no_mutant_panics_hangs_or_leads_elsewhere() {
    if worker::work() || !support::can_mount() {
        return;
    }
    let (count, seed) = (number("FSAGE_MUTANTS", 300), number("FSAGE_SEED", 20_261_121));
    println!("FSAGE_MUTANTS={count} FSAGE_SEED={seed}");
    let only = std::env::var("FSAGE_FORMATS").unwrap_or_else(|_| FORMATS.join(","));
    let scratch = Scratch::new();
    let room = scratch.path().join(worker::ROOM);
    std::fs::create_dir(&room).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(&room).status();
    assert!(mounted.unwrap().success());
    let mut faults = Vec::new();
    for format in only.split(',') {
        let outcome =
            mutate("no_mutant_panics_hangs_or_leads_elsewhere", format, count, seed, scratch.path());
        let worker::Outcome { mutants, accepted, seconds, .. } = outcome;
        println!(
            "{format:12} {mutants:6} mutants, {accepted:6} accepted, {:2} faults, {seconds:.1} s",
            outcome.faults.len()
        );
        for fault in &outcome.faults {
            println!("  {fault}");
        }
        assert!(
            accepted > 0 || mutants < 100,
            "no mutant of {format} was accepted: the fixtures are not what they are taken for"
        );
        faults.extend(outcome.faults.into_iter().map(|fault| format!("{format}: {fault}")));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
