//! Histograms as they are given: checked rows, or the text of a profile file of Geriatrix.
//!
//! Such a file has a line with the number of rows, then a row a line with its columns apart by blanks, then
//! whatever its author wrote below, which is not read. Columns: size in bytes and weight; depth, weight and
//! number of directories; age and weight. Real ones have rows of 0 and of 1 byte: no file here is empty, so
//! both stand for files of one byte and are one row with the sum of their weights.

use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::size::Bytes;
use fsage_model::workload::{HistogramSource, HistogramSpec};

use fsage_model::workload::WorkloadError;

/// Most rows of a histogram: each is inspected once an operation.
const MOST_ROWS: usize = 256;
const DEEPEST: u32 = 100;
const MOST_DIRECTORIES: u64 = 1 << 20;

/// What the files of a row have.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<T> {
    pub what: T,
    /// Share of all files.
    pub share: f64,
}

/// Smallest and largest size of each row.
pub fn sizes(spec: &HistogramSpec, volume_bytes: u64) -> Result<Vec<Row<(u64, u64)>>, WorkloadError> {
    let (rows, exact) = match &spec.sizes {
        HistogramSource::Rows { rows } => (rows.clone(), false),
        HistogramSource::Geriatrix { text } => (of_one_byte_up(parse("sizes.text", text)?), true),
    };
    let mut checked = Vec::with_capacity(rows.len());
    let mut last = 0;
    for (n, (upto, _)) in rows.iter().enumerate() {
        let size = upto.0;
        let key = format!("sizes.rows[{n}]");
        WorkloadError::within(&key, size, last + 1..=i64::MAX.unsigned_abs())?;
        if volume_bytes != 0 && size > volume_bytes {
            let (value, volume) = (Bytes(size), Bytes(volume_bytes));
            return Err(WorkloadError::LargerThanVolume { key, value, volume });
        }
        checked.push((if exact { size } else { last + 1 }, size));
        last = size;
    }
    weigh("sizes", checked, rows.iter().map(|row| row.1))
}

/// Rows of sizes of Geriatrix's: no file is empty, so rows of 0 and of 1 byte are one row.
fn of_one_byte_up(rows: Vec<[f64; 2]>) -> Vec<(Bytes, f64)> {
    let mut kept: Vec<(Bytes, f64)> = Vec::with_capacity(rows.len());
    for [size, weight] in rows {
        let size = Bytes(to_u64(size).max(1));
        match kept.last_mut() {
            Some((last, sum)) if size.0 == 1 && last.0 == 1 => *sum += weight,
            _ => kept.push((size, weight)),
        }
    }
    kept
}

/// Depth and number of directories of each row.
pub fn depths(spec: &HistogramSpec) -> Result<Vec<Row<(u32, u32)>>, WorkloadError> {
    let rows = match &spec.depths {
        HistogramSource::Rows { rows } => rows.clone(),
        HistogramSource::Geriatrix { text } => {
            let number = |value: f64| u32::try_from(to_u64(value)).unwrap_or(u32::MAX);
            let row = |[depth, weight, count]: [f64; 3]| (number(depth), weight, number(count));
            parse("depths.text", text)?.into_iter().map(row).collect()
        }
    };
    let mut least = 0;
    let mut all = 0;
    for (n, (depth, _, count)) in rows.iter().enumerate() {
        let key = format!("depths.rows[{n}]");
        WorkloadError::within(&key, u64::from(*depth), least..=u64::from(DEEPEST))?;
        least = u64::from(*depth) + 1;
        all += u64::from(*count);
        WorkloadError::within(&key, all, 0..=MOST_DIRECTORIES)?;
    }
    let what = rows.iter().map(|row| (row.0, row.2)).collect();
    weigh("depths", what, rows.iter().map(|row| row.1))
}

/// Upper bound of each row as a share of the last.
pub fn ages(spec: &HistogramSpec) -> Result<Vec<Row<f64>>, WorkloadError> {
    let rows = match &spec.ages {
        HistogramSource::Rows { rows } => rows.clone(),
        HistogramSource::Geriatrix { text } => {
            parse("ages.text", text)?.into_iter().map(|[age, weight]| (age, weight)).collect()
        }
    };
    let mut last = 0.0;
    for (n, (age, _)) in rows.iter().enumerate() {
        if !(age.is_finite() && *age > last) {
            let limit = format!("above the row before it, {last}");
            return Err(WorkloadError::range(&format!("ages.rows[{n}]"), age, &limit));
        }
        last = *age;
    }
    let what = rows.iter().map(|row| row.0 / last).collect();
    weigh("ages", what, rows.iter().map(|row| row.1))
}

fn weigh<T>(
    key: &str,
    what: Vec<T>,
    weights: impl Iterator<Item = f64> + Clone,
) -> Result<Vec<Row<T>>, WorkloadError> {
    if what.is_empty() {
        return Err(WorkloadError::EmptyTable { key: format!("{key}.rows") });
    }
    if what.len() > MOST_ROWS {
        return Err(WorkloadError::range(&format!("{key}.rows"), what.len(), "at most 256 rows"));
    }
    let total: f64 = weights.clone().sum();
    for (n, weight) in weights.clone().enumerate() {
        if !(weight.is_finite() && weight >= 0.0 && total > 0.0) {
            let limit = "a weight of 0 or more, not 0 in every row";
            return Err(WorkloadError::range(&format!("{key}.rows[{n}]"), weight, limit));
        }
    }
    Ok(what.into_iter().zip(weights).map(|(what, weight)| Row { what, share: weight / total }).collect())
}

