//! What a misspelt word may have meant.

/// The candidate nearest to `word`, when near enough to be meant.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|c| (strsim::damerau_levenshtein(word, c), c))
        .min()
        .filter(|(distance, c)| *distance <= (c.len().max(word.len()) / 3).max(1))
        .map(|(_, c)| c)
}
