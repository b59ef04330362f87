//! The search that keeps what is shown.
//!
//! 1. *Screening*: one folded design of all options ([`super::design`]).
//! 2. *Race*: more such designs, of the options that are left. After each one that is unlikely to show the least gain
//!    that matters is dropped. Options are tested at three looks (after the screening, at 60 % of the budget, at the end),
//!    one-sided, with the error spent over the looks ([`super::spending`]) and over the options by Holm's procedure (1979;
//!    with looks: Maurer & Bretz 2013, *Statistics in Biopharmaceutical Research* 5). An option that was dropped keeps its share of the
//!    error, so that dropping costs nothing and gives nothing away. What is shown to gain stays in the designs, where it does no
//!    harm: the variance does not depend on the number of options.
//! 3. *Confirmation*: the chosen options together against the base, on runs that had no part in the choice.
//!
//! All runs share one variance, and each block has its own level ([`super::fit`]).

use super::design::{Mirrored, blocks, folded, runs_for};
use super::fit::{Fit, Observation, above, count, fit, reach};
use super::greedy::measure;
use super::random::Random;
use super::spending::{is_futile, nominal, quantile};
use super::{
    Bench, Block, Configuration, Confirmation, ERROR, Fate, Gain, Path, Problem, Purpose, Run, Unknown,
    Verdict,
};

/// Share of the budget after which there is a look between the first and the last.
const MIDDLE: f64 = 0.6;
/// Pairs of a confirmation, at least.
pub(super) const LEAST_PAIRS: usize = 3;
/// The largest share of the budget that is kept for the confirmation.
const RESERVE: f64 = 0.1;
/// Power with which the confirmation is to show what the search found.
const CONFIRMING: f64 = 0.95;
/// Power from which on fresh runs that do not show the gain contradict it.
const CONTRADICTING: f64 = 0.8;

struct Search<'a> {
    problem: &'a Problem,
    bench: &'a mut dyn Bench,
    random: Random,
    path: Path,
    runs: Vec<Observation>,
    /// Blocks so far: the replicate of the next.
    replicate: u32,
    /// Shares of the runs at the looks that tested, rising.
    tested: Vec<f64>,
}

/// The whole search; ends where the bench does.
pub(super) fn search(problem: &Problem, bench: &mut dyn Bench) -> Path {
    let path = Path::new(problem.method, problem.options);
    let random = Random::new(problem.seed);
    let mut search =
        Search { problem, bench, random, path, runs: Vec::new(), replicate: 0, tested: Vec::new() };
    // A bench that stopped left the path with what is pending.
    let _ = search.all();
    search.path
}

