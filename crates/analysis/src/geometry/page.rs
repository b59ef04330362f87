//! The geometry of a device as one self-contained page in the report's style: the cost of crossing by alignment, and the time of a
//! block by the number of units that are written in turn.

use fsage_model::number::duration;
use fsage_model::quantity::as_f64;
use fsage_model::size::Bytes;
use maud::{Markup, html};

use super::Row;
use super::boundary::Geometry;
use super::open::{OpenUnits, Order};
use super::rules::RuleAnswer;
use crate::report::alone;
use crate::report::table::{Cell, Column, table};
use crate::stats::quantile::quantile;

/// Size of a figure and of the part that marks are drawn in, in pixels.
const SIZE: (f64, f64) = (760.0, 320.0);
const INNER: (f64, f64, f64, f64) = (80.0, 14.0, 748.0, 270.0);

const STYLE: &str = "figure{margin:1rem 0}figure svg{width:100%;height:auto}figure text{font-size:12px;fill:var(--soft)}\
    figure .grid{stroke:var(--line)}figure .bar{stroke:var(--accent);stroke-width:1.6}figure circle{fill:var(--accent)}\
    figure rect.random{fill:none;stroke:var(--soft);stroke-width:1.6}figure .boundary{stroke:var(--bad);stroke-dasharray:5 3}";

/// What the page shows.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// The device, or the file with its times.
    pub name: &'a str,
    /// What was measured, the smallest alignment first.
    pub rows: &'a [Row],
    /// The answer, where there is one.
    pub geometry: Option<&'a Geometry>,
    /// Everything in words, as in the terminal.
    pub words: &'a str,
    /// The published rules.
    pub rules: &'a [RuleAnswer],
    /// The open-unit test.
    pub open: Option<&'a OpenUnits>,
}

/// The page as HTML text.
#[must_use]
pub fn page(content: &Content<'_>) -> String {
    let title = format!("Geometry of {}", content.name);
    let markup = html! {
        header { h1 { (title) } }
        section {
            h2 { "Cost of reading across boundaries" }
            p.lead {
                "Each circle is the median cost of crossing a boundary of that alignment, a bar the middle half of the boundaries. A dashed line "
                "marks a boundary of the answer: from this alignment on, crossing costs more. Where there is no line, there is no answer."
            }
            (costs(content))
            (rules(content.rules))
        }
        @if let Some(open) = content.open {
            section {
                h2 { "Units written in turn" }
                p.lead {
                    "Circles: the blocks of a unit in order; squares: in random order. Both axes are logarithmic. With more units than the device "
                    "keeps open, every block takes far longer."
                }
                (units(open))
            }
        }
        section {
            h2 { "In words" }
            pre { (content.words) }
        }
    };
    alone::page(&title, STYLE, &markup, "Everything on this page is in this one file.")
}

fn rules(rules: &[RuleAnswer]) -> Markup {
    let columns = [Column::text("Published rule"), Column::text("Boundaries")];
    let row = |rule: &RuleAnswer| {
        let all: Vec<String> = rule.boundaries_bytes.iter().map(|one| Bytes(*one).to_string()).collect();
        vec![Cell::text(rule.rule), Cell::text(all.join(" and "))].into()
    };
    let rows: Vec<_> = rules.iter().map(row).collect();
    table("rules", "Published rules, which always answer and have no confidence.", &columns, &rows)
}

/// A position with one decimal.
fn at(value: f64) -> String {
    format!("{value:.1}")
}

/// An axis from pixel to pixel.
#[derive(Debug, Clone, Copy)]
struct Axis {
    values: (f64, f64),
    pixels: (f64, f64),
}

impl Axis {
    /// Room for all of `values` between the pixels.
    fn new(values: impl Iterator<Item = f64>, room: f64, pixels: (f64, f64)) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        let room = room * (high - low).max(f64::MIN_POSITIVE);
        let flat = if high > low { 0.0 } else { 1.0 };
        Self { values: (low - room - flat, high + room + flat), pixels }
    }

    fn pixel(&self, value: f64) -> f64 {
        let share = (value - self.values.0) / (self.values.1 - self.values.0);
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }
}

