//! Writes a made-up store as large as 100 million operations leave (six trials, 2,000 ticks × 16 operations,
//! 10,000 probes each) and times the report of it in a process of its own, whose peak memory is measured.
//!
//! Bounds: 10 s, 500 MB, a page under 15 MB.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks and stops at the first fault"
)]

#[path = "../../../cli/tests/sample/mod.rs"]
mod sample;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use fsage_analysis::report::{ReportOptions, render};
use fsage_lab::store::Reader;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, mode, store] = arguments.as_slice()
        && mode == "--render"
    {
        return report(Path::new(store));
    }
    let folder = std::env::temp_dir().join(format!("fsage-report-bench-{}", std::process::id()));
    let begun = Instant::now();
    // One trial at a time: the writer must not need more memory than the reader.
    sample::write_store(&folder, &[]);
    for target in [0.8, 0.95] {
        for file_system in ["ext4", "xfs", "btrfs"] {
            sample::write_trial(&folder, &sample::trial(file_system, target, 0, sample::Size::LARGE));
        }
    }
    println!("store written in {:.1} s: {} MB", begun.elapsed().as_secs_f64(), size(&folder) / 1_000_000);
    let program: PathBuf = std::env::current_exe().unwrap();
    let status = Command::new(program).arg("--render").arg(&folder).status();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(status.unwrap().success(), "the report failed");
}

fn report(store: &Path) {
    let begun = Instant::now();
    let page = render(&Reader::open(store).unwrap(), &ReportOptions::default()).unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    if let Ok(path) = std::env::var("FSAGE_KEEP_REPORT") {
        std::fs::write(path, &page).unwrap();
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!(
        "report: {seconds:.2} s, peak {}, page {:.1} MB",
        peak.trim_start_matches("VmHWM:").trim(),
        megabytes(&page)
    );
}

fn megabytes(page: &str) -> f64 {
    fsage_model::quantity::as_f64(page.len().try_into().unwrap()) / 1e6
}

fn size(folder: &Path) -> u64 {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(
            |entry| if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().unwrap().len() },
        )
        .sum()
}
