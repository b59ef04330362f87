//! Rates of fio's points of both sides, laid over each other: a panel for each curve ([`Over`]) with three points or
//! more, as a picture that needs no script.

use std::collections::BTreeMap;

use fsage_model::fio::FioPoint;
use fsage_model::metric;
use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::{Finding, Row};
use crate::report::scaling::Over;
use crate::report::text::{counted, in_unit};

/// Points that a panel has at least.
const FEWEST: usize = 3;
/// Panels on a page; what lies beyond is in the table alone.
const MOST: usize = 60;

/// Size of a panel and of the part that lines are drawn in, in pixels.
const SIZE: (f64, f64) = (320.0, 210.0);
const INNER: (f64, f64, f64, f64) = (58.0, 10.0, 310.0, 172.0);
/// Labels on a horizontal axis.
const LABELS: usize = 7;

/// Styles of the panels. What B is drawn as says what its row found.
pub(super) const STYLE: &str = ".overlays{display:grid;grid-template-columns:repeat(auto-fill,minmax(19rem,1fr));gap:1rem 1.4rem}\
    .overlays figure{margin:0}.overlays figcaption{font-size:.87rem}.overlays svg{width:100%;height:auto}\
    .overlays text{font-size:10.5px;fill:var(--soft)}.overlays .grid{stroke:var(--line)}\
    .overlays .a{stroke:var(--grey);fill:none;stroke-width:1.6;stroke-dasharray:5 3}.overlays rect.a{fill:var(--grey);stroke:none}\
    .overlays .b{stroke:var(--accent);fill:none;stroke-width:1.8}.overlays circle.b{fill:var(--accent);stroke:none}\
    .overlays circle.worse{fill:var(--bad)}.overlays circle.better{fill:var(--good)}";

/// A curve of both sides: rows by load.
struct Panel<'a> {
    over: Over,
    prefix: &'a str,
    context: &'a str,
    point: FioPoint,
    rows: BTreeMap<u64, &'a Row>,
}

/// The panels; nothing where there is no curve. `a` and `b` are what the sides are called.
pub(super) fn overlay(rows: &[Row], (a, b): (&str, &str)) -> Option<Markup> {
    let found = panels(rows);
    let left = found.len().saturating_sub(MOST);
    (!found.is_empty()).then(|| {
        html! {
            section {
                h2 { "fio rates of A and B" }
                p.lead {
                    "Dashed with squares: A, " code { (a) } ". Solid with circles: B, " code { (b) } ". A circle is red or green where the table "
                    "says that B is worse or better; its bar is the interval of B ÷ A, drawn around B. Both axes are logarithmic, and each "
                    "panel has its own."
                }
                div.overlays { @for panel in found.iter().take(MOST) { (figure(panel)) } }
                @if left > 0 { p.note { (counted(left, "more curve")) " only in the table." } }
            }
        }
    })
}

/// Every curve, in the order of stage, file system and medium, parameter and point.
fn panels(rows: &[Row]) -> Vec<Panel<'_>> {
    let mut found: BTreeMap<(&str, &str, Over, FioPoint), Panel<'_>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.mean_a > 0.0 && row.mean_b > 0.0) {
        let Some((prefix, point, number)) = metric::point_parts(&row.metric) else { continue };
        for over in Over::ALL.into_iter().filter(|over| over.metric() == number) {
            let key = (prefix, row.context.as_str(), over, over.without(&point));
            let panel = found.entry(key).or_insert_with(|| Panel {
                over,
                prefix,
                context: &row.context,
                point: point.clone(),
                rows: BTreeMap::new(),
            });
            panel.rows.insert(over.load(&point), row);
        }
    }
    found.into_values().filter(|panel| panel.rows.len() >= FEWEST).collect()
}

fn figure(panel: &Panel<'_>) -> Markup {
    let stage = panel.prefix.trim_end_matches('.');
    let load = panel.point.load();
    let parts = [stage, panel.context, &load, &panel.over.held(&panel.point)].map(str::to_owned);
    let title = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let title = format!("{title}, over {}", panel.over.name());
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(format!("0 0 {} {}", SIZE.0, SIZE.1)) role="img" aria-label=(title) { (drawing(panel)) }
        }
    }
}

