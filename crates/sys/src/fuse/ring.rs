//! Requests and answers by io_uring (`Documentation/filesystems/fuse-io-uring.rst`, kernel 6.14).
//!
//! The kernel has a queue of requests for each possible CPU. Every entry that we register with a queue is
//! room for one request: the kernel fills it and says so by a completion; we put the answer into the same
//! room, and one submission hands it back and asks for the next request. So one system call answers
//! everything that was served and takes everything that waits. Forgotten nodes and interrupts still come by
//! the device.
//!
//! An entry's memory is either ours, as an [`Entry`], or the kernel's; the move from one to the other is the
//! move of the value.
//!
//! ```text
//! 0    header of the request (40), then of the answer (16)
//! 128  fixed part of the request
//! 256  flags u64 · commit id u64 · payload bytes u32 · padding u32 · reserved u64
//! 4096 payload: name or data of the request, then body of the answer
//! ```

use std::os::fd::{AsFd as _, AsRawFd as _};

use super::request::Message;
use super::{Device, HEADER_BYTES, reply};
use crate::aligned::AlignedBuffer;
use crate::bytes::{u32_at, u64_at};
use crate::uring::{Completion, Submission, Uring};
use crate::{Error, Result};

const FIXED_AT: usize = 128;
const STATE_AT: usize = 256;
const STATE_END: usize = 288;
/// The payload begins at a page boundary.
const PAYLOAD_AT: usize = 4096;

const POLL_IN: u32 = 1;
/// `POLLERR | POLLHUP`.
const POLL_ENDED: i32 = 8 | 16;
/// `FUSE_IO_URING_CMD_…`
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Marks the completion of the poll; entries count from 0.
const POLL_MARK: u64 = u64::MAX;

/// Room for one request, while it is ours.
#[derive(Debug)]
pub struct Entry {
    memory: AlignedBuffer,
    index: usize,
    queue: u16,
    payload_bytes: usize,
}

impl Entry {
    fn new(index: usize, queue: u16, payload_bytes: usize) -> Self {
        Self { memory: AlignedBuffer::new(PAYLOAD_AT + payload_bytes), index, queue, payload_bytes: 0 }
    }

    /// The request in it.
    #[inline]
    #[must_use]
    pub fn message(&self) -> Message<'_> {
        Message {
            header: &self.memory[..HEADER_BYTES],
            fixed: &self.memory[FIXED_AT..STATE_AT],
            payload: &self.memory[PAYLOAD_AT..PAYLOAD_AT + self.payload_bytes],
        }
    }

    /// Room for the body of the answer. The request's payload is gone when it is used.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.memory[PAYLOAD_AT..]
    }

    /// Touches the first `bytes` of it, so that the memory is there when it is needed.
    pub fn touch(&mut self, bytes: usize) {
        let end = (PAYLOAD_AT + bytes).min(self.memory.len());
        self.memory[..end].fill(0);
    }

    /// What the kernel said about the request it has put in.
    fn take(&mut self) {
        let room = self.memory.len() - PAYLOAD_AT;
        let payload = u32_at(&self.memory, STATE_AT + 16).and_then(|bytes| usize::try_from(bytes).ok());
        self.payload_bytes = payload.unwrap_or(0).min(room);
    }

    /// Makes the answer and returns its commit id.
    fn seal(&mut self, unique: u64, errno: i32, body_bytes: usize) -> u64 {
        let commit = u64_at(&self.memory, STATE_AT + 8).unwrap_or(0);
        let body = u32::try_from(body_bytes.min(self.memory.len() - PAYLOAD_AT)).unwrap_or(u32::MAX);
        self.memory[..16].copy_from_slice(&reply::header(body.saturating_add(16), errno, unique));
        self.memory[STATE_AT + 16..STATE_AT + 20].copy_from_slice(&body.to_ne_bytes());
        commit
    }
}

/// What an inspection of the ring gave beside requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The file system was unmounted or the connection aborted.
    pub ended: bool,
    /// Something may wait at the device.
    pub device: bool,
}

/// The queues of a mounted [`Device`]. Belongs to the thread that makes it.
#[derive(Debug)]
pub struct Ring {
    uring: Uring,
    device: i32,
    /// Those that the kernel has.
    held: Vec<Option<Entry>>,
}

/// Where an entry's two parts are, as the kernel reads it (`struct iovec`).
#[repr(C)]
struct Parts([libc::iovec; 2]);

