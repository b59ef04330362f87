//! Calls about the host: its programs, devices, mounts, settings and files.

use std::time::{Duration, Instant};

use fsage_model::protocol::{Failure, Greeting, PROTOCOL_VERSION, ToolOutput};
use fsage_model::quantity::share;

use super::sink::EventSink;
use super::task::{Task, handlers};
use crate::device::Device;
use crate::disk::{VirtualDisk, lead};
use crate::geometry;
use crate::host::process::{self, Identity};
use crate::host::{
    HostError, activity, block, cache, disk, facts, file, held, layer, loopback, memory_group, mount,
    processor, served, setting, split, tool,
};
use crate::load::LoadSink as _;
use crate::{settle, timed_read, timed_write, wear};

handlers! { task:
    Hello { protocol } => hello(protocol);
    HostFacts => facts::facts(&task.agent.children);
    HostActivity => activity::now();
    RunTool { argv, timeout_ms } => run_tool(task, tool::run, &argv, timeout_ms)?;
    StartServer { argv, timeout_ms } => run_tool(task, tool::start_server, &argv, timeout_ms)?;
    EndProcess { pid, start_ticks, timeout_ms } =>
        process::end(Identity { pid, start_ticks }, Duration::from_millis(timeout_ms))?;
    Pin { to } => processor::pin(to)?;
    // These act on a running load as they arrive, before their turn comes.
    Pause => ();
    Resume => ();
    Stop => ();
    Abandon => ();
    Goodbye => ();

    LoopAttach { file, size_bytes, sector_bytes, direct_io, part } => {
        let attach = |making: loopback::Making<'_>| {
            loopback::attach_held(&file, size_bytes, sector_bytes, direct_io, part, making)
        };
        task.agent.held.attach(&file, || while_making(task, attach))?
    };
    LoopAttachReadOnly { file, sector_bytes } =>
        task.agent.held.attach(&file, || loopback::attach_read_only(&file, sector_bytes))?;
    LoopAllocate { file } => loopback::allocate_again(&file)?;
    LoopDetach { file, backing, offset_bytes } => task.agent.held.detach(&file, backing, offset_bytes)?;
    DiscardDevice { device } => task.agent.held.discard(&device)?;
    BlockFacts { device } =>
        task.agent.held.used_if_held::<_, HostError>(Some(&device), || block::facts(&device))?;
    HoldDevice { device, identity } => task.agent.held.hold(&device, &identity)?;
    SplitDevice { device, sizes } => task.agent.held
        .used::<_, HostError>(&device, |identity| split::split(&device, identity, &sizes))?;
    LetDeviceGo { device } => task.agent.held.let_go(&device);
    Mount { device, point, file_system, options, afresh } =>
        task.agent.held.mount(&device, &point, &file_system, &options, afresh)?;
    Remount { device, point, file_system, options } =>
        task.agent.held.remount(&device, &point, &file_system, &options)?;
    Unmount { point } => task.agent.held.unmount(&point)?;
    AwaitFree { device } => held::await_free(&device)?;
    MakeMountPoint { point } => mount::make_point(&point)?;
    RestrictMount { point } => mount::restrict(&point)?;

    ClockTime => fsage_sys::clock::real_ns();
    ServedDevice => served::device();
    NetworkSent => served::sent()?;
    DiskStat { directory } => VirtualDisk::under(&directory).map(|disk| disk.stat()).transpose()?;
    DiskRest { directory } => VirtualDisk::under(&directory).map_or(Ok(()), |disk| disk.rest())?;
    CompensateDelay { device } => lead::compensate(&device)?;
    EndLayer { name, device } => layer::end(&task.agent.children, &task.agent.held, &name, device)?;
    StopLayer { name, device } => layer::stop(&task.agent.children, &task.agent.held, &name, device)?;
    ForgetCache { device } => task.agent.held.forget_cache(&device)?;
    EndDisk { directory } => {
        task.agent.held.detach_below(&directory);
        disk::end(&task.agent.children, &directory)?;
    };

    Get { path } => setting::get(&path)?;
    Set { path, value } => {
        task.agent.held.check_setting(&path)?;
        setting::set(&path, &value)?
    };
    Restore { path, old, new } => setting::restore(&path, &old, &new)?;
    RemoveFile { file } => file::remove(&file)?;
    MakeDirectory { directory } => file::make_directory(&directory)?;
    RemoveMade { path, directory, made } => file::remove_made(&path, directory, &made)?;
    MemoryGroupPlace { name } => memory_group::place(&name)?;
    RemoveMemoryGroup { path } => memory_group::remove(&path)?;
    DropCaches => cache::drop_caches()?;
    Forget { directory } => cache::forget(&directory, &task.agent.held)?;
    Sync { directory } => cache::sync(&directory)?;
    Usage { directory } => cache::usage(&directory)?;
    DeviceHints { device } => geometry::hints(&device)?;
    WearCounters { device } => {
        task.agent.held.expect(&device)?;
        wear::read(&device, &task.agent.children)?
    };
    SettleDevice { device, directory, quiet_ms } => {
        let quiet = Duration::from_millis(quiet_ms.max(1));
        task.agent.held.used::<_, HostError>(&device, |_| settle::settle(&device, directory.as_deref(), quiet))?
    };
    ReadBoundaries { device, spec } => {
        let mut progress = requests(task, "reads");
        task.agent.with_control(|control| geometry::read_boundaries(&device, &spec, control, &mut progress))?
    };
    ReadableHints { path } => timed_read::hints(&path)?;
    TimeReads { path, spec } => {
        let mut progress = requests(task, "reads");
        task.agent.with_control(|control| timed_read::time(&path, &spec, control, &mut progress))?
    };
    TimeWrites { device, spec } => {
        let mut progress = requests(task, "writes");
        task.agent.with_control(|control| {
            task.agent.held.used::<_, HostError>(&device, |identity| {
                timed_write::time(&device, identity, &spec, control, &mut progress)
            })
        })?
    };
    DeviceBytes { directory } => Device::under(&directory).as_ref().and_then(Device::bytes);
}