impl Search<'_> {
    fn all(&mut self) -> Result<(), Unknown> {
        let all: Vec<usize> = (0..self.problem.options).collect();
        let design = folded(self.problem, &all, &mut self.random);
        let room = self.room();
        self.measure_pairs(Purpose::Screening, design.into_iter().take(room).collect())?;
        self.look(true);
        while self.is_undecided() && self.room() > 0 {
            let active: Vec<usize> = all.iter().copied().filter(|option| self.is_active(*option)).collect();
            let design = folded(self.problem, &active, &mut self.random);
            let room = self.room();
            let before = self.runs.len();
            self.measure_pairs(Purpose::Race, design.into_iter().take(room).collect())?;
            // Clashes can leave pairs that tell nothing; a design of nothing else ends the race.
            if self.runs.len() == before {
                break;
            }
            let share = self.share();
            let early = self.tested.last().is_none_or(|before| *before < MIDDLE);
            self.look(early && (MIDDLE..1.0).contains(&share));
        }
        self.last_look();
        self.choose();
        self.confirm()
    }

    /// Pairs of runs that fit into the budget before the confirmation.
    fn room(&self) -> usize {
        let kept = 2 * self.reserved();
        self.problem.budget.saturating_sub(self.runs.len() + kept) / 2
    }

    /// Pairs that are kept for the confirmation.
    fn reserved(&self) -> usize {
        let most = whole(count(self.problem.budget) * RESERVE / 2.0).max(LEAST_PAIRS);
        let kept: f64 = (0..self.problem.options)
            .filter(|option| matches!(self.path.findings[*option].fate, Fate::Kept { .. }))
            .filter(|option| self.wears(Configuration::BASE.with(*option)).is_none())
            .filter_map(|option| self.path.findings[option].gain)
            .map(|gain| gain.value)
            .sum();
        self.path.noise.map_or(most, |noise| pairs_for(kept, noise).clamp(LEAST_PAIRS, most))
    }

    /// Share of the runs of screening and race that are done, of the most that there can be: what is kept for the confirmation
    /// changes with what is found, and the shares of the looks are to stand for their runs.
    fn share(&self) -> f64 {
        let all = count(self.problem.budget.saturating_sub(2 * LEAST_PAIRS).max(1));
        (count(self.runs.len()) / all).min(1.0)
    }

    fn is_active(&self, option: usize) -> bool {
        matches!(self.path.findings[option].fate, Fate::Undecided | Fate::Kept { .. })
    }

    fn is_undecided(&self) -> bool {
        self.path.findings.iter().any(|finding| finding.fate == Fate::Undecided)
    }

    fn measure_pairs(&mut self, purpose: Purpose, pairs: Vec<Mirrored>) -> Result<(), Unknown> {
        for configurations in blocks(pairs) {
            self.measure_block(purpose, configurations)?;
        }
        Ok(())
    }

    fn measure_block(&mut self, purpose: Purpose, configurations: Vec<Configuration>) -> Result<(), Unknown> {
        let replicate = self.replicate;
        let runs = configurations.into_iter().map(|configuration| Run { configuration, replicate }).collect();
        let block = Block { purpose, runs };
        let scores = measure(block.clone(), self.bench, &mut self.path)?;
        self.replicate += 1;
        let observed = |(run, score): (&Run, f64)| Observation {
            configuration: run.configuration,
            block: replicate,
            score,
        };
        self.runs.extend(block.runs.iter().zip(scores).map(observed));
        Ok(())
    }

    /// Fits all runs and enters what they say.
    fn fitted(&mut self) -> Option<Fit> {
        let found = fit(self.problem.options, &self.runs)?;
        self.path.noise = Some(found.sd);
        for (finding, gain) in self.path.findings.iter_mut().zip(found.gains()) {
            finding.gain = gain;
        }
        self.enter_written();
        Some(found)
    }

    /// Tests if `tests`, and drops what is futile.
    fn look(&mut self, tests: bool) {
        let Some(found) = self.fitted() else { return };
        let share = self.share();
        if tests {
            self.test(&found, share);
        }
        let level = self.level();
        let runs = self.runs.len();
        for (finding, effect) in self.path.findings.iter_mut().zip(&found.effects) {
            let (Fate::Undecided, Some(effect)) = (finding.fate, effect) else { continue };
            let error = found.error(effect);
            // At the last look the error is that of all runs.
            let aim = (1.0 + self.problem.least_gain).ln() / (error * share.sqrt());
            if error > 0.0 && is_futile(effect.value / error, share, aim, level) {
                finding.fate = Fate::Futile { runs };
            }
        }
    }

    /// What no later look can keep was not shown to gain.
    fn last_look(&mut self) {
        if let Some(found) = self.fitted() {
            self.test(&found, 1.0);
        }
        for finding in &mut self.path.findings {
            if finding.fate == Fate::Undecided {
                finding.fate = Fate::NoEvidence;
            }
        }
    }

    /// Level of an option that is not kept yet, over all looks: Holm's.
    fn level(&self) -> f64 {
        let kept = self.path.findings.iter().filter(|f| matches!(f.fate, Fate::Kept { .. })).count();
        ERROR / count(self.problem.options.saturating_sub(kept).max(1))
    }

    /// Keeps every option that is shown to gain; each gives its share of the error to the others.
    fn test(&mut self, found: &Fit, share: f64) {
        let runs = self.runs.len();
        self.tested.push(share);
        let p = |effects: &[Option<super::fit::Effect>], option: usize| {
            effects[option].as_ref().map_or(1.0, |effect| found.p(effect))
        };
        loop {
            let undecided = (0..self.problem.options)
                .filter(|option| self.path.findings[*option].fate == Fate::Undecided)
                .min_by(|a, b| p(&found.effects, *a).total_cmp(&p(&found.effects, *b)));
            let Some(option) = undecided else { break };
            if p(&found.effects, option) > nominal(self.level(), &self.tested) {
                break;
            }
            self.path.findings[option].fate = Fate::Kept { runs };
        }
    }

    /// Runs with what they wrote, where that is known of all.
    fn worn(&self, runs: &[Observation]) -> Option<Vec<Observation>> {
        let observed = |run: &Observation| {
            let (configuration, block) = (run.configuration, run.block);
            let score = self.bench.written(&Run { configuration, replicate: block })?;
            Some(Observation { configuration, block, score })
        };
        runs.iter().map(observed).collect()
    }

    /// Enters what every option adds to the logarithm of what is written.
    fn enter_written(&mut self) {
        let worn = self.worn(&self.runs);
        let Some(found) = worn.and_then(|runs| fit(self.problem.options, &runs)) else { return };
        for (finding, written) in self.path.findings.iter_mut().zip(found.gains()) {
            finding.written = written;
        }
    }

    /// Why what these options write together is not within the limit; `None`: it is, or there is none.
    fn wears(&self, all: Configuration) -> Option<Fate> {
        let most = self.problem.most_written?.ln();
        let (mut sum, mut squares) = (0.0, 0.0);
        for option in all.options() {
            let Some(written) = self.path.findings[option].written else { return Some(Fate::WearUnknown) };
            sum += written.value;
            squares += written.interval.map_or(0.0, |(_, high)| (high - written.value).powi(2));
        }
        // What is no number is not within it.
        let within = sum + squares.sqrt() <= most;
        (!within).then_some(Fate::Wears)
    }

    /// Of what was kept, the largest gains that go together and do not write too much.
    fn choose(&mut self) {
        let value = |path: &Path, option: usize| path.findings[option].gain.map_or(0.0, |gain| gain.value);
        let mut kept: Vec<usize> = (0..self.problem.options)
            .filter(|option| matches!(self.path.findings[*option].fate, Fate::Kept { .. }))
            .collect();
        kept.sort_by(|a, b| value(&self.path, *b).total_cmp(&value(&self.path, *a)));
        let mut worn = Vec::new();
        for option in kept {
            match self.path.chosen.options().find(|other| self.problem.clash(option, *other)) {
                Some(with) => self.path.findings[option].fate = Fate::Clash { with },
                None if self.wears(self.path.chosen.with(option)).is_some() => worn.push(option),
                None => self.path.chosen = self.path.chosen.with(option),
            }
        }
        // Beside an option that writes less one may fit that did not fit before it.
        for option in worn {
            let clash = self.path.chosen.options().find(|other| self.problem.clash(option, *other));
            match clash.map(|with| Fate::Clash { with }).or_else(|| self.wears(self.path.chosen.with(option)))
            {
                Some(fate) => self.path.findings[option].fate = fate,
                None => self.path.chosen = self.path.chosen.with(option),
            }
        }
    }

    /// Measures the chosen options against the base, in pairs.
    fn confirm(&mut self) -> Result<(), Unknown> {
        let chosen = self.path.chosen;
        let expected: f64 = chosen
            .options()
            .filter_map(|option| self.path.findings[option].gain)
            .map(|gain| gain.value)
            .sum();
        let pairs = (self.problem.budget.saturating_sub(self.runs.len()) / 2)
            .min(pairs_for(expected, self.path.noise.unwrap_or(0.0)).max(LEAST_PAIRS));
        if chosen.is_empty() || pairs == 0 {
            return Ok(());
        }
        // Until the fresh runs are there nothing is recommended.
        self.path.chosen = Configuration::BASE;
        let first = self.runs.len();
        for _ in 0..pairs {
            let mut pair = vec![Configuration::BASE, chosen];
            self.random.shuffle(&mut pair);
            self.measure_block(Purpose::Confirmation, pair)?;
        }
        let fresh = &self.runs[first..];
        let mean = |wanted: Configuration| {
            let own = fresh.iter().filter(|run| run.configuration == wanted).map(|run| run.score);
            own.sum::<f64>() / count(pairs)
        };
        let gain = mean(chosen) - mean(Configuration::BASE);
        let mut found = confirmation(&self.runs[..first], fresh, self.problem.options, gain, expected, pairs);
        self.confirm_written(&mut found, first, pairs);
        if found.verdict == Verdict::NotConfirmed {
            chosen.options().for_each(|option| self.path.findings[option].fate = Fate::NotConfirmed);
        } else if !found.is_too_worn {
            self.path.chosen = chosen;
        }
        self.path.confirmation = Some(found);
        Ok(())
    }

    /// Enters what the fresh runs, those from `first` on, wrote.
    fn confirm_written(&self, found: &mut Confirmation, first: usize, pairs: usize) {
        found.is_too_worn = self.problem.most_written.is_some();
        let Some(worn) = self.worn(&self.runs) else { return };
        let (search, fresh) = worn.split_at(first);
        let signed = |run: &Observation| if run.configuration.is_empty() { -run.score } else { run.score };
        let ratio = fresh.iter().map(signed).sum::<f64>() / count(pairs);
        let of_pairs = confirmation(search, fresh, self.problem.options, ratio, 0.0, pairs);
        found.written = Some(Gain { value: ratio, interval: Some(of_pairs.interval) });
        found.is_too_worn = !self.problem.most_written.is_none_or(|most| of_pairs.interval.1 <= most.ln());
    }
}

