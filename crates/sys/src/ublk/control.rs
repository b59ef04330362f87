//! Commands to `/dev/ublk-control` (`UBLK_CMD_…`, `struct ublksrv_ctrl_cmd`).

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use super::{Command, Parameters};
use crate::aligned::AlignedBuffer;
use crate::bytes::{Writer, u32_at, u64_at};
use crate::uring::{Submission, Uring};
use crate::{Error, Result};

/// Where the driver is reached.
pub const CONTROL_PATH: &str = "/dev/ublk-control";

const GET_DEV_INFO: Command = Command::reading("UBLK_CMD_GET_DEV_INFO", 0x02);
const ADD_DEV: Command = Command::new("UBLK_CMD_ADD_DEV", 0x04);
const DEL_DEV: Command = Command::new("UBLK_CMD_DEL_DEV", 0x05);
const START_DEV: Command = Command::new("UBLK_CMD_START_DEV", 0x06);
const STOP_DEV: Command = Command::new("UBLK_CMD_STOP_DEV", 0x07);
const SET_PARAMS: Command = Command::new("UBLK_CMD_SET_PARAMS", 0x08);
/// Kernel 6.5.
const GET_FEATURES: Command = Command::reading("UBLK_U_CMD_GET_FEATURES", 0x13);

/// `UBLK_F_CMD_IOCTL_ENCODE` (6.4).
const FEATURE_ENCODED: u64 = 1 << 6;

/// Any device.
const NO_DEVICE: u32 = u32::MAX;
/// A command that is not about a queue.
const NO_QUEUE: u16 = u16::MAX;

/// Bytes of `struct ublksrv_ctrl_dev_info`, and where in it are the device's number and what we may note.
const INFORMATION_BYTES: usize = 64;
const DEVICE_AT: usize = 12;
const MARK_AT: usize = 32;

/// Stands for the argument's type: `struct ublksrv_ctrl_cmd`.
type Argument = [u8; 32];

/// An open `/dev/ublk-control`.
#[derive(Debug)]
pub struct Control {
    file: OwnedFd,
    encoded: bool,
}

impl Control {
    /// Opens it.
    ///
    /// # Errors
    /// `ENOENT`: the kernel has no ublk, or its module is not loaded; `EACCES`.
    pub fn open() -> Result<Self> {
        let path = Path::new(CONTROL_PATH);
        let file =
            open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(Error::path("open", path))?;
        let mut control = Self { file, encoded: true };
        // Older kernels know neither this command nor its kind of number.
        let mut features = [0; 8];
        let asked = control.command(GET_FEATURES, NO_DEVICE, &mut features, 0);
        control.encoded = asked.is_ok() && u64::from_ne_bytes(features) & FEATURE_ENCODED != 0;
        Ok(control)
    }

    /// How commands are numbered.
    pub(super) const fn encoded(&self) -> bool {
        self.encoded
    }

    /// Makes a device with one queue of `depth` requests of at most `max_transfer_bytes`, and returns its
    /// number: `/dev/ublkcN` is there, `/dev/ublkbN` not yet. `mark` stays with it, so that it can be known
    /// again.
    ///
    /// # Errors
    /// `EPERM`, `EACCES`; `ENOSPC` when there are as many devices as the driver allows.
    pub fn add(&self, depth: u16, max_transfer_bytes: u32, mark: u64) -> Result<u32> {
        let mut information = information(depth, max_transfer_bytes, mark);
        self.command(ADD_DEV, NO_DEVICE, &mut information, 0)?;
        match u32_at(&information, DEVICE_AT) {
            Some(device) if device != NO_DEVICE => Ok(device),
            _ => Err(Error::Malformed { call: ADD_DEV.name, what: "no number" }),
        }
    }

    /// The mark that a device was made with.
    ///
    /// # Errors
    /// `ENODEV` when there is none of that number.
    pub fn mark(&self, device: u32) -> Result<u64> {
        let mut information = [0; INFORMATION_BYTES];
        self.command(GET_DEV_INFO, device, &mut information, 0)?;
        u64_at(&information, MARK_AT).ok_or(Error::Malformed { call: GET_DEV_INFO.name, what: "too short" })
    }

    /// Says what the device is like; before it is started.
    ///
    /// # Errors
    /// `EINVAL` for parameters that the kernel does not take.
    pub fn set_parameters(&self, device: u32, parameters: &Parameters) -> Result<()> {
        self.command(SET_PARAMS, device, &mut parameters.encode(), 0)
    }

