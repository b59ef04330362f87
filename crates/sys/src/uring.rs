//! The little of io_uring that FUSE and ublk need: commands to a device, in entries of 128 bytes, from one
//! thread (`io_uring(7)`, `linux/io_uring.h`). Kernels before 6.6 have rings with an index array, which then
//! names every entry once.
//!
//! The ring is used by the thread that made it and by no other; work that the kernel does for it waits until
//! that thread asks for completions (`IORING_SETUP_DEFER_TASKRUN`), so that one system call takes all that
//! has come together.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::Timespec;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Error, Result};

/// `IORING_SETUP_CLAMP`, `SQE128`, `SINGLE_ISSUER`, `DEFER_TASKRUN`, `NO_SQARRAY`.
const SETUP_FLAGS: u32 = 1 << 4 | 1 << 10 | 1 << 12 | 1 << 13 | NO_INDEX;
const NO_INDEX: u32 = 1 << 16;
/// `IORING_SETUP_CLAMP`, `SQE128`: what a kernel of 2022 (5.19) has of it.
const OLD_SETUP_FLAGS: u32 = 1 << 4 | 1 << 10;
/// `IORING_OP_URING_CMD`.
pub(crate) const OPERATION_COMMAND: u8 = 46;
/// `IORING_ENTER_GETEVENTS`, `IORING_ENTER_EXT_ARG`.
const ENTER_FLAGS: u32 = 1 | 1 << 3;
/// Where the shared memory begins in the ring's file: head, tail and completions; submissions.
const RINGS_OFFSET: u64 = 0;
const ENTRIES_OFFSET: u64 = 0x1000_0000;

/// `struct io_uring_params`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct SetupParameters {
    submissions: u32,
    completions: u32,
    flags: u32,
    thread_cpu: u32,
    thread_idle: u32,
    features: u32,
    workers: u32,
    reserved: [u32; 3],
    submission_offsets: SubmissionOffsets,
    completion_offsets: CompletionOffsets,
}

/// `struct io_sqring_offsets`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    address: u64,
}

/// `struct io_cqring_offsets`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    overflow: u32,
    completions: u32,
    flags: u32,
    reserved: u32,
    address: u64,
}

/// `struct io_uring_getevents_arg`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct WaitArgument {
    signals: u64,
    signals_bytes: u32,
    least_wait_us: u32,
    timeout: *const Timespec,
}

const _: () = assert!(size_of::<SetupParameters>() == 120 && size_of::<WaitArgument>() == 24);

/// What is asked of the ring, as the kernel reads it.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Submission {
    pub opcode: u8,
    pub flags: u8,
    pub priority: u16,
    pub fd: i32,
    /// `cmd_op` of a command.
    pub offset: u64,
    pub address: u64,
    pub length: u32,
    /// Flags of the operation: events of a poll.
    pub operation_flags: u32,
    pub user_data: u64,
    pub reserved: u64,
    /// The 80 bytes of a command.
    pub command: [u64; 10],
}

impl Submission {
    pub const EMPTY: Self = Self {
        opcode: 0,
        flags: 0,
        priority: 0,
        fd: -1,
        offset: 0,
        address: 0,
        length: 0,
        operation_flags: 0,
        user_data: 0,
        reserved: 0,
        command: [0; 10],
    };
}

const _: () = assert!(size_of::<Submission>() == 128);

/// What the kernel says.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Completion {
    pub user_data: u64,
    pub result: i32,
    pub flags: u32,
}

/// Memory that is shared with the kernel.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to its owner alone, wherever that one is.
unsafe impl Send for Mapping {}

impl Mapping {
    pub fn new(fd: &OwnedFd, length: usize, offset: u64, protection: ProtFlags) -> Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses a place where nothing else is.
        let start = unsafe { mmap(std::ptr::null_mut(), length, protection, flags, fd, offset) }
            .map_err(Error::call("mmap of a ring"))?;
        let start = NonNull::new(start.cast()).ok_or(Error::Malformed { call: "mmap", what: "null" })?;
        Ok(Self { start, length })
    }

    /// The place of a `T` at `offset`, checked to be inside and aligned.
    pub fn place<T>(&self, offset: usize) -> *mut T {
        assert!(offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.length), "outside the ring");
        // SAFETY: inside the mapping, as was just checked.
        let place = unsafe { self.start.as_ptr().add(offset) }.cast::<T>();
        assert!(place.is_aligned(), "ring that is not aligned");
        place
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        let place = self.place::<AtomicU32>(index(offset));
        // SAFETY: inside the mapping and aligned; both sides only use it as an atomic.
        unsafe { &*place }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; no reference outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

fn setup(entries: u32, parameters: &mut SetupParameters) -> Result<OwnedFd> {
    // SAFETY: the kernel reads and writes exactly one `io_uring_params`, which this is.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, std::ptr::from_mut(parameters)) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just opened it for us, and nobody else knows of it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Error::call("io_uring_setup")(std::io::Error::last_os_error())),
    }
}

pub(crate) fn timespec(ns: u64) -> Timespec {
    let seconds = i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0) }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A ring.
#[derive(Debug)]
pub(crate) struct Uring {
    rings: Mapping,
    entries: Mapping,
    parameters: Parameters,
    /// What we have put in and not yet shown to the kernel.
    tail: u32,
    pending: u32,
    fd: OwnedFd,
}

/// Where things are in the shared memory.
#[derive(Debug, Clone, Copy)]
struct Parameters {
    submission_head: u32,
    submission_tail: u32,
    submission_mask: u32,
    completion_head: u32,
    completion_tail: u32,
    completion_mask: u32,
    completions: u32,
}

