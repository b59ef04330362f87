//! A process that reads mutants, so that one which exhausts memory or hangs ends that process and not the
//! test.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};

use super::format;
use super::test_directory::TestDirectory;
use crate::dice::Dice;

/// Address space of a worker: the program itself takes some 100 MiB of it.
const MEMORY_BYTES: u64 = 1 << 30;

/// A mutant that takes longer hangs; a busy machine is slow as well.
const HANGS: Duration = Duration::from_secs(30);

/// What the worker is told: format, first mutant, mutants, seed, folder.
const TASK: &str = "FSAGE_MUTATE";

/// Where it keeps mutants that did what none may.
const KEPT: &str = "FSAGE_MUTANTS_KEPT";

/// Folder beside the workers' own for what mutants write: a small file system.
pub const ROOM: &str = "room";

/// What became of the mutants of a format.
#[derive(Debug, Default)]
pub struct Outcome {
    pub mutants: u64,
    pub accepted: u64,
    pub seconds: f64,
    /// Mutants that did what none may.
    pub faults: Vec<String>,
}

/// The mutants of one format, in processes of their own.
pub fn mutate(test: &str, format: &str, mutants: u64, seed: u64, folder: &Path) -> Outcome {
    let started = Instant::now();
    let mut outcome = Outcome { mutants, ..Outcome::default() };
    let mut first = 0;
    while first < mutants && outcome.faults.len() < 10 {
        let place = folder.join(format!("{format}-{first}"));
        // What mutants write ends with their room; what is kept of them does not.
        let room = folder.join(ROOM);
        std::fs::create_dir(&place).unwrap();
        std::fs::create_dir(room.join("test_directory")).unwrap();
        let mut child = start(test, format, (first, mutants, seed), &place);
        let ended = wait(&mut child, &place);
        let done = std::fs::read_to_string(place.join("faults")).unwrap_or_default();
        outcome.faults.extend(done.lines().map(str::to_owned));
        let begun = place.join("progress").exists();
        let (number, accepted) = progress(&place);
        outcome.accepted += accepted;
        match ended {
            Ok(()) => first = mutants,
            Err(why) if !begun => panic!("{format}: the fixtures cannot be made: {why}"),
            Err(why) => {
                let kept = keep(&place, format, number);
                outcome.faults.push(format!("mutant {number} (kept as {}): {why}", kept.display()));
                first = number + 1;
            }
        }
        std::fs::remove_dir_all(&place).unwrap();
        std::fs::remove_dir_all(room.join("test_directory")).unwrap();
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome
}

fn start(test: &str, format: &str, (first, mutants, seed): (u64, u64, u64), place: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(TASK, format!("{format} {first} {mutants} {seed}")).current_dir(place);
    command.env("FSAGE_RUNTIME_DIR", place.join("runtime")).env("FSAGE_STATE_DIR", place.join("state"));
    command.env(KEPT, std::env::temp_dir());
    // What a mutant is told to look for in the environment is not that of this user.
    command.env("HOME", place).env("TMPDIR", place).env("MALLOC_ARENA_MAX", "2");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(place.join("said")).unwrap());
    fsage_sys::process::die_with_parent(&mut command);
    command.spawn().unwrap()
}

