//! Stores as tables: one row per trial, metric and sample, in formats that other programs read.
//!
//! [`Table`] says which columns there are: those of [`column::COLUMNS`], the same in every format, and one
//! for each factor of the study's matrix. Rows are written as they come: one trial is held at a time,
//! whatever the size of the store. docs/export.md describes the table, docs/export.schema.json its rows.

pub mod column;
mod csv;
mod json;
mod openmetrics;
mod parquet;
mod row;

use std::io::{self, Write};

use fsage_model::record::{TrialRecord, Unread};

pub use column::{Factor, Table, schema};
pub use row::{Place, Value};

/// Version of the table: its columns and what they mean. It increases when a column is renamed, removed or
/// changes its meaning; a column that is added does not change it, so readers must accept columns that they
/// do not know. 1: first.
pub const EXPORT_VERSION: u32 = 1;

/// What a table is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a heading (RFC 4180, lines end in a line feed).
    Csv,
    /// Apache Parquet, compressed with zstd.
    Parquet,
    /// An array of objects, one per line.
    Json,
    /// The text format of OpenMetrics 1.0.
    OpenMetrics,
}

/// Rows on their way into a file.
trait Rows {
    /// Begins a trial: values of the columns of [`column::Group::Trial`], of the factors, and of
    /// [`column::Group::Conditions`].
    fn trial(&mut self, trial: &row::Trial<'_>) -> io::Result<()>;

    /// A sample of the trial that was begun last: values of the columns of [`column::Group::Sample`].
    fn sample(&mut self, trial: &row::Trial<'_>, sample: &[Value<'_>]) -> io::Result<()>;

    /// Writes what is still held, and what ends the file.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// A table that is being written.
pub struct Writer<'a> {
    table: &'a Table,
    rows: Box<dyn Rows + 'a>,
    written: u64,
}

impl<'a> Writer<'a> {
    /// Begins the file: writes what stands before its first row.
    ///
    /// # Errors
    /// `out` cannot be written to.
    pub fn new(format: Format, table: &'a Table, out: Box<dyn Write + Send + 'a>) -> io::Result<Self> {
        let rows: Box<dyn Rows + 'a> = match format {
            Format::Csv => Box::new(csv::Csv::new(table, out)?),
            Format::Parquet => Box::new(parquet::Parquet::new(table, out)?),
            Format::Json => Box::new(json::Json::new(table, out)?),
            Format::OpenMetrics => Box::new(openmetrics::OpenMetrics::new(table, out)?),
        };
        Ok(Self { table, rows, written: 0 })
    }

    /// Writes the samples of a trial, by the name of the metric and the sample's number.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn trial(&mut self, place: &Place<'_>, record: &TrialRecord<Unread>) -> io::Result<()> {
        let trial = row::Trial::new(self.table, place, record);
        self.rows.trial(&trial)?;
        let mut metrics: Vec<_> = record.metrics.iter().collect();
        metrics.sort_by(|a, b| a.name.cmp(&b.name));
        for metric in metrics {
            for (number, value) in (0..).zip(&metric.samples) {
                self.rows.sample(&trial, &row::sample(metric, number, *value))?;
                self.written += 1;
            }
        }
        Ok(())
    }

    /// Ends the file; gives the number of its rows.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn finish(self) -> io::Result<u64> {
        self.rows.finish()?;
        Ok(self.written)
    }
}

#[cfg(test)]
mod tests;