/// The rows of a profile file.
fn parse<const COLUMNS: usize>(key: &str, text: &str) -> Result<Vec<[f64; COLUMNS]>, WorkloadError> {
    let wrong = |line: usize, what: String| WorkloadError::Text { key: key.to_owned(), line, what };
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (line, first) = lines.next().ok_or_else(|| wrong(1, "the number of rows is missing".to_owned()))?;
    let count: usize = first
        .trim()
        .parse()
        // In no word of its own: a study can point at any file of root's.
        .map_err(|_| wrong(line, "this is not the number of rows".to_owned()))?;
    if count > MOST_ROWS {
        return Err(wrong(line, format!("{count} rows are too many: at most {MOST_ROWS}")));
    }
    let mut rows = Vec::with_capacity(count);
    let mut last = line;
    for number in 1..=count {
        let Some((line, text)) = lines.next() else {
            return Err(wrong(last, format!("it ends before row {number} of {count}")));
        };
        last = line;
        let row = columns(text);
        rows.push(
            row.ok_or_else(|| {
                wrong(line, format!("this is not a row of {COLUMNS} numbers, each 0 or more"))
            })?,
        );
    }
    Ok(rows)
}

fn columns<const COLUMNS: usize>(text: &str) -> Option<[f64; COLUMNS]> {
    let mut row = [0.0; COLUMNS];
    let mut words = text.split_whitespace();
    for column in &mut row {
        *column = words.next()?.parse().ok().filter(|value: &f64| {
            // Numbers that are whole stay so.
            *value >= 0.0 && *value < as_f64(1 << 53)
        })?;
    }
    words.next().is_none().then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn files_of_geriatrix_are_read_as_they_are() {
        let spec = HistogramSpec {
            sizes: HistogramSource::Geriatrix { text: text("3\n0 2\n512 1\n4096 1\n\nFormat:\n<n>\n") },
            depths: HistogramSource::Geriatrix { text: text("2\n1 1 0\n3 3 7\n\nFormat:\n") },
            ages: HistogramSource::Geriatrix { text: text("2\n10.5 1\n21 3") },
            ..HistogramSpec::default()
        };
        let found: Vec<_> = sizes(&spec, 0).unwrap().iter().map(|row| (row.what, row.share)).collect();
        assert_eq!(found, [((1, 1), 0.5), ((512, 512), 0.25), ((4096, 4096), 0.25)]);
        let found: Vec<_> = depths(&spec).unwrap().iter().map(|row| (row.what, row.share)).collect();
        assert_eq!(found, [((1, 0), 0.25), ((3, 7), 0.75)]);
        let found: Vec<_> = ages(&spec).unwrap().iter().map(|row| (row.what, row.share)).collect();
        assert_eq!(found, [(0.5, 0.25), (1.0, 0.75)]);
    }

    #[test]
    fn rows_of_0_and_1_byte_are_one_row_of_files_with_one_byte() {
        let of = |sizes: &str| HistogramSpec {
            sizes: HistogramSource::Geriatrix { text: text(sizes) },
            ..HistogramSpec::default()
        };
        let found = sizes(&of("4\n0 2\n1 1\n2 1\n4096 4\n"), 0).unwrap();
        let found: Vec<_> = found.iter().map(|row| (row.what, row.share)).collect();
        assert_eq!(found, [((1, 1), 0.375), ((2, 2), 0.125), ((4096, 4096), 0.5)]);
        // A size that stands twice otherwise is still a mistake, and so is one that falls.
        for wrong in ["2\n512 1\n512 1\n", "2\n1 1\n0 1\n512 1\n4 1\n", "3\n2 1\n1 1\n4 1\n"] {
            let count = wrong.lines().count() - 1;
            let wrong = format!("{count}\n{}", wrong.split_once('\n').unwrap().1);
            assert!(sizes(&of(&wrong), 0).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_broken_file_is_refused_with_its_line() {
        for (broken, message) in [
            ("", "ages.text, line 1: the number of rows is missing"),
            ("many\n1 1", "ages.text, line 1: this is not the number of rows"),
            ("9999", "ages.text, line 1: 9999 rows are too many: at most 256"),
            ("2\n\n1 1\n", "ages.text, line 3: it ends before row 2 of 2"),
            ("2\n1 1\n2 -1", "ages.text, line 3: this is not a row of 2 numbers, each 0 or more"),
            ("1\n1 1 1", "ages.text, line 2: this is not a row of 2 numbers, each 0 or more"),
        ] {
            let ages = HistogramSource::Geriatrix { text: text(broken) };
            let error = super::ages(&HistogramSpec { ages, ..HistogramSpec::default() }).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
