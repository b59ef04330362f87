//! Which request is done by what.

use std::path::Path;
use std::time::{Duration, Instant};

use fsage_model::layout::LayoutSummary;
use fsage_model::location::Location;
use fsage_model::protocol::{Failure, FailureKind, PROTOCOL_VERSION, Reply, Request};

use super::Agent;
use super::sink::EventSink;
use crate::disk::VirtualDisk;
use crate::host::process::{self, Identity};
use crate::host::{
    HostError, block, cache, chain, disk, facts, file, loopback, mount, processor, setting, tool,
};
use crate::layout::{self, LayoutError, ScanOptions};
use crate::load;
use crate::location::{Anchor, LocationError, Reach as _};
use crate::{replay, verify};

/// Does one request.
pub(super) fn dispatch(agent: &Agent, id: u64, request: Request) -> Result<Reply, Failure> {
    match request {
        Request::Hello { .. } => Ok(hello()),
        Request::HostFacts => Ok(Reply::HostFacts { facts: Box::new(facts::facts(&agent.children)) }),
        Request::RunTool { argv, timeout_ms } => run_tool(agent, tool::run, &argv, timeout_ms),
        Request::StartServer { argv, timeout_ms } => run_tool(agent, tool::start_server, &argv, timeout_ms),
        Request::Load { load, mount } => {
            let mut sink = EventSink::new(agent, id);
            let location = Location { path: load.directory.clone(), mount };
            agent
                .with_control(|control| load::run_in(&location, &load, control, &mut sink))
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
        Request::Verify { directory, cross_mounts } => {
            let result = verify::run_in(&open(&directory)?, 0, cross_mounts);
            Ok(Reply::Verified { result: Box::new(result) })
        }
        Request::MakeFolder { directory } => {
            directory.make().map_err(|error| location_failure(&error))?;
            Ok(Reply::Done)
        }
        Request::Trim { directory } => {
            Ok(Reply::Trimmed { bytes: cache::trim(&open(&directory)?.held()).map_err(Failure::from)? })
        }
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
            agent.held.detach_below(&directory);
            disk::end(&agent.children, &directory)?;
            Ok(Reply::Done)
        }
        Request::Pause | Request::Resume | Request::Stop | Request::Abandon | Request::Goodbye => {
            Ok(Reply::Done)
        }
        other => on_device(agent, other).map_err(Failure::from),
    }
}

/// Requests about devices, which the agent holds while it works with them; others go on to the host.
fn on_device(agent: &Agent, request: Request) -> Result<Reply, HostError> {
    let held = &agent.held;
    match request {
        Request::LoopAttach { file, size_bytes, sector_bytes, direct_io } => {
            let attach = || loopback::attach_held(&file, size_bytes, sector_bytes, direct_io);
            return Ok(Reply::Device { device: held.attach(&file, attach)? });
        }
        Request::LoopAttachReadOnly { file, sector_bytes } => {
            let attach = || loopback::attach_read_only(&file, sector_bytes);
            return Ok(Reply::Device { device: held.attach(&file, attach)? });
        }
        Request::BlockFacts { device } => {
            let facts = held.used_if_held(Some(&device), || block::facts(&device))?;
            return Ok(Reply::BlockFacts { facts: Box::new(facts) });
        }
        Request::Set { path, value } => {
            held.check_setting(&path)?;
            return Ok(Reply::Setting { old: setting::set(&path, &value)? });
        }
        Request::LoopDetach { file, backing } => {
            let left = held.detach(&file, backing)?;
            return Ok(left.map_or(Reply::Done, |why| Reply::Left { why }));
        }
        Request::HoldDevice { device, identity } => held.hold(&device, &identity)?,
        Request::LetDeviceGo { device } => held.let_go(&device),
        Request::Mount { device, point, file_system, options } => {
            held.mount(&device, &point, &file_system, &options)?;
        }
        Request::MountAgain { device, point, file_system, options } => {
            held.mount_again(&device, &point, &file_system, &options)?;
        }
        Request::Unmount { point } => held.unmount(&point)?,
        other => return on_host(other),
    }
    Ok(Reply::Done)
}

