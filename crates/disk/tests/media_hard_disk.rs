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

/// A host that reads in sequence with long pauses gets every block but the first from the buffer, one after the other or
/// two at a time: the head reads ahead during the pause, and goes on behind what was asked.
#[test]
fn what_was_read_ahead_in_a_pause_waits_for_no_platter() {
    for sheet in &HDD_SHEETS {
        let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
        let read = |block: u64| Request::new(Operation::Read, block * 64 * KIB, 64 * KIB);
        bench.serve(&[read(0)]);
        for block in (1..256).step_by(4) {
            bench.now_ns += 200_000_000;
            for (batch, number) in [
                (vec![read(block)], 1.0),
                (vec![read(block + 1)], 1.0),
                (vec![read(block + 2), read(block + 3)], 2.0),
            ] {
                let (took_ns, most_ns) = (bench.serve(&batch), number * beside_ns(sheet.preset, 65_536.0));
                assert!(
                    float(took_ns) <= most_ns,
                    "{}, block {block}: {took_ns} ns, {most_ns}",
                    sheet.preset
                );
            }
        }
    }
}

/// A read that begins in the buffer and ends behind it waits for the rest: half a turn on average, and one at most.
#[test]
fn what_lies_behind_the_buffer_waits_for_a_turn_at_most() {
    for sheet in &HDD_SHEETS {
        let of = |key| parameter(sheet.preset, key);
        let segment = of("read_cache_bytes") / of("read_segments");
        let segment = (1..).find(|n: &u64| float(*n * 4096) >= segment).unwrap() * 4096;
        let turn_ns = 60e9 / of("rpm");
        let transfer_ns = turn_ns * 65_536.0 / of("inner_track_bytes");
        let most_ns = beside_ns(sheet.preset, 131_072.0) + turn_ns + transfer_ns + of("cylinder_switch_ns");
        let (mut bench, mut end, mut sum_ns) = (Bench::new(sheet.preset, sheet.size_bytes), 64 * KIB, 0.0);
        bench.one(Operation::Read, 0, end);
        for pause in 0..100 {
            bench.now_ns += 200_000_000 + pause * 123_457;
            let took_ns = float(bench.one(Operation::Read, end + segment - 64 * KIB, 128 * KIB));
            end += segment + 64 * KIB;
            assert!(took_ns <= most_ns, "{}: {took_ns} ns, {most_ns}", sheet.preset);
            sum_ns += took_ns;
        }
        assert!(sum_ns / 100.0 > turn_ns / 3.0, "{}: {sum_ns}", sheet.preset);
    }
}

/// A buffer that holds what a waiting write changes does not answer before the write.
#[test]
fn a_read_does_not_overtake_a_write_of_the_same_sectors() {
    for sheet in &HDD_SHEETS {
        let mut bench = Bench::new(sheet.preset, sheet.size_bytes);
        bench.one(Operation::Read, 0, 64 * KIB);
        bench.one(Operation::Read, 64 * MIB, 4096);
        let write = Request { fua: true, ..Request::new(Operation::Write, 0, 4096) };
        let mut done_ns = [0; 2];
        bench.medium.serve(bench.now_ns, &[write, Request::new(Operation::Read, 0, 4096)], &mut done_ns);
        assert!(done_ns[0] < done_ns[1], "{}: {done_ns:?}", sheet.preset);
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
