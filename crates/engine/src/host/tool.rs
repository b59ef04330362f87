//! External programs: looking them up and running them.
//!
//! A program runs in a process group of its own within the agent's session, dies with the agent
//! (`PR_SET_PDEATHSIG`), and carries the agent's identity in its environment, so that even its
//! grandchildren can be found after `kill -9` of the agent. When it ends, its whole group is ended.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::HostError;
use super::process::{self, Identity, MARKER};
use fsage_model::protocol::ToolOutput;

/// Output kept of each stream, from its end.
const TAIL_BYTES: usize = 64 << 10;

/// How long what a program leaves in its group may take to get a session of its own. `daemon(3)` ends the
/// program first and only then, in its child, calls setsid(2): who killed the group between the two would
/// kill a FUSE server that has just mounted.
const DAEMONS_LEAVE: Duration = Duration::from_millis(500);

/// The socket of udev, where it runs.
const UDEV: &str = "/run/udev/control";

/// Has libdevmapper make the nodes of its devices itself, and not wait for udev.
const NO_UDEV: (&str, &str) = ("DM_DISABLE_UDEV", "1");

/// How long a program is run again that failed because of something on the host that passes. Who really stops it
/// for good (a dead FUSE server whose mount stays) does so for longer.
const PASSES: Duration = Duration::from_secs(2);

/// The agent's running children. Once it is ending, none is started any more.
#[derive(Debug, Default)]
pub struct Children {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ending: bool,
    running: Vec<Pid>,
}

impl Children {
    /// Kills every running child with its group and lets no other start.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ending = true;
        for &group in &state.running {
            // A child is listed until it is reaped, so that its number cannot mean another.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a child that is listed until it is reaped. It must lead a group of its own.
    pub(super) fn start(&self, command: &mut Command) -> Result<(Child, Pid), HostError> {
        let mut state = self.lock();
        if state.ending {
            return Err(HostError::Ending);
        }
        let program = PathBuf::from(command.get_program());
        let child = command.spawn().map_err(|source| HostError::Start { path: program, source })?;
        let pid = Pid::from_child(&child);
        state.running.push(pid);
        Ok((child, pid))
    }

    /// Waits for a child that has ended or was killed, ends what it left in its group, and lists it no more.
    pub(super) fn reap(&self, child: &mut Child, pid: Pid) -> std::io::Result<Option<i32>> {
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        let mut state = self.lock();
        let _ = kill_process_group(pid, Signal::KILL);
        state.running.retain(|&other| other != pid);
        let status = child.wait()?;
        Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)))
    }

    /// Waits until the child has ended, ends what it left in its group and reaps it. `None`: time was up.
    fn wait(&self, child: &mut Child, pid: Pid, limit: Option<Duration>) -> std::io::Result<Option<i32>> {
        self.wait_with(child, pid, limit, &mut || {})
    }

    /// The same, where something is done each time that it still runs.
    fn wait_with(
        &self,
        child: &mut Child,
        pid: Pid,
        limit: Option<Duration>,
        each: &mut dyn FnMut(),
    ) -> std::io::Result<Option<i32>> {
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        let mut timed_out = false;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), options)?.is_none() {
            if !timed_out && limit.is_some_and(|limit| started.elapsed() >= limit) {
                timed_out = true;
                let _ = kill_process_group(pid, Signal::KILL);
            }
            std::thread::sleep(pause);
            each();
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        if !timed_out {
            let_daemons_leave(pid);
        }
        let mut state = self.lock();
        let _ = kill_process_group(pid, Signal::KILL);
        state.running.retain(|&other| other != pid);
        let status = child.wait()?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Ok(if timed_out { None } else { code })
    }
}

