//! Programs of file systems that are described in a study's TOML: name, package and arguments come from
//! there, and placeholders in braces are replaced.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Invocation;

/// Longest that a described program may run.
const TIME_LIMIT: Duration = Duration::from_secs(4 * 3600);

/// A placeholder that has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown placeholder `{{{name}}}`")]
pub struct PlaceholderError {
    /// What stands between the braces.
    pub name: String,
}

/// Replaces each `{NAME}` of each word by its value. A word whose placeholders all have the empty value, and
/// that has nothing else, is left out, so that an optional flag can be a parameter. `{{` and `}}` are braces.
///
/// # Errors
/// A placeholder without a value.
pub fn fill(words: &[String], values: &BTreeMap<&str, String>) -> Result<Vec<String>, PlaceholderError> {
    let mut argv = Vec::with_capacity(words.len());
    for word in words {
        let filled = fill_word(word, values)?;
        if !filled.is_empty() || word.is_empty() {
            argv.push(filled);
        }
    }
    Ok(argv)
}

fn fill_word(word: &str, values: &BTreeMap<&str, String>) -> Result<String, PlaceholderError> {
    let mut filled = String::new();
    let mut rest = word;
    while let Some(at) = rest.find(['{', '}']) {
        filled.push_str(&rest[..at]);
        let tail = &rest[at..];
        if tail.starts_with("{{") || tail.starts_with("}}") {
            filled.push_str(&tail[..1]);
            rest = &tail[2..];
            continue;
        }
        let end = tail.find('}').unwrap_or(tail.len());
        let name = tail.get(1..end).unwrap_or("");
        let value = values.get(name).filter(|_| end < tail.len());
        filled.push_str(value.ok_or_else(|| PlaceholderError { name: name.to_owned() })?);
        rest = &tail[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

/// An invocation of a described program.
#[must_use]
pub fn invoke(argv: Vec<String>, package: &str) -> Invocation {
    Invocation::new(argv, package.to_owned(), TIME_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(words: &[&str]) -> Result<Vec<String>, PlaceholderError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let values = [("device", "/dev/loop9"), ("s", "4"), ("quiet", "")];
        fill(&words, &values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    }

    #[test]
    fn replaces_placeholders() {
        assert_eq!(
            filled(&["mkfs.f2fs", "-s", "{s}", "dev={device}:{s}", "{quiet}", "{{x}}"]),
            Ok(["mkfs.f2fs", "-s", "4", "dev=/dev/loop9:4", "{x}"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for (word, name) in [("{nope}", "nope"), ("{", ""), ("a}", ""), ("{}", ""), ("{device", "device")] {
            assert_eq!(filled(&[word]), Err(PlaceholderError { name: name.to_owned() }), "{word}");
        }
    }
}
