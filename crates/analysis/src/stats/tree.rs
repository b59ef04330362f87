//! Whether two sides measured the same logical tree: the digest of the names, sizes and data versions of what was aged.
//!
//! The same seed asks every file system for the same operations. Where one runs out of space earlier, or holds a level of use,
//! the operations and so the trees differ: then a comparison is also one of trees.

use fsage_model::record::StageRecord;

use super::Evidence;

/// Characters of a digest that are shown.
const SHOWN: usize = 8;

/// What is known of the trees of two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trees {
    /// Every pair has the same digest.
    Same {
        /// That of the first pair, in short.
        digest: String,
    },
    /// Some pairs have not.
    Different {
        /// How many.
        pairs: usize,
        /// Of how many.
        of: usize,
        /// The digests of the first pair that differs, in short.
        first: (String, String),
    },
    /// A side of some pair has no digest, and no pair differs.
    Unknown,
}

impl Trees {
    /// Of pairs of trials.
    #[must_use]
    pub fn of(pairs: &[(&Evidence, &Evidence)]) -> Self {
        let known: Option<Vec<(&str, &str)>> =
            pairs.iter().map(|(a, b)| Some((a.tree.as_deref()?, b.tree.as_deref()?))).collect();
        let digests = pairs.iter().filter_map(|(a, b)| Some((a.tree.as_deref()?, b.tree.as_deref()?)));
        let different: Vec<(&str, &str)> = digests.filter(|(a, b)| a != b).collect();
        match (different.first(), known.as_deref()) {
            (Some((a, b)), _) => {
                Self::Different { pairs: different.len(), of: pairs.len(), first: (short(a), short(b)) }
            }
            (None, Some([(digest, _), ..])) => Self::Same { digest: short(digest) },
            (None, _) => Self::Unknown,
        }
    }

    /// As a table says it.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Same { digest } => format!("same ({digest})"),
            Self::Different { pairs, of, first: (a, b) } => {
                format!("different in {pairs} of {of}: {a} against {b}")
            }
            Self::Unknown => "–".to_owned(),
        }
    }

    /// Whether the sides are known to differ.
    #[must_use]
    pub const fn differ(&self) -> bool {
        matches!(self, Self::Different { .. })
    }
}

/// Digest of the tree that the first measure found, of a trial's stages. A copy has that of what it was made of.
#[must_use]
pub fn measured(stages: &[StageRecord]) -> Option<String> {
    let before = stages.iter().take_while(|stage| !matches!(stage, StageRecord::Measure { .. }));
    let digests = before.filter_map(|stage| match stage {
        StageRecord::Age { result, .. } => Some(&result.digest),
        StageRecord::Lockstep { digest, .. } => Some(digest),
        _ => None,
    });
    digests.last().filter(|digest| !digest.is_empty()).cloned()
}

fn short(digest: &str) -> String {
    digest.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(tree: Option<&str>) -> Evidence {
        Evidence { tree: tree.map(str::to_owned), ..Evidence::default() }
    }

    #[test]
    fn different_digests_are_named_and_unknown_ones_are_not_called_the_same() {
        let (a, b, none) = (trial(Some("aaaaaaaaaa")), trial(Some("bbbbbbbbbb")), trial(None));
        assert_eq!(Trees::of(&[(&a, &a), (&b, &b)]).words(), "same (aaaaaaaa)");
        let mixed = Trees::of(&[(&a, &a), (&a, &b), (&none, &a)]);
        assert!(mixed.differ());
        assert_eq!(mixed.words(), "different in 1 of 3: aaaaaaaa against bbbbbbbb");
        assert_eq!(Trees::of(&[(&a, &a), (&none, &a)]), Trees::Unknown);
        assert_eq!(Trees::of(&[]).words(), "–");
    }
}
