//! What each system call is in our operations.

use super::line::{Call, annotation, text};
use super::process::{Processes, Shares, What};
use crate::import::map::{Mapper, OpenFlags, Reason, Target};
use crate::import::path::join;

const NOT_FOLLOWED: Reason = "descriptor of no file that is known (pipe, socket, terminal, inherited)";
const BAD_PATH: Reason = "path that strace does not show whole";

/// Whether the text begins a call that makes a process, and what that shares.
pub fn begins_process(text: &str) -> Option<Shares> {
    let (name, arguments) = text.split_once('(')?;
    makes_process(name).then(|| shares(arguments))
}

fn makes_process(name: &str) -> bool {
    matches!(name, "clone" | "clone3" | "fork" | "vfork")
}

fn shares(arguments: &str) -> Shares {
    Shares { files: arguments.contains("CLONE_FILES"), cwd: arguments.contains("CLONE_FS") }
}

/// One call on its way into the mapper.
struct Act<'a, 'm> {
    processes: &'a mut Processes,
    pid: u32,
    call: &'a Call<'a>,
    mapper: &'a mut Mapper<'m>,
    result: i64,
}

/// Follows a call. What it is in no row for is counted; an argument that is invalid is an error.
pub fn apply(
    processes: &mut Processes,
    pid: u32,
    call: &Call<'_>,
    mapper: &mut Mapper<'_>,
) -> Result<(), String> {
    let Some(result) = call.result else {
        mapper.left_out("call without a result");
        return Ok(());
    };
    let is_map = call.name == "mmap";
    if result < 0 && !is_map {
        mapper.left_out("failed when recorded");
        return Ok(());
    }
    let mut act = Act { processes, pid, call, mapper, result };
    match act.apply() {
        Ok(()) => Ok(()),
        Err(CallError::Reason(reason)) => {
            act.mapper.left_out(reason);
            Ok(())
        }
        Err(CallError::Malformed(what)) => Err(format!("{}: {what}", call.name)),
    }
}

/// Why a call is not followed.
enum CallError {
    Reason(Reason),
    Malformed(String),
}

impl From<Reason> for CallError {
    fn from(reason: Reason) -> Self {
        Self::Reason(reason)
    }
}

type Followed = Result<(), CallError>;

impl Act<'_, '_> {
    fn apply(&mut self) -> Followed {
        match self.call.name {
            "open" | "openat" | "openat2" | "creat" => self.open(),
            "read" | "readv" | "pread64" | "preadv" | "preadv2" | "pread" => self.transfer(false),
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "pwrite" => self.transfer(true),
            "close" | "close_range" | "dup" | "dup2" | "dup3" | "fcntl" | "lseek" | "_llseek" => {
                self.descriptor()
            }
            "clone" | "clone3" | "fork" | "vfork" => self.make_process(),
            "chdir" => {
                let path = self.text_at(0)?;
                self.processes.change_directory(self.pid, &path);
                Ok(())
            }
            "fchdir" => {
                if let What::Directory(path) = self.what(0)? {
                    self.processes.change_directory(self.pid, &path);
                }
                Ok(())
            }
            "unlink" | "unlinkat" | "rmdir" | "mkdir" | "mkdirat" | "rename" | "renameat" | "renameat2"
            | "link" | "linkat" | "symlink" | "symlinkat" | "truncate" => self.name(),
            "ftruncate" => {
                let size = self.number(1)?;
                let file = self.file(0)?;
                Ok(self.mapper.truncate(file, size)?)
            }
            "fallocate" => self.allocate(),
            "fsync" => self.sync(false),
            "fdatasync" => self.sync(true),
            "copy_file_range" | "sendfile" => self.copy(),
            "fstat" | "stat" | "lstat" | "newfstatat" | "statx" | "fstat64" | "stat64" => self.stat(),
            other => Err(unmapped(other, self.call).into()),
        }
    }

    fn argument(&self, place: usize) -> Result<&str, CallError> {
        let found = self.call.arguments.get(place).copied();
        found.ok_or_else(|| CallError::Malformed(format!("argument {} is missing", place + 1)))
    }

    fn number(&self, place: usize) -> Result<u64, CallError> {
        let argument = self.argument(place)?;
        number(argument).ok_or_else(|| CallError::Malformed(format!("`{argument}` is not a number")))
    }

    fn text_at(&self, place: usize) -> Result<Vec<u8>, CallError> {
        Ok(text(self.argument(place)?).ok_or(BAD_PATH)?)
    }

