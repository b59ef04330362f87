//! Tables for terminals; JSON has the plain numbers.

pub use fsage_model::number::{duration, grouped as count, percent, plural, rate, whole_bytes as size};

use fsage_model::escape;

/// Rows of cells in aligned columns, the first column left, the others right; no trailing blanks. A row is
/// one line whatever its cells hold ([`escape`]).
#[must_use]
pub fn table(rows: &[Vec<String>], indent: usize) -> String {
    let cell = |cell: &String| escape::line(cell).into_owned();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width: Vec<usize> = (0..columns)
        .map(|c| rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = " ".repeat(indent);
        for (column, cell) in row.iter().enumerate() {
            let blanks = " ".repeat(width[column].saturating_sub(cell.chars().count()));
            if column == 0 {
                line.push_str(cell);
                line.push_str(&blanks);
            } else {
                line.push_str("  ");
                line.push_str(&blanks);
                line.push_str(cell);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A rounded power of two as an axis shows it: `4K`, `1M`.
#[must_use]
pub fn power(exponent: usize) -> String {
    const UNITS: [&str; 7] = ["B", "K", "M", "G", "T", "P", "E"];
    let unit = UNITS.get(exponent / 10).copied().unwrap_or("?");
    format!("{}{unit}", 1_u64 << (exponent % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_read_well() {
        assert_eq!(power(12), "4K");
        assert_eq!(power(63), "8E");
    }

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let rows = vec![
            vec!["a".to_owned(), "1".to_owned(), String::new()],
            vec!["bcd".to_owned(), "20 µs".to_owned(), "x".to_owned()],
        ];
        assert_eq!(table(&rows, 1), " a        1\n bcd  20 µs  x\n");
    }
}
