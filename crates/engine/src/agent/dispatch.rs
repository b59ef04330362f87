//! Which request is done by what.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Agent;
use super::sink::EventSink;
use crate::disk::VirtualDisk;
use crate::host::process::{self, Identity};
use crate::host::{
    HostError, block, cache, chain, disk, facts, file, loopback, mount, processor, setting, tool,
};
use crate::layout::{self, LayoutError, ScanOptions};
use crate::load;
use crate::protocol::{Failure, FailureKind, PROTOCOL_VERSION, Reply, Request};
use crate::{replay, verify};

/// Does one request.
pub(super) fn dispatch(agent: &Agent, id: u64, request: Request) -> Result<Reply, Failure> {
    match request {
        Request::Hello { .. } => Ok(hello()),
        Request::HostFacts => Ok(Reply::HostFacts { facts: Box::new(facts::facts(&agent.children)) }),
        Request::RunTool { argv, timeout_ms } => run_tool(agent, tool::run, &argv, timeout_ms),
        Request::StartServer { argv, timeout_ms } => run_tool(agent, tool::start_server, &argv, timeout_ms),
        Request::Load { load } => {
            let mut sink = EventSink::new(agent, id);
            agent
                .with_control(|control| load::run(&load, control, &mut sink))
                .map(|result| Reply::Load { result: Box::new(result) })
                .map_err(|error| failure(&error, error.hint(), error.errno(), error.kind()))
        }
        Request::Replay { trace, directory, options } => {
            let mut sink = EventSink::new(agent, id);
            agent
                .with_control(|control| replay::run_with(&trace, &directory, &options, control, &mut sink))
                .map(|result| Reply::Replayed { result: Box::new(result) })
                .map_err(|error| failure(&error, error.hint(), None, error.kind()))
        }
        request @ (Request::LockstepBegin { .. } | Request::LockstepRun { .. } | Request::LockstepEnd) => {
            super::lockstep::serve(agent, id, request)
        }
        Request::Scan { directory, threads, one_file_system, detail } => {
            let scan = if detail { layout::scan_in_detail } else { layout::scan };
            run_scan(scan, &directory, threads, one_file_system)
        }
        Request::Places { directory, cells } => places(agent, id, &directory, cells),
        Request::FreeSpace { directory } => free_space(&directory),
        Request::Verify { directory, cross_mounts } => verify::run(&directory, 0, cross_mounts)
            .map(|result| Reply::Verified { result: Box::new(result) })
            .map_err(|error| failure(&error, error.hint(), error.errno(), error.kind())),
        request @ (Request::ImageSave { .. }
        | Request::ImageRestore { .. }
        | Request::ImageVerify { .. }
        | Request::ImageMaterialise { .. }
        | Request::ImageInfo { .. }) => super::image::serve(agent, id, request),
        request @ (Request::Measure { .. }
        | Request::MakeMeasureFolder { .. }
        | Request::RemoveMeasureFolder { .. }
        | Request::Copy { .. }
        | Request::RemoveTraceInstance { .. }) => super::measure::serve(agent, id, request),
        Request::DiskStat { directory } => disk_stat(&directory),
        Request::DiskRest { directory } => {
            VirtualDisk::under(&directory).map(|disk| disk.rest()).transpose()?;
            Ok(Reply::Done)
        }
        Request::EndDisk { directory } => {
            disk::end(&agent.children, &directory)?;
            Ok(Reply::Done)
        }
        Request::Pause | Request::Resume | Request::Stop | Request::Abandon | Request::Goodbye => {
            Ok(Reply::Done)
        }
        other => on_host(other).map_err(Failure::from),
    }
}

