//! Answers of made-up estimates.

use super::effect::{Cause, Effect};
use super::*;
use crate::report::difference::{Finding, finding};
use crate::stats::{Estimate, Interval};

fn estimate(value: f64, interval: Option<(f64, f64)>, units: usize) -> Estimate {
    Estimate {
        value,
        interval: interval.map(|(low, high)| Interval { low, high }),
        n: units,
        units,
        contexts: 1,
        range: None,
        zeros: 0,
        p: None,
        basis: match (interval, units) {
            (None, _) => Basis::Single,
            (Some(_), 1) => Basis::Blocks,
            _ => Basis::Seeds,
        },
        detectable: None,
        more: None,
    }
}

fn effect(cause: Cause, what: &str, estimate: Estimate) -> Effect {
    Effect {
        file_system: "xfs".to_owned(),
        device: "a 7,200 rpm hard disk (model hdd-7200)".to_owned(),
        model: true,
        settings: String::new(),
        cause,
        what: what.to_owned(),
        finding: finding(&estimate, Some(true)),
        corrected: false,
        estimate,
    }
}

/// The sentence of effects that are all of xfs on one disk.
fn sentence(effects: &[Effect]) -> String {
    let own: Vec<&Effect> = effects.iter().collect();
    sentence::of(&own).unwrap().text()
}

#[test]
fn the_clearest_slowdown_is_the_answer_and_a_wide_interval_is_not() {
    let three = |value, low, high| estimate(value, Some((low, high)), 3);
    let mut effects = vec![
        effect(Cause::Ageing, "grep", three(4.9, 4.6, 5.2)),
        effect(Cause::Ageing, "walk", three(6.0, 1.2, 30.0)),
        effect(Cause::Ageing, "create", three(1.01, 0.97, 1.05)),
    ];
    assert_eq!(
        sentence(&effects),
        "Ageing made reading all files on xfs 4.90 times slower [4.60, 5.20] on a 7,200 rpm hard disk (model hdd-7200); \
         the worst of 3 measures, 2 significantly slower."
    );
    // What only the correction keeps from being a finding comes after what is one, and says so when it is all.
    effects[0].finding = Finding::NoEvidence;
    effects[0].corrected = true;
    assert!(
        sentence(&effects).starts_with("Ageing made listing all files on xfs 6.00 times slower [1.20, 30.0]")
    );
    let said = sentence(&effects[..1]);
    assert!(
        said.contains("4.90 times slower [4.60, 5.20] (not significant after correction) on a"),
        "{said}"
    );
}

#[test]
fn the_remedy_that_surely_helped_most_is_the_answer_with_what_the_others_did() {
    let three = |value, low, high| estimate(value, Some((low, high)), 3);
    let of = |method: &str, what: &str, estimate| Effect {
        settings: method.to_owned(),
        ..effect(Cause::Remedy, what, estimate)
    };
    let effects = [
        of("defragment", "grep", three(0.8, 0.75, 0.85)),
        of("copy", "grep", three(0.5, 0.4, 0.625)),
        of("copy", "create", three(0.2, 0.04, 1.0)),
        of("fstrim", "grep", three(1.0, 0.99, 1.01)),
        of("free-20", "large-file", three(0.9, 0.85, 0.95)),
    ];
    assert_eq!(
        sentence(&effects),
        "A copy to a fresh volume made reading all files on xfs 2.00 times faster [1.60, 2.50] on a 7,200 rpm hard disk (model \
         hdd-7200), defragmentation 1.25 times faster [1.18, 1.33]; the best of 5 comparisons, 3 significantly faster."
    );
    let said = sentence(&effects[4..]);
    assert!(
        said.starts_with(
            "Deleting 20\u{202f}% of the files made writing a large file on xfs 1.11 times faster"
        ),
        "{said}"
    );
    // Nothing helped.
    let said = sentence(&effects[3..4]);
    assert!(said.contains("1.00 times as slow [0.99, 1.01] (no evidence of a difference) on a"), "{said}");
}

#[test]
fn few_seeds_say_so_and_one_value_has_no_interval() {
    let of = |estimate| sentence(&[effect(Cause::Ageing, "grep", estimate)]);
    let begin = "In this run, ageing made reading all files on xfs 4.90 times slower";
    assert!(of(estimate(4.9, Some((4.6, 5.2)), 2)).starts_with(&format!("{begin} [4.60, 5.20] on a")));
    assert!(of(estimate(4.9, None, 1)).starts_with(&format!("{begin} on a")));
    assert!(of(estimate(4.9, Some((4.6, 5.2)), 3)).starts_with("Ageing made"));
}

