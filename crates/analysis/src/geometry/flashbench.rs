//! The output of `flashbench -a` (A. Bergmann; commit d783b1b), one line per alignment:
//!
//! ```text
//! align 4194304   pre 741µs   on 1.08ms   post 788µs   diff 317µs
//! ```
//!
//! Units are `ns`, `µs`, `ms` and `s`. A negative difference is printed as a bare number of nanoseconds that is cut off at
//! seven characters (`-90026n`, `-412331`), which loses digits where it is below −0.1 ms. Each number is the mean
//! over seven boundaries of the least of eight times, so nothing is known of how far they vary.

use super::Row;

/// Largest file that is read.
pub const MOST_BYTES: u64 = 1 << 20;

/// Why a text is not such output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlashbenchError {
    /// No line says `align`.
    #[error("no line of `flashbench -a` is in it")]
    Nothing,
    /// A line says `align` but not the rest.
    #[error("line {line}: {what}")]
    Line {
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

impl FlashbenchError {
    /// The next step.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        "give what `flashbench -a DEVICE --blocksize=1024` printed: lines such as `align 8192 pre 785µs on 808µs post 725µs diff 53.3µs`"
    }
}

/// The rows in the order of the text. Other lines are skipped.
///
/// # Errors
/// There is none, or one that is incomplete.
pub fn parse(text: &str) -> Result<Vec<Row>, FlashbenchError> {
    let mut rows: Vec<Row> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() != Some(&"align") {
            continue;
        }
        let row = row(&words).map_err(|what| FlashbenchError::Line { line: number, what })?;
        if rows.iter().any(|known| known.align_bytes == row.align_bytes) {
            let what = format!("alignment {} is there twice: give the output of one run", row.align_bytes);
            return Err(FlashbenchError::Line { line: number, what });
        }
        rows.push(row);
    }
    if rows.is_empty() { Err(FlashbenchError::Nothing) } else { Ok(rows) }
}

fn row(words: &[&str]) -> Result<Row, String> {
    let [_, align, "pre", pre, "on", on, "post", post, "diff", difference] = words else {
        return Err("expected `align N pre T on T post T diff T`".to_owned());
    };
    let align_bytes: u64 =
        align.parse().ok().filter(|bytes| *bytes > 0).ok_or_else(|| format!("`{align}` is no alignment"))?;
    let (pre, _, post) = (nanoseconds(pre)?, nanoseconds(on)?, nanoseconds(post)?);
    // Of the sums only three digits are printed; the difference has its own.
    Ok(Row { align_bytes, differences_ns: vec![nanoseconds(difference)?], read_ns: f64::midpoint(pre, post) })
}

/// A time as the tool prints it.
fn nanoseconds(text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let unit = match &text[digits.len()..] {
        // A negative one, cut off.
        "" | "n" if text.starts_with('-') => 1.0,
        "ns" => 1.0,
        "µs" | "μs" | "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(format!("`{text}` is no time")),
    };
    let value: f64 = digits.parse().map_err(|_| format!("`{text}` is no time"))?;
    if value.is_finite() { Ok(value * unit) } else { Err(format!("`{text}` is no time")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, ns) in [
            ("9ns", 9.0),
            ("53.3µs", 53_300.0),
            ("53.3us", 53_300.0),
            ("1.08ms", 1_080_000.0),
            ("2s", 2e9),
            ("-90026n", -90_026.0),
            ("-412331", -412_331.0),
        ] {
            let found = nanoseconds(text).unwrap();
            assert!((found - ns).abs() < 1e-6 * ns.abs(), "{text}: {found}");
        }
        for bad in ["", "µs", "1.2.3ms", "5", "5n", "NaNms", "infs", "1h", "--5"] {
            assert!(nanoseconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_the_output_is_said_with_its_line() {
        assert_eq!(parse("hello\n"), Err(FlashbenchError::Nothing));
        let line = "align 8192 pre 785µs on 808µs post 725µs diff 53.3µs\n";
        assert_eq!(parse(line).unwrap()[0].differences_ns, [53_300.0]);
        for (bad, what) in [
            ("align 8192 pre 785µs on 808µs post 725µs\n", "expected `align N"),
            ("align x pre 785µs on 808µs post 725µs diff 53.3µs\n", "`x` is no alignment"),
            ("align 8192 pre 785 on 808µs post 725µs diff 53.3µs\n", "`785` is no time"),
            (line, "alignment 8192 is there twice"),
        ] {
            let error = parse(&format!("{line}{bad}")).unwrap_err();
            assert!(
                matches!(&error, FlashbenchError::Line { line: 2, what: said } if said.contains(what)),
                "{error}"
            );
        }
    }
}
