//! Running a computation with the widest vectors this CPU has.
//!
//! Builds are for the oldest CPU of their architecture (x86-64: 128-bit vectors). [`with_widest_vectors`] has
//! the same Rust code compiled once more for each wider kind and picks one at run time. What is computed does
//! not depend on the choice as long as it is integer arithmetic: the language gives it one meaning.

/// A computation; its methods and all that they call should be `#[inline(always)]`, or they keep the narrow
/// vectors.
pub trait Vectorise {
    /// Does it.
    fn run(self);
}

/// Runs `work` with the widest vectors of this CPU. Cost of choosing: one load and a branch.
#[inline]
pub fn with_widest_vectors(work: impl Vectorise) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has what the function is compiled for, as was just seen.
            return unsafe { run_avx512(work) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { run_avx2(work) };
        }
    }
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn run_avx512(work: impl Vectorise) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2(work: impl Vectorise) {
    work.run();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds three to each number.
    struct Add<'a>(&'a mut [u64]);

    impl Vectorise for Add<'_> {
        #[inline(always)]
        fn run(self) {
            self.0.iter_mut().for_each(|number| *number = number.wrapping_add(3));
        }
    }

    #[test]
    fn work_is_done_once_whatever_the_cpu() {
        let mut numbers: Vec<u64> = (0..1000).collect();
        with_widest_vectors(Add(&mut numbers));
        assert!(numbers.iter().zip(3_u64..).all(|(is, expected)| *is == expected));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_width_gives_the_same() {
        let run = |which: fn(Add<'_>)| {
            let mut numbers: Vec<u64> = (0..1000).map(|number: u64| number << 54).collect();
            which(Add(&mut numbers));
            numbers
        };
        let portable = run(|work| work.run());
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has it.
            assert_eq!(run(|work| unsafe { run_avx2(work) }), portable);
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has it.
            assert_eq!(run(|work| unsafe { run_avx512(work) }), portable);
        }
    }
}