/// Waits while an ended program's group has others in it, but not long.
fn let_daemons_leave(group: Pid) {
    let started = Instant::now();
    while started.elapsed() < DAEMONS_LEAVE
        && process::has_followers(group.as_raw_nonzero().get().unsigned_abs())
    {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Programs of ours: they lie beside this one, or where cargo puts them for a test, and may be nowhere in
/// `PATH`.
const OURS: &str = "fsage-";

/// Where the programs that come with `executable` are: beside it; for a test, which cargo puts in a folder
/// `deps`, one folder up, too.
#[must_use]
pub fn own_folders(executable: &Path) -> Vec<PathBuf> {
    let Some(folder) = executable.parent() else { return Vec::new() };
    let above = folder.parent().filter(|_| folder.ends_with("deps"));
    [Some(folder), above].into_iter().flatten().map(Path::to_owned).collect()
}

/// The full path of a program: as given when it has a slash, else from `PATH` and the system's folders; one
/// of ours first from beside this program, so that all are of one version.
#[must_use]
pub fn look_up(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let own = std::env::current_exe().ok().filter(|_| program.starts_with(OURS));
    let beside = own.iter().flat_map(|own| own_folders(own));
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .chain(std::env::split_paths(&path))
        .chain(fsage_sys::process::SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Runs a program to its end, or for `limit` (`None`: as long as it takes). Its standard input is empty.
/// Must be called from a thread that lives at least as long as the program: it dies with the thread.
///
/// It is started again, for up to two seconds, when it failed only because another volume of this host went away
/// at that moment (`met_a_change_of_mounts`); `elapsed_ns` is of the last run.
///
/// # Errors
/// It is not installed, cannot be started, or did not end in time. A non-zero status is not an error.
pub fn run(children: &Children, argv: &[String], limit: Option<Duration>) -> Result<ToolOutput, HostError> {
    let started = Instant::now();
    loop {
        let output = run_marked(children, argv, limit, true)?;
        if !met_a_change_of_mounts(&output) || started.elapsed() >= PASSES {
            return Ok(output);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a program of btrfs-progs gave up because it could not tell whether its device is mounted. Before they touch
/// anything they ask for the backing file of every mounted loop device (`is_same_loop_file`), and fail, before anything
/// is written, when one of them is detached or its FUSE server ends meanwhile.
fn met_a_change_of_mounts(output: &ToolOutput) -> bool {
    output.status != 0 && output.stderr.contains("check mount status")
}

/// As [`run`], where what the program leaves in the background, in a session of its own, is to outlive this
/// agent: it does not carry the agent's identity.
///
/// # Errors
/// As [`run`].
pub fn start_server(
    children: &Children,
    argv: &[String],
    limit: Option<Duration>,
) -> Result<ToolOutput, HostError> {
    run_marked(children, argv, limit, false)
}

fn run_marked(
    children: &Children,
    argv: &[String],
    limit: Option<Duration>,
    marked: bool,
) -> Result<ToolOutput, HostError> {
    let (mut command, path) = prepared(argv)?;
    if marked {
        command.env(MARKER, Identity::own().to_string());
    }
    if !Path::new(UDEV).exists() {
        command.env(NO_UDEV.0, NO_UDEV.1);
    }
    let started = Instant::now();
    let (mut child, pid) = children.start(&mut command)?;
    let stdout = child.stdout.take().map(Tail::of);
    let stderr = child.stderr.take().map(Tail::of);
    let status = children.wait(&mut child, pid, limit).map_err(HostError::file("wait for", &path))?;
    let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let stdout = stdout.map(Tail::text).unwrap_or_default();
    let stderr = stderr.map(Tail::text).unwrap_or_default();
    let Some(status) = status else {
        let argv = argv.join(" ");
        let seconds = started.elapsed().as_secs_f64();
        return Err(HostError::TimedOut { argv, seconds, stderr: stderr.trim().to_owned() });
    };
    let mut full = vec![path.display().to_string()];
    full.extend_from_slice(argv.get(1..).unwrap_or_default());
    Ok(ToolOutput { argv: full, status, stdout, stderr, elapsed_ns })
}

/// The command of `argv`, and where its program is.
fn prepared(argv: &[String]) -> Result<(Command, PathBuf), HostError> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(HostError::Senseless { what: "an empty command line".to_owned() });
    };
    let path = look_up(program).ok_or_else(|| HostError::NoProgram { program: program.clone() })?;
    let mut command = Command::new(&path);
    command
        .args(arguments)
        .env("LC_ALL", "C")
        .env_remove(MARKER)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if program == "fio" {
        // A file `fio-dump-status` there of any user makes it print what it has so far. Nobody makes files in /sys.
        command.env("TMPDIR", "/sys").env("TEMP", "/sys");
    }
    fsage_sys::process::stop_at_interrupt(&mut command);
    fsage_sys::process::die_with_parent(&mut command);
    Ok((command, path))
}

/// What a running program is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Continue.
    Continue,
    /// End in its own way (SIGINT).
    Interrupt,
    /// End at once.
    Kill,
}

/// What a program that was watched left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Exit status; 128 + n when it died of signal n.
    pub status: i32,
    /// Whether it was asked to end while it ran.
    pub interrupted: bool,
    /// The end of its standard error.
    pub stderr: String,
    /// Wall time.
    pub elapsed_ns: u64,
}

/// As [`run`], for a program whose output is read while it runs: `watch` gets what it wrote to standard output
/// since the last time, every few milliseconds, and says what it is to do.
///
/// It runs in the control group whose `cgroup.procs` is `group`, where one is given.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    children: &Children,
    (argv, group): (&[String], Option<OwnedFd>),
    limit: Duration,
    watch: &mut dyn FnMut(&[u8]) -> Course,
) -> Result<Watched, HostError> {
    let (mut command, path) = prepared(argv)?;
    command.env(MARKER, Identity::own().to_string());
    if let Some(group) = group {
        fsage_sys::process::enter_group(&mut command, group);
    }
    let started = Instant::now();
    let (mut child, pid) = children.start(&mut command)?;
    let stdout = child.stdout.take().map(|stream| Tail::keeping(stream, usize::MAX / 4));
    let stderr = child.stderr.take().map(Tail::of);
    let mut asked = false;
    let mut each = || {
        let new = stdout.as_ref().map(Tail::take).unwrap_or_default();
        match watch(&new) {
            Course::Interrupt if !asked => {
                asked = true;
                let _ = kill_process_group(pid, Signal::INT);
            }
            Course::Kill => {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            Course::Interrupt | Course::Continue => {}
        }
    };
    let ended = children.wait_with(&mut child, pid, Some(limit), &mut each);
    let status = ended.map_err(HostError::file("wait for", &path))?;
    let elapsed = started.elapsed();
    let stderr = stderr.map(Tail::text).unwrap_or_default();
    let Some(status) = status else {
        let (argv, seconds) = (argv.join(" "), elapsed.as_secs_f64());
        return Err(HostError::TimedOut { argv, seconds, stderr: stderr.trim().to_owned() });
    };
    // What came between the last look and the end.
    if let Some(stdout) = stdout {
        stdout.wait();
        watch(&stdout.take());
    }
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    Ok(Watched { status, interrupted: asked, stderr, elapsed_ns })
}

/// The end of a stream, read by a thread of its own so that the program never waits for us.
struct Tail {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Tail {
    fn of(stream: impl Read + Send + 'static) -> Self {
        Self::keeping(stream, TAIL_BYTES)
    }

    fn keeping(mut stream: impl Read + Send + 'static, most: usize) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (end, ended) = mpsc::channel();
        let kept = Arc::clone(&bytes);
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count) = stream.read(&mut buffer)
                && count > 0
            {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(buffer.get(..count).unwrap_or_default());
                if kept.len() > 2 * most {
                    let cut = kept.len() - most;
                    kept.drain(..cut);
                }
            }
            // Nobody waits for it any more when the program left someone who holds the stream open.
            let _ = end.send(());
        });
        Self { bytes, ended }
    }

    /// What came since the last time.
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for its end: the program and its group are gone, and only a process that left the group can keep the
    /// stream open.
    fn wait(&self) {
        let _ = self.ended.recv_timeout(Duration::from_millis(500));
    }

    fn text(self) -> String {
        self.wait();
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let start = bytes.len().saturating_sub(TAIL_BYTES);
        String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[test]
    fn output_and_status_come_back() {
        let children = Children::default();
        let output = run(&children, &shell("echo out; echo err >&2; exit 3"), None).unwrap();
        assert_eq!((output.status, output.stdout.as_str(), output.stderr.as_str()), (3, "out\n", "err\n"));
        let killed = run(&children, &shell("kill -9 $$"), None).unwrap();
        assert_eq!(killed.status, 137);
    }

    #[test]
    fn a_program_that_is_watched_is_read_to_its_end_and_ends_as_it_is_told() {
        let mut seen = Vec::new();
        let mut watch = |bytes: &[u8]| {
            seen.extend_from_slice(bytes);
            if seen.ends_with(b"ready\n") { Course::Interrupt } else { Course::Continue }
        };
        let script = "trap 'echo asked; exit 7' INT; seq 50000; echo ready; while :; do sleep 0.01; done";
        let limit = Duration::from_secs(60);
        let ended = run_watched(&Children::default(), (&shell(script), None), limit, &mut watch).unwrap();
        assert_eq!(ended.status, 7);
        let text = String::from_utf8(seen).unwrap();
        assert!(text.starts_with("1\n2\n") && text.ends_with("50000\nready\nasked\n"), "{}", text.len());
        let killed =
            run_watched(&Children::default(), (&shell("sleep 600"), None), limit, &mut |_| Course::Kill)
                .unwrap();
        assert_eq!(killed.status, 137);
    }

    #[test]
    fn what_met_a_change_of_mounts_is_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        // Fails so often, and says why, then ends well.
        let script = |failures: u32, why: &str| {
            let count = count.display();
            shell(&format!(
                "echo >> {count}; [ $(wc -l < {count}) -gt {failures} ] || {{ echo 'ERROR: {why}' >&2; exit 1; }}"
            ))
        };
        let passing = "cannot check mount status of /dev/loop6: Operation canceled";
        assert_eq!(run(&Children::default(), &script(2, passing), None).unwrap().status, 0);
        std::fs::write(&count, "").unwrap();
        assert_eq!(run(&Children::default(), &script(1, "/dev/loop6 is mounted"), None).unwrap().status, 1);
        std::fs::write(&count, "").unwrap();
        let lasting = run(&Children::default(), &script(u32::MAX, passing), None).unwrap();
        assert!(lasting.status == 1 && lasting.stderr.contains(passing), "{lasting:?}");
    }

    #[test]
    fn only_the_end_of_long_output_is_kept() {
        let output = run(&Children::default(), &shell("seq 200000"), None).unwrap();
        assert_eq!(output.stdout.len(), TAIL_BYTES);
        assert!(output.stdout.ends_with("199999\n200000\n"));
    }

    #[test]
    fn a_slow_program_is_killed_with_its_children() {
        let started = Instant::now();
        let script = "echo tired >&2; sleep 600 & sleep 600";
        let error = run(&Children::default(), &shell(script), Some(Duration::from_millis(50))).unwrap_err();
        assert!(matches!(&error, HostError::TimedOut { stderr, .. } if stderr == "tired"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_daemon_that_is_slow_to_leave_stays() {
        let script = "(sleep 0.1; exec setsid sleep 600) >&- 2>&- & echo $!";
        let output = run(&Children::default(), &shell(script), None).unwrap();
        let pid: u32 = output.stdout.trim().parse().unwrap();
        assert!(process::is_alive(pid));
        let daemon = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(daemon, Signal::KILL).unwrap();
    }

    #[test]
    fn what_a_program_leaves_behind_is_ended() {
        let output = run(&Children::default(), &shell("sleep 600 >&- 2>&- & echo $!"), None).unwrap();
        let pid: u32 = output.stdout.trim().parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while process::is_alive(pid) {
            assert!(Instant::now() < deadline, "process {pid} is still there");
            std::thread::yield_now();
        }
    }

    #[test]
    fn only_a_server_does_not_carry_the_agent() {
        let children = Children::default();
        let script = shell(&format!("echo ${{{MARKER}-none}}"));
        assert_eq!(run(&children, &script, None).unwrap().stdout.trim(), Identity::own().to_string());
        assert_eq!(start_server(&children, &script, None).unwrap().stdout.trim(), "none");
    }

    #[test]
    fn ending_kills_and_starts_nothing_more() {
        let children = Arc::new(Children::default());
        let (running, ready) = (Arc::clone(&children), Arc::clone(&children));
        let runner = std::thread::spawn(move || run(&running, &shell("sleep 600"), None));
        while ready.lock().running.is_empty() {
            std::thread::yield_now();
        }
        children.end();
        assert_eq!(runner.join().unwrap().unwrap().status, 137);
        assert!(matches!(run(&children, &shell("true"), None), Err(HostError::Ending)));
    }

    #[test]
    fn programs_are_looked_up() {
        assert!(look_up("sh").is_some());
        assert!(look_up("/bin/sh").is_some());
        assert!(look_up("no-such-program-anywhere").is_none());
        let missing = run(&Children::default(), &["no-such-program".to_owned()], None);
        assert!(matches!(missing, Err(HostError::NoProgram { .. })));
    }

    #[test]
    fn only_tests_look_above_their_own_folder() {
        let folders = |path: &str| own_folders(Path::new(path));
        assert_eq!(folders("/usr/bin/fsage"), [Path::new("/usr/bin")]);
        assert_eq!(folders("/a/debug/deps/test-1"), [Path::new("/a/debug/deps"), Path::new("/a/debug")]);
        assert_eq!(folders("/a/mydeps/fsage"), [Path::new("/a/mydeps")]);
    }
}
