//! Designs in which every run informs all options.
//!
//! A Hadamard matrix of order n (Plackett & Burman 1946, Biometrika 33; here by Paley 1933 and by doubling) gives n
//! runs in which each of up to n options is set in half of the runs with every other option, and not set in the other half.
//! Each run is followed or preceded by its mirror image (fold-over: Box & Wilson 1951), so that effects of single options
//! are free of those of pairs (resolution IV), and the pair of runs has every option once: a drift of the device that is
//! slower than a pair is in no effect. The effect of an option has the variance 4 σ² ÷ runs whatever the number of
//! options; a race of base and k options, one at a time, would have 2 (k + 1) σ² ÷ runs.
//!
//! Options that clash cannot be set together: of those a run would have, one is drawn and the others are left out. The
//! design is then no longer orthogonal, which the fit takes into account.

use super::random::Random;
use super::{Configuration, Problem};

/// Runs of a block, at most: what lies close together in time and shares a seed.
pub(super) const BLOCK_RUNS: usize = 8;

/// A run and its mirror image.
pub(super) type Mirrored = [Configuration; 2];

/// A Hadamard matrix (rows orthogonal, entries ±1 as `true` and `false`) whose first row is all `true`; `None` where
/// neither construction gives one of this order.
pub(super) fn hadamard(order: usize) -> Option<Vec<Vec<bool>>> {
    let rows = match order {
        1 => vec![vec![true]],
        _ if order >= 4 && is_paley(order - 1) => paley(order - 1),
        _ if order >= 2 && order.is_multiple_of(2) => doubled(&hadamard(order / 2)?),
        _ => return None,
    };
    let first = rows[0].clone();
    let normal = |row: &Vec<bool>| row.iter().zip(&first).map(|(entry, first)| entry == first).collect();
    Some(rows.iter().map(normal).collect())
}

/// Whether it is a prime that leaves 3 when divided by 4.
fn is_paley(prime: usize) -> bool {
    prime % 4 == 3
        && (2..prime)
            .take_while(|factor| factor * factor <= prime)
            .all(|factor| !prime.is_multiple_of(factor))
}

/// Paley's first construction: I + S, S of the quadratic residues of the prime.
fn paley(prime: usize) -> Vec<Vec<bool>> {
    let is_square = |number: usize| (1..prime).any(|root| root * root % prime == number);
    let entry = |row: usize, column: usize| match (row, column) {
        (0, _) => true,
        (_, 0) => false,
        (row, column) if row == column => true,
        (row, column) => is_square((prime + row - column) % prime),
    };
    (0..=prime).map(|row| (0..=prime).map(|column| entry(row, column)).collect()).collect()
}

/// Sylvester's construction.
fn doubled(rows: &[Vec<bool>]) -> Vec<Vec<bool>> {
    let upper = rows.iter().map(|row| [row.clone(), row.clone()].concat());
    let lower = rows.iter().map(|row| [row.clone(), row.iter().map(|entry| !entry).collect()].concat());
    upper.chain(lower).collect()
}

/// Runs of one whole design for so many options.
pub(super) fn runs_for(options: usize) -> usize {
    2 * order_for(options)
}

fn order_for(options: usize) -> usize {
    (options.max(1)..).find(|order| hadamard(*order).is_some()).unwrap_or(options)
}

/// One whole design for these options: pairs of mirrored runs, in random order. The other options are not set.
pub(super) fn folded(problem: &Problem, options: &[usize], random: &mut Random) -> Vec<Mirrored> {
    let order = order_for(options.len());
    let rows = hadamard(order).unwrap_or_default();
    let mut columns: Vec<usize> = (0..order).collect();
    random.shuffle(&mut columns);
    let mut pairs: Vec<Mirrored> = Vec::new();
    for row in &rows {
        let set = |wanted: bool| -> Vec<usize> {
            let of_row = options.iter().zip(&columns).filter(|(_, column)| row[**column] == wanted);
            of_row.map(|(option, _)| *option).collect()
        };
        let mut pair =
            [without_clashes(problem, set(true), random), without_clashes(problem, set(false), random)];
        random.shuffle(&mut pair);
        pairs.push(pair);
    }
    random.shuffle(&mut pairs);
    pairs
}

/// Adds options in random order as far as they clash with none before them.
fn without_clashes(problem: &Problem, mut options: Vec<usize>, random: &mut Random) -> Configuration {
    random.shuffle(&mut options);
    let add = |set: Configuration, option| if problem.allows(set, option) { set.with(option) } else { set };
    options.into_iter().fold(Configuration::BASE, add)
}

