//! An error with its causes as text.

use std::error::Error;

/// An error and its causes in one line, without a cause that already stands in the text before it.
#[must_use]
pub fn in_one_line(error: &dyn Error) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{words}")]
    struct Chained {
        words: &'static str,
        #[source]
        cause: Option<Box<Chained>>,
    }

    #[test]
    fn causes_follow_and_none_is_said_twice() {
        let last = Chained { words: "no space", cause: None };
        let middle = Chained { words: "cannot write: no space", cause: Some(Box::new(last)) };
        let first = Chained { words: "the copy failed", cause: Some(Box::new(middle)) };
        assert_eq!(in_one_line(&first), "the copy failed: cannot write: no space");
    }
}
