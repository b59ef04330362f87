//! What the methods promise, on a device whose options are known: found gains, false gains, runs.
//!
//! The seeds are fixed, so that a failure is a change of the code and not of luck.

use super::scripted::Scripted;
use super::{Bench, Block, Configuration, Fate, Method, Path, Problem, Purpose, Unknown, Verdict, search};

/// Two options gain 5 %, two 2 %, eight nothing.
const GAINS: [f64; 12] = [0.05, 0.0, 0.0, 0.02, 0.0, 0.05, 0.0, 0.0, 0.02, 0.0, 0.0, 0.0];
const NOISE: f64 = 0.03;
const LARGE: [usize; 2] = [0, 5];
const SMALL: [usize; 2] = [3, 8];

fn problem(method: Method, seed: u64) -> Problem {
    Problem {
        method,
        options: 12,
        clashes: Vec::new(),
        budget: 100,
        least_gain: 0.02,
        most_written: None,
        seed,
    }
}

/// What came of many searches.
#[derive(Debug, Default)]
struct Tally {
    both_large: u32,
    small: u32,
    any_false: u32,
    false_kept: u32,
    most_runs: usize,
    runs: usize,
}

fn tally(method: Method, seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let path = search(&problem(method, seed), &mut Scripted::new(&GAINS, NOISE, seed));
        assert!(path.pending.is_none());
        let found = |options: [usize; 2]| {
            options.map(|option| u32::from(path.chosen.has(option))).iter().sum::<u32>()
        };
        let false_kept = path.chosen.len() - found(LARGE) - found(SMALL);
        tally.both_large += u32::from(found(LARGE) == 2);
        tally.small += found(SMALL);
        tally.any_false += u32::from(false_kept > 0);
        tally.false_kept += false_kept;
        tally.most_runs = tally.most_runs.max(path.runs());
        tally.runs += path.runs();
    }
    tally
}

#[test]
fn evidence_finds_what_is_there_and_little_else() {
    // So many that a chance of 5 % is known to 0.2 %; of 200 searches it would be known to 1.5 %.
    let found = tally(Method::Evidence, 0..16_000);
    assert!(found.most_runs <= 100, "{found:?}");
    assert!(found.both_large >= 15_840, "both 5 % gains in 99 % of the searches: {found:?}");
    assert!(found.any_false <= 800, "a false gain in at most 5 % of the searches: {found:?}");
    // 94 runs have a standard error of 2 · 3 % ÷ √94 = 0.62 %, of which ln 1.02 is 3.20; Holm's level 0.05 ÷ 10 needs 2.65 with
    // 70 degrees of freedom: 71 %, more once the other one is found, and less what the looks cost.
    assert!((22_400..=23_200).contains(&found.small), "70 to 72.5 % of those of 2 %: {found:?}");
}

#[test]
fn greedy_keeps_what_does_nothing() {
    let found = tally(Method::Greedy, 0..200);
    // Simulated beforehand: 1.1 false gains per search, in 73 of 100 searches any.
    assert!((160..=290).contains(&found.false_kept) && found.any_false > 120, "{found:?}");
    assert!(found.both_large < 180, "{found:?}");
}

#[test]
fn where_nothing_gains_the_base_is_not_beaten() {
    let (mut beaten, mut runs) = (0, 0);
    for seed in 0..500 {
        let path = search(&problem(Method::Evidence, seed), &mut Scripted::new(&[0.0; 12], NOISE, seed));
        beaten += u32::from(!path.base_is_best());
        runs += path.runs();
    }
    assert!(beaten <= 25, "{beaten} of 500");
    assert!(runs < 500 * 90, "futility saves runs: {runs}");
}

