//! Comma-separated values: RFC 4180 but for lines that end in a line feed.
//!
//! Text is made harmless twice: control characters are shown as what they are ([`escape::line`]), so that a
//! row is a line and no terminal takes part of it for a command; and text that a spreadsheet would take for a
//! formula, or that begins with an apostrophe, gets an apostrophe before it (one apostrophe is to be taken
//! away by who wants the text as it was).

use std::borrow::Cow;
use std::io::{self, Write};

use fsage_model::escape;

use super::Rows;
use super::column::Table;
use super::row::{Trial, Value};

pub(super) struct Csv<'a> {
    out: Box<dyn Write + Send + 'a>,
    line: String,
}

impl<'a> Csv<'a> {
    pub(super) fn new(table: &Table, mut out: Box<dyn Write + Send + 'a>) -> io::Result<Self> {
        let names: Vec<String> = table.columns().iter().map(|(name, ..)| field(name)).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(Self { out, line: String::new() })
    }
}

impl Rows for Csv<'_> {
    fn trial(&mut self, _: &Trial<'_>) -> io::Result<()> {
        Ok(())
    }

    fn sample(&mut self, trial: &Trial<'_>, sample: &[Value<'_>]) -> io::Result<()> {
        self.line.clear();
        for (number, value) in trial.with(sample).enumerate() {
            if number > 0 {
                self.line.push(',');
            }
            match value {
                Value::Missing => {}
                Value::Integer(value) => self.line.push_str(&value.to_string()),
                // The shortest text that reads back as the same number.
                Value::Number(value) => self.line.push_str(&format!("{value:?}")),
                Value::Boolean(value) => self.line.push_str(if *value { "true" } else { "false" }),
                Value::Text(text) => self.line.push_str(&field(text)),
            }
        }
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}

/// Text as a field: empty text is quoted, which tells it from a missing value.
pub(super) fn field(text: &str) -> String {
    let safe = inert(escape::line(text));
    if safe.is_empty() || safe.contains([',', '"', ' ']) {
        return format!("\"{}\"", safe.replace('"', "\"\""));
    }
    safe.into_owned()
}

/// Text that no spreadsheet takes for a formula.
fn inert(text: Cow<'_, str>) -> Cow<'_, str> {
    let first = text.trim_start().chars().next();
    if matches!(first, Some('=' | '+' | '-' | '@' | '|' | '%' | '\'' | '＝' | '＋' | '－' | '＠')) {
        return format!("'{text}").into();
    }
    text
}
