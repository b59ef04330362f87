//! The search in a row of kernels of which the first is good and the last bad.

/// What a step said of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As the first.
    Good,
    /// Worse than the first.
    Bad,
    /// It does not build, does not boot or does not do the trials: why.
    Skipped(String),
}

/// What is known of each kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    verdicts: Vec<Option<Verdict>>,
}

impl Search {
    /// Of so many kernels, at least two, the first good and the last bad.
    #[must_use]
    pub fn new(number: usize) -> Self {
        let mut verdicts = vec![None; number.max(2)];
        if let Some(first) = verdicts.first_mut() {
            *first = Some(Verdict::Good);
        }
        if let Some(last) = verdicts.last_mut() {
            *last = Some(Verdict::Bad);
        }
        Self { verdicts }
    }

    /// The last that is known to be good, and the first behind it that is known to be bad.
    #[must_use]
    pub fn between(&self) -> (usize, usize) {
        let good = self.verdicts.iter().rposition(|verdict| *verdict == Some(Verdict::Good)).unwrap_or(0);
        let behind = self.verdicts.iter().skip(good + 1).position(|verdict| *verdict == Some(Verdict::Bad));
        (good, behind.map_or(self.verdicts.len() - 1, |bad| good + 1 + bad))
    }

    /// The kernel to be tried next: of those between that nothing is known of the one nearest to the middle. `None`: the
    /// search is over.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        let (good, bad) = self.between();
        let middle = usize::midpoint(good, bad);
        let unknown = |index: &usize| self.verdicts.get(*index) == Some(&None);
        (good + 1..bad).filter(unknown).min_by_key(|index| index.abs_diff(middle))
    }

    /// Notes what was found of one.
    pub fn judge(&mut self, index: usize, verdict: Verdict) {
        if let Some(known) = self.verdicts.get_mut(index) {
            *known = Some(verdict);
        }
    }

    /// How many steps are left at most, where none is skipped.
    #[must_use]
    pub fn steps_left(&self) -> u32 {
        let (good, bad) = self.between();
        (bad - good).next_power_of_two().trailing_zeros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of a search where all from `first_bad` on are bad and some cannot be tried.
    fn searched(number: usize, first_bad: usize, skipped: &[usize]) -> ((usize, usize), usize) {
        let mut search = Search::new(number);
        let mut steps = 0;
        while let Some(index) = search.next() {
            steps += 1;
            let verdict = match index {
                index if skipped.contains(&index) => Verdict::Skipped("no".to_owned()),
                index if index >= first_bad => Verdict::Bad,
                _ => Verdict::Good,
            };
            search.judge(index, verdict);
        }
        (search.between(), steps)
    }

    #[test]
    fn the_first_bad_one_is_found_in_as_many_steps_as_halving_takes() {
        for number in 2..70 {
            for first_bad in 1..number {
                let (between, steps) = searched(number, first_bad, &[]);
                assert_eq!(between, (first_bad - 1, first_bad), "{number}");
                assert!(
                    steps <= (number - 1).next_power_of_two().trailing_zeros() as usize,
                    "{number}: {steps}"
                );
            }
        }
    }

    #[test]
    fn what_cannot_be_tried_is_stepped_around() {
        assert_eq!(searched(9, 5, &[4]).0, (3, 5));
        assert_eq!(searched(9, 7, &[4]).0, (6, 7));
        assert_eq!(searched(4, 2, &[1, 2]).0, (0, 3));
        assert_eq!(Search::new(9).steps_left(), 3);
        assert_eq!(Search::new(2).next(), None);
    }
}