#[test]
fn a_search_goes_on_where_it_stopped() {
    let problem = problem(Method::Evidence, 4);
    let whole = search(&problem, &mut Scripted::new(&GAINS, NOISE, 4));
    for stops_after in 0..whole.runs() {
        let mut bench = Scripted { stops_after, ..Scripted::new(&GAINS, NOISE, 4) };
        let part = search(&problem, &mut bench);
        let next = part.pending.clone().unwrap();
        assert_eq!(part.blocks[..], whole.blocks[..part.blocks.len()]);
        let then = &whole.blocks[part.blocks.len()];
        assert_eq!(next.runs, then.runs.iter().map(|run| run.run).collect::<Vec<_>>());
        assert_eq!((next.purpose, part.chosen), (then.purpose, Configuration::BASE));
    }
    assert_eq!(search(&problem, &mut Scripted::new(&GAINS, NOISE, 4)), whole);
}

#[test]
fn no_run_is_asked_for_twice() {
    let problem = Problem { clashes: vec![(0, 1), (1, 2), (0, 2)], ..problem(Method::Evidence, 9) };
    let path = search(&problem, &mut Scripted::new(&GAINS, NOISE, 9));
    let mut runs: Vec<_> = path.blocks.iter().flat_map(|block| &block.runs).map(|run| run.run).collect();
    let all = runs.len();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs.len(), all);
    let clash = |set: Configuration| (0..3).filter(|option| set.has(*option)).count() > 1;
    assert!(runs.iter().all(|run| !clash(run.configuration)) && !clash(path.chosen));
}

#[test]
fn of_options_that_clash_the_better_one_is_chosen() {
    let mut gains = GAINS;
    gains[1] = 0.12;
    let problem = Problem { clashes: vec![(0, 1)], budget: 160, ..problem(Method::Evidence, 2) };
    let path = search(&problem, &mut Scripted::new(&gains, NOISE, 2));
    assert!(path.chosen.has(1) && !path.chosen.has(0), "{path:?}");
    assert_eq!(path.findings[0].fate, Fate::Clash { with: 1 });
}

#[test]
fn a_slow_drift_is_in_no_effect() {
    // 40 % over 100 runs.
    let drifting = |seed| Scripted { drift: 0.004, ..Scripted::new(&GAINS, NOISE, seed) };
    let mut found = (0, 0);
    for seed in 0..200 {
        let path = search(&problem(Method::Evidence, seed), &mut drifting(seed));
        found.0 += u32::from(LARGE.iter().all(|option| path.chosen.has(*option)));
        found.1 += u32::from(path.chosen.options().any(|option| GAINS[option] == 0.0));
    }
    assert!(found.0 >= 190 && found.1 <= 15, "{found:?}");
}

#[test]
fn a_gain_that_needs_an_option_that_harms_is_not_kept() {
    // Option 0 does nothing by itself and gains 20 % beside option 1, which costs 20 %: its effect in the screening is
    // half of that, and on fresh runs without option 1 it is nothing.
    let mut beaten = 0;
    for seed in 0..100 {
        let mut gains = [0.0; 4];
        gains[1] = -0.2;
        let bench = Scripted::new(&gains, 0.01, seed);
        let mut bench = Scripted { together: Some((0, 1, 0.2)), ..bench };
        let problem = Problem { options: 4, budget: 30, ..problem(Method::Evidence, seed) };
        let path = search(&problem, &mut bench);
        beaten += u32::from(!path.base_is_best());
    }
    assert!(beaten <= 10, "{beaten} of 100");
}

