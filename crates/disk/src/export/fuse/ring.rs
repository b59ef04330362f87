//! The carrier that goes by io_uring.

use std::fs;

use fsage_sys::fuse::request::Message;
use fsage_sys::fuse::ring::{Entry, Ring};
use fsage_sys::fuse::{Device, MessageBuffer, Received};

use super::MAX_TRANSFER_BYTES;
use super::engine::{Carrier, Reply, Slot, Wait};
use crate::export::BATCH;

/// As with the device's slots: what small requests need.
const TOUCHED_BYTES: usize = 64 << 10;
/// Every queue has at least this many entries: on machines with many CPUs there are more of them in all than
/// a batch is long.
const LEAST_DEPTH: u16 = 4;

impl Slot for Entry {
    fn message(&self) -> Message<'_> {
        Self::message(self)
    }

    fn data_mut(&mut self) -> &mut [u8] {
        Self::data_mut(self)
    }
}

/// The ring, and the device for what still comes there.
pub(super) struct RingCarrier<'a> {
    ring: Ring,
    device: &'a Device,
    scratch: MessageBuffer,
}

impl<'a> RingCarrier<'a> {
    pub fn new(device: &'a Device) -> fsage_sys::Result<Self> {
        let queues = possible_cpus();
        let batch = u16::try_from(BATCH).unwrap_or(u16::MAX);
        let depth = (batch / queues).max(LEAST_DEPTH);
        let size = usize::try_from(MAX_TRANSFER_BYTES).unwrap_or(usize::MAX);
        let ring = Ring::new(device, queues, depth, size, TOUCHED_BYTES)?;
        Ok(Self { ring, device, scratch: MessageBuffer::new(size) })
    }

    /// Takes what waits at the device: forgotten nodes and interrupts, which need no answer. Anything else
    /// would be a request from before the ring was there, and there is none. `false`: the mount is gone.
    fn drain_device(&mut self) -> fsage_sys::Result<bool> {
        loop {
            match self.device.receive(&mut self.scratch)? {
                Received::Message => {}
                Received::Nothing => break,
                Received::Ended => return Ok(false),
            }
        }
        self.ring.poll_device()?;
        Ok(true)
    }
}

impl Carrier for RingCarrier<'_> {
    type Slot = Entry;

    fn receive(&mut self, arrived: &mut Vec<Entry>, wait: Wait) -> fsage_sys::Result<bool> {
        let arrival = self.ring.receive(arrived, wait.timeout_ns())?;
        let goes_on = !arrival.ended;
        if arrival.device && goes_on {
            return self.drain_device();
        }
        Ok(goes_on)
    }

    fn answer(&mut self, mut slot: Entry, unique: u64, reply: Reply<'_>) -> fsage_sys::Result<()> {
        let (errno, length) = match reply {
            Reply::Bytes(bytes) => {
                slot.data_mut()[..bytes.len()].copy_from_slice(bytes);
                (0, bytes.len())
            }
            Reply::Data(length) => (0, length),
            Reply::Error(errno) => (errno.raw_os_error(), 0),
            Reply::Nothing => (0, 0),
        };
        self.ring.answer(slot, unique, errno, length)
    }

    fn slots(&self) -> usize {
        self.ring.entries()
    }
}

/// How many CPUs this machine could ever have: so many queues the kernel wants.
fn possible_cpus() -> u16 {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    count_listed(text.trim()).unwrap_or(1)
}

/// The length of a list like `0-3,8`.
fn count_listed(text: &str) -> Option<u16> {
    let mut count = 0_u16;
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        count = count.checked_add(last.checked_sub(first)?)?.checked_add(1)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_counted() {
        for (text, count) in
            [("0", Some(1)), ("0-1", Some(2)), ("0-3,8,10-11", Some(7)), ("", None), ("3-1", None)]
        {
            assert_eq!(count_listed(text), count, "{text}");
        }
        assert!(possible_cpus() > 0);
    }
}