/// Pairs put into blocks: at most [`BLOCK_RUNS`] runs, none of them twice. Both runs of a pair that are the same (clashes can
/// do that) tell nothing and are left out.
pub(super) fn blocks(pairs: Vec<Mirrored>) -> Vec<Vec<Configuration>> {
    let mut blocks: Vec<Vec<Configuration>> = Vec::new();
    for pair in pairs.into_iter().filter(|[run, mirror]| run != mirror) {
        let fits = |block: &&mut Vec<Configuration>| {
            block.len() < BLOCK_RUNS && !pair.iter().any(|run| block.contains(run))
        };
        match blocks.iter_mut().find(fits) {
            Some(block) => block.extend(pair),
            None => blocks.push(pair.to_vec()),
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::super::Method;
    use super::*;

    fn problem(options: usize, clashes: &[(usize, usize)]) -> Problem {
        let clashes = clashes.to_vec();
        Problem {
            method: Method::Evidence,
            options,
            clashes,
            budget: 100,
            least_gain: 0.02,
            most_written: None,
            seed: 1,
        }
    }

    #[test]
    fn rows_and_columns_are_orthogonal() {
        let orders: Vec<usize> = (1..=48).filter(|order| hadamard(*order).is_some()).collect();
        assert_eq!(orders, [1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 44, 48]);
        for order in orders {
            let rows = hadamard(order).unwrap();
            assert!(rows[0].iter().all(|entry| *entry), "{order}");
            for a in 0..order {
                for b in 0..a {
                    let of_rows = (0..order).filter(|n| rows[a][*n] == rows[b][*n]).count();
                    let of_columns = rows.iter().filter(|row| row[a] == row[b]).count();
                    assert_eq!((2 * of_rows, 2 * of_columns), (order, order), "{order}: {a}, {b}");
                }
            }
        }
        assert_eq!(
            [1, 2, 3, 4, 5, 9, 12, 13, 17, 25, 40].map(runs_for),
            [2, 4, 8, 8, 16, 24, 24, 32, 40, 64, 80]
        );
    }

    #[test]
    fn every_option_is_set_in_half_of_the_runs_with_every_other_pair_alike() {
        let problem = problem(12, &[]);
        let all: Vec<usize> = (0..12).collect();
        let pairs = folded(&problem, &all, &mut Random::new(7));
        let runs: Vec<Configuration> = pairs.iter().flatten().copied().collect();
        assert_eq!(runs.len(), 24);
        assert!(runs.contains(&Configuration::BASE), "the base is among them");
        for a in 0..12 {
            assert_eq!(runs.iter().filter(|run| run.has(a)).count(), 12);
            for b in 0..a {
                assert_eq!(runs.iter().filter(|run| run.has(a) && run.has(b)).count(), 6, "{a}, {b}");
                // Resolution IV: the product of two options is balanced within each level of a third.
                for c in 0..b {
                    let odd = runs.iter().filter(|run| run.has(a) ^ run.has(b) ^ run.has(c)).count();
                    assert_eq!(odd, 12, "{a}, {b}, {c}");
                }
            }
        }
        assert!(
            pairs
                .iter()
                .all(|[run, mirror]| all.iter().all(|option| run.has(*option) != mirror.has(*option)))
        );
        assert_ne!(pairs, folded(&problem, &all, &mut Random::new(8)), "another seed, another order");
    }

    #[test]
    fn options_that_clash_are_never_set_together() {
        let problem = problem(6, &[(0, 1), (2, 1), (0, 2)]);
        let all: Vec<usize> = (0..6).collect();
        let mut random = Random::new(3);
        let runs: Vec<Configuration> =
            (0..20).flat_map(|_| folded(&problem, &all, &mut random)).flatten().collect();
        assert!(runs.iter().all(|run| (0..3).filter(|option| run.has(*option)).count() <= 1));
        for option in 0..3 {
            let set = runs.iter().filter(|run| run.has(option)).count();
            // (1 − ½³) ÷ 3 = 7 of 24.
            assert!((80..107).contains(&set), "{option}: {set} of {}", runs.len());
        }
    }

    #[test]
    fn a_block_has_no_run_twice_and_each_of_the_pairs_once() {
        let problem = problem(3, &[]);
        let mut random = Random::new(5);
        let pairs: Vec<Mirrored> = (0..3).flat_map(|_| folded(&problem, &[0, 1, 2], &mut random)).collect();
        let blocks = blocks(pairs.clone());
        assert_eq!(blocks.iter().map(Vec::len).sum::<usize>(), 2 * pairs.len());
        for block in &blocks {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!((sorted.len(), block.len() <= BLOCK_RUNS), (block.len(), true), "{block:?}");
        }
    }
}