    /// A path of the argument, seen from the directory descriptor before it or the working directory.
    fn path(&mut self, directory: Option<usize>, place: usize) -> Result<Vec<u8>, CallError> {
        let path = self.text_at(place)?;
        if path.starts_with(b"/") {
            return Ok(path);
        }
        let from = match directory {
            None => self.processes.cwd(self.pid),
            Some(directory) => self.directory(directory)?,
        };
        Ok(join(&from, &path))
    }

    fn directory(&mut self, place: usize) -> Result<Vec<u8>, CallError> {
        let argument = self.argument(place)?.to_owned();
        if let Some(rest) = argument.strip_prefix("AT_FDCWD") {
            if let Some(path) = annotation(rest) {
                self.processes.learn_cwd(self.pid, path);
                return Ok(path.as_bytes().to_vec());
            }
            return Ok(self.processes.cwd(self.pid));
        }
        match self.what(place)? {
            What::Directory(path) => Ok(path),
            // A file opened without saying that it is a directory: -y tells its path.
            What::File(_) | What::Other(_) => {
                let path = argument.find('<').and_then(|at| annotation(&argument[at..]));
                Ok(path
                    .map(|path| path.as_bytes().to_vec())
                    .ok_or("path from a descriptor of no known directory")?)
            }
        }
    }

    fn descriptor_at(&self, place: usize) -> Result<i32, CallError> {
        let argument = self.argument(place)?;
        let digits = argument.split('<').next().unwrap_or_default();
        digits.parse().map_err(|_| CallError::Malformed(format!("`{argument}` is not a descriptor")))
    }

    /// What the descriptor of an argument leads to.
    fn what(&mut self, place: usize) -> Result<What, CallError> {
        let descriptor = self.descriptor_at(place)?;
        if self.processes.description(self.pid, descriptor).is_none() {
            let argument = self.argument(place)?.to_owned();
            let Some(path) = argument.find('<').and_then(|at| annotation(&argument[at..])) else {
                return Err(NOT_FOLLOWED.into());
            };
            self.processes.adopt(self.pid, descriptor, path, self.mapper);
        }
        let found = self.processes.description(self.pid, descriptor);
        Ok(found.map(|description| description.what.clone()).ok_or(NOT_FOLLOWED)?)
    }

    fn file(&mut self, place: usize) -> Result<u32, CallError> {
        match self.what(place)? {
            What::File(file) => Ok(file),
            What::Directory(_) => Err("file operation on a directory".into()),
            What::Other(reason) => Err(reason.into()),
        }
    }

