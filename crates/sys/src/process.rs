//! Children that do not outlive us.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{
    Resource, Rlimit, Signal, geteuid, getpid, getppid, set_parent_process_death_signal, setrlimit, setsid,
};

/// Leaves the elements of root's `PATH` out that are empty or relative: in a folder of another user's,
/// programs would be run from there, by us and by the scripts that we run. For `main`, before there is a
/// second thread.
pub fn keep_absolute_path() {
    if !geteuid().is_root() {
        return;
    }
    // None at all is looked through like an empty one.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let absolute = absolute_only(&path);
    if absolute != path {
        // SAFETY: no other thread is there yet that could read the environment.
        unsafe { std::env::set_var("PATH", absolute) };
    }
}

/// Where programs of the system are, also where no `PATH` says so: administrators' programs are often not in a
/// user's `PATH`.
pub const SYSTEM_FOLDERS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

fn absolute_only(path: &OsStr) -> OsString {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    // None of them has a colon, having been parted at those.
    match std::env::join_paths(folders) {
        // An empty one would be the working directory.
        Ok(path) if !path.is_empty() => path,
        _ => SYSTEM_FOLDERS.join(":").into(),
    }
}

/// Makes the child die (`SIGKILL`) when the **thread** that starts it ends, however it ends
/// (`PR_SET_PDEATHSIG`). Start such children from a thread that lives as long as they should. A set-user-ID
/// program clears it.
pub fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died between fork and prctl: then nobody sends the signal any more.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: between fork and exec it makes two system calls, and neither allocates nor takes locks.
    unsafe { command.pre_exec(prepare) };
}

/// Lets `SIGINT` end the child also where it is ignored here: a shell without job control starts what stands in the
/// background that way (POSIX.1-2017, Shell, 2.11), and children inherit it.
pub fn stop_at_interrupt(command: &mut Command) {
    let prepare = || {
        // SAFETY: no handler is installed and none replaced: `exec` has put handlers to the default anyhow.
        let before = unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec it makes one system call, and neither allocates nor takes locks.
    unsafe { command.pre_exec(prepare) };
}

/// Gives the child at most `bytes` of memory of its own (`RLIMIT_DATA`, setrlimit(2); mapped files do not count).
pub fn limit_data(command: &mut Command, bytes: u64) {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    let prepare = move || setrlimit(Resource::Data, limit).map_err(io::Error::from);
    // SAFETY: between fork and exec it makes one system call, and neither allocates nor takes locks.
    unsafe { command.pre_exec(prepare) };
}

/// Puts the child into the control group whose `cgroup.procs` this is, open for writing (cgroups(7)): all that it takes of memory from
/// then on is the group's.
pub fn enter_group(command: &mut Command, procs: OwnedFd) {
    // 0 stands for the process that writes.
    let prepare = move || rustix::io::write(&procs, b"0").map(drop).map_err(io::Error::from);
    // SAFETY: between fork and exec it makes one system call, and neither allocates nor takes locks.
    unsafe { command.pre_exec(prepare) };
}

/// Puts the child into a session and process group of its own, so that a terminal's Ctrl-C reaches only us
/// and that a signal to the negative of its pid reaches it with all its children.
pub fn own_session(command: &mut Command) {
    let prepare = || setsid().map(drop).map_err(io::Error::from);
    // SAFETY: between fork and exec it makes one system call, and neither allocates nor takes locks.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::Stdio;

    #[test]
    fn a_path_keeps_its_absolute_elements() {
        let kept = |path: &str| absolute_only(path.as_ref());
        assert_eq!(kept("/usr/bin::.:bin:/bin:"), "/usr/bin:/bin");
        let system = OsString::from("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        assert_eq!((kept(""), kept("bin")), (system.clone(), system));
    }

    #[test]
    fn own_session_leads_a_new_session() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$; cut -d' ' -f6 /proc/self/stat"]).stdout(Stdio::piped());
        own_session(&mut command);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), lines.next());
    }

    #[test]
    fn a_child_heeds_what_its_parent_ignores() {
        let ended = |resets: bool| {
            let mut inner = Command::new("sh");
            inner.args(["-c", "kill -INT $$; echo ignored"]).stdout(Stdio::piped());
            // SAFETY: as above; what this child's parent ignored is what it starts with.
            unsafe {
                inner.pre_exec(|| {
                    if libc::signal(libc::SIGINT, libc::SIG_IGN) == libc::SIG_ERR {
                        Err(io::Error::last_os_error())
                    } else {
                        Ok(())
                    }
                })
            };
            if resets {
                stop_at_interrupt(&mut inner);
            }
            String::from_utf8(inner.output().unwrap().stdout).unwrap()
        };
        assert_eq!(ended(false), "ignored\n");
        assert_eq!(ended(true), "");
    }

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("sh");
            command.args(["-c", "echo started; exec sleep 600"]).stdout(Stdio::piped());
            die_with_parent(&mut command);
            let mut child = command.spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert_eq!(line, "started\n");
            (child, output)
        };
        let (mut child, mut output) = std::thread::spawn(start).join().unwrap();
        // The pipe ends when the last process that could write to it is gone.
        assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(!child.wait().unwrap().success());
    }
}
