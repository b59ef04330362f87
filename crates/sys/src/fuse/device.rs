//! Requests and answers by `read` and `write` of `/dev/fuse`.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::reply;
use super::request::{Message, fixed_bytes};
use super::{HEADER_BYTES, TRANSFER_BYTES};
use crate::aligned::AlignedBuffer;
use crate::bytes::u32_at;
use crate::{Error, Result, mount};

/// An open `/dev/fuse`. When the last copy of its descriptor is closed the kernel ends the connection: anyone
/// who waits gets `EIO` or `ENOTCONN`.
#[derive(Debug)]
pub struct Device {
    fd: OwnedFd,
}

/// What an inspection of the device gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A request.
    Message,
    /// Nothing waits.
    Nothing,
    /// The file system was unmounted or the connection aborted.
    Ended,
}

/// Room for one request, and for the data of its answer. It is one piece, laid so that the data of a write
/// begins at a page boundary.
#[derive(Debug)]
pub struct MessageBuffer {
    memory: AlignedBuffer,
    /// Where the request's payload begins and ends.
    payload: (usize, usize),
}

/// Where the data of a write begins, and that of an answer.
const DATA_AT: usize = 4096;
/// Where a request begins.
const START: usize = DATA_AT - TRANSFER_BYTES - HEADER_BYTES;
const FIXED_AT: usize = START + HEADER_BYTES;

impl MessageBuffer {
    /// Room for writes of `max_write_bytes`.
    #[must_use]
    pub fn new(max_write_bytes: usize) -> Self {
        Self { memory: AlignedBuffer::new(DATA_AT + max_write_bytes), payload: (DATA_AT, DATA_AT) }
    }

    /// The request in it.
    #[inline]
    #[must_use]
    pub fn message(&self) -> Message<'_> {
        let (start, end) = self.payload;
        Message {
            header: &self.memory[START..FIXED_AT],
            fixed: &self.memory[FIXED_AT..start],
            payload: &self.memory[start..end],
        }
    }

    /// Room for the data of the answer. The request's payload is gone when it is used.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.memory[DATA_AT..]
    }

    /// The data of the answer.
    #[inline]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.memory[DATA_AT..]
    }

    /// Touches the first `bytes` of it, so that the memory is there when it is needed.
    pub fn touch(&mut self, bytes: usize) {
        let end = (DATA_AT + bytes).min(self.memory.len());
        self.memory[..end].fill(0);
    }

    /// Finds the parts of the `length` bytes that were read.
    #[inline]
    fn divide(&mut self, length: usize) {
        let end = (START + length).max(FIXED_AT);
        let fixed = fixed_bytes(u32_at(&self.memory, START + 4).unwrap_or(0));
        self.payload = ((FIXED_AT + fixed).min(end), end);
    }
}

impl Device {
    /// Opens it. Reads never wait: [`Device::wait`] does.
    ///
    /// # Errors
    /// `ENOENT`: the kernel has no FUSE or its module is not loaded; `EACCES`.
    pub fn open() -> Result<Self> {
        let path = Path::new("/dev/fuse");
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = open(path, flags, Mode::empty()).map_err(Error::path("open", path))?;
        Ok(Self { fd })
    }

    /// Mounts it at `point` for root alone. The kernel sends its first request at once and lets everyone else
    /// wait until it is answered.
    ///
    /// # Errors
    /// What `mount(2)` gives.
    pub fn mount(&self, name: &Path, point: &Path, max_read_bytes: u32) -> Result<()> {
        let options = [
            "noatime".to_owned(),
            format!("fd={}", self.fd.as_raw_fd()),
            "rootmode=40000".to_owned(),
            "user_id=0".to_owned(),
            "group_id=0".to_owned(),
            "default_permissions".to_owned(),
            format!("max_read={max_read_bytes}"),
        ];
        mount::mount(name, point, "fuse", &options)
    }

    /// Takes the next request if one waits.
    ///
    /// # Errors
    /// What the kernel says; `EINVAL` when the buffer is smaller than the agreed largest write.
    #[inline]
    pub fn receive(&self, buffer: &mut MessageBuffer) -> Result<Received> {
        loop {
            match rustix::io::read(&self.fd, &mut buffer.memory[START..]) {
                Ok(length) => {
                    buffer.divide(length);
                    return Ok(Received::Message);
                }
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Received::Ended),
                // ENOENT: who asked was interrupted before we took it.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(errno) => return Err(Error::call("read /dev/fuse")(errno)),
            }
        }
    }

    /// Waits until a request does, at most for `timeout_ns`. Returns early when a signal arrives.
    ///
    /// # Errors
    /// None that is known.
    pub fn wait(&self, timeout_ns: Option<u64>) -> Result<()> {
        let timeout = timeout_ns.map(timespec);
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::call("poll")(errno)),
        }
    }

    /// Answers a request: an error number or 0, and the bytes of the answer. An answer that nobody waits for
    /// any more is dropped.
    ///
    /// # Errors
    /// `EINVAL` for an answer that the kernel finds senseless.
    #[inline]
    pub fn answer(&self, unique: u64, errno: i32, body: &[u8]) -> Result<()> {
        let length = u32::try_from(16 + body.len()).unwrap_or(u32::MAX);
        let header = reply::header(length, errno, unique);
        let parts = [IoSlice::new(&header), IoSlice::new(body)];
        let parts = if body.is_empty() { &parts[..1] } else { &parts[..] };
        loop {
            match rustix::io::writev(&self.fd, parts) {
                // ENOENT: who asked was interrupted meanwhile. ENODEV: the connection has ended, which the
                // next read says.
                Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::call("write /dev/fuse")(errno)),
            }
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Nanoseconds as the kernel takes them.
pub(super) fn timespec(ns: u64) -> Timespec {
    let seconds = i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::request::{Range, Request, decode, header};

    /// A buffer as `receive` fills it.
    fn received(opcode: u32, rest: &[u8]) -> MessageBuffer {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
        bytes.extend(rest);
        let mut buffer = MessageBuffer::new(8192);
        buffer.memory[START..START + bytes.len()].copy_from_slice(&bytes);
        buffer.divide(bytes.len());
        buffer
    }

    fn decoded(buffer: &MessageBuffer) -> Request<'_> {
        let message = buffer.message();
        decode(&header(&message).unwrap(), &message).unwrap()
    }

    #[test]
    fn names_of_any_length_arrive_whole() {
        for length in [1, 38, 39, 40, 41, 200, 4000] {
            let name = vec![b'x'; length];
            let buffer = received(1, &[&name[..], b"\0"].concat());
            assert_eq!(decoded(&buffer), Request::Lookup { name: &name });
        }
    }

    #[test]
    fn the_data_of_a_write_is_aligned() {
        let mut fixed = [0; TRANSFER_BYTES];
        fixed[16] = 200;
        let buffer = received(16, &[&fixed[..], &[9; 200]].concat());
        assert_eq!(decoded(&buffer), Request::Write(Range { handle: 0, offset: 0, size: 200 }));
        let payload = buffer.message().payload;
        assert_eq!((payload.as_ptr().addr() % 4096, payload), (0, &[9; 200][..]));
    }

    #[test]
    fn requests_longer_than_a_transfer_are_whole() {
        let fixed: Vec<u8> = (0..64).collect();
        let buffer = received(26, &fixed);
        assert_eq!(buffer.message().fixed, fixed);
        assert!(buffer.message().payload.is_empty());
        // A request that is not even a header does not panic.
        let mut short = MessageBuffer::new(4096);
        short.divide(3);
        assert!(header(&short.message()).is_ok_and(|header| header.opcode == 0));
    }
}