#[test]
fn options_that_write_too_much_are_not_recommended() {
    // Of the two large gains the first writes 30 % more, of the small ones each 4 %.
    let mut writes = vec![0.0; 12];
    writes[LARGE[0]] = 1.3_f64.ln();
    SMALL.iter().for_each(|option| writes[*option] = 1.04_f64.ln());
    let mut found = [0; 4];
    for seed in 0..100 {
        let limited = Problem { most_written: Some(1.06), ..problem(Method::Evidence, seed) };
        let bench =
            || Scripted { writes: writes.clone(), writes_noise: 0.005, ..Scripted::new(&GAINS, NOISE, seed) };
        let path = search(&limited, &mut bench());
        assert!(path.pending.is_none() && !path.chosen.has(LARGE[0]), "{path:?}");
        // Both small ones write more than 6 % together.
        assert!(!SMALL.iter().all(|option| path.chosen.has(*option)), "{path:?}");
        let written = path.findings[LARGE[0]].written.unwrap();
        let (low, high) = written.interval.unwrap();
        found[0] += u32::from(low <= 1.3_f64.ln() && 1.3_f64.ln() <= high);
        found[1] += u32::from(path.findings[LARGE[0]].fate == Fate::Wears);
        found[2] += u32::from(path.chosen.has(LARGE[1]));
        // Without a limit what is written is known and changes nothing.
        let free = search(&problem(Method::Evidence, seed), &mut bench());
        let confirmed = free.confirmation.unwrap().written.unwrap();
        found[3] += u32::from(free.chosen.has(LARGE[0]) && confirmed.value > 0.2);
    }
    // 95 % intervals; the large gains are found in 99 % of the searches, and not always confirmed.
    assert!(found[0] >= 88 && found[1] >= 95 && found[2] >= 85 && found[3] >= 90, "{found:?}");
}

#[test]
fn an_option_that_writes_just_too_much_passes_in_one_of_twenty() {
    let mut writes = vec![0.0; 12];
    writes[LARGE[0]] = 1.061_f64.ln();
    let mut passed = 0;
    for seed in 0..200 {
        let limited = Problem { most_written: Some(1.06), ..problem(Method::Evidence, seed) };
        let (writes, writes_noise) = (writes.clone(), 0.02);
        let mut bench = Scripted { writes, writes_noise, ..Scripted::new(&GAINS, NOISE, seed) };
        passed += u32::from(search(&limited, &mut bench).chosen.has(LARGE[0]));
    }
    assert!(passed <= 10, "{passed} of 200");
}

#[test]
fn within_a_limit_nothing_is_recommended_of_which_nobody_knows_what_it_writes() {
    let limited = Problem { most_written: Some(1.06), ..problem(Method::Evidence, 1) };
    let path = search(&limited, &mut Scripted::new(&GAINS, NOISE, 1));
    assert!(path.base_is_best() && path.confirmation.is_none(), "{path:?}");
    assert_eq!(path.findings[LARGE[0]].fate, Fate::WearUnknown);
}

/// A device that has changed by the time of the confirmation.
struct Fading(Scripted);

impl Bench for Fading {
    fn measure(&mut self, block: &Block) -> Result<Vec<f64>, Unknown> {
        if block.purpose == Purpose::Confirmation {
            self.0.effects.fill(0.0);
        }
        self.0.measure(block)
    }
}

#[test]
fn a_gain_that_fresh_runs_do_not_show_is_not_recommended() {
    let mut refuted = 0;
    for seed in 0..100 {
        let path = search(&problem(Method::Evidence, seed), &mut Fading(Scripted::new(&GAINS, NOISE, seed)));
        let verdict = path.confirmation.unwrap().verdict;
        refuted += u32::from(verdict == Verdict::NotConfirmed);
        assert_eq!(path.base_is_best(), verdict == Verdict::NotConfirmed);
        assert_eq!(path.findings[0].fate == Fate::NotConfirmed, verdict == Verdict::NotConfirmed);
    }
    // The confirmation errs in 5 of 100 cases.
    assert!(refuted >= 88, "{refuted} of 100");
}

#[test]
fn a_path_says_what_each_block_was_for() {
    let path: Path = search(&problem(Method::Evidence, 1), &mut Scripted::new(&GAINS, NOISE, 1));
    let purposes: Vec<Purpose> = path.blocks.iter().map(|block| block.purpose).collect();
    assert!(purposes.starts_with(&[Purpose::Screening; 3]) && purposes.contains(&Purpose::Race));
    assert!(purposes.ends_with(&[Purpose::Confirmation; 3]), "{purposes:?}");
    let confirmation = path.confirmation.unwrap();
    assert_eq!(confirmation.verdict, Verdict::Confirmed);
    assert!(
        confirmation.interval.0 < confirmation.expected && confirmation.expected < confirmation.interval.1
    );
    let noise = path.noise.unwrap();
    assert!((noise - NOISE).abs() < 0.01, "{noise}");
}
