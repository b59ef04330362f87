//! Requests and answers through `/dev/ublkcN` (`UBLK_IO_…`, `struct ublksrv_io_cmd`).
//!
//! The queue has as many entries as there may be requests under way. A command hands an entry to the kernel;
//! its completion says that a request is in it: the descriptor in memory that is mapped from the device, the
//! data of a write in the entry's own. The command that answers a request hands its entry back.
//!
//! An entry's memory is either ours, as an [`Entry`], or the kernel's; the move from one to the other is the
//! move of the value.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, open};

use super::mapping::Mapping;
use super::{Command, Control, Descriptor};
use crate::aligned::AlignedBuffer;
use crate::bytes::Writer;
use crate::uring::{Completion, Submission, Uring};
use crate::{Error, Result};

const FETCH: Command = Command::new("UBLK_IO_FETCH_REQ", 0x20);
const COMMIT_AND_FETCH: Command = Command::new("UBLK_IO_COMMIT_AND_FETCH_REQ", 0x21);

/// Where the descriptors of the first queue are mapped from (`UBLKSRV_CMD_BUF_OFFSET`).
const DESCRIPTORS_OFFSET: u64 = 0;

/// Stands for the argument's type: `struct ublksrv_io_cmd`.
type Argument = [u8; 16];

/// Room for one request, while it is ours.
#[derive(Debug)]
pub struct Entry {
    memory: AlignedBuffer,
    tag: u16,
    descriptor: Descriptor,
}

impl Entry {
    /// What is asked.
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    /// The data of a write; more than it has when the entry has more room.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.memory
    }

    /// Room for the data of a read.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

/// The one queue of a device. Belongs to the thread that makes it.
#[derive(Debug)]
pub struct Queue {
    uring: Uring,
    descriptors: Mapping,
    /// Those that the kernel has.
    held: Vec<Option<Entry>>,
    /// Those that it has released for good.
    ended: usize,
    encoded: bool,
    file: OwnedFd,
}

impl Queue {
    /// Hands `depth` entries with room for `room_bytes` each to the kernel, of which `touched_bytes` are
    /// touched. Depth and room are those of [`Control::add`].
    ///
    /// # Errors
    /// `ENOENT` when there is no such device, `EBUSY` when another process serves it.
    pub fn new(
        control: &Control,
        device: u32,
        depth: u16,
        room_bytes: usize,
        touched_bytes: usize,
    ) -> Result<Self> {
        let path = PathBuf::from(format!("/dev/ublkc{device}"));
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(&path, flags, Mode::empty()).map_err(Error::path("open", path))?;
        let length =
            (usize::from(depth) * size_of::<Descriptor>()).next_multiple_of(rustix::param::page_size());
        let descriptors = Mapping::new(&file, length, DESCRIPTORS_OFFSET)?;
        let uring = Uring::new(u32::from(depth).next_power_of_two())?;
        let mut held = Vec::new();
        held.resize_with(usize::from(depth), || None);
        let mut queue = Self { uring, descriptors, held, ended: 0, encoded: control.encoded(), file };
        for tag in 0..depth {
            let mut memory = AlignedBuffer::new(room_bytes);
            memory[..touched_bytes.min(room_bytes)].fill(0);
            queue.hand_over(Entry { memory, tag, descriptor: Descriptor::default() }, FETCH, 0)?;
        }
        queue.uring.enter(0, None)?;
        Ok(queue)
    }

    /// How many entries there are.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.held.len()
    }

    fn hand_over(&mut self, entry: Entry, command: Command, result: i32) -> Result<()> {
        let (tag, address) = (entry.tag, entry.memory.as_ptr().addr() as u64);
        let code = command.word::<Argument>(self.encoded);
        let argument = argument(tag, result, address);
        let submission = Submission::command(self.file.as_raw_fd(), code, argument, u64::from(tag));
        self.held[usize::from(tag)] = Some(entry);
        loop {
            // SAFETY: an entry's memory stays where it is and is used by nobody else while it is in `held`,
            // which it leaves when its completion has come; `drop` leaks what never came back.
            if unsafe { self.uring.push(&submission) } {
                return Ok(());
            }
            self.uring.enter(0, None)?;
        }
    }

    /// Sends what was answered, adds the requests that have come to `arrived`, and waits for one if there is
    /// none, at most `timeout_ns`. Returns early when a signal arrives. `false`: the device was stopped, and
    /// no more will come.
    ///
    /// # Errors
    /// What the kernel says about an entry.
    pub fn receive(&mut self, arrived: &mut Vec<Entry>, timeout_ns: Option<u64>) -> Result<bool> {
        self.uring.enter(1, timeout_ns)?;
        while let Some(completion) = self.uring.completion() {
            self.complete(completion, arrived)?;
        }
        Ok(self.ended < self.held.len())
    }

    fn complete(&mut self, completion: Completion, arrived: &mut Vec<Entry>) -> Result<()> {
        let index = usize::try_from(completion.user_data).unwrap_or(usize::MAX);
        let Some(mut entry) = self.held.get_mut(index).and_then(Option::take) else {
            return Err(Error::Malformed { call: "io_uring_enter", what: "completion of nothing" });
        };
        match completion.result {
            // `UBLK_IO_RES_OK`.
            0 => {
                let place = self.descriptors.place::<Descriptor>(index * size_of::<Descriptor>());
                // SAFETY: inside the mapping and aligned, as `place` checks; the kernel wrote it before the
                // completion and leaves it until the request is answered.
                entry.descriptor = unsafe { place.read_volatile() };
                arrived.push(entry);
                Ok(())
            }
            // `UBLK_IO_RES_ABORT`, and what a ring says that is torn down.
            result if [libc::ENODEV, libc::ECANCELED].contains(&-result) => {
                self.ended += 1;
                Ok(())
            }
            result if result < 0 => {
                let error = std::io::Error::from_raw_os_error(-result);
                Err(Error::call(COMMIT_AND_FETCH.name)(error))
            }
            _ => Err(Error::Malformed { call: COMMIT_AND_FETCH.name, what: "asks for what was not agreed" }),
        }
    }

    /// Answers: bytes that were read or written, 0 of everything else, or a negative error number. It is sent
    /// with the next [`Queue::receive`].
    ///
    /// # Errors
    /// What the kernel says when the ring is full and has to be emptied first.
    pub fn answer(&mut self, entry: Entry, result: i32) -> Result<()> {
        self.hand_over(entry, COMMIT_AND_FETCH, result)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // The kernel may still write to what it holds: that memory is never released.
        for entry in &mut self.held {
            std::mem::forget(entry.take());
        }
    }
}

/// `struct ublksrv_io_cmd` in a submission: queue 0.
fn argument(tag: u16, result: i32, address: u64) -> [u8; 80] {
    let mut bytes = [0; 80];
    Writer::new(&mut bytes).u16(0).u16(tag).u32(result.cast_unsigned()).u64(address);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_tag_a_result_and_an_address() {
        let bytes = argument(127, -5, 0xABCD_EF00);
        let head: Vec<u8> = [&[0, 0], &127_u16.to_ne_bytes()[..], &(-5_i32).to_ne_bytes()].concat();
        assert_eq!(bytes[..8], head);
        assert_eq!(bytes[8..16], 0xABCD_EF00_u64.to_ne_bytes());
        assert_eq!(bytes[16..], [0; 64]);
    }
}