/// Whether this process may make rings as they are needed here.
#[must_use]
pub fn is_available() -> bool {
    Uring::new(4).is_ok()
}

impl Ring {
    /// Registers `depth` entries with each of `queues` queues, with room for `payload_bytes`, of which
    /// `touched_bytes` are touched. The kernel must have agreed to [`reply::OVER_IO_URING`]; it lets nobody
    /// use the mount before every queue has an entry.
    ///
    /// # Errors
    /// What the kernel says: `EOPNOTSUPP` when it did not agree, `EINVAL` for too small a payload.
    pub fn new(
        device: &Device,
        queues: u16,
        depth: u16,
        payload_bytes: usize,
        touched_bytes: usize,
    ) -> Result<Self> {
        let count = u32::from(queues) * u32::from(depth);
        // One more for the poll.
        let uring = Uring::new((count + 1).next_power_of_two())?;
        let mut ring = Self { uring, device: device.as_fd().as_raw_fd(), held: Vec::new() };
        let mut parts = Vec::new();
        let mut entries = Vec::new();
        for queue in 0..queues {
            for _ in 0..depth {
                let mut entry = Entry::new(entries.len(), queue, payload_bytes);
                entry.touch(touched_bytes);
                parts.push(Box::new(Parts::of(&mut entry)));
                entries.push(entry);
            }
        }
        ring.held.resize_with(entries.len(), || None);
        for (entry, parts) in entries.into_iter().zip(&parts) {
            ring.register(entry, parts)?;
        }
        ring.poll_device()?;
        // The kernel reads the parts while it takes the submissions.
        ring.uring.enter(0, None)?;
        Ok(ring)
    }

    /// How many entries there are.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.held.len()
    }

    fn register(&mut self, entry: Entry, parts: &Parts) -> Result<()> {
        let address = std::ptr::from_ref(parts).addr() as u64;
        let (argument, index) = (argument(entry.queue, 0), entry.index as u64);
        let submission = Submission::command_with_array(self.device, REGISTER, argument, index, address, 2);
        self.hand_over(entry, &submission)
    }

    /// Gives an entry to the kernel.
    fn hand_over(&mut self, entry: Entry, submission: &Submission) -> Result<()> {
        let index = entry.index;
        self.held[index] = Some(entry);
        self.push(submission)
    }

    fn push(&mut self, submission: &Submission) -> Result<()> {
        loop {
            // SAFETY: an entry's memory stays where it is and is used by nobody else while it is in `held`,
            // which it leaves when its completion has come; `drop` leaks what never came back. A poll has no
            // memory.
            if unsafe { self.uring.push(submission) } {
                return Ok(());
            }
            self.uring.enter(0, None)?;
        }
    }

    /// Asks to be told when something waits at the device.
    ///
    /// # Errors
    /// None that is known.
    pub fn poll_device(&mut self) -> Result<()> {
        self.push(&Submission::poll(self.device, POLL_IN, POLL_MARK))
    }

    /// Sends what was answered, adds the requests that have come to `arrived`, and waits for one if there is
    /// none, at most `timeout_ns`. Returns early when a signal arrives.
    ///
    /// # Errors
    /// What the kernel says about an entry.
    pub fn receive(&mut self, arrived: &mut Vec<Entry>, timeout_ns: Option<u64>) -> Result<Arrival> {
        self.uring.enter(1, timeout_ns)?;
        let mut arrival = Arrival::default();
        while let Some(completion) = self.uring.completion() {
            if completion.user_data == POLL_MARK {
                arrival.device = true;
                arrival.ended |= completion.result >= 0 && completion.result & POLL_ENDED != 0;
            } else {
                self.complete(completion, arrived, &mut arrival)?;
            }
        }
        Ok(arrival)
    }

    fn complete(
        &mut self,
        completion: Completion,
        arrived: &mut Vec<Entry>,
        arrival: &mut Arrival,
    ) -> Result<()> {
        let index = usize::try_from(completion.user_data).unwrap_or(usize::MAX);
        let Some(mut entry) = self.held.get_mut(index).and_then(Option::take) else {
            return Err(Error::Malformed { call: "io_uring_enter", what: "completion of nothing" });
        };
        match -completion.result {
            0 => {
                entry.take();
                arrived.push(entry);
            }
            libc::ENOTCONN | libc::ECANCELED | libc::ENODEV | libc::ECONNABORTED => arrival.ended = true,
            errno => {
                let error = std::io::Error::from_raw_os_error(errno);
                return Err(Error::call("FUSE_IO_URING_CMD")(error));
            }
        }
        Ok(())
    }

    /// Answers: an error number or 0, and how many bytes of the entry's data are the body. It is sent with
    /// the next [`Ring::receive`].
    ///
    /// # Errors
    /// What the kernel says when the ring is full and has to be emptied first.
    #[inline]
    pub fn answer(&mut self, mut entry: Entry, unique: u64, errno: i32, body_bytes: usize) -> Result<()> {
        let commit = entry.seal(unique, errno, body_bytes);
        let (argument, index) = (argument(entry.queue, commit), entry.index as u64);
        let submission = Submission::command(self.device, COMMIT_AND_FETCH, argument, index);
        self.hand_over(entry, &submission)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still write to what it holds: that memory is never released.
        for entry in &mut self.held {
            std::mem::forget(entry.take());
        }
    }
}

