//! Whether two sides measured the same logical tree: the digest of the names, sizes and data versions of what was aged.
//!
//! The same seed asks every file system for the same operations. Where one runs out of space earlier, or holds a level of use,
//! the operations and so the trees differ: then a comparison is also one of trees.

use fsage_model::record::TreeMark;
use serde::Serialize;

use super::Evidence;

/// Characters of a digest that are shown.
const SHOWN: usize = 8;

/// What is known of the trees of two sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
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
        let digests: Vec<_> = pairs.iter().map(|(a, b)| (a.tree.as_deref(), b.tree.as_deref())).collect();
        Self::of_digests(&digests)
    }

    /// Of the digests of pairs, where they are known.
    #[must_use]
    pub fn of_digests(pairs: &[(Option<&str>, Option<&str>)]) -> Self {
        let known: Vec<(&str, &str)> = pairs.iter().filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect();
        let different: Vec<&(&str, &str)> = known.iter().filter(|(a, b)| a != b).collect();
        match (different.first(), known.first()) {
            (Some((a, b)), _) => {
                Self::Different { pairs: different.len(), of: pairs.len(), first: (short(a), short(b)) }
            }
            (None, Some((digest, _))) if known.len() == pairs.len() => Self::Same { digest: short(digest) },
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
pub fn measured<'a>(stages: impl Iterator<Item = TreeMark<'a>>) -> Option<String> {
    let before = stages.take_while(|stage| *stage != TreeMark::Measured);
    let digests =
        before.filter_map(|stage| if let TreeMark::Left(digest) = stage { Some(digest) } else { None });
    digests.last().filter(|digest| !digest.is_empty()).map(str::to_owned)
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

    #[test]
    fn the_tree_of_a_trial_is_what_lay_before_the_first_measure() {
        let marks = [
            TreeMark::Left("first"),
            TreeMark::Nothing,
            TreeMark::Left("second"),
            TreeMark::Measured,
            TreeMark::Left("third"),
        ];
        assert_eq!(measured(marks.into_iter()).as_deref(), Some("second"));
        assert_eq!(measured(marks[3..].iter().copied()), None);
        assert_eq!(measured([TreeMark::Left("")].into_iter()), None, "not known");
    }
}