/// Tells how many of all requests are done.
fn requests(task: &Task<'_>, unit: &'static str) -> impl FnMut(u64, u64) {
    let (mut sink, started) = (EventSink::of(task), Instant::now());
    move |done, all| {
        let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        sink.progress(done, elapsed_ns, Some(share(done, all)), unit);
    }
}

/// Makes a file, which can take long: sends how far it is, and ends it when that is asked.
fn while_making<T>(
    task: &Task<'_>,
    make: impl FnOnce(loopback::Making<'_>) -> Result<T, HostError>,
) -> Result<T, HostError> {
    let (mut sink, started) = (EventSink::of(task), Instant::now());
    task.agent.with_control(|control| {
        make(&mut |done, size_bytes| {
            let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            sink.progress(done / 4096, elapsed_ns, Some(share(done, size_bytes)), "blocks of zeros");
            !control.is_asked() || control.wait(&|| false)
        })
    })
}

/// The lab compares the versions: it can say what to do about another one.
fn hello(_lab: u32) -> Greeting {
    let Identity { pid, start_ticks } = Identity::own();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Greeting { protocol: PROTOCOL_VERSION, version, pid, start_ticks, boot_id: facts::boot_id() }
}

type Run = fn(&tool::Children, &[String], Option<Duration>) -> Result<ToolOutput, HostError>;

fn run_tool(task: &Task<'_>, run: Run, argv: &[String], timeout_ms: u64) -> Result<ToolOutput, Failure> {
    let limit = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
    let held = &task.agent.held;
    let device = held.device_in(argv)?;
    Ok(held.used_if_held(device.as_deref(), || run(&task.agent.children, argv, limit))?)
}
