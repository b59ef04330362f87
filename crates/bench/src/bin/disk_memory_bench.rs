//! What a virtual disk with an aged file system costs in memory.
//!
//! `disk_memory_bench [GIB] [FRACTION] [--seconds N] [--fill]` (default 32, 0.8, at most an hour) needs root,
//! FUSE and mkfs.ext4, and `fsage`, `fsage-agent` and `fsage-disk` of the same build beside it. It brings up
//! a disk of the medium `ram`, makes an ext4 on it, and ages that by `fsage age` in fast mode with the volume
//! held at FRACTION until it has been written over once; every live block is then written with
//! self-describing data. `--fill`: the volume is filled once and not aged, where that would take too long.
//!
//! *Memory* is what the server says that contents and maps take, *RSS* all that the process has, its buffers
//! for requests too.

#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use fsage_bench::served::Served;
use fsage_model::quantity::as_f64;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = match arguments.iter().position(|word| word == "--seconds") {
        Some(at) => arguments.get(at + 1).and_then(|word| word.parse().ok()).unwrap_or(3600),
        None => 3600_u32,
    };
    let fill = arguments.iter().any(|word| word == "--fill");
    let plain: Vec<&String> = arguments.iter().take_while(|word| !word.starts_with("--")).collect();
    let gib: u64 = plain.first().map_or(Ok(32), |word| word.parse()).map_err(io::Error::other)?;
    let fraction: f64 = plain.get(1).map_or(Ok(0.8), |word| word.parse()).map_err(io::Error::other)?;
    let folder = PathBuf::from(format!("/var/tmp/fsage-disk-memory-{}", std::process::id()));
    let mut disk = Served::up(&folder, gib << 30, |_| ())?;
    let point = disk.mount_ext4()?;
    print_head(gib, fraction, fill)?;
    print_row("made", &disk)?;
    let started = Instant::now();
    age(&point, fraction, seconds, fill)?;
    let taken = started.elapsed().as_secs_f64();
    let sync = Command::new("sync").arg("--file-system").arg(&point).status()?;
    if !sync.success() {
        return Err(io::Error::other(format!("sync: {sync}")));
    }
    print_row(if fill { "filled" } else { "aged" }, &disk)?;
    walk(&point)?;
    print_row("every file inspected", &disk)?;
    let mut out = io::stdout();
    writeln!(out, "\n{taken:.0} s; the server used {:.0} s of processor time\n", disk.cpu_seconds())?;
    let df = Command::new("df").args(["--output=size,used,pcent,itotal,iused"]).arg(&point).output()?;
    out.write_all(&df.stdout)
}

/// Ages, or fills, and writes every live block.
fn age(point: &Path, fraction: f64, seconds: u32, fill: bool) -> io::Result<()> {
    let fsage = std::env::current_exe()?.with_file_name("fsage");
    let volume = point.join("aged");
    std::fs::create_dir(&volume)?;
    let mut command = Command::new(fsage);
    command.arg("age").arg(&volume).args(["--quiet", "--write-mode", "fast", "--seed", "1"]);
    command.args(["--set", "utilisation.kind=hold", "--set", &format!("utilisation.target={fraction}")]);
    if fill {
        command.args(["--until", &format!("volume_overwrites={fraction}")]);
    } else {
        command.args(["--until", "volume_overwrites=1"]);
    }
    command.args(["--seconds", &seconds.to_string()]);
    let status = command.stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("fsage age: {status}"))) }
}

/// Reads all directories and inodes from the disk, so that what was packed is used again.
fn walk(point: &Path) -> io::Result<()> {
    std::fs::write("/proc/sys/vm/drop_caches", "3")?;
    let mut find = Command::new("find");
    find.arg(point).args(["-size", "+1000G"]);
    let status = find.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("find: {status}"))) }
}

fn print_head(gib: u64, fraction: f64, fill: bool) -> io::Result<()> {
    let mut out = io::stdout();
    let how = if fill { "filled without ageing" } else { "aged in fast mode" };
    writeln!(out, "{gib} GiB, ext4 {how}, held at {:.0} %, every live block written\n", fraction * 100.0)?;
    writeln!(
        out,
        "| {gib} GiB ext4 | held, GB | memory, MB | memory ÷ held | raw, MB | self-describing, MB | compressed, MB | maps, MB | RSS, MB (peak) |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
}

fn print_row(state: &str, disk: &Served) -> io::Result<()> {
    let store = disk.stat()?.disk.store;
    let mb = |bytes: u64| as_f64(bytes) / 1e6;
    writeln!(
        io::stdout(),
        "| {state} | {:.2} | {:.1} | {:.2} % | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} ({:.0}) |",
        mb(store.held_bytes) / 1e3,
        mb(store.memory_bytes),
        100.0 * as_f64(store.memory_bytes) / as_f64(store.held_bytes.max(1)),
        mb(store.raw_blocks * 4096),
        mb(store.described_blocks * 4096),
        mb(store.packed_bytes),
        mb(store.map_bytes),
        mb(disk.status_bytes("VmRSS")),
        mb(disk.status_bytes("VmHWM")),
    )
}