/// `struct fuse_uring_cmd_req`: flags u64 · commit id u64 · queue u16.
fn argument(queue: u16, commit: u64) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[8..16].copy_from_slice(&commit.to_ne_bytes());
    bytes[16..18].copy_from_slice(&queue.to_ne_bytes());
    bytes
}

impl Parts {
    fn of(entry: &mut Entry) -> Self {
        let (head, payload) = entry.memory.split_at_mut(PAYLOAD_AT);
        Self([
            libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: STATE_END },
            libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() },
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::request::{Range, Request, decode, header};

    #[test]
    fn a_request_and_its_answer_share_the_entry() {
        let mut entry = Entry::new(3, 1, 8192);
        entry.memory[4..8].copy_from_slice(&16_u32.to_ne_bytes());
        entry.memory[8..16].copy_from_slice(&7_u64.to_ne_bytes());
        entry.memory[FIXED_AT + 16..FIXED_AT + 20].copy_from_slice(&100_u32.to_ne_bytes());
        entry.memory[STATE_AT + 8..STATE_AT + 16].copy_from_slice(&99_u64.to_ne_bytes());
        entry.memory[STATE_AT + 16..STATE_AT + 20].copy_from_slice(&100_u32.to_ne_bytes());
        entry.take();
        let message = entry.message();
        let decoded = decode(&header(&message).unwrap(), &message).unwrap();
        assert_eq!(decoded, Request::Write(Range { handle: 0, offset: 0, size: 100 }));
        assert_eq!(entry.seal(7, 5, 8), 99);
        assert_eq!(u32_at(&entry.memory, 0), Some(24));
        assert_eq!(u32_at(&entry.memory, STATE_AT + 16), Some(8));
    }

    #[test]
    fn a_payload_that_cannot_be_is_cut() {
        let mut entry = Entry::new(0, 0, 4096);
        entry.memory[STATE_AT + 16..STATE_AT + 20].copy_from_slice(&u32::MAX.to_ne_bytes());
        entry.take();
        assert_eq!(entry.message().payload.len(), 4096);
    }

    #[test]
    fn a_command_names_queue_and_commit() {
        let argument = argument(0x1234, 0x5678_9ABC_DEF0);
        assert_eq!(argument[..8], [0; 8]);
        assert_eq!(u64_at(&argument, 8), Some(0x5678_9ABC_DEF0));
        assert_eq!(argument[16..18], 0x1234_u16.to_ne_bytes());
        assert_eq!(argument[18..], [0; 62]);
    }

    #[test]
    fn a_ring_takes_polls_and_says_what_became_of_them() {
        if !is_available() {
            return;
        }
        let mut uring = Uring::new(4).unwrap();
        let (read, mut write) = std::io::pipe().unwrap();
        let submission = Submission::poll(read.as_raw_fd(), POLL_IN, 5);
        // SAFETY: a poll has no memory.
        assert!(unsafe { uring.push(&submission) });
        uring.enter(1, Some(1_000_000)).unwrap();
        assert!(uring.completion().is_none());
        std::io::Write::write_all(&mut write, b"x").unwrap();
        uring.enter(1, None).unwrap();
        let completion = uring.completion().unwrap();
        assert_eq!((completion.user_data, completion.result), (5, 1));
        assert!(uring.completion().is_none());
    }
}