/// B with the ends of the interval of B ÷ A around it.
fn bar(row: &Row) -> Option<(f64, f64)> {
    let estimate = row.estimate.filter(|estimate| *estimate > 0.0)?;
    let ends = (row.mean_b * row.low? / estimate, row.mean_b * row.high? / estimate);
    (ends.0 > 0.0 && ends.1.is_finite()).then_some(ends)
}

/// Where values lie.
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
}

impl Scale {
    fn new(panel: &Panel<'_>) -> Self {
        let loads = || panel.rows.keys().map(|load| as_f64(*load).max(1.0).ln());
        let values = |row: &&Row| {
            let bar = bar(row).map_or([row.mean_b; 2], |(low, high)| [low, high]);
            [row.mean_a, row.mean_b, bar[0], bar[1]]
        };
        let rates = || panel.rows.values().flat_map(values).map(f64::ln);
        let ends = |low: f64, high: f64, room: f64| {
            (low - room * (high - low).max(0.1), high + room * (high - low).max(0.1))
        };
        let (low, high) = (rates().fold(f64::MAX, f64::min), rates().fold(f64::MIN, f64::max));
        let x = (loads().fold(f64::MAX, f64::min), loads().fold(f64::MIN, f64::max));
        Self { x: ends(x.0, x.1, 0.03), y: ends(low, high, 0.06) }
    }

    fn x(&self, load: u64) -> f64 {
        let share = (as_f64(load).max(1.0).ln() - self.x.0) / (self.x.1 - self.x.0);
        INNER.0 + share * (INNER.2 - INNER.0)
    }

    fn y(&self, rate: f64) -> f64 {
        let share = (rate.ln() - self.y.0) / (self.y.1 - self.y.0);
        INNER.3 - share * (INNER.3 - INNER.1)
    }

    /// Rates that the vertical axis is labelled with: 1, 2 and 5 of each decade, of many 1 alone; of none both ends.
    fn ticks(&self) -> Vec<f64> {
        let within = |digits: &[f64]| -> Vec<f64> {
            let all = (-3..=15).flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
            all.filter(|rate| (self.y.0..=self.y.1).contains(&rate.ln())).collect()
        };
        let ladders: [&[f64]; 3] = [&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0]];
        let ticks = ladders.into_iter().map(within).find(|ticks| ticks.len() <= 6).unwrap_or_default();
        if ticks.len() > 1 { ticks } else { vec![self.y.0.exp(), self.y.1.exp()] }
    }
}

fn drawing(panel: &Panel<'_>) -> Markup {
    let scale = Scale::new(panel);
    let at = |value: f64| format!("{value:.1}");
    let line = |of: fn(&Row) -> f64| -> String {
        let points =
            panel.rows.iter().map(|(load, row)| format!("{},{}", at(scale.x(*load)), at(scale.y(of(row)))));
        points.collect::<Vec<_>>().join(" ")
    };
    let each = panel.rows.len().div_ceil(LABELS);
    let unit = panel.rows.values().next().map_or("", |row| row.unit.as_str());
    html! {
        @for rate in scale.ticks() {
            line.grid x1=(INNER.0) x2=(INNER.2) y1=(at(scale.y(rate))) y2=(at(scale.y(rate))) {}
            text x=(INNER.0 - 5.0) y=(at(scale.y(rate) + 3.5)) text-anchor="end" { (in_unit(rate, unit)) }
        }
        @for load in panel.rows.keys().step_by(each) {
            text x=(at(scale.x(*load))) y=(INNER.3 + 14.0) text-anchor="middle" { (panel.over.words(*load)) }
        }
        text x=(at((INNER.0 + INNER.2) / 2.0)) y=(SIZE.1 - 6.0) text-anchor="middle" { (panel.over.name()) }
        polyline.a points=(line(|row| row.mean_a)) {}
        polyline.b points=(line(|row| row.mean_b)) {}
        @for (load, row) in &panel.rows { (mark(panel, &scale, *load, row)) }
    }
}