    fn open(&mut self) -> Followed {
        let (directory, place) = if self.call.name.starts_with("openat") { (Some(0), 1) } else { (None, 0) };
        let flags = if self.call.name == "creat" {
            "O_WRONLY|O_CREAT|O_TRUNC".to_owned()
        } else {
            self.argument(place + 1)?.to_owned()
        };
        let has =
            |flag: &str| flags.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|one| one == flag);
        let descriptor =
            i32::try_from(self.result).map_err(|_| CallError::Malformed("no descriptor".to_owned()))?;
        let path = self.path(directory, place)?;
        // Where links lead is shown by -y.
        let path = self.call.path.map_or(path, |path| path.as_bytes().to_vec());
        let opened = if has("O_TMPFILE") {
            Err("file without a name (O_TMPFILE)")
        } else {
            let flags = OpenFlags {
                create: has("O_CREAT"),
                exclusive: has("O_EXCL"),
                truncate: has("O_TRUNC"),
                directory: has("O_DIRECTORY"),
                no_follow: has("O_NOFOLLOW"),
            };
            self.mapper.open(&path, flags)
        };
        let what = match opened {
            Ok(Target::File(file)) => What::File(file),
            Ok(Target::Directory) => What::Directory(path),
            Err(reason) => What::Other(reason),
        };
        self.processes.open(self.pid, descriptor, what.clone(), has("O_APPEND"), self.mapper);
        if !matches!(what, What::File(_)) {
            return match what {
                What::Other(reason) => Err(reason.into()),
                _ => Ok(()),
            };
        }
        if has("O_DIRECT") {
            self.mapper.changed("direct I/O (O_DIRECT): replayed as the trace's mode says");
        }
        if has("O_SYNC") || has("O_DSYNC") {
            self.mapper.changed("synchronous writes (O_SYNC, O_DSYNC): replayed without");
        }
        Ok(())
    }

    /// Reads and writes, at the descriptor's position or at one of their own.
    fn transfer(&mut self, writes: bool) -> Followed {
        let file = self.file(0)?;
        let length = self.result.unsigned_abs();
        let own = match self.call.name {
            "pread64" | "pread" | "pwrite64" | "pwrite" | "preadv" | "pwritev" => Some(self.number(3)?),
            // -1: at the position.
            "preadv2" | "pwritev2" => number(self.argument(3)?),
            _ => None,
        };
        let descriptor = self.descriptor_at(0)?;
        self.move_data(descriptor, file, own, length, writes)
    }

    fn move_data(
        &mut self,
        descriptor: i32,
        file: u32,
        own: Option<u64>,
        length: u64,
        writes: bool,
    ) -> Followed {
        let Some(description) = self.processes.description(self.pid, descriptor) else {
            return Err(NOT_FOLLOWED.into());
        };
        let at = own.unwrap_or(description.position);
        let appends = writes && description.append;
        if own.is_none() && !appends {
            description.position = at.saturating_add(length);
        }
        if appends {
            let end = self.mapper.append(file, length)?;
            if let Some(description) =
                self.processes.description(self.pid, descriptor).filter(|_| own.is_none())
            {
                description.position = end;
            }
            return Ok(());
        }
        let moved =
            if writes { self.mapper.write(file, at, length) } else { self.mapper.read(file, at, length) };
        Ok(moved?)
    }

    /// Data from one file to another within the kernel.
    fn copy(&mut self) -> Followed {
        let length = self.result.unsigned_abs();
        let (from, from_at, to, to_at) = if self.call.name == "sendfile" {
            (1, self.bracketed(2), 0, None)
        } else {
            (0, self.bracketed(1), 2, self.bracketed(3))
        };
        if length == 0 {
            return Err("read at the end of a file".into());
        }
        let source = self.file(from).and_then(|file| Ok((self.descriptor_at(from)?, file)));
        let target = self.file(to).and_then(|file| Ok((self.descriptor_at(to)?, file)));
        if let Ok((descriptor, file)) = source {
            self.move_data(descriptor, file, from_at, length, false)?;
        }
        let (descriptor, file) = target?;
        self.mapper.changed("copy within the kernel: read and written");
        self.move_data(descriptor, file, to_at, length, true)
    }

    /// The number in `[5]` or `[5] => [10]`.
    fn bracketed(&self, place: usize) -> Option<u64> {
        let inner = self.argument(place).ok()?.strip_prefix('[')?;
        number(inner.split([']', ' ']).next()?)
    }

    fn descriptor(&mut self) -> Followed {
        let descriptor = self.descriptor_at(0)?;
        let other = i32::try_from(self.result).unwrap_or(-1);
        match self.call.name {
            "close" => self.processes.close(self.pid, descriptor, self.mapper),
            "close_range" => {
                let last = self.number(1).ok().and_then(|last| i32::try_from(last).ok()).unwrap_or(i32::MAX);
                self.processes.close_range(self.pid, descriptor, last, self.mapper);
            }
            "dup" | "dup2" | "dup3" => self.duplicate(descriptor, other)?,
            "fcntl" => {
                if self.argument(1)?.starts_with("F_DUPFD") {
                    self.duplicate(descriptor, other)?;
                }
            }
            // The new position is the result; _llseek's is in its third argument.
            _ => {
                let file = self.file(0)?;
                if self.call.arguments.get(1..3) == Some(&["0", "SEEK_END"]) {
                    self.mapper.seen_size(file, self.result.unsigned_abs());
                }
                let position = match self.call.name {
                    "_llseek" => self.bracketed(2).unwrap_or(0),
                    _ => self.result.unsigned_abs(),
                };
                if let Some(description) = self.processes.description(self.pid, descriptor) {
                    description.position = position;
                }
            }
        }
        Ok(())
    }

    fn duplicate(&mut self, from: i32, to: i32) -> Followed {
        // With -y even what was open before is known.
        let _ = self.what(0);
        self.processes.duplicate(self.pid, from, to, self.mapper);
        Ok(())
    }

    fn make_process(&mut self) -> Followed {
        let child = u32::try_from(self.result).unwrap_or(0);
        let shares = shares(&self.call.arguments.join(","));
        self.processes.add_child(self.pid, child, shares);
        Ok(())
    }

    fn name(&mut self) -> Followed {
        match self.call.name {
            "unlink" => {
                let path = self.path(None, 0)?;
                self.mapper.unlink(&path)?;
            }
            "unlinkat" => {
                let path = self.path(Some(0), 1)?;
                if self.argument(2)?.contains("AT_REMOVEDIR") {
                    self.mapper.rmdir(&path)?;
                } else {
                    self.mapper.unlink(&path)?;
                }
            }
            "rmdir" => {
                let path = self.path(None, 0)?;
                self.mapper.rmdir(&path)?;
            }
            "mkdir" => {
                let path = self.path(None, 0)?;
                self.mapper.mkdir(&path)?;
            }
            "mkdirat" => {
                let path = self.path(Some(0), 1)?;
                self.mapper.mkdir(&path)?;
            }
            "truncate" => {
                let path = self.path(None, 0)?;
                let size = self.number(1)?;
                let file = self.mapper.file(&path)?;
                self.mapper.truncate(file, size)?;
            }
            "symlink" => {
                let (says, path) = (self.text_at(0)?, self.path(None, 1)?);
                self.mapper.symlink(&says, &path)?;
            }
            "symlinkat" => {
                let (says, path) = (self.text_at(0)?, self.path(Some(1), 2)?);
                self.mapper.symlink(&says, &path)?;
            }
            _ => self.two_names()?,
        }
        Ok(())
    }

    fn two_names(&mut self) -> Followed {
        let (from, to) = if matches!(self.call.name, "rename" | "link") {
            (self.path(None, 0)?, self.path(None, 1)?)
        } else {
            (self.path(Some(0), 1)?, self.path(Some(2), 3)?)
        };
        if self.call.arguments.get(4).is_some_and(|flags| flags.contains("RENAME_EXCHANGE")) {
            return Err("two names exchanged (RENAME_EXCHANGE)".into());
        }
        if self.call.name.starts_with("rename") {
            self.mapper.rename(&from, &to)?;
        } else {
            self.mapper.link(&from, &to)?;
        }
        Ok(())
    }

    fn allocate(&mut self) -> Followed {
        let (offset, length) = (self.number(2)?, self.number(3)?);
        let mode = self.argument(1)?.to_owned();
        let file = self.file(0)?;
        match mode.as_str() {
            "0" => self.mapper.allocate(file, offset, length, false)?,
            "FALLOC_FL_KEEP_SIZE" => self.mapper.allocate(file, offset, length, true)?,
            _ => return Err("fallocate that punches, zeroes, collapses or inserts".into()),
        }
        Ok(())
    }

    fn sync(&mut self, data_only: bool) -> Followed {
        let file = self.file(0)?;
        Ok(self.mapper.sync(file, data_only)?)
    }

    /// An inspection of a file says how large it is; no operation.
    fn stat(&mut self) -> Followed {
        let all = &self.call.arguments;
        let size = all.iter().filter(|one| one.contains("S_IFREG")).find_map(|one| {
            let (_, rest) = one.split_once("st_size=").or_else(|| one.split_once("stx_size="))?;
            number(rest.split([',', '}']).next()?)
        });
        let first = self.argument(0)?;
        let by_descriptor =
            self.call.name.starts_with("fstat") || (first != "AT_FDCWD" && all.get(1) == Some(&"\"\""));
        if let Some(size) = size.filter(|_| by_descriptor && first.starts_with(|c: char| c.is_ascii_digit()))
            && let Ok(descriptor) = self.descriptor_at(0)
            && let Some(description) = self.processes.description(self.pid, descriptor)
            && let What::File(file) = description.what
        {
            self.mapper.seen_size(file, size);
        }
        Err("inspect names or attributes (stat and its like)".into())
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Why a call is in no row.
fn unmapped(name: &str, call: &Call<'_>) -> Reason {
    match name {
        "ioctl" => "ioctl",
        "mmap" | "mmap2" => match call.arguments.get(4) {
            Some(descriptor) if !descriptor.starts_with('-') => {
                "mmap of a file: what is read and written through it is not seen"
            }
            _ => "memory (mmap without a file, mprotect)",
        },
        "msync" => "msync",
        "sync" | "syncfs" | "sync_file_range" => "sync, syncfs, sync_file_range",
        "splice" | "tee" | "vmsplice" => "splice",
        "io_uring_setup" | "io_uring_enter" | "io_uring_register" | "io_submit" | "io_getevents" => {
            "asynchronous I/O (io_uring, io_submit): what it does is not seen"
        }
        "mknod" | "mknodat" => "mknod",
        "pipe" | "pipe2" | "socket" | "socketpair" | "accept" | "accept4" | "connect" | "bind" | "listen"
        | "sendto" | "recvfrom" | "sendmsg" | "recvmsg" | "eventfd2" | "epoll_create1" | "timerfd_create"
        | "signalfd4" | "inotify_init1" | "memfd_create" => {
            "pipes, sockets and other descriptors that are no files"
        }
        _ if ["chmod", "chown", "utime", "xattr", "futimes"].iter().any(|part| name.contains(part)) => {
            "attributes (chmod, chown, utimensat, xattr)"
        }
        "execve" | "execveat" | "exit" | "exit_group" | "wait4" | "waitid" | "kill" | "setpgid" => {
            "processes (execve, wait4)"
        }
        _ => "calls that change no file (access, getdents, readlink, poll, …)",
    }
}
