//! Errors as the user sees them: what a module's error must tell, and the one place that renders it.
//!
//! On a terminal an error is an `error:` line, a `caused by:` line for each source and a `hint:` line; with
//! `--json` it is one JSON object on standard error. Exit codes are an interface: scripts rely on them.

use std::error::Error;
use std::fmt::Write as _;

use crate::protocol::{Failure, FailureKind};
use serde::Serialize;

use crate::escape;

/// It worked.
pub const EXIT_OK: u8 = 0;
/// A bug, or something unforeseen.
pub const EXIT_INTERNAL: u8 = 1;
/// The command line, the study or another input is invalid.
pub const EXIT_USAGE: u8 = 2;
/// The host lacks something: a program, a kernel feature, a privilege.
pub const EXIT_MISSING: u8 = 3;
/// It was tried and did not work: a trial failed.
pub const EXIT_FAILED: u8 = 4;
/// Damage was found: data or a file system is not what it must be.
pub const EXIT_DAMAGE: u8 = 5;
/// A gate given to `fsage compare --fail-if` fired.
pub const EXIT_GATE: u8 = 6;
/// No gate given to `fsage compare --fail-if` fired, and one could not have shown whether its limit is passed.
pub const EXIT_CANNOT_TELL: u8 = 7;

/// What an error that reaches the user must tell beside its text.
pub trait Explain: Error {
    /// Exit code of the program: one of the `EXIT_` constants, never 0.
    fn exit_code(&self) -> u8;

    /// The next step, as a sentence or a command; nothing when there is none.
    fn hint(&self) -> Option<String>;
}

/// Exit code for a failure that an agent reported.
#[must_use]
pub const fn exit_code_of(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Internal => EXIT_INTERNAL,
        FailureKind::Usage => EXIT_USAGE,
        FailureKind::Missing => EXIT_MISSING,
        FailureKind::Failed => EXIT_FAILED,
        FailureKind::Damage => EXIT_DAMAGE,
    }
}

impl Explain for Failure {
    fn exit_code(&self) -> u8 {
        exit_code_of(self.kind)
    }

    fn hint(&self) -> Option<String> {
        (!self.hint.is_empty()).then(|| self.hint.clone())
    }
}

/// An error ready to be shown; every module's error turns into it at the edge of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What failed, with its object.
    pub message: String,
    /// Its causes, outermost first.
    pub causes: Vec<String>,
    /// The next step.
    pub hint: Option<String>,
    /// What the program exits with.
    pub exit_code: u8,
    /// Nothing is shown: the reader of our output went away.
    #[serde(skip)]
    pub silent: bool,
}

impl Problem {
    /// What and why, in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let all: Vec<&str> =
            std::iter::once(self.message.as_str()).chain(self.causes.iter().map(String::as_str)).collect();
        all.join(": ")
    }

    /// A problem without a cause.
    #[must_use]
    pub fn new(exit_code: u8, message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new(), hint: None, exit_code, silent: false }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with a cause, and that cause's causes.
    #[must_use]
    pub fn because(mut self, cause: &dyn Error) -> Self {
        let mut next = Some(cause);
        while let Some(error) = next {
            self.causes.push(error.to_string());
            next = error.source();
        }
        self
    }

    /// Ends the program quietly and well: anyone who read our output has seen enough.
    #[must_use]
    pub fn reader_gone() -> Self {
        Self { silent: true, ..Self::new(EXIT_OK, "the reader of the output went away") }
    }

    /// The text for a terminal, ending in a newline.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let paint = |code: &str, text: &str| {
            if color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
        };
        let mut text = format!("{} {}\n", paint("1;31", "error:"), escape::indented(&self.message));
        for cause in &self.causes {
            let _ = writeln!(text, "  {} {}", paint("31", "caused by:"), escape::indented(cause));
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "{} {}", paint("1;36", "hint:"), escape::indented(hint));
        }
        text
    }

    /// One line of JSON: `{"error": {"message": …, "causes": […], "hint": …, "exit_code": …}}`.
    #[must_use]
    pub fn render_json(&self) -> String {
        let mut line = serde_json::json!({ "error": self }).to_string();
        line.push('\n');
        escape::json(&line).into_owned()
    }
}

impl<E: Explain> From<E> for Problem {
    fn from(error: E) -> Self {
        let problem = Self { hint: error.hint(), ..Self::new(error.exit_code(), error.to_string()) };
        match error.source() {
            Some(source) => problem.because(source),
            None => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read `x.toml`")]
    struct Outer(#[source] std::io::Error);

    impl Explain for Outer {
        fn exit_code(&self) -> u8 {
            EXIT_USAGE
        }

        fn hint(&self) -> Option<String> {
            Some("see `fsage study list`".to_owned())
        }
    }

    #[test]
    fn an_error_is_one_line_each_for_itself_its_causes_and_the_hint() {
        let problem = Problem::from(Outer(std::io::Error::other("no such file")));
        assert_eq!(problem.exit_code, EXIT_USAGE);
        assert_eq!(
            problem.render(false),
            "error: cannot read `x.toml`\n  caused by: no such file\nhint: see `fsage study list`\n"
        );
        assert!(problem.render(true).starts_with("\x1b[1;31merror:\x1b[0m cannot"));
    }

    #[test]
    fn json_has_every_part() {
        let problem = Problem::new(EXIT_MISSING, "not root").hint("use sudo");
        let value: serde_json::Value = serde_json::from_str(&problem.render_json()).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"error": {"message": "not root", "causes": [], "hint": "use sudo", "exit_code": 3}})
        );
    }

    #[test]
    fn a_failure_of_the_agent_keeps_its_kind_and_hint() {
        let failure = Failure {
            message: "cannot mount".to_owned(),
            hint: String::new(),
            errno: Some(1),
            kind: FailureKind::Missing,
        };
        let problem = Problem::from(failure);
        assert_eq!((problem.exit_code, problem.hint), (EXIT_MISSING, None));
    }
}