/// The marks of both sides at one load, with the words of the row.
fn mark(panel: &Panel<'_>, scale: &Scale, load: u64, row: &Row) -> Markup {
    let at = |value: f64| format!("{value:.1}");
    let (x, of_a, of_b) = (scale.x(load), scale.y(row.mean_a), scale.y(row.mean_b));
    let class = match row.finding {
        Finding::Worse => "b worse",
        Finding::Better => "b better",
        Finding::Differs | Finding::NoEvidence | Finding::NotComparable => "b",
    };
    let values = [row.mean_a, row.mean_b].map(|value| in_unit(value, &row.unit));
    let words = format!(
        "{} {}: A {}, B {}; {}",
        panel.over.name(),
        panel.over.words(load),
        values[0],
        values[1],
        row.words
    );
    html! {
        @if let Some((low, high)) = bar(row) {
            line.b x1=(at(x)) x2=(at(x)) y1=(at(scale.y(low))) y2=(at(scale.y(high))) {}
        }
        rect.a x=(at(x - 3.0)) y=(at(of_a - 3.0)) width="6" height="6" {}
        circle class=(class) cx=(at(x)) cy=(at(of_b)) r="3.6" { title { (words) } }
    }
}

#[cfg(test)]
mod tests {
    use crate::compare::{Options, Side, compare};
    use crate::stats::{Evidence, Series};

    fn side(rates: &[(&str, f64)], repeats: u32) -> Side {
        let trial = |repeat: u32| {
            let series = |rate: f64| Series {
                unit: "1/s".to_owned(),
                larger_is_worse: Some(false),
                samples: vec![rate * (1.0 + 0.002 * f64::from(repeat))],
                ..Series::default()
            };
            let metrics = rates.iter().map(|(name, rate)| ((*name).to_owned(), series(*rate))).collect();
            Evidence { repeat, metrics, ..Evidence::default() }
        };
        Side { label: "a <store>".to_owned(), trials: (0..repeats).map(trial).collect(), ..Side::default() }
    }

    const DEPTHS: [&str; 4] = [
        "randread-4k-libaio-d1-j1-f1.iops",
        "randread-4k-libaio-d4-j1-f1.iops",
        "randread-4k-libaio-d16-j1-f1.iops",
        "randread-4k-libaio-d64-j1-f1.iops",
    ];

    fn page(of_a: &[(&str, f64)], of_b: &[(&str, f64)]) -> String {
        let comparison = compare(&side(of_a, 3), &side(of_b, 3), &Options::default()).unwrap();
        crate::compare::page(&comparison)
    }

    #[test]
    fn both_sides_have_a_line_in_the_panel_of_a_curve() {
        let a: Vec<(&str, f64)> = DEPTHS.into_iter().zip([1e3, 4e3, 1e4, 1.2e4]).collect();
        let b: Vec<(&str, f64)> = DEPTHS.into_iter().zip([1e3, 4e3, 1.3e4, 2e4]).collect();
        let html = page(&a, &b);
        assert_eq!(html.matches("<polyline").count(), 2);
        assert_eq!((html.matches("<circle").count(), html.matches("<rect").count()), (4, 4));
        assert!(html.contains("randread, 4 KiB, libaio, 1 job, 1 file, over depth"), "{html}");
        assert!(html.contains("depth 64: A 12,0") && html.contains("in every pair"), "the words of the row");
        assert!(html.contains("a &lt;store&gt;") && !html.contains("NaN") && !html.contains("inf,"));
        // Depth rises to the right, and the larger rate lies higher.
        let points = html.split("polyline class=\"b\" points=\"").nth(1).unwrap().split('"').next().unwrap();
        let places: Vec<(f64, f64)> = points
            .split(' ')
            .map(|point| point.split_once(',').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect();
        assert!(places.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1), "{places:?}");
    }

    #[test]
    fn what_is_no_curve_has_no_panel() {
        let few: Vec<(&str, f64)> = DEPTHS[..2].iter().map(|name| (*name, 5.0)).collect();
        assert!(!page(&few, &few).contains("fio rates of A and B"));
        let other = [("grep", 3.0), ("latency.read.mean_ns", 4.0)];
        assert!(!page(&other, &other).contains("fio rates of A and B"));
        // A rate that is the same everywhere still has an axis.
        let flat: Vec<(&str, f64)> = DEPTHS.into_iter().map(|name| (name, 700.0)).collect();
        let html = page(&flat, &flat);
        assert!(html.contains("fio rates of A and B") && !html.contains("NaN"));
    }
}