/// Requests that only [`crate::host`] deals with.
fn on_host(request: Request) -> Result<Reply, HostError> {
    match request {
        Request::LoopAttach { file, size_bytes, sector_bytes, direct_io } => {
            let device = loopback::attach(&file, size_bytes, sector_bytes, direct_io)?;
            return Ok(Reply::Device { device });
        }
        Request::LoopAttachReadOnly { file, sector_bytes } => {
            return Ok(Reply::Device { device: loopback::attach_read_only(&file, sector_bytes)? });
        }
        Request::BlockFacts { device } => {
            return Ok(Reply::BlockFacts { facts: Box::new(block::facts(&device)?) });
        }
        Request::Get { path } => return Ok(Reply::Setting { old: setting::get(&path)? }),
        Request::Set { path, value } => return Ok(Reply::Setting { old: setting::set(&path, &value)? }),
        Request::Trim { directory } => return Ok(Reply::Trimmed { bytes: cache::trim(&directory)? }),
        Request::Usage { directory } => {
            let cache::Usage { used_bytes, total_bytes, available_bytes, file_system } =
                cache::usage(&directory)?;
            return Ok(Reply::Usage { used_bytes, total_bytes, available_bytes, file_system });
        }
        Request::Pin => return Ok(Reply::Pinned { cpu: processor::pin()? }),
        Request::LoopDetach { file } => loopback::detach(&file)?,
        Request::RemoveFile { file } => file::remove(&file)?,
        Request::MakeDirectory { directory } => file::make_directory(&directory)?,
        Request::RemoveDirectory { directory } => file::remove_directory(&directory)?,
        Request::Mount { device, point, file_system, options } => {
            mount::mount(&device, &point, &file_system, &options)?;
        }
        Request::Unmount { point } => mount::unmount(&point)?,
        Request::Restore { path, old, new } => setting::restore(&path, &old, &new)?,
        Request::EndProcess { pid, start_ticks, timeout_ms } => {
            process::end(Identity { pid, start_ticks }, Duration::from_millis(timeout_ms))?;
        }
        Request::DropCaches => cache::drop_caches()?,
        Request::Sync { directory } => cache::sync(&directory)?,
        other => return Err(HostError::Senseless { what: format!("nobody does {other:?}") }),
    }
    Ok(Reply::Done)
}

fn hello() -> Reply {
    let Identity { pid, start_ticks } = Identity::own();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Reply::Hello { protocol: PROTOCOL_VERSION, version, pid, start_ticks, boot_id: facts::boot_id() }
}

type Run = fn(&tool::Children, &[String], Option<Duration>) -> Result<tool::ToolOutput, HostError>;

fn run_tool(agent: &Agent, run: Run, argv: &[String], timeout_ms: u64) -> Result<Reply, Failure> {
    let limit = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
    let tool::ToolOutput { argv, status, stdout, stderr, elapsed_ns } = run(&agent.children, argv, limit)?;
    Ok(Reply::Tool { argv, status, stdout, stderr, elapsed_ns })
}

type Scan = fn(&Path, &ScanOptions) -> Result<layout::LayoutSummary, LayoutError>;

fn run_scan(scan: Scan, directory: &Path, threads: u32, one_file_system: bool) -> Result<Reply, Failure> {
    let started = Instant::now();
    let threads = usize::try_from(threads).unwrap_or(0);
    let options = ScanOptions { threads, one_file_system };
    let summary = scan(directory, &options).map_err(|error| layout_failure(&error))?;
    Ok(Reply::Layout { layout: Box::new(summary), elapsed_ns: elapsed_ns(started) })
}

/// Bytes of lines that are sent together.
const LINES: usize = 1 << 18;

fn places(agent: &Agent, id: u64, directory: &Path, cells: u64) -> Result<Reply, Failure> {
    let found = layout::places(directory).map_err(|error| layout_failure(&error))?;
    let mut lines = Vec::new();
    for file in &found.files {
        // A path and numbers: nothing that JSON could not say.
        if serde_json::to_writer(&mut lines, file).is_ok() {
            lines.push(b'\n');
        }
        if lines.len() >= LINES {
            agent.send_chunk(id, &lines);
            lines.clear();
        }
    }
    agent.send_chunk(id, &lines);
    let volume_bytes = std::fs::File::open(directory).map_or(0, |root| layout::volume_bytes(root.as_fd()));
    let (used, unknown) = match crate::image::used_shares(directory, volume_bytes, cells) {
        Ok(used) => (used, String::new()),
        Err(error) => (Vec::new(), chain(&error)),
    };
    let files = u64::try_from(found.files.len()).unwrap_or(u64::MAX);
    let layout::Places { failed, logical, .. } = found;
    Ok(Reply::Placed { files, failed, logical, volume_bytes, used, unknown })
}

fn free_space(directory: &Path) -> Result<Reply, Failure> {
    let started = Instant::now();
    let free_space = layout::free_space(directory).map_err(|error| layout_failure(&error))?;
    Ok(Reply::FreeSpace { free_space: Box::new(free_space), elapsed_ns: elapsed_ns(started) })
}

fn disk_stat(directory: &Path) -> Result<Reply, Failure> {
    let stat = VirtualDisk::under(directory).map(|disk| disk.stat()).transpose()?;
    Ok(Reply::DiskStat { stat: stat.map(Box::new) })
}

fn elapsed_ns(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn layout_failure(error: &LayoutError) -> Failure {
    let errno = Some(error.errno()).filter(|&errno| errno != 0);
    failure(error, error.hint().unwrap_or_default(), errno, FailureKind::Failed)
}

pub(super) fn failure(
    error: &dyn std::error::Error,
    hint: String,
    errno: Option<i32>,
    kind: FailureKind,
) -> Failure {
    Failure { message: chain(error), hint, errno, kind }
}
