//! The buffer and the queue of hard disks, by what a host sees of them.

#![allow(dead_code, reason = "other tests use the rest of the rig")]

mod media_rig;

use fsage_disk::media::Model;
use fsage_disk::request::{Operation, Request};
use media_rig::{Bench, HDD_SHEETS, float, parameter};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// How long the interface and the electronics take for a request, and one piece more.
fn beside_ns(preset: &str, bytes: f64) -> f64 {
    let of = |key| parameter(preset, key);
    of("command_ns") + (bytes + 4096.0) / of("interface_bytes_per_s") * 1e9
}

/// A host that reads in sequence with long pauses gets every block but the first from the buffer: the head reads ahead during
/// the pause, and goes on behind what was asked.
#[test]
fn what_was_read_ahead_in_a_pause_waits_for_no_platter() {
    for sheet in &HDD_SHEETS {
        let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
        bench.one(Operation::Read, 0, 64 * KIB);
        for block in 1..256 {
            bench.now_ns += 200_000_000;
            let took_ns = bench.one(Operation::Read, block * 64 * KIB, 64 * KIB);
            let most_ns = beside_ns(sheet.preset, 65_536.0);
            assert!(float(took_ns) <= most_ns, "{}, block {block}: {took_ns} ns, {most_ns}", sheet.preset);
        }
        // A read that begins in the buffer and ends behind it waits for a turn at most.
        bench.now_ns += 200_000_000;
        let took_ns = bench.one(Operation::Read, 256 * 64 * KIB, 64 * MIB);
        let least = 64.0 * 1_048_576.0 / parameter(sheet.preset, "outer_track_bytes");
        let turns = float(took_ns) * parameter(sheet.preset, "rpm") / 60e9;
        assert!(turns > 0.9 * least && turns < 1.3 * least + 2.0, "{}: {turns} turns, {least}", sheet.preset);
    }
}

/// Random requests of 4 KiB that go to the platters: reads, writes past the buffer, or in turn.
fn mixed(bench: &mut Bench, count: u64, kind: impl Fn(u64) -> Operation) -> Vec<Request> {
    let request = |n| Request { fua: true, ..Request::new(kind(n), bench.place(4096), 4096) };
    (0..count).map(request).collect()
}

fn in_turn(n: u64) -> Operation {
    if n.is_multiple_of(2) { Operation::Read } else { Operation::Write }
}

/// A disk that holds one command at a time takes in the next when it has answered: a batch takes as long as its requests
/// one after the other.
#[test]
fn commands_beyond_the_queue_wait_for_a_place() {
    for sheet in &HDD_SHEETS {
        let flag = format!("{},queue_depth=1", sheet.preset);
        let mut together = Bench::new(&flag, sheet.size_bytes);
        let batch = mixed(&mut together, 200, in_turn);
        let (mut alone, mut done_ns) = (Bench::new(&flag, sheet.size_bytes), vec![0; batch.len()]);
        together.medium.serve(0, &batch, &mut done_ns);
        let one_by_one: Vec<u64> = batch
            .iter()
            .map(|request| {
                alone.serve(std::slice::from_ref(request));
                alone.now_ns
            })
            .collect();
        assert_eq!(done_ns, one_by_one, "{}", sheet.preset);
    }
}

/// Requests per second of batches.
fn rate(flag: &str, size_bytes: u64, depth: u64, kind: impl Fn(u64) -> Operation) -> f64 {
    let mut bench = Bench::new(flag, size_bytes);
    let rounds = 4_000 / depth;
    for _ in 0..rounds {
        let batch = mixed(&mut bench, depth, &kind);
        bench.serve(&batch);
    }
    float(rounds * depth) / (float(bench.now_ns) / 1e9)
}

/// The queue orders writes that go to the platters, and batches of both kinds, as it does reads: a head settles for a
/// little longer before a write, and moves no less well.
#[test]
fn a_queue_orders_writes_and_batches_of_both_kinds() {
    for sheet in &HDD_SHEETS {
        let gains = [|_| Operation::Read, |_| Operation::Write, in_turn].map(|kind: fn(u64) -> Operation| {
            let rates = [1, 4, 32].map(|depth| rate(sheet.preset, sheet.size_bytes, depth, kind));
            assert!(rates.is_sorted(), "{}: {rates:?}", sheet.preset);
            rates[2] / rates[0]
        });
        assert!(
            gains.iter().all(|gain| (gain / gains[0] - 1.0).abs() < 0.1),
            "{}: reads, writes, both: {gains:.2?}",
            sheet.preset
        );
    }
}
