//! The ring of `io-uring` as FUSE and ublk need it: commands to a device, in entries of 128 bytes, from one thread (`io_uring(7)`).
//!
//! The ring is used by the thread that made it and by no other; work that the kernel does for it waits until that thread asks for
//! completions (`IORING_SETUP_DEFER_TASKRUN`), so that one system call takes all that has come together.

use std::os::fd::RawFd;
use std::time::Duration;

use io_uring::squeue::Entry128;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use crate::{Error, Result};

/// Where `struct io_uring_sqe` has its length.
const LENGTH_AT: usize = 24;

const _: () = assert!(size_of::<Entry128>() == 128);

/// What is asked of the ring, as the kernel reads it.
#[derive(Debug, Clone)]
pub(crate) struct Submission(Entry128);

impl Submission {
    /// `IORING_OP_URING_CMD`: the device's own command `code` with its argument.
    pub fn command(fd: RawFd, code: u32, argument: [u8; 80], user_data: u64) -> Self {
        Self(opcode::UringCmd80::new(Fd(fd), code).cmd(argument).build().user_data(user_data))
    }

    /// As [`Submission::command`], with an array of `count` elements that the command names beside its argument.
    pub fn command_with_array(
        fd: RawFd,
        code: u32,
        argument: [u8; 80],
        user_data: u64,
        address: u64,
        count: u32,
    ) -> Self {
        let command = opcode::UringCmd80::new(Fd(fd), code).cmd(argument).addr(Some(address));
        let mut entry = command.build().user_data(user_data);
        let place = std::ptr::from_mut(&mut entry).cast::<u8>();
        // SAFETY: `Entry128` is the kernel's 128 bytes (`repr(C)`, and its size is checked above), and the length is inside them. The crate
        // has no way to set it for this operation.
        let place = unsafe { place.add(LENGTH_AT) }.cast::<u32>();
        // SAFETY: inside an entry of our own, at a multiple of 4 of an entry that is aligned to 8.
        unsafe { place.write(count) };
        Self(entry)
    }

    /// `IORING_OP_POLL_ADD`: says once that one of `events` has come.
    pub fn poll(fd: RawFd, events: u32, user_data: u64) -> Self {
        Self(opcode::PollAdd::new(Fd(fd), events).build().user_data(user_data).into())
    }
}

/// What the kernel says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    pub user_data: u64,
    pub result: i32,
}

/// A ring.
pub(crate) struct Uring(IoUring<Entry128, cqueue::Entry>);

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Uring").field(&self.0.params()).finish()
    }
}

impl Uring {
    /// A ring with room for at least `entries` submissions and twice as many completions.
    pub fn new(entries: u32) -> Result<Self> {
        match Self::make(entries, true) {
            Err(error) if error.errno() == libc::EINVAL => Self::make(entries, false),
            other => other,
        }
    }

    /// As new kernels have it (6.6), or with what a kernel of 2022 (5.19) has of it.
    fn make(entries: u32, new: bool) -> Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_clamp();
        if new {
            builder.setup_single_issuer().setup_defer_taskrun().setup_no_sqarray();
        }
        builder.build(entries).map(Self).map_err(Error::call("io_uring_setup"))
    }

    /// Puts a submission into the ring; the kernel sees it at the next [`Uring::enter`]. `false`: the ring is full.
    ///
    /// # Safety
    /// Memory that the submission names must stay valid, and be used by nobody else, for as long as the operation may use it.
    #[must_use]
    pub unsafe fn push(&mut self, submission: &Submission) -> bool {
        // SAFETY: the caller vouches for the memory.
        unsafe { self.0.submission().push(&submission.0) }.is_ok()
    }

    /// Shows the kernel what was put in, does what it left for us to do, and waits for `minimum` completions, at most `timeout_ns`. Returns
    /// early when a signal arrives.
    pub fn enter(&mut self, minimum: usize, timeout_ns: Option<u64>) -> Result<()> {
        let timeout = timeout_ns.map(|ns| Timespec::from(Duration::from_nanos(ns)));
        let arguments = SubmitArgs::new();
        let arguments = timeout.as_ref().map_or(arguments, |timeout| arguments.timespec(timeout));
        match self.0.submitter().submit_with_args(minimum, &arguments) {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The wait ended early: by its time, a signal, or work that has to be taken first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(Error::call("io_uring_enter")(error)),
            },
        }
    }

    /// The next thing the kernel has said.
    pub fn completion(&mut self) -> Option<Completion> {
        let entry = self.0.completion().next()?;
        Some(Completion { user_data: entry.user_data(), result: entry.result() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_old_kernels_work_as_new_ones_do() {
        for new in [true, false] {
            // Not everyone may make a ring, and not every kernel has the new ones.
            let Ok(mut uring) = Uring::make(4, new) else { continue };
            for round in 0..10 {
                for number in 0..3 {
                    let nothing = opcode::Nop::new().build().user_data(round * 3 + number);
                    // SAFETY: `IORING_OP_NOP` has no memory.
                    assert!(unsafe { uring.push(&Submission(nothing.into())) });
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

    #[test]
    fn a_command_lies_where_the_kernel_reads_it() {
        let argument = std::array::from_fn(|index| u8::try_from(index).unwrap());
        let submission = Submission::command_with_array(7, 0x1234_5678, argument, 99, 0xABCD_EF00, 2);
        let start = std::ptr::from_ref(&submission).cast::<u8>();
        // SAFETY: an entry is 128 bytes, all of which its builder has set.
        let bytes = unsafe { std::slice::from_raw_parts(start, 128) };
        // Offsets of `struct io_uring_sqe`: opcode, fd, cmd_op, addr, len, user_data, cmd.
        assert_eq!(bytes[0], 46);
        assert_eq!(bytes[4..8], 7_i32.to_ne_bytes());
        assert_eq!(bytes[8..12], 0x1234_5678_u32.to_ne_bytes());
        assert_eq!(bytes[16..24], 0xABCD_EF00_u64.to_ne_bytes());
        assert_eq!(bytes[24..28], 2_u32.to_ne_bytes());
        assert_eq!(bytes[32..40], 99_u64.to_ne_bytes());
        assert_eq!(bytes[48..], argument);
    }
}
