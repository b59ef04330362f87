//! Keeping the agent, and all that it starts from then on, on one processor.

use std::path::Path;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::HostError;

/// The processors that this process may use, in order.
///
/// # Errors
/// The kernel does not tell.
pub fn allowed() -> Result<Vec<u32>, HostError> {
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let numbers = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    Ok(numbers.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

/// Has every thread of this process, and whatever they start, run on one processor: on `to`, or on the last of
/// those that it may use; which one that is.
///
/// # Errors
/// It may not use that processor, the kernel refuses, or /proc cannot be read.
pub fn pin(to: Option<u32>) -> Result<u32, HostError> {
    let allowed = allowed()?;
    let Some(cpu) = to.or(allowed.last().copied()).filter(|cpu| allowed.contains(cpu)) else {
        let which = to.map_or_else(|| "any processor".to_owned(), |cpu| format!("processor {cpu}"));
        return Err(HostError::Senseless { what: format!("this process may not use {which}") });
    };
    let mut only = CpuSet::new();
    only.set(usize::try_from(cpu).unwrap_or(usize::MAX));
    let tasks = Path::new("/proc/self/task");
    let threads = std::fs::read_dir(tasks).map_err(HostError::file("list", tasks))?;
    for thread in threads.flatten() {
        let number = thread.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        match number.map(|thread| sched_setaffinity(Some(thread), &only)) {
            // A thread may have ended since it was listed.
            None | Some(Ok(()) | Err(Errno::SRCH)) => {}
            Some(Err(errno)) => return Err(failed(errno)),
        }
    }
    Ok(cpu)
}

fn failed(errno: Errno) -> HostError {
    HostError::file("change the processors of", Path::new("/proc/self/task"))(errno.into())
}