/// Until it ends well; else why not.
fn wait(child: &mut Child, place: &Path) -> Result<(), String> {
    let (mut last, mut since) = (u64::MAX, Instant::now());
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let said = std::fs::read_to_string(place.join("said")).unwrap_or_default();
            let tail: Vec<&str> = said.lines().rev().take(6).collect();
            return if status.success() { Ok(()) } else { Err(format!("{status}, {tail:?}")) };
        }
        let (number, _) = progress(place);
        if number != last {
            (last, since) = (number, Instant::now());
        } else if since.elapsed() > HANGS {
            let threads = threads(child);
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("it took more than {HANGS:?}: {threads}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What the threads of a process do, since the hang may not happen again: name, state, ticks of processor time
/// (`proc_pid_stat(5)`), where the kernel has it wait.
fn threads(child: &Child) -> String {
    let folder = PathBuf::from(format!("/proc/{}/task", child.id()));
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let thread = |task: PathBuf| {
        let stat = read(task.join("stat"));
        let (name, rest) = stat.rsplit_once(") ").unwrap_or_default();
        let fields: Vec<&str> = rest.split(' ').collect();
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or_default();
        let (state, user, system) = (field(3), field(14), field(15));
        format!("{name}) {state} {user} + {system} {}", read(task.join("wchan")))
    };
    let tasks =
        std::fs::read_dir(folder).map(|tasks| tasks.flatten().map(|task| thread(task.path())).collect());
    tasks.map_or_else(|error| error.to_string(), |tasks: Vec<String>| tasks.join("; "))
}

/// Number of the mutant under way, and how many were accepted before.
fn progress(place: &Path) -> (u64, u64) {
    let text = std::fs::read_to_string(place.join("progress")).unwrap_or_default();
    let mut numbers = text.split(' ').filter_map(|number| number.trim().parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Keeps a mutant for anyone who looks into it.
fn keep(place: &Path, format: &str, number: u64) -> PathBuf {
    let folder = std::env::var_os(KEPT).map_or_else(std::env::temp_dir, PathBuf::from);
    // A name that nobody can have taken before.
    let folder = tempfile::Builder::new().prefix("fsage-mutants-").tempdir_in(folder).unwrap().keep();
    let kept = folder.join(format!("{format}-{number}"));
    let _ = std::fs::copy(place.join("mutant"), &kept);
    kept
}

/// Does the work if this process is a worker.
pub fn work() -> bool {
    let Ok(task) = std::env::var(TASK) else { return false };
    let words: Vec<&str> = task.split(' ').collect();
    let [name, numbers @ ..] = words.as_slice() else { panic!("{task}") };
    let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
    let (first, mutants, seed) = (numbers[0], numbers[1], numbers[2]);
    let place = std::env::current_dir().unwrap();
    let test_directory = TestDirectory::new(&place.parent().unwrap().join(ROOM).join("test_directory"));
    let mut format = format(name, &test_directory);
    let limit = Rlimit { current: Some(MEMORY_BYTES), maximum: Some(MEMORY_BYTES) };
    setrlimit(Resource::As, limit).unwrap();
    hear_panics();
    let mut faults = std::fs::File::create(place.join("faults")).unwrap();
    let mut accepted = 0;
    for number in first..mutants {
        // Each by itself, so that one can be had again without those before it.
        let mut dice = Dice(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        let bytes = format.mutant(&mut dice);
        std::fs::write(place.join("mutant"), &bytes).unwrap();
        std::fs::write(place.join("progress"), format!("{number} {accepted}")).unwrap();
        let read = catch_unwind(AssertUnwindSafe(|| format.read(&bytes, &test_directory)));
        test_directory.work();
        let fault = match read {
            Ok(Ok(taken)) => {
                accepted += u64::from(taken);
                test_directory.check().err()
            }
            Ok(Err(fault)) => Some(fault),
            Err(_) => Some(format!("it panicked: {}", last_panic())),
        };
        if let Some(fault) = fault {
            let kept = keep(&place, name, number);
            let line = fault.replace('\n', " ");
            writeln!(faults, "mutant {number} (kept as {}): {line}", kept.display()).unwrap();
            if test_directory.check().is_err() {
                std::process::exit(9);
            }
        }
    }
    std::fs::write(place.join("progress"), format!("{mutants} {accepted}")).unwrap();
    true
}

static PANIC: Mutex<String> = Mutex::new(String::new());

/// Readers may turn a library's panic into an error; only those that come through count.
fn hear_panics() {
    std::panic::set_hook(Box::new(|panic| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
}

fn last_panic() -> String {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
