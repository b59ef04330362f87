//! Output of `strace -f -ttt`, with or without `-y` and `-T`.
//!
//! Calls that were interrupted by others (`<unfinished ...>`, `<... resumed>`) are put together and count
//! from their start. Descriptors, their positions, duplicates and the working directory are followed for each
//! process; what a process inherits is known when `%process` was traced too (`clone`, `fork`), else a new
//! process is taken for a child of the one before it. With `-y` a descriptor that was open before the
//! recording is known by its annotation.

mod call;
mod line;
mod process;

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::map::Mapper;
use line::{Line, parse, time_ns};
use process::Processes;

/// What is known of a log under way.
#[derive(Debug)]
pub struct Strace {
    processes: Processes,
    /// Calls that have begun, by process: the line up to where it broke off, and when.
    unfinished: HashMap<u32, (String, u64)>,
    first_ns: Option<u64>,
}

impl Strace {
    /// Of a log whose first process was in `cwd`.
    pub fn new(cwd: Option<&Path>) -> Self {
        let cwd = cwd.map(|cwd| cwd.as_os_str().as_bytes().to_vec());
        Self { processes: Processes::new(cwd), unfinished: HashMap::new(), first_ns: None }
    }

    /// Takes the next line.
    pub fn line(&mut self, line: &str, mapper: &mut Mapper<'_>) -> Result<(), String> {
        let Some(Line { pid, time, rest }) = line::split(line)? else { return Ok(()) };
        let now_ns = time_ns(time)?;
        let since_ns = now_ns.saturating_sub(*self.first_ns.get_or_insert(now_ns));
        if rest.starts_with("+++ ") {
            self.unfinished.remove(&pid);
            self.processes.end(pid, mapper);
            return Ok(());
        }
        if rest.starts_with("--- ") {
            return Ok(());
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            if let Some(flags) = call::begins_process(begun) {
                self.processes.expect_child(pid, flags);
            }
            self.unfinished.insert(pid, (begun.trim_end().to_owned(), since_ns));
            return Ok(());
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((_, tail)) = resumed.split_once(" resumed>") else {
                return Err("a call is resumed without its name".to_owned());
            };
            let Some((begun, start_ns)) = self.unfinished.remove(&pid) else {
                // The log was begun in the middle of it.
                mapper.left_out("call that began before the log");
                return Ok(());
            };
            return self.call(pid, start_ns, &(begun + tail), mapper);
        }
        self.call(pid, since_ns, rest, mapper)
    }

    fn call(&mut self, pid: u32, start_ns: u64, text: &str, mapper: &mut Mapper<'_>) -> Result<(), String> {
        let call = parse(text)?;
        mapper.at(start_ns, call.latency_ns);
        self.processes.meet(pid, mapper);
        call::apply(&mut self.processes, pid, &call, mapper)
    }

    /// The end of the log.
    pub fn end(&self, mapper: &mut Mapper<'_>) {
        for _ in &self.unfinished {
            mapper.left_out("call that never returned");
        }
    }
}
