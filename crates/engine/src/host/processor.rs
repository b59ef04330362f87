//! Keeping the agent, and all that it starts from then on, on one processor.

use std::path::Path;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::HostError;

/// Has every thread of this process, and whatever they start, run on the last of the processors that it may
/// use; which one that is.
///
/// # Errors
/// The kernel refuses, or /proc cannot be read.
pub fn pin() -> Result<u32, HostError> {
    let failed = |errno: rustix::io::Errno| {
        HostError::file("change the processors of", Path::new("/proc/self/task"))(errno.into())
    };
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    let Some(cpu) = last else {
        return Err(HostError::Senseless { what: "this process may use no processor".to_owned() });
    };
    let mut only = CpuSet::new();
    only.set(cpu);
    let tasks = Path::new("/proc/self/task");
    let threads = std::fs::read_dir(tasks).map_err(HostError::file("list", tasks))?;
    for thread in threads.flatten() {
        let number = thread.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        match number.map(|thread| sched_setaffinity(Some(thread), &only)) {
            // A thread may have ended since it was listed.
            None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => {}
            Some(Err(errno)) => return Err(failed(errno)),
        }
    }
    u32::try_from(cpu).map_err(|_| HostError::Senseless { what: format!("there is no processor {cpu}") })
}
