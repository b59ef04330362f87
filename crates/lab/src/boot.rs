//! The first process of a guest: mounts, loads modules, and serves trials on the serial port.

mod member;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use fsage_model::escape;
use fsage_model::memory::CONTROL_GROUPS;
use fsage_sys::entropy;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};

use crate::guest::sharing::Member;
use crate::guest::{BATCH, GuestError, MEMBER, MODULES_FOLDER, PORT};
use crate::run::{RunError, RunEvent, RunObserver, batch, serve_after};
use crate::target::{guest, waking};

/// File systems of the kernel's own: type and place.
const MOUNTS: [(&str, &str); 8] = [
    ("devtmpfs", "/dev"),
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/var/tmp"),
    ("tracefs", "/sys/kernel/tracing"),
    ("cgroup2", CONTROL_GROUPS),
];

/// Where trials work.
const PLACE: &str = "/var/tmp/fsage-target-guest";

/// Boots: mounts, loads the modules that were packed, and does trials until the host has no more. Then the machine is
/// switched off; it does not return but with an error. What fails is written to the kernel's log before, or, where there is none, given to `say`: the
/// console is the only place that the host reads then.
///
/// # Errors
/// A module cannot be loaded, or there is no serial port. The machine is switched off then, too.
pub fn boot(say: &dyn Fn(&GuestError)) -> Result<(), GuestError> {
    if rustix::process::getpid() != rustix::process::Pid::INIT {
        let source =
            io::Error::other("it runs only as the first process of a guest, and this is not a guest");
        return Err(GuestError::Boot { what: "boot".to_owned(), source });
    }
    let outcome = work();
    if let Err(error) = &outcome
        && log(error).is_err()
    {
        say(error);
    }
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff)
        .or_else(|_| reboot(RebootCommand::Restart))
        .map_err(|error| failed("end", error))?;
    outcome
}

/// Writes an error to the kernel's log, which reaches the console also where the serial line has no interrupts, and before the machine is off.
fn log(error: &GuestError) -> io::Result<()> {
    let text = fsage_model::cause::in_one_line(error);
    // Of errors: `quiet` leaves those.
    let line = format!("<3>fsage: {}\n", escape::line(&text));
    File::options().write(true).open("/dev/kmsg")?.write_all(line.as_bytes())
}

fn failed(what: &str, source: impl Into<io::Error>) -> GuestError {
    GuestError::Boot { what: what.to_owned(), source: source.into() }
}

fn work() -> Result<(), GuestError> {
    for (kind, place) in MOUNTS {
        let mounted = mount(kind, place, kind, MountFlags::empty(), None);
        // Older kernels have no tracefs of its own, some mount devtmpfs by themselves, and not all have control groups.
        if let Err(error) = mounted
            && !matches!(kind, "tracefs" | "devtmpfs" | "cgroup2")
        {
            return Err(failed(&format!("mount {place}"), error));
        }
    }
    // Only what limits memory needs it, and says so where it is missing.
    let _ = std::fs::write(Path::new(CONTROL_GROUPS).join("cgroup.subtree_control"), "+memory");
    std::fs::DirBuilder::new().mode(0o700).create(PLACE).map_err(|error| failed("make a folder", error))?;
    let place = Path::new(PLACE);
    let trials =
        |error: RunError| failed("do trials", io::Error::other(fsage_model::cause::in_one_line(&error)));
    let done = match std::fs::read(BATCH) {
        Ok(bytes) => {
            // Not the port yet, so that nothing of the host's interrupts the trial.
            load(|name| !name.contains("virtio"))?;
            // Its processor has no random numbers, and where each run is the same, waiting for chance is for ever.
            let random = File::options().write(true).open("/dev/random");
            let random = random.map_err(|error| failed("open /dev/random", error))?;
            entropy::seed(random.as_fd(), [42; entropy::SEED])
                .map_err(|error| failed("seed random numbers", io::Error::other(error.to_string())))?;
            Some(batch(place, &bytes, &mut Console).map_err(trials)?)
        }
        Err(_) => None,
    };
    load(|_| true)?;
    let member: Option<Member> = match std::fs::read(MEMBER) {
        Ok(bytes) => {
            Some(serde_json::from_slice(&bytes).map_err(|error| failed("read which guest this is", error))?)
        }
        Err(_) => None,
    };
    if let Some(member) = member {
        member::join(&member).map_err(|error| failed("join the cluster", error))?;
        member::ask_host().map_err(|error| failed("ask the host's disk", error))?;
        if member.number > 0 {
            return member::lend().map_err(|error| failed("lend the agent", error));
        }
    }
    let port = guest::port(PORT).map_err(|error| failed("find the serial port", error))?;
    let input =
        File::options().read(true).write(true).open(&port).map_err(|error| failed("open the port", error))?;
    // A port can be opened once.
    let mut output = input.try_clone().map(BufWriter::new).map_err(|error| failed("use the port", error))?;
    let mut input = BufReader::with_capacity(256 << 10, input);
    // One that has its trial, or a place among others, never starts from a saved state.
    if done.is_none() && member.is_none() {
        waking::wait(&mut input, &mut output).map_err(|error| failed("wait for the host", error))?;
    }
    serve_after(place, input, Box::new(output), done).map_err(trials)
}

/// Writes the steps of a trial to the kernel's console, which waits for each byte: it takes as many instructions each time.
struct Console;

impl RunObserver for Console {
    fn event(&mut self, event: RunEvent) {
        let line = match event {
            RunEvent::Step { name, detail } => format!("fsage: {name} {detail}"),
            RunEvent::Note { text } => format!("fsage: {text}"),
            _ => return,
        };
        // Only who looks for why a guest hangs reads it.
        let console = File::options().write(true).open("/dev/console");
        let _ = console.and_then(|mut console| writeln!(console, "{}", escape::line(line.trim_end())));
    }
}

/// Loads the modules that `is_wanted` names, in the order of their names.
fn load(is_wanted: impl Fn(&str) -> bool) -> Result<(), GuestError> {
    let read = |error| failed("read the modules", error);
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(MODULES_FOLDER).map_err(read)? {
        let entry = entry.map_err(read)?;
        if is_wanted(&entry.file_name().to_string_lossy()) {
            files.push(entry.path());
        }
    }
    files.sort();
    for path in files {
        let file = File::open(&path).map_err(read)?;
        match finit_module(&file, c"", 0) {
            // Loaded, or part of the kernel.
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            // Made for a processor that this one is not: a slower one does its work.
            Err(rustix::io::Errno::NODEV) => {}
            Err(error) => return Err(failed(&format!("load {}", path.display()), error)),
        }
    }
    Ok(())
}