/// Requests that only [`crate::host`] deals with.
fn on_host(request: Request) -> Result<Reply, HostError> {
    match request {
        Request::Get { path } => return Ok(Reply::Setting { old: setting::get(&path)? }),
        Request::Usage { directory } => {
            let cache::Usage { used_bytes, total_bytes, available_bytes, file_system } =
                cache::usage(&directory)?;
            return Ok(Reply::Usage { used_bytes, total_bytes, available_bytes, file_system });
        }
        Request::Pin => return Ok(Reply::Pinned { cpu: processor::pin()? }),
        Request::RemoveFile { file } => file::remove(&file)?,
        Request::MakeDirectory { directory } => file::make_directory(&directory)?,
        Request::RemoveMade { path, directory, made } => {
            let left = file::remove_made(&path, directory, &made)?;
            return Ok(left.map_or(Reply::Done, |why| Reply::Left { why }));
        }
        Request::MakeMountPoint { point } => mount::make_point(&point)?,
        Request::RestrictMount { point } => mount::restrict(&point)?,
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
    let device = agent.held.device_in(argv)?;
    let tool::ToolOutput { argv, status, stdout, stderr, elapsed_ns } =
        agent.held.used_if_held(device.as_deref(), || run(&agent.children, argv, limit))?;
    Ok(Reply::Tool { argv, status, stdout, stderr, elapsed_ns })
}

type Scan = fn(&Path, &ScanOptions) -> Result<LayoutSummary, LayoutError>;

/// Opens a directory to work in.
fn open(directory: &Location) -> Result<Anchor, Failure> {
    directory.open().map_err(|error| location_failure(&error))
}

fn location_failure(error: &LocationError) -> Failure {
    failure(error, error.hint(), error.errno(), error.kind())
}

/// What `ask` says of an open directory that it takes as a path: a failure tells the path that people know.
fn at<T>(anchor: &Anchor, ask: impl FnOnce(&Path) -> Result<T, LayoutError>) -> Result<T, Failure> {
    let held = anchor.held();
    ask(&held).map_err(|error| {
        let mut failure = layout_failure(&error);
        let (held, shown) = (held.display().to_string(), anchor.path().display().to_string());
        failure.message = failure.message.replace(&held, &shown);
        failure
    })
}

fn run_scan(scan: Scan, directory: &Location, threads: u32, one_file_system: bool) -> Result<Reply, Failure> {
    let started = Instant::now();
    let threads = usize::try_from(threads).unwrap_or(0);
    let options = ScanOptions { threads, one_file_system };
    let summary = at(&open(directory)?, |path| scan(path, &options))?;
    Ok(Reply::Layout { layout: Box::new(summary), elapsed_ns: elapsed_ns(started) })
}

/// Bytes of lines that are sent together.
const LINES: usize = 1 << 18;

fn places(agent: &Agent, id: u64, directory: &Location, cells: u64) -> Result<Reply, Failure> {
    let anchor = open(directory)?;
    let found = at(&anchor, layout::places)?;
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
    let volume_bytes = layout::volume_bytes(anchor.fd());
    let (used, unknown) = match crate::image::used_shares(&anchor.held(), volume_bytes, cells) {
        Ok(used) => (used, String::new()),
        Err(error) => (Vec::new(), chain(&error)),
    };
    let files = u64::try_from(found.files.len()).unwrap_or(u64::MAX);
    let layout::Places { failed, logical, .. } = found;
    Ok(Reply::Placed { files, failed, logical, volume_bytes, used, unknown })
}

fn free_space(directory: &Location) -> Result<Reply, Failure> {
    let started = Instant::now();
    let free_space = at(&open(directory)?, layout::free_space)?;
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