/// The estimate is that of the fresh runs alone; their variance is that of all runs.
fn confirmation(
    search: &[Observation],
    fresh: &[Observation],
    options: usize,
    gain: f64,
    expected: f64,
    pairs: usize,
) -> Confirmation {
    let own: f64 = fresh
        .chunks(2)
        .map(|pair| {
            let later = if pair[0].configuration.is_empty() { 1.0 } else { -1.0 };
            (later * (pair[1].score - pair[0].score) - gain).powi(2) / 2.0
        })
        .sum();
    let (mut squares, mut freedom) = (own, count(pairs) - 1.0);
    if let Some(found) = fit(options, search) {
        squares += found.sd.powi(2) * found.freedom;
        freedom += found.freedom;
    }
    let sd = (squares / freedom.max(1.0)).sqrt();
    let error = sd * (2.0 / count(pairs)).sqrt();
    let freedom = freedom.max(1.0);
    // The test is one-sided: its interval is that which is above 0 where the gain is confirmed.
    let reach = reach(1.0 - ERROR, error, freedom);
    let power = super::spending::below(expected / error.max(f64::MIN_POSITIVE) - quantile(1.0 - ERROR));
    let verdict = if above(gain, error, freedom) <= ERROR {
        Verdict::Confirmed
    } else if power >= CONTRADICTING {
        Verdict::NotConfirmed
    } else {
        Verdict::TooFew
    };
    Confirmation {
        pairs,
        expected,
        gain,
        interval: (gain - reach, gain + reach),
        verdict,
        written: None,
        is_too_worn: false,
    }
}

/// Pairs of runs that show such a gain.
fn pairs_for(gain: f64, noise: f64) -> usize {
    if gain <= 0.0 {
        return usize::MAX;
    }
    let sum = quantile(1.0 - ERROR) + quantile(CONFIRMING);
    whole(2.0 * (noise * sum / gain).powi(2)).saturating_add(1)
}

/// The whole part of a number that is not negative.
fn whole(number: f64) -> usize {
    usize::try_from(crate::quantity::to_u64(number.floor())).unwrap_or(usize::MAX)
}

/// Runs that a search needs before it can say anything: one design with a degree of freedom for the noise, and the confirmation.
pub(super) fn least_runs(options: usize) -> usize {
    let (design, confirmation) = (runs_for(options), 2 * LEAST_PAIRS);
    let blocks = design.div_ceil(super::design::BLOCK_RUNS);
    design.max(options + blocks + 1) + confirmation
}
