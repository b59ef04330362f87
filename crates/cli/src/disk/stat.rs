//! `fsage disk stat`: what a disk counted, once or again and again.

use std::time::Duration;

use clap::Args;
use fsage_engine::disk::VirtualDisk;
use fsage_model::disk::{DiskCounter, DiskStat, DiskUse};
use fsage_model::problem::{EXIT_OK, Problem};
use fsage_model::quantity::{as_f64, to_u64};
use serde_json::json;

use crate::terminal::Terminal;
use crate::text;
use fsage_lab::disk::{DiskError, NamedDisk};

/// Arguments of `fsage disk stat`.
#[derive(Debug, Args)]
#[command(after_help = "\
With --interval the first output has the totals since the disk was created, each later one the change since the previous one;
with --json each is one line. Times are those of the device model.

Example:
  sudo fsage disk stat old --interval 1")]
pub struct StatArgs {
    /// The disk
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Print the changes every SECONDS seconds
    #[arg(long, value_name = "SECONDS")]
    pub interval: Option<f64>,
    /// With --interval: end after N outputs
    #[arg(long, value_name = "N", requires = "interval")]
    pub count: Option<u64>,
}

pub(super) fn run(args: &StatArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let disk = NamedDisk::new(&args.name)?;
    if args.interval.is_some_and(|s| !s.is_finite() || !(0.001..=86_400.0).contains(&s)) {
        return Err(Problem::new(
            fsage_model::problem::EXIT_USAGE,
            "`--interval` must be from 0.001 to 86400 seconds",
        ));
    }
    let record = disk.find()?;
    crate::require_root("accessing a disk")?;
    let server = VirtualDisk::at(record.directory);
    let mut before = server.stat().map_err(DiskError::from)?;
    show(&before.clone().since(&DiskStat::default()), args.interval.is_some(), terminal)?;
    let mut left = args.count.unwrap_or(u64::MAX).saturating_sub(1);
    while let Some(seconds) = args.interval.filter(|_| left > 0) {
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let now = server.stat().map_err(DiskError::from)?;
        show(&now.clone().since(&before), true, terminal)?;
        before = now;
        left -= 1;
    }
    Ok(EXIT_OK)
}

fn show(used: &DiskUse, repeated: bool, terminal: &Terminal) -> Result<(), Problem> {
    if terminal.json {
        let value = json!(used);
        return if repeated { terminal.result(&format!("{value}\n")) } else { terminal.json(&value) };
    }
    let mut lines =
        format!("{}, {} by its own clock\n", used.medium, text::duration(as_f64(used.elapsed_ns)));
    let width = used.counters.iter().map(|counter| counter.name.len()).max().unwrap_or(0);
    for counter in &used.counters {
        let name = counter.name.trim_end_matches("_ns").trim_end_matches("_bytes").replace('_', " ");
        lines.push_str(&format!("  {name:<width$}  {}\n", in_words(counter)));
    }
    terminal.result(&lines)
}

fn in_words(counter: &DiskCounter) -> String {
    match counter.unit.as_str() {
        "ns" => text::duration(counter.value),
        "B" => text::size(to_u64(counter.value)),
        _ if counter.value.fract() == 0.0 => text::count(to_u64(counter.value)),
        _ => format!("{:.3}", counter.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_their_units() {
        let words = |unit: &str, value| {
            in_words(&DiskCounter { name: "x".to_owned(), unit: unit.to_owned(), value, state: false })
        };
        assert_eq!(words("ns", 1.5e6), "1.50 ms");
        assert_eq!(words("B", 2048.0), "2 KiB");
        assert_eq!(words("1", 12_345.0), "12,345");
        assert_eq!(words("1", 1.25), "1.250");
    }
}
