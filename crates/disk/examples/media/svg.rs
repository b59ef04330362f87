//! A chart as an SVG file, by hand: lines and points over two axes, a legend below.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 52.0;
const PLOT_HEIGHT: f64 = 320.0;
/// From the plot's lower edge to the legend's first line.
const LEGEND: f64 = 66.0;
const LINE_HEIGHT: f64 = 20.0;

/// Colours that are distinguished by everybody (Okabe and Ito).
pub const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Log,
}

/// An axis with its ticks: where, and what stands there.
pub struct Axis {
    pub label: &'static str,
    pub scale: Scale,
    pub min: f64,
    pub max: f64,
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    pub fn linear(label: &'static str, max: f64, step: f64) -> Self {
        let mut ticks = Vec::new();
        let mut at = 0.0;
        while at <= max * 1.000_001 {
            ticks.push((at, number(at)));
            at += step;
        }
        Self { label, scale: Scale::Linear, min: 0.0, max, ticks }
    }

    pub fn log(label: &'static str, min: f64, max: f64, ticks: Vec<(f64, String)>) -> Self {
        Self { label, scale: Scale::Log, min, max, ticks }
    }

    /// Where a value is, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            Scale::Log => (value / self.min).ln() / (self.max / self.min).ln(),
        }
    }
}

/// A number as a tick shows it.
pub fn number(value: f64) -> String {
    if value < 1000.0 {
        return format!("{}", (value * 100.0).round() / 100.0);
    }
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Line,
    Dashed,
    /// Hollow circles: what is published.
    Published,
    /// Filled dots.
    Dots,
}

pub struct Series {
    pub name: String,
    pub colour: &'static str,
    pub mark: Mark,
    pub points: Vec<(f64, f64)>,
}

pub struct Chart {
    pub title: &'static str,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

impl Chart {
    pub fn add(&mut self, name: &str, colour: &'static str, mark: Mark, points: Vec<(f64, f64)>) {
        self.series.push(Series { name: name.to_owned(), colour, mark, points });
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let width = WIDTH - LEFT - RIGHT;
        (LEFT + self.x.share(x) * width, TOP + (1.0 - self.y.share(y)) * PLOT_HEIGHT)
    }

    /// The whole file.
    pub fn svg(&self) -> String {
        let rows = self.series.len().div_ceil(2);
        let rows = f64::from(u32::try_from(rows).unwrap_or(0));
        let height = TOP + PLOT_HEIGHT + LEGEND + rows * LINE_HEIGHT;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#222\">\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"26\" font-size=\"16\" font-weight=\"bold\">{}</text>\n",
            self.title
        );
        self.grid(&mut out);
        for series in &self.series {
            self.draw(&mut out, series);
        }
        self.legend(&mut out);
        out.push_str("</svg>\n");
        out
    }

    fn grid(&self, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, TOP + PLOT_HEIGHT);
        for (value, text) in &self.y.ticks {
            let (_, y) = self.at((self.x.min, *value));
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#e2e2e2\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 8.0,
                y + 4.5
            );
        }
        for (value, text) in &self.x.ticks {
            let (x, _) = self.at((*value, self.y.min));
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{}\" stroke=\"#444\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                bottom + 5.0,
                bottom + 20.0
            );
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\" stroke=\"#444\"/>\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text x=\"{LEFT}\" y=\"44\" fill=\"#555\">{}</text>",
            bottom + 42.0,
            self.x.label,
            self.y.label
        );
    }

    fn draw(&self, out: &mut String, series: &Series) {
        let colour = series.colour;
        let points: Vec<(f64, f64)> = series.points.iter().map(|p| self.at(*p)).collect();
        match series.mark {
            Mark::Line | Mark::Dashed => {
                let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                let dashes = if series.mark == Mark::Dashed { " stroke-dasharray=\"6 4\"" } else { "" };
                let _ = writeln!(
                    out,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\"{dashes}/>",
                    path.join(" ")
                );
            }
            Mark::Published | Mark::Dots => {
                for (x, y) in points {
                    let _ = writeln!(out, "{}", point(series.mark, colour, x, y));
                }
            }
        }
    }

    fn legend(&self, out: &mut String) {
        let column = (WIDTH - LEFT - RIGHT) / 2.0;
        for (number, series) in self.series.iter().enumerate() {
            let number = f64::from(u32::try_from(number).unwrap_or(0));
            let x = LEFT + (number % 2.0) * column;
            let y = TOP + PLOT_HEIGHT + LEGEND + (number / 2.0).floor() * LINE_HEIGHT;
            let colour = series.colour;
            let sample = match series.mark {
                Mark::Line | Mark::Dashed => {
                    let dashes = if series.mark == Mark::Dashed { " stroke-dasharray=\"6 4\"" } else { "" };
                    format!(
                        "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
                        x + 26.0
                    )
                }
                mark => point(mark, colour, x + 13.0, y),
            };
            let _ =
                writeln!(out, "{sample}<text x=\"{}\" y=\"{}\">{}</text>", x + 34.0, y + 4.5, series.name);
        }
    }
}

fn point(mark: Mark, colour: &str, x: f64, y: f64) -> String {
    if mark == Mark::Published {
        format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"#fff\" fill-opacity=\"0.75\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        )
    } else {
        format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>")
    }
}
