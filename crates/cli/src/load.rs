//! What a load left, for a terminal.

use std::fmt::Write as _;
use std::path::Path;

use fsage_model::disk::DiskTime;
use fsage_model::layout::{FreeSpace, FreeSpaceMethod, LayoutSummary};
use fsage_model::load::{LoadResult, StopReason};
use fsage_model::quantity::{as_f64, share};

use super::terminal::Terminal;
use super::text;

/// The whole summary; `verb` is what was done (`aged`, `replayed`).
#[must_use]
pub fn summary(result: &LoadResult, directory: &Path, verb: &str, terminal: &Terminal) -> String {
    let seconds = as_f64(result.elapsed_ns) / 1e9;
    let per_second = if seconds > 0.0 { as_f64(result.operations) / seconds } else { 0.0 };
    let mut text = format!(
        "{} {}\n\n",
        terminal.bold(&format!("{verb} {}", directory.display())),
        terminal.dim(&format!("stopped {}", reason(result.stopped_by)))
    );
    let mut rows = vec![
        (
            "operations",
            format!(
                "{} in {} ({})",
                text::count(result.operations),
                text::duration(as_f64(result.elapsed_ns)),
                terminal.bold(&text::rate(per_second))
            ),
        ),
        ("failed", failures(result)),
        ("written", written(result)),
        ("read", text::size(result.bytes_read)),
        ("CPU", cpu(result)),
    ];
    rows.push((
        "files",
        format!(
            "{}, {} live, in {}",
            text::plural(result.files, "file", "files"),
            text::size(result.live_bytes),
            text::plural(result.layout.directories, "directory", "directories")
        ),
    ));
    if !result.materialised {
        let what = "not in place: space is reserved, but files read as zeros (`fsage verify` lists them)";
        rows.push(("data", terminal.paint("1;33", what)));
    }
    if result.probe_ns > 0 {
        let took = text::duration(as_f64(result.probe_ns));
        let part = text::percent(share(result.probe_ns, result.probe_ns + result.elapsed_ns));
        rows.push(("probes", format!("{} in {took}, {part} of the run", text::count(result.probes))));
    }
    rows.push(("layout", layout(&result.layout)));
    if let Some(free) = &result.free_space {
        rows.push(("free space", free_space(free)));
    }
    if let Some(disk) = &result.disk {
        let elapsed = text::duration(as_f64(disk.elapsed_ns));
        rows.push(("disk", format!("{}: {elapsed} by its own clock", disk.medium)));
    }
    rows.push(("digest", result.digest.clone()));
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:<11} {value}");
    }
    for caveat in &result.digest_caveats {
        let _ = writeln!(
            text,
            "  {:<11} {}",
            "",
            terminal.dim(&format!("may differ between file systems: {caveat}"))
        );
    }
    if !result.latency.is_empty() {
        let _ = write!(text, "\n{}", latencies(result, terminal));
        if result.disk.as_ref().is_some_and(|disk| disk.time == DiskTime::Model) {
            let note = "latencies are by the disk's clock: what stays in the page cache takes none (try --write-mode direct)";
            let _ = writeln!(text, "  {}", terminal.dim(note));
        }
    }
    text
}

const fn reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Operations => "by --operations",
        StopReason::Bytes => "by --bytes",
        StopReason::Seconds => "by --seconds",
        StopReason::Full => "because the volume is full: no free block",
        StopReason::Inodes => "because the volume is full: no free inode, though blocks are free",
        StopReason::Age => "by --until: the age is reached",
        StopReason::Asked => "when asked",
        StopReason::Ended => "at the end of the workload",
    }
}

fn failures(result: &LoadResult) -> String {
    if result.failed.is_empty() {
        return "none".to_owned();
    }
    let part = |(errno, count): (&String, &u64)| match result.failed_without_inode {
        inodes if inodes > 0 && errno == "ENOSPC" => {
            format!("{} {errno} ({} without a free inode)", text::count(*count), text::count(inodes))
        }
        _ => format!("{} {errno}", text::count(*count)),
    };
    let parts: Vec<String> = result.failed.iter().map(part).collect();
    parts.join(", ")
}

fn written(result: &LoadResult) -> String {
    let mut text = text::size(result.bytes_written);
    if let Some(device) = result.device_bytes_written {
        let _ = write!(text, "; {} reached the device", text::size(device));
    }
    if let Some(before) = result.device_bytes_before_materialise.filter(|_| result.materialise_ns > 0) {
        let _ = write!(
            text,
            " ({} before the live files were written, which took {})",
            text::size(before),
            text::duration(as_f64(result.materialise_ns))
        );
    }
    text
}

fn cpu(result: &LoadResult) -> String {
    let each = |ns: u64| as_f64(ns) / as_f64(result.operations.max(1));
    format!(
        "{} user + {} system per operation; fsage itself {}",
        text::duration(each(result.cpu_user_ns)),
        text::duration(each(result.cpu_sys_ns)),
        text::duration(result.overhead_ns_per_operation.max(0.0))
    )
}

/// One line about the layout of files.
#[must_use]
pub fn layout(layout: &LayoutSummary) -> String {
    format!(
        "{:.2} extents per file, {} in one extent, layout score {:.3}",
        layout.extents_per_file,
        text::percent(layout.one_extent_share),
        layout.layout_score
    )
}

/// One line about free space.
#[must_use]
pub fn free_space(free: &FreeSpace) -> String {
    format!(
        "{} in {}, largest {}, median {}{}",
        text::size(free.bytes),
        text::plural(free.extents, "extent", "extents"),
        text::size(free.largest_bytes),
        text::size(free.median_bytes),
        if free.method == FreeSpaceMethod::FiemapComplement { " (an estimate)" } else { "" }
    )
}

fn latencies(result: &LoadResult, terminal: &Terminal) -> String {
    let head = ["operation", "count", "mean", "p50", "p90", "p99", "p99.9", "max"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (kind, latency) in &result.latency {
        let ns = |value: u64| text::duration(as_f64(value));
        rows.push(vec![
            kind.name().to_owned(),
            text::count(latency.count),
            text::duration(latency.mean_ns),
            ns(latency.p50_ns),
            ns(latency.p90_ns),
            ns(latency.p99_ns),
            ns(latency.p999_ns),
            ns(latency.max_ns),
        ]);
    }
    let table = text::table(&rows, 2);
    match table.split_once('\n') {
        Some((head, body)) => format!("{}\n{body}", terminal.dim(head)),
        None => table,
    }
}