    /// Makes the block device. Waits until its queue takes requests, and asks it for some.
    ///
    /// # Errors
    /// `EINVAL` for parameters that do not go together, `EEXIST` when it is there.
    pub fn start(&self, device: u32) -> Result<()> {
        self.command(START_DEV, device, &mut [], u64::from(std::process::id()))
    }

    /// Takes the block device away, even if it is in use; requests that nobody answers fail. The queue ends.
    ///
    /// # Errors
    /// `ENODEV` when there is none of that number.
    pub fn stop(&self, device: u32) -> Result<()> {
        self.command(STOP_DEV, device, &mut [], 0)
    }

    /// Removes a device that was stopped. Waits until its queue is dropped.
    ///
    /// # Errors
    /// `ENODEV` when there is none of that number.
    pub fn delete(&self, device: u32) -> Result<()> {
        self.command(DEL_DEV, device, &mut [], 0)
    }

    /// One command, in a ring of its own: rings belong to a thread, and a device sees a handful of commands
    /// in its life.
    fn command(&self, command: Command, device: u32, buffer: &mut [u8], value: u64) -> Result<()> {
        let mut memory = AlignedBuffer::new(buffer.len());
        memory.copy_from_slice(buffer);
        let code = command.word::<Argument>(self.encoded);
        let argument = argument(device, &memory, value);
        let submission = Submission::command(self.file.as_raw_fd(), code, argument, 0);
        let mut uring = Uring::new(4)?;
        // SAFETY: `memory` is used by nobody else until the completion has come, and never released if none
        // comes.
        if !unsafe { uring.push(&submission) } {
            return Err(Error::Malformed { call: "io_uring_setup", what: "no room for one submission" });
        }
        let completion = loop {
            if let Err(error) = uring.enter(1, None) {
                std::mem::forget(memory);
                return Err(error);
            }
            if let Some(completion) = uring.completion() {
                break completion;
            }
        };
        if completion.result < 0 {
            let error = std::io::Error::from_raw_os_error(-completion.result);
            return Err(Error::call(command.name)(error));
        }
        buffer.copy_from_slice(&memory);
        Ok(())
    }
}

/// `struct ublksrv_ctrl_dev_info` of a device that does not exist yet.
fn information(depth: u16, max_transfer_bytes: u32, mark: u64) -> [u8; INFORMATION_BYTES] {
    let mut bytes = [0; INFORMATION_BYTES];
    Writer::new(&mut bytes)
        // One queue; state and padding.
        .u16(1)
        .u16(depth)
        .u32(0)
        .u32(max_transfer_bytes)
        .u32(NO_DEVICE)
        // The process, and padding.
        .u64(0)
        // No features are asked for.
        .u64(0)
        .u64(mark);
    bytes
}

/// `struct ublksrv_ctrl_cmd` in a submission.
fn argument(device: u32, memory: &AlignedBuffer, value: u64) -> [u8; 80] {
    let length = u16::try_from(memory.len()).unwrap_or(u16::MAX);
    let address = if memory.is_empty() { 0 } else { memory.as_ptr().addr() as u64 };
    let mut bytes = [0; 80];
    Writer::new(&mut bytes).u32(device).u16(NO_QUEUE).u16(length).u64(address).u64(value);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_device_is_described_as_the_header_has_it() {
        let bytes = information(128, 1 << 20, 7);
        assert_eq!(bytes[..4], [1_u16.to_ne_bytes(), 128_u16.to_ne_bytes()].concat());
        assert_eq!(u32_at(&bytes, 8), Some(1 << 20));
        assert_eq!(u32_at(&bytes, DEVICE_AT), Some(NO_DEVICE));
        assert_eq!((u64_at(&bytes, 24), u64_at(&bytes, MARK_AT)), (Some(0), Some(7)));
    }

    #[test]
    fn a_command_is_a_device_a_buffer_and_a_value() {
        let memory = AlignedBuffer::new(64);
        let bytes = argument(3, &memory, 5);
        let head: Vec<u8> = [&3_u32.to_ne_bytes()[..], &[0xff, 0xff], &64_u16.to_ne_bytes()].concat();
        assert_eq!(bytes[..8], head);
        let address = memory.as_ptr().addr() as u64;
        assert_eq!(
            [u64_at(&bytes, 8), u64_at(&bytes, 16), u64_at(&bytes, 24)],
            [Some(address), Some(5), Some(0)]
        );
        assert_eq!(u64_at(&argument(3, &AlignedBuffer::new(0), 0), 8), Some(0));
    }
}