/// Round values of an axis: 1, 2 or 5 of a power of ten apart, some four to eight of them.
fn linear_ticks(axis: &Axis) -> Vec<f64> {
    let range = (axis.values.1 - axis.values.0).max(f64::MIN_POSITIVE);
    let decade = 10_f64.powf((range / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0].map(|digit| digit * decade).into_iter().rfind(|step| *step <= range / 4.0);
    let step = step.unwrap_or(decade);
    let first = (axis.values.0 / step).ceil();
    let all = (0..12_u8).map(|number| (first + f64::from(number)) * step);
    all.take_while(|value| *value <= axis.values.1).collect()
}

/// The same of an axis of natural logarithms: 1, 2 and 5 of each decade, or both ends.
fn log_ticks(axis: &Axis) -> Vec<f64> {
    let all = (0..13).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| (digit * 10_f64.powi(power)).ln()));
    let within: Vec<f64> = all.filter(|value| (axis.values.0..=axis.values.1).contains(value)).collect();
    if within.len() > 1 { within } else { vec![axis.values.0, axis.values.1] }
}

/// A cost or time for an axis, with its sign.
fn time(ns: f64) -> String {
    if ns < 0.0 { format!("−{}", duration(-ns)) } else { duration(ns) }
}

/// Lines across the figure at these values, with their words.
fn grid(y: &Axis, ticks: &[f64], words: impl Fn(f64) -> String) -> Markup {
    html! {
        @for value in ticks {
            line.grid x1=(INNER.0) x2=(INNER.2) y1=(at(y.pixel(*value))) y2=(at(y.pixel(*value))) {}
            text x=(INNER.0 - 6.0) y=(at(y.pixel(*value) + 4.0)) text-anchor="end" { (words(*value)) }
        }
    }
}

fn costs(content: &Content<'_>) -> Markup {
    let quartiles = |row: &Row| {
        [0.25, 0.5, 0.75]
            .map(|share| quantile(&row.differences_ns, share).unwrap_or_else(|| row.difference_ns()))
    };
    let rows: Vec<(u64, [f64; 3])> =
        content.rows.iter().map(|row| (row.align_bytes, quartiles(row))).collect();
    let values = rows.iter().flat_map(|(_, middle)| *middle).chain([0.0]);
    let y = Axis::new(values, 0.05, (INNER.3, INNER.1));
    let step = (INNER.2 - INNER.0) / as_f64(rows.len().max(1) as u64);
    let x = |index: usize| INNER.0 + step * (as_f64(index as u64) + 0.5);
    let is_boundary = |align: u64| {
        content.geometry.is_some_and(|found| found.boundaries.iter().any(|one| one.bytes == align))
    };
    let label = "Cost of reading across boundaries, by alignment";
    html! {
        figure {
            svg viewBox=(format!("0 0 {} {}", SIZE.0, SIZE.1)) role="img" aria-label=(label) {
                (grid(&y, &linear_ticks(&y), time))
                @for (index, (align, [low, middle, high])) in rows.iter().enumerate() {
                    @if is_boundary(*align) {
                        line.boundary x1=(at(x(index) - step / 2.0)) x2=(at(x(index) - step / 2.0)) y1=(INNER.1) y2=(INNER.3) {}
                    }
                    @if low < high {
                        line.bar x1=(at(x(index))) x2=(at(x(index))) y1=(at(y.pixel(*low))) y2=(at(y.pixel(*high))) {}
                    }
                    circle cx=(at(x(index))) cy=(at(y.pixel(*middle))) r="4" {
                        title {
                            (Bytes(*align)) ": " (time(*middle))
                            @if low < high { ", half of them between " (time(*low)) " and " (time(*high)) }
                        }
                    }
                    text x=(at(x(index))) y=(INNER.3 + 16.0) text-anchor="middle" { (Bytes(*align)) }
                }
                text x=(at(f64::midpoint(INNER.0, INNER.2))) y=(SIZE.1 - 10.0) text-anchor="middle" { "alignment of the boundary" }
            }
        }
    }
}

