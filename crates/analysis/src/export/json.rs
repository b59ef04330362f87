//! A JSON array of objects, one per line, keys in the order of the columns. Text is as it was: characters
//! that a terminal takes for commands are written as escapes, which mean the same.

use std::io::{self, Write};

use fsage_model::escape;

use super::Rows;
use super::column::Table;
use super::row::{Trial, Value};

pub(super) struct Json<'a> {
    out: Box<dyn Write + Send + 'a>,
    /// What stands before each value: `{"export_version":`, `,"study":`, …
    keys: Vec<String>,
    line: String,
    first: bool,
}

impl<'a> Json<'a> {
    pub(super) fn new(table: &Table, mut out: Box<dyn Write + Send + 'a>) -> io::Result<Self> {
        let begin = |number: usize| if number == 0 { '{' } else { ',' };
        let columns = table.columns();
        let key =
            |(number, (name, ..)): (usize, &(String, _, _))| format!("{}{}:", begin(number), quoted(name));
        let keys = columns.iter().enumerate().map(key).collect();
        out.write_all(b"[")?;
        Ok(Self { out, keys, line: String::new(), first: true })
    }
}

impl Rows for Json<'_> {
    fn trial(&mut self, _: &Trial<'_>) -> io::Result<()> {
        Ok(())
    }

    fn sample(&mut self, trial: &Trial<'_>, sample: &[Value<'_>]) -> io::Result<()> {
        self.line.clear();
        self.line.push_str(if self.first { "\n" } else { ",\n" });
        self.first = false;
        for (key, value) in self.keys.iter().zip(trial.with(sample)) {
            self.line.push_str(key);
            match value {
                Value::Missing => self.line.push_str("null"),
                Value::Integer(value) => self.line.push_str(&value.to_string()),
                Value::Number(value) => self.line.push_str(&serde_json::Value::from(*value).to_string()),
                Value::Boolean(value) => self.line.push_str(if *value { "true" } else { "false" }),
                Value::Text(text) => self.line.push_str(&quoted(text)),
            }
        }
        self.line.push('}');
        self.out.write_all(self.line.as_bytes())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.write_all(b"\n]\n")?;
        self.out.flush()
    }
}

fn quoted(text: &str) -> String {
    escape::json(&serde_json::Value::from(text).to_string()).into_owned()
}
