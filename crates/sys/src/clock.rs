//! Time, and time on the CPU.
//!
//! [`raw_ns`] is `CLOCK_MONOTONIC_RAW`: not slewed by NTP, read in user space through the vDSO (about 20–30
//! ns). CPU times come from `getrusage(2)`: their sum is exact to the nanosecond accounting of the scheduler,
//! the split into user and system may be scaled from timer ticks, depending on how the kernel was built.

use std::mem::MaybeUninit;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since some fixed point near boot.
#[inline]
#[must_use]
pub fn raw_ns() -> u64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    // Neither part of a monotonic clock is ever negative, and 2^64 ns are 584 years.
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Nanoseconds since the epoch (`CLOCK_REALTIME`), which may be set while the host runs.
#[must_use]
pub fn real_ns() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    // No clock of this program is before 1970, and 2^64 ns are 584 years.
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Time spent on the CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user space.
    pub user_ns: u64,
    /// In the kernel.
    pub sys_ns: u64,
}

/// Resources used by a thread, a process or its children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on the CPU.
    pub cpu: CpuTime,
    /// Largest resident set so far; of children: of the largest one.
    pub peak_resident_bytes: u64,
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu() -> CpuTime {
    usage(libc::RUSAGE_THREAD).cpu
}

/// CPU time of the calling thread in nanoseconds, user and system together: exact, and cheaper than
/// [`thread_cpu`].
#[inline]
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// CPU time of this process, all threads that ever ran together.
#[must_use]
pub fn process_cpu() -> CpuTime {
    usage(libc::RUSAGE_SELF).cpu
}

/// CPU time and memory of this process.
#[must_use]
pub fn process_usage() -> Usage {
    usage(libc::RUSAGE_SELF)
}

/// CPU time and memory of all children waited for so far.
#[must_use]
pub fn children_usage() -> Usage {
    usage(libc::RUSAGE_CHILDREN)
}

fn usage(who: libc::c_int) -> Usage {
    let mut answer = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage` of our own. The only other error is an unknown `who`: then zeros
    // stay.
    unsafe { libc::getrusage(who, answer.as_mut_ptr()) };
    // SAFETY: all-zero is a valid `rusage`, and so is what the kernel fills in.
    let answer = unsafe { answer.assume_init() };
    Usage {
        cpu: CpuTime { user_ns: nanoseconds(answer.ru_utime), sys_ns: nanoseconds(answer.ru_stime) },
        peak_resident_bytes: u64::try_from(answer.ru_maxrss).unwrap_or(0) * 1024,
    }
}

fn nanoseconds(time: libc::timeval) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_usec).unwrap_or(0) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_forward() {
        let first = raw_ns();
        let second = raw_ns();
        assert!(first > 0 && second >= first);
    }

    #[test]
    fn work_shows_in_the_threads_and_the_processs_time() {
        let before = (thread_cpu(), process_cpu());
        let before_ns = thread_cpu_ns();
        let start = raw_ns();
        let mut sum = 0_u64;
        while raw_ns() - start < 60_000_000 || thread_cpu() == before.0 {
            sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
        }
        let after = (thread_cpu(), process_cpu());
        assert!(after.0.user_ns + after.0.sys_ns > before.0.user_ns + before.0.sys_ns);
        assert!(after.1.user_ns + after.1.sys_ns > before.1.user_ns + before.1.sys_ns);
        let exact = thread_cpu_ns() - before_ns;
        assert!((1..=raw_ns() - start + 1_000_000).contains(&exact), "{exact}");
        assert!(process_usage().peak_resident_bytes > 100_000);
    }
}