fn units(open: &OpenUnits) -> Markup {
    let logs = |ns: f64| ns.max(1.0).ln();
    let y = Axis::new(open.tests.iter().map(|test| logs(test.block_ns)), 0.08, (INNER.3, INNER.1));
    let x = Axis::new(open.tests.iter().map(|test| f64::from(test.units).ln()), 0.05, (INNER.0, INNER.2));
    let numbers: std::collections::BTreeSet<u32> = open.tests.iter().map(|test| test.units).collect();
    let label = "Time of a block by the number of units that are written in turn";
    html! {
        figure {
            svg viewBox=(format!("0 0 {} {}", SIZE.0, SIZE.1)) role="img" aria-label=(label) {
                (grid(&y, &log_ticks(&y), |value| duration(value.exp())))
                @for units in &numbers {
                    text x=(at(x.pixel(f64::from(*units).ln()))) y=(INNER.3 + 16.0) text-anchor="middle" { (units) }
                }
                @for test in &open.tests {
                    @let (left, top) = (x.pixel(f64::from(test.units).ln()), y.pixel(logs(test.block_ns)));
                    @let words = format!("{} units: {} per block, {} tests", test.units, duration(test.block_ns), test.count);
                    @match test.order {
                        Order::Linear => circle cx=(at(left)) cy=(at(top)) r="4.5" { title { (words) ", in order" } },
                        Order::Random => rect.random x=(at(left - 6.5)) y=(at(top - 6.5)) width="13" height="13" { title { (words) ", in random order" } },
                    }
                }
                text x=(at(f64::midpoint(INNER.0, INNER.2))) y=(SIZE.1 - 10.0) text-anchor="middle" { "units written in turn" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::boundary::Boundary;
    use crate::geometry::open::{OpenLimit, OpenTest};

    #[test]
    fn every_alignment_and_boundary_is_drawn_and_names_are_escaped() {
        let row = |power: u32, cost: f64| Row {
            align_bytes: 1 << power,
            differences_ns: vec![cost - 10.0, cost, cost + 10.0],
            read_ns: 1e6,
        };
        let rows: Vec<Row> =
            (12..20).map(|power| row(power, if power < 14 { -100.0 } else { 90_000.0 })).collect();
        let geometry = Geometry {
            boundaries: vec![Boundary { bytes: 1 << 14, step_ns: 90_100.0, p: 1e-9 }],
            agreeing: 1.0,
        };
        let limit = OpenLimit::Units { units: 2, ratio: 20.0, p: 1e-3 };
        let test = |order, units, block_ns| OpenTest { order, units, block_ns, count: 8 };
        let open = OpenUnits {
            linear: limit.clone(),
            random: limit,
            tests: vec![
                test(Order::Linear, 1, 1e6),
                test(Order::Linear, 3, 2e7),
                test(Order::Random, 1, 3e7),
            ],
        };
        let content = Content {
            name: "/dev/<card>",
            rows: &rows,
            geometry: Some(&geometry),
            words: "a & b",
            rules: &[],
            open: Some(&open),
        };
        let html = page(&content);
        assert_eq!(html.matches("<circle").count(), 8 + 2);
        assert_eq!(
            (html.matches("class=\"boundary\"").count(), html.matches("class=\"random\"").count()),
            (1, 1)
        );
        assert!(html.contains("/dev/&lt;card&gt;") && html.contains("a &amp; b"), "{html}");
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        // Nothing measured is no error, and all the same is an axis.
        let flat: Vec<Row> = (12..16).map(|power| row(power, 0.0)).collect();
        for rows in [&[][..], &flat] {
            let html = page(&Content { rows, geometry: None, open: None, ..content });
            assert!(!html.contains("NaN") && !html.contains("class=\"boundary\""), "{html}");
        }
    }
}