impl Uring {
    /// A ring with room for at least `entries` submissions and twice as many completions.
    pub fn new(entries: u32) -> Result<Self> {
        match Self::with_flags(entries, SETUP_FLAGS) {
            Err(error) if error.errno() == libc::EINVAL => Self::with_flags(entries, OLD_SETUP_FLAGS),
            other => other,
        }
    }

    fn with_flags(entries: u32, flags: u32) -> Result<Self> {
        let mut parameters = SetupParameters { flags, ..SetupParameters::default() };
        let fd = setup(entries, &mut parameters)?;
        let at = parameters.completion_offsets;
        let completions_end = index(at.completions) + index(parameters.completions) * size_of::<Completion>();
        // Both rings are in one piece of memory (`IORING_FEAT_SINGLE_MMAP`, 5.4).
        let index_end = if flags & NO_INDEX == 0 {
            index(parameters.submission_offsets.array)
                + index(parameters.submissions) * size_of::<AtomicU32>()
        } else {
            0
        };
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let rings = Mapping::new(&fd, completions_end.max(index_end), RINGS_OFFSET, both)?;
        if flags & NO_INDEX == 0 {
            for entry in 0..parameters.submissions {
                rings.word(parameters.submission_offsets.array + entry * 4).store(entry, Ordering::Relaxed);
            }
        }
        let entry_bytes = index(parameters.submissions) * size_of::<Submission>();
        let entries = Mapping::new(&fd, entry_bytes, ENTRIES_OFFSET, both)?;
        let parameters = Parameters {
            submission_head: parameters.submission_offsets.head,
            submission_tail: parameters.submission_offsets.tail,
            submission_mask: parameters.submissions - 1,
            completion_head: at.head,
            completion_tail: at.tail,
            completion_mask: parameters.completions - 1,
            completions: at.completions,
        };
        let tail = rings.word(parameters.submission_tail).load(Ordering::Relaxed);
        Ok(Self { rings, entries, parameters, tail, pending: 0, fd })
    }

    /// Puts a submission into the ring; the kernel sees it at the next [`Uring::enter`]. `false`: the ring is
    /// full.
    ///
    /// # Safety
    /// Memory that the submission names must stay valid, and be used by nobody else, for as long as the
    /// operation may use it.
    #[must_use]
    pub unsafe fn push(&mut self, submission: &Submission) -> bool {
        let head = self.rings.word(self.parameters.submission_head).load(Ordering::Acquire);
        if self.tail.wrapping_sub(head) > self.parameters.submission_mask {
            return false;
        }
        let at = index(self.tail & self.parameters.submission_mask) * size_of::<Submission>();
        let place = self.entries.place::<Submission>(at);
        // SAFETY: inside the entries; the kernel has read this one (its head is past it) and does not look
        // again before the tail moves.
        unsafe { place.write(*submission) };
        self.tail = self.tail.wrapping_add(1);
        self.pending += 1;
        self.rings.word(self.parameters.submission_tail).store(self.tail, Ordering::Release);
        true
    }

    /// Shows the kernel what was put in, does what it left for us to do, and waits for `minimum` completions,
    /// at most `timeout_ns`. Returns early when a signal arrives.
    pub fn enter(&mut self, minimum: u32, timeout_ns: Option<u64>) -> Result<()> {
        let timeout = timeout_ns.map(timespec);
        let argument = WaitArgument {
            signals: 0,
            signals_bytes: 0,
            least_wait_us: 0,
            timeout: timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
        };
        let fd = self.fd.as_raw_fd();
        // SAFETY: anyone who pushed a submission vouched for its memory; argument and timeout outlive the
        // call.
        let submitted = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                fd,
                self.pending,
                minimum,
                ENTER_FLAGS,
                &raw const argument,
                size_of::<WaitArgument>(),
            )
        };
        if let Ok(submitted) = u32::try_from(submitted) {
            self.pending -= submitted.min(self.pending);
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            // The wait ended early: by its time, a signal, or work that has to be taken first.
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {
                self.recount();
                Ok(())
            }
            _ => Err(Error::call("io_uring_enter")(error)),
        }
    }

    /// Counts again what the kernel has not taken: an interrupted wait does not say.
    fn recount(&mut self) {
        let head = self.rings.word(self.parameters.submission_head).load(Ordering::Acquire);
        self.pending = self.tail.wrapping_sub(head);
    }

    /// The next thing the kernel has said.
    pub fn completion(&mut self) -> Option<Completion> {
        let head_word = self.rings.word(self.parameters.completion_head);
        let head = head_word.load(Ordering::Relaxed);
        if head == self.rings.word(self.parameters.completion_tail).load(Ordering::Acquire) {
            return None;
        }
        let at = index(head & self.parameters.completion_mask) * size_of::<Completion>();
        let place = self.rings.place::<Completion>(index(self.parameters.completions) + at);
        // SAFETY: inside the ring; the kernel has written it (its tail is past it) and leaves it until the
        // head moves.
        let completion = unsafe { place.read() };
        head_word.store(head.wrapping_add(1), Ordering::Release);
        Some(completion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_old_kernels_work_as_new_ones_do() {
        for flags in [SETUP_FLAGS, OLD_SETUP_FLAGS] {
            // Not everyone may make a ring, and not every kernel has the new ones.
            let Ok(mut uring) = Uring::with_flags(4, flags) else { continue };
            for round in 0..10 {
                for number in 0..3 {
                    let nothing = Submission { user_data: round * 3 + number, ..Submission::EMPTY };
                    // SAFETY: `IORING_OP_NOP` has no memory.
                    assert!(unsafe { uring.push(&nothing) });
                }
                uring.enter(3, None).unwrap();
                for number in 0..3 {
                    let completion = uring.completion().unwrap();
                    assert_eq!((completion.user_data, completion.result), (round * 3 + number, 0));
                }
                assert!(uring.completion().is_none());
            }
        }
    }
}
