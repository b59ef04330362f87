//! A bare loop of system calls: what the executor is measured against.
//!
//! `bare_loop DIRECTORY OPERATIONS` does the very operations that a load of the same length does (the
//! sequence is generated beforehand), with every name, offset and length worked out in advance, one static
//! buffer, and nothing timed or recorded in between. Prints JSON: operations per second, user and system CPU
//! an operation.

#![forbid(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use fsage_bench::mix;
use fsage_engine::tree::{Directory, DirectoryTree, write_file_name};
use fsage_engine::workload::{Feedback, ResolveContext, Workload, resolve};
use fsage_model::operation::{Action, Operation, OperationKind as K, Outcome};
use fsage_sys::aligned::AlignedBuffer;
use fsage_sys::clock;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ftruncate, openat, unlinkat};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, operations] = &arguments[..] else {
        return Err(io::Error::other("usage: bare_loop DIRECTORY OPERATIONS"));
    };
    let operations = operations.parse().map_err(io::Error::other)?;
    let plan = Plan::make(Path::new(directory), operations)?;
    let mut buffer = AlignedBuffer::new(1 << 20);
    buffer.fill(0x5a);
    let (cpu, start) = (clock::thread_cpu(), clock::raw_ns());
    for step in &plan.steps {
        step.run(&plan, &mut buffer)?;
    }
    let elapsed_ns = clock::raw_ns() - start;
    let after = clock::thread_cpu();
    let report = serde_json::json!({
        "operations": operations,
        "elapsed_ns": elapsed_ns,
        "cpu_user_ns": after.user_ns - cpu.user_ns,
        "cpu_sys_ns": after.sys_ns - cpu.sys_ns,
    });
    writeln!(io::stdout(), "{report}")
}

struct Step {
    kind: K,
    directory: usize,
    /// Where the name starts in the plan's names.
    name: usize,
    offset: u64,
    length: usize,
}

struct Plan {
    directories: Vec<OwnedFd>,
    names: Vec<CString>,
    steps: Vec<Step>,
}

impl Plan {
    /// Generates the sequence and makes the directories.
    fn make(root: &Path, operations: u64) -> io::Result<Self> {
        let spec = mix::load(root, operations, false);
        let context = ResolveContext { volume_bytes: 0, write_mode: spec.write_mode };
        let mut workload = resolve(&spec.workload, 0, 1, spec.seed, &context).map_err(io::Error::other)?;
        let initial = workload.initial_directories();
        let mut plan =
            Self { directories: open_directories(root, &initial)?, names: Vec::new(), steps: Vec::new() };
        while u64::try_from(plan.steps.len()).unwrap_or(u64::MAX) < operations {
            let Some(operation) = workload.next(&Feedback::default()) else { continue };
            workload.completed(&operation, &Outcome::default());
            plan.add(&operation)?;
        }
        Ok(plan)
    }

    fn add(&mut self, operation: &Operation) -> io::Result<()> {
        let mut name = Vec::new();
        write_file_name(&mut name, operation.place.name);
        let (offset, length) = match operation.action {
            Action::RandomWrite { offset, length, .. } => (offset, length.min(operation.size - offset)),
            // As the executor does: whole blocks, what is beyond the end is not read.
            Action::Read { .. } => (0, operation.size.next_multiple_of(4096)),
            Action::Truncate { new_size } => (new_size, 0),
            _ => (operation.columns().offset, operation.length()),
        };
        self.steps.push(Step {
            kind: operation.kind(),
            directory: usize::try_from(operation.place.directory).map_err(io::Error::other)?,
            name: self.names.len(),
            offset,
            length: usize::try_from(length).map_err(io::Error::other)?,
        });
        self.names.push(CString::new(name)?);
        Ok(())
    }
}

/// Makes the directories and opens each, by number.
fn open_directories(root: &Path, initial: &[Directory]) -> io::Result<Vec<OwnedFd>> {
    let tree = DirectoryTree::new(0, initial.iter().copied());
    let count = initial.iter().map(|directory| directory.number).max().unwrap_or(0);
    (0..=count)
        .map(|number| {
            let mut path = Vec::new();
            tree.write_directory_path(&mut path, number);
            let path: PathBuf = root.join(String::from_utf8(path).map_err(io::Error::other)?);
            std::fs::create_dir_all(&path)?;
            Ok(openat(CWD, &path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
        })
        .collect()
}

impl Step {
    fn run(&self, plan: &Plan, buffer: &mut [u8]) -> io::Result<()> {
        let directory = &plan.directories[self.directory];
        let name: &CStr = &plan.names[self.name];
        if self.kind == K::Delete {
            return Ok(unlinkat(directory, name, AtFlags::empty())?);
        }
        let flags = match self.kind {
            K::Create => OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
            K::Read => OFlags::RDONLY,
            _ => OFlags::WRONLY,
        };
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(directory, name, flags, Mode::from_raw_mode(0o644))?;
        match self.kind {
            K::Truncate => ftruncate(&file, self.offset)?,
            K::Read => {
                let mut at = 0;
                while at < self.length {
                    let end = buffer.len().min(self.length - at);
                    let read =
                        rustix::io::pread(&file, &mut buffer[..end], at.try_into().unwrap_or(u64::MAX))?;
                    if read < end {
                        break;
                    }
                    at += read;
                }
            }
            _ => write(&file, &buffer[..], self.offset, self.length)?,
        }
        Ok(())
    }
}

fn write(file: impl AsFd, buffer: &[u8], offset: u64, length: usize) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let end = buffer.len().min(length - done);
        done += rustix::io::pwrite(&file, &buffer[..end], offset + u64::try_from(done).unwrap_or(0))?;
    }
    Ok(())
}
