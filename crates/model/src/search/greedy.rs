//! The search as published (CEWG 2013, *Flash file system tuning methodology*, §3.1).
//!
//! The base is measured, then every remaining option alone on top of what was chosen; the one with the largest gain is added,
//! and its score is that of the new base; until no option gains. No repeats, no threshold, no rule for ties (here: the
//! first). With noise of 3 % it keeps about one option per search that does nothing.

use super::{
    Bench, Block, Configuration, Fate, Finding, Gain, MeasuredBlock, MeasuredRun, Path, Problem, Purpose,
    Run, Unknown,
};

/// The whole search; ends where the bench does.
pub(super) fn search(problem: &Problem, bench: &mut dyn Bench) -> Path {
    let mut path = Path::new(problem.method, problem.options);
    if steps(problem, bench, &mut path).is_ok() {
        for (option, finding) in path.findings.iter_mut().enumerate() {
            let clash = path.chosen.options().find(|other| problem.clash(option, *other));
            finding.fate = match (finding.fate, clash) {
                (kept @ Fate::Kept { .. }, _) => kept,
                (_, Some(with)) => Fate::Clash { with },
                _ => Fate::NotBetter,
            };
        }
    }
    path
}

fn steps(problem: &Problem, bench: &mut dyn Bench, path: &mut Path) -> Result<(), Unknown> {
    let mut best = step(Purpose::Base, vec![path.chosen], bench, path)?[0];
    loop {
        let chosen = path.chosen;
        let rest: Vec<usize> = (0..problem.options)
            .filter(|option| !chosen.has(*option) && problem.allows(chosen, *option))
            .collect();
        if rest.is_empty() || path.runs() + rest.len() > problem.budget {
            return Ok(());
        }
        let tried: Vec<Configuration> = rest.iter().map(|option| chosen.with(*option)).collect();
        let scores = step(Purpose::Step, tried, bench, path)?;
        for (option, score) in rest.iter().zip(&scores) {
            let gain = Some(Gain { value: score - best, interval: None });
            path.findings[*option] = Finding { gain, written: None, fate: Fate::Undecided };
        }
        // Of equal scores `max_by` has the last: from the back that is the first.
        let found = rest.into_iter().zip(scores).rev().max_by(|a, b| a.1.total_cmp(&b.1));
        match found {
            Some((option, score)) if score > best => {
                path.findings[option].fate = Fate::Kept { runs: path.runs() };
                path.chosen = chosen.with(option);
                best = score;
            }
            _ => return Ok(()),
        }
    }
}

fn step(
    purpose: Purpose,
    configurations: Vec<Configuration>,
    bench: &mut dyn Bench,
    path: &mut Path,
) -> Result<Vec<f64>, Unknown> {
    let runs = configurations.into_iter().map(|configuration| Run { configuration, replicate: 0 }).collect();
    measure(Block { purpose, runs }, bench, path)
}

/// Runs a block and puts it on the path; where its scores are not known it is what comes next.
pub(super) fn measure(block: Block, bench: &mut dyn Bench, path: &mut Path) -> Result<Vec<f64>, Unknown> {
    let known = bench
        .measure(&block)
        .and_then(|scores| if scores.len() == block.runs.len() { Ok(scores) } else { Err(Unknown) });
    let Ok(scores) = known else {
        path.pending = Some(block);
        return Err(Unknown);
    };
    let measured = |(run, score): (&Run, &f64)| MeasuredRun { run: *run, score: *score };
    let runs = block.runs.iter().zip(&scores).map(measured).collect();
    path.blocks.push(MeasuredBlock { purpose: block.purpose, runs });
    Ok(scores)
}
