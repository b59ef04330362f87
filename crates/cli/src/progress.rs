//! Progress on standard error: a live bar with rate and ETA on a terminal, one line per stage elsewhere.

use std::collections::VecDeque;
use std::time::Duration;

use fsage_model::escape;
use fsage_model::protocol::Event;
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::warning::Warning;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal::Terminal;
use super::text;

/// Positions of the bar.
const SCALE: u64 = 10_000;
/// Progress reports that the rate is computed over.
const WINDOW: usize = 8;

/// One bar, or the lines that stand for it.
#[derive(Debug)]
pub struct Progress {
    terminal: Terminal,
    bar: Option<ProgressBar>,
    recent: VecDeque<(u64, u64)>,
    note: String,
}

impl Progress {
    /// Nothing is shown before the first [`Progress::stage`].
    #[must_use]
    pub fn new(terminal: &Terminal) -> Self {
        let bar = terminal.live.then(|| {
            let bar = ProgressBar::with_draw_target(Some(SCALE), ProgressDrawTarget::stderr());
            bar.set_style(style(false));
            bar
        });
        Self { terminal: *terminal, bar, recent: VecDeque::new(), note: String::new() }
    }

    /// A stage begins: a line where there is no terminal, the text beside the bar otherwise.
    pub fn stage(&mut self, text: &str) {
        self.recent.clear();
        self.note.clear();
        match &self.bar {
            Some(bar) => {
                bar.set_style(style(false));
                bar.set_prefix(escape::line(text).into_owned());
                bar.set_message("");
                bar.enable_steady_tick(Duration::from_millis(100));
            }
            None => self.terminal.note(text),
        }
    }

    /// A line that stays, above the bar.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) if !self.terminal.quiet => bar.suspend(|| self.terminal.note(text)),
            _ => self.terminal.note(text),
        }
    }

    /// A warning, above the bar.
    pub fn warning(&self, warning: &Warning) {
        let warn = || self.terminal.warn(&format!("{} [{}]", warning.message, warning.kind));
        match &self.bar {
            Some(bar) => bar.suspend(warn),
            None => warn(),
        }
    }

    /// What an agent says while a load runs.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Progress { operations, elapsed_ns, share, note } => {
                let rate = self.rate(*operations, *elapsed_ns);
                let eta_s = share.filter(|s| *s > 0.0).map(|s| as_f64(*elapsed_ns) / 1e9 * (1.0 - s) / s);
                self.update(*operations, *share, rate, eta_s, note);
            }
            Event::Warning { warning } => self.warning(warning),
            Event::Tick { .. } | Event::Probe { .. } => {}
        }
    }

    /// How far a stage is; `share` in 0..=1 and `eta_s` where the end is known.
    pub fn update(&mut self, operations: u64, share: Option<f64>, rate: f64, eta_s: Option<f64>, note: &str) {
        if note != self.note {
            note.clone_into(&mut self.note);
            if self.bar.is_none() && !note.is_empty() {
                self.terminal.note(&format!("  {note}, after {} operations", text::count(operations)));
            }
        }
        let Some(bar) = &self.bar else { return };
        bar.set_style(style(share.is_some()));
        bar.set_position(to_u64(share.unwrap_or(0.0).clamp(0.0, 1.0) * as_f64(SCALE)));
        let mut message = format!("{} operations, {}", text::count(operations), text::rate(rate));
        if let Some(eta_s) = eta_s {
            message.push_str(&format!(", {} to go", text::duration(eta_s.max(1.0).round() * 1e9)));
        }
        if !note.is_empty() {
            message.push_str(&format!(" ({})", escape::line(note)));
        }
        bar.set_message(message);
    }

    /// How much of an amount of data is done.
    pub fn amount(&self, done_bytes: u64, share: Option<f64>, elapsed_ns: u64) {
        let Some(bar) = &self.bar else { return };
        bar.set_style(style(share.is_some()));
        bar.set_position(to_u64(share.unwrap_or(0.0).clamp(0.0, 1.0) * as_f64(SCALE)));
        let seconds = (as_f64(elapsed_ns) / 1e9).max(1e-3);
        let rate = to_u64(as_f64(done_bytes) / seconds);
        let mut message = format!("{}, {}/s", text::size(done_bytes), text::size(rate));
        if let Some(share) = share.filter(|share| *share > 0.0) {
            let left = (seconds * (1.0 - share) / share).max(1.0).round();
            message.push_str(&format!(", {} to go", text::duration(left * 1e9)));
        }
        bar.set_message(message);
    }

    /// Takes the bar away; what is printed next starts on a clean line.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Operations per second over the last few reports.
    fn rate(&mut self, operations: u64, elapsed_ns: u64) -> f64 {
        self.recent.push_back((operations, elapsed_ns));
        if self.recent.len() > WINDOW {
            self.recent.pop_front();
        }
        let (first_operations, first_ns) = if self.recent.len() > 1 { self.recent[0] } else { (0, 0) };
        let ns = as_f64(elapsed_ns.saturating_sub(first_ns)).max(1.0);
        as_f64(operations.saturating_sub(first_operations)) * 1e9 / ns
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

fn style(known_end: bool) -> ProgressStyle {
    let template = if known_end {
        "{prefix} {bar:24.cyan/dim} {percent:>3}%  {msg}"
    } else {
        "{prefix} {spinner}  {msg}"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_the_last_reports_only() {
        let terminal = Terminal::new(false, true, super::super::terminal::ColorChoice::Never);
        let mut progress = Progress::new(&terminal);
        let rates: Vec<f64> = (1..=20_u64)
            .map(|n| progress.rate(if n < 11 { n * 100 } else { 1000 }, n * 1_000_000_000))
            .collect();
        assert!((rates[0] - 100.0).abs() < 1e-6);
        assert!((rates[5] - 100.0).abs() < 1e-6);
        assert!(rates[19] < 1e-6);
    }
}
