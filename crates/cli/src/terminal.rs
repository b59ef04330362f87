//! Where output goes: results to standard output, everything else to standard error, each with colour only
//! when its reader wants it. Whatever is written here passes [`escape`]: text from elsewhere cannot command a
//! terminal.

use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;
use clap::ValueEnum;
use fsage_model::escape;
use fsage_model::problem::{EXIT_INTERNAL, Problem};
use serde::Serialize;

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How this run of the program talks.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// Results as JSON.
    pub json: bool,
    /// Nothing on standard error but errors.
    pub quiet: bool,
    /// Colour on standard output.
    pub color_out: bool,
    /// Colour on standard error.
    pub color_err: bool,
    /// Standard error is a terminal: progress bars make sense.
    pub live: bool,
    /// The locale can show block characters.
    pub unicode: bool,
}

impl Terminal {
    /// Inspects the environment.
    #[must_use]
    pub fn new(json: bool, quiet: bool, color: ColorChoice) -> Self {
        let wanted = |by_itself: anstream::ColorChoice| match color {
            ColorChoice::Auto => by_itself != anstream::ColorChoice::Never,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        let live = io::stderr().is_terminal();
        Self {
            json,
            quiet,
            color_out: wanted(AutoStream::choice(&io::stdout())),
            color_err: wanted(AutoStream::choice(&io::stderr())),
            live: live && !quiet,
            unicode: locale_is_utf8(),
        }
    }

    /// Writes a result to standard output: lines of text, each of which its maker has put together with
    /// [`escape::line`].
    ///
    /// # Errors
    /// When it cannot be written; a closed pipe ends the program quietly.
    pub fn result(&self, text: &str) -> Result<(), Problem> {
        write_out(&escape::shown(text))
    }

    /// Writes a file's content that other programs read to standard output, as it is.
    ///
    /// # Errors
    /// As [`Terminal::result`].
    pub fn content(&self, text: &str) -> Result<(), Problem> {
        write_out(text)
    }

    /// Writes a result as one line of JSON.
    ///
    /// # Errors
    /// As [`Terminal::result`].
    pub fn json_line(&self, value: &serde_json::Value) -> Result<(), Problem> {
        write_out(&escape::json(&format!("{value}\n")))
    }

    /// Writes a result as indented JSON.
    ///
    /// # Errors
    /// As [`Terminal::result`].
    pub fn json<T: Serialize>(&self, value: &T) -> Result<(), Problem> {
        let mut text = serde_json::to_string_pretty(value).map_err(|error| {
            Problem::new(EXIT_INTERNAL, "cannot write the result as JSON").because(&error)
        })?;
        text.push('\n');
        write_out(&escape::json(&text))
    }

    /// Tells the user something in one line on standard error, unless `--quiet`.
    pub fn note(&self, text: &str) {
        self.say(&escape::line(text));
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Tells the user that something may be wrong, unless `--quiet`.
    pub fn warn(&self, text: &str) {
        let label = if self.color_err { "\x1b[1;33mwarning:\x1b[0m" } else { "warning:" };
        self.say(&format!("{label} {}", escape::line(text)));
    }

    /// Shows an error; never silenced.
    pub fn error(&self, problem: &Problem) {
        if problem.silent {
            return;
        }
        let text = if self.json { problem.render_json() } else { problem.render(self.color_err) };
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// Wraps text of a result in an ANSI style, when colours are on. For [`Terminal::result`] only.
    #[must_use]
    pub fn paint(&self, code: &str, text: &str) -> String {
        if self.color_out { escape::styled(code, text) } else { text.to_owned() }
    }

    /// Text in bold.
    #[must_use]
    pub fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Text that steps back.
    #[must_use]
    pub fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }
}

fn write_out(text: &str) -> Result<(), Problem> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Problem::reader_gone()
        } else {
            Problem::new(EXIT_INTERNAL, "cannot write to standard output").because(&error)
        }
    })
}

/// Whether the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set names UTF-8.
fn locale_is_utf8() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}