#[test]
fn what_is_faster_or_the_same_is_not_called_slower() {
    let of =
        |value, low, high| sentence(&[effect(Cause::Ageing, "grep", estimate(value, Some((low, high)), 3))]);
    assert!(of(0.5, 0.4, 0.625).contains("2.00 times faster [1.60, 2.50] on"));
    assert!(of(1.02, 0.9, 1.1).contains("1.02 times slower [0.90, 1.10] (no evidence of a difference) on"));
    assert!(of(1.001, 0.99, 1.01).contains("1.00 times as slow [0.99, 1.01] (no evidence of a difference)"));
}

#[test]
fn use_stands_beside_fullness() {
    let effects = [
        effect(Cause::Use, "grep", estimate(2.4, Some((2.3, 2.5)), 3)),
        effect(Cause::Fullness, "grep", estimate(1.1, Some((1.05, 1.15)), 3)),
        effect(Cause::Fullness, "write", estimate(1.5, Some((1.4, 1.6)), 3)),
    ];
    assert_eq!(
        sentence(&effects),
        "Use made reading all files on xfs 2.40 times slower [2.30, 2.50], fullness 1.10 times slower [1.05, 1.15], on a \
         7,200 rpm hard disk (model hdd-7200); writing when full is 1.50 times slower [1.40, 1.60]."
    );
}

#[test]
fn operations_and_other_volumes_have_sentences_too() {
    let running = effect(Cause::Running, "random_write", estimate(1.3, Some((1.2, 1.4)), 3));
    assert!(sentence(&[running]).starts_with("While it aged, random write on xfs became 1.30 times slower"));
    let cause = Cause::Volumes { above: "big".to_owned(), below: "small".to_owned() };
    let volumes = effect(cause, "grep", estimate(1.3, None, 1));
    assert!(
        sentence(&[volumes])
            .starts_with("In this run, reading all files on xfs is 1.30 times slower on big than on small")
    );
}

#[test]
fn a_terminal_gets_ten_lines_at_most() {
    let one = effect(Cause::Ageing, "grep", estimate(4.9, Some((4.6, 5.2)), 3));
    let sentence = sentence::of(&[&one]).unwrap();
    let verdicts = vec![
        VerdictCount { verdict: "holds", count: 2 },
        VerdictCount { verdict: "not comparable", count: 25 },
    ];
    for number in [0, 1, 8, 9, 40] {
        let answer = Answer {
            sentences: vec![sentence.clone(); number],
            method: if number > 0 { "What is compared.".to_owned() } else { String::new() },
            verdicts: verdicts.clone(),
            ..Answer::default()
        };
        let lines = answer.lines();
        assert!(lines.len() <= LINES, "{number}: {lines:?}");
        assert_eq!(lines.last().unwrap(), "27 published findings: 2 hold, 25 not comparable.");
        assert_eq!(number > 8, lines.iter().any(|line| line.ends_with("more in the report.")));
    }
    assert_eq!(Answer::default().lines(), Vec::<String>::new());
}

#[test]
fn warnings_are_counted_by_kind() {
    let count = |kind: &str, warnings, trials| WarningCount { kind: kind.to_owned(), warnings, trials };
    let answer = Answer {
        warnings: vec![count("clock", 9, 3), count("cpu-bound", 45, 45)],
        trials: 45,
        ..Answer::default()
    };
    assert_eq!(answer.warning_line().unwrap(), "Warnings: cpu-bound in 45 of 45 trials, clock in 3.");
    assert_eq!(Answer::default().warning_line(), None);
}

#[test]
fn the_interval_is_named() {
    let three = effect(Cause::Ageing, "grep", estimate(4.9, Some((4.6, 5.2)), 3));
    let alone = effect(Cause::Ageing, "grep", estimate(4.9, None, 1));
    let said = |effects: &[Effect]| intervals(effects, 0.95);
    assert!(said(std::slice::from_ref(&three)).ends_with("intervals: Student's t on logs over 3 repeats."));
    assert!(said(&[alone]).starts_with("One run of each: no interval"));
}
