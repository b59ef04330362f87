//! The text format of OpenMetrics 1.0, for Prometheus and what reads its files: a gauge `fsage_sample` with
//! a sample for each row, and an info `fsage_trial_info` for each trial with its conditions, both with the
//! label `trial`. A missing value has no label.
//!
//! A label's text has control characters shown as what they are ([`escape::line`]), and backslashes and
//! quotation marks escaped as the format asks. Names of labels are letters, digits and underscores: of the
//! path of a factor every other character becomes `_`, and where two factors would then have one name the
//! later in the alphabet gets `_2`, `_3`, ….

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use fsage_model::escape;

use super::Rows;
use super::column::{COLUMNS, Group, Table};
use super::row::{Trial, Value};

const VALUE: &str = "value";

pub(super) struct OpenMetrics<'a> {
    out: Box<dyn Write + Send + 'a>,
    /// Names of the factors' labels.
    factors: Vec<String>,
    /// Labels that all samples of the trial under way have.
    common: String,
    /// Lines of the trials, which the format wants together: about 1 KB per trial.
    trials: String,
}

impl<'a> OpenMetrics<'a> {
    pub(super) fn new(table: &Table, mut out: Box<dyn Write + Send + 'a>) -> io::Result<Self> {
        out.write_all(
            b"# TYPE fsage_sample gauge\n# HELP fsage_sample A sample of a metric of a trial, in the unit of its label.\n",
        )?;
        Ok(Self { out, factors: names(table), common: String::new(), trials: String::new() })
    }
}

impl Rows for OpenMetrics<'_> {
    fn trial(&mut self, trial: &Trial<'_>) -> io::Result<()> {
        self.common.clear();
        for (name, value) in of(Group::Trial).zip(&trial.own) {
            label(&mut self.common, name, value);
        }
        let mut own = String::new();
        for (name, value) in of(Group::Trial).zip(&trial.own).filter(|(name, _)| *name == "trial") {
            label(&mut own, name, value);
        }
        for (name, value) in self.factors.iter().zip(&trial.factors) {
            label(&mut self.common, name, value);
        }
        for (name, value) in of(Group::Conditions).zip(&trial.conditions) {
            label(&mut own, name, value);
        }
        let _ = writeln!(self.trials, "fsage_trial_info{{{own}}} 1");
        Ok(())
    }

    fn sample(&mut self, _: &Trial<'_>, sample: &[Value<'_>]) -> io::Result<()> {
        let mut line = format!("fsage_sample{{{}", self.common);
        let mut number = 0.0;
        for (name, value) in of(Group::Sample).zip(sample) {
            match value {
                Value::Number(value) if name == VALUE => number = *value,
                value => label(&mut line, name, value),
            }
        }
        let _ = writeln!(line, "}} {number:?}");
        self.out.write_all(line.as_bytes())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.write_all(b"# TYPE fsage_trial info\n# HELP fsage_trial Conditions of a trial.\n")?;
        self.out.write_all(self.trials.as_bytes())?;
        self.out.write_all(b"# EOF\n")?;
        self.out.flush()
    }
}

fn of(group: Group) -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().filter(move |column| column.group == group).map(|column| column.name)
}

/// Names of the labels of the factors, each once.
pub(super) fn names(table: &Table) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let name = |path: &str| -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let plain: String =
            std::iter::once("factor_".to_owned()).chain(path.chars().map(|c| plain(c).to_string())).collect();
        let numbered = (2_u32..).map(|number| format!("{plain}_{number}"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        let free = names.find(|name| !taken.contains(name)).unwrap_or(plain);
        taken.insert(free.clone());
        free
    };
    table.factors.iter().map(|factor| factor.path.as_str()).map(name).collect()
}

/// Adds `name="value"`.
fn label(labels: &mut String, name: &str, value: &Value<'_>) {
    let text = match value {
        Value::Missing => return,
        Value::Integer(value) => value.to_string(),
        Value::Number(value) => format!("{value:?}"),
        Value::Boolean(value) => value.to_string(),
        Value::Text(text) => escape::line(text).replace('\\', "\\\\").replace('"', "\\\""),
    };
    let comma = if labels.is_empty() || labels.ends_with('{') { "" } else { "," };
    let _ = write!(labels, "{comma}{name}=\"{text}\"");
}
