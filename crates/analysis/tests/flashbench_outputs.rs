//! Seven published outputs of `flashbench -a`, from cards and sticks that people had: what the published rules say of them,
//! and that ours says nothing of one number per alignment.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

use fsage_analysis::geometry::{NoAnswer, flashbench, judge, rules};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn values(text: &str) -> Vec<(u64, f64)> {
    flashbench::parse(text).unwrap().iter().map(|row| (row.align_bytes, row.difference_ns())).collect()
}

fn rule(text: &str, name: &str) -> Vec<u64> {
    let all = rules::all(&values(text));
    all.into_iter().find(|answer| answer.rule == name).unwrap().boundaries_bytes
}

const README: &str = include_str!("data/flashbench/readme.txt");
const PQI: &str = include_str!("data/flashbench/pqi-32g.txt");
const PATRIOT: &str = include_str!("data/flashbench/patriot-16g.txt");
const SANDISK: &str = include_str!("data/flashbench/sandisk-4g.txt");
const ULTRA: &str = include_str!("data/flashbench/sandisk-ultra-16g.txt");
const ISSUE_13: &str = include_str!("data/flashbench/issue-13.txt");
const ISSUE_16: &str = include_str!("data/flashbench/issue-16.txt");

/// The paper's rule contradicts the paper's own example, which it reads as pages of 16 KiB and erase blocks of 4 MiB.
#[test]
fn relative_steps_give_what_they_give() {
    assert_eq!(rule(README, "relative steps"), [8 * KIB, 16 * KIB]);
    assert_eq!(rule(PQI, "relative steps"), [4 * KIB, 16 * KIB]);
    assert_eq!(rule(PATRIOT, "relative steps"), [4 * MIB, 8 * MIB]);
    assert_eq!(rule(SANDISK, "relative steps"), [4 * KIB, 8 * KIB]);
}

#[test]
fn absolute_steps_give_what_the_paper_reads_off_its_example() {
    assert_eq!(rule(README, "absolute steps"), [16 * KIB, 4 * MIB]);
    assert_eq!(rule(PQI, "absolute steps"), [4 * KIB, 16 * KIB]);
}

#[test]
fn three_segments_give_the_erase_block_of_three_of_four() {
    assert_eq!(rule(README, "three segments"), [16 * KIB, 4 * MIB]);
    assert_eq!(rule(PQI, "three segments"), [16 * KIB, 4 * MIB]);
    assert_eq!(rule(PATRIOT, "three segments"), [4 * MIB, 8 * MIB]);
    assert_eq!(rule(SANDISK, "three segments"), [512 * KIB, 8 * MIB]);
}

#[test]
fn rules_answer_even_where_there_is_no_geometry() {
    for name in ["relative steps", "absolute steps", "three segments"] {
        assert_eq!(rule(ISSUE_16, name).len(), 2, "{name}");
    }
}

#[test]
fn one_number_of_each_alignment_is_no_answer() {
    for (text, alignments) in
        [(README, 17), (PQI, 23), (PATRIOT, 14), (SANDISK, 19), (ULTRA, 14), (ISSUE_13, 16), (ISSUE_16, 15)]
    {
        let found = judge(&flashbench::parse(text).unwrap());
        assert_eq!(found, Err(NoAnswer::TooFew { alignments, triples: 1 }), "{text}");
    }
}

/// Digits that the tool cuts off stay negative numbers of nanoseconds.
#[test]
fn negative_differences_are_read() {
    let of = |align: u64| values(ISSUE_16).into_iter().find(|one| one.0 == align).unwrap().1;
    assert!((of(2 * MIB) + 93_720.0).abs() < 1e-6);
    assert!((of(32 << 30) + 412_331.0).abs() < 1e-6);
}
