//! The carrier that reads and writes `/dev/fuse`.

use fsage_sys::fuse::request::Message;
use fsage_sys::fuse::{Device, MessageBuffer, Received};

use super::MAX_TRANSFER_BYTES;
use super::engine::{Carrier, Reply, Slot, Wait};
use crate::export::BATCH;

/// Bytes of data that are gathered before they are served: more would only push each other out of the CPU's
/// cache.
const GATHER_BYTES: usize = 4 << 20;
/// Of every slot this much is touched beforehand: what small requests need. Large ones touch the rest when
/// they come.
const TOUCHED_BYTES: usize = 64 << 10;

impl Slot for MessageBuffer {
    fn message(&self) -> Message<'_> {
        Self::message(self)
    }

    fn data_mut(&mut self) -> &mut [u8] {
        Self::data_mut(self)
    }
}

/// The device and its free slots. The one freed last is used first: its memory is the warmest.
pub(super) struct DeviceCarrier<'a> {
    device: &'a Device,
    free: Vec<MessageBuffer>,
}

impl<'a> DeviceCarrier<'a> {
    pub fn new(device: &'a Device) -> Self {
        let size = usize::try_from(MAX_TRANSFER_BYTES).unwrap_or(usize::MAX);
        let slot = || {
            let mut slot = MessageBuffer::new(size);
            slot.touch(TOUCHED_BYTES);
            slot
        };
        Self { device, free: std::iter::repeat_with(slot).take(BATCH).collect() }
    }

    /// Takes what waits.
    fn gather(&mut self, arrived: &mut Vec<MessageBuffer>) -> fsage_sys::Result<Received> {
        let mut bytes = 0;
        while bytes < GATHER_BYTES
            && let Some(mut slot) = self.free.pop()
        {
            let received = self.device.receive(&mut slot)?;
            if received != Received::Message {
                self.free.push(slot);
                return Ok(received);
            }
            bytes += slot.message().payload.len();
            arrived.push(slot);
        }
        Ok(Received::Nothing)
    }
}

impl Carrier for DeviceCarrier<'_> {
    type Slot = MessageBuffer;

    fn receive(&mut self, arrived: &mut Vec<Self::Slot>, wait: Wait) -> fsage_sys::Result<bool> {
        let first = self.gather(arrived)?;
        if first == Received::Ended || !arrived.is_empty() {
            return Ok(first != Received::Ended);
        }
        if self.free.is_empty() {
            // Nothing can be taken before something held is due.
            sleep(wait);
            return Ok(true);
        }
        self.device.wait(wait.timeout_ns())?;
        Ok(self.gather(arrived)? != Received::Ended)
    }

    fn answer(&mut self, slot: Self::Slot, unique: u64, reply: Reply<'_>) -> fsage_sys::Result<()> {
        let answered = match reply {
            Reply::Bytes(bytes) => self.device.answer(unique, 0, bytes),
            Reply::Data(length) => {
                self.device.answer(unique, 0, slot.data().get(..length).unwrap_or_default())
            }
            Reply::Error(errno) => self.device.answer(unique, errno.raw_os_error(), &[]),
            Reply::Nothing => Ok(()),
        };
        self.free.push(slot);
        answered
    }

    fn slots(&self) -> usize {
        BATCH
    }
}

fn sleep(wait: Wait) {
    if let Some(timeout_ns) = wait.timeout_ns() {
        std::thread::sleep(std::time::Duration::from_nanos(timeout_ns));
    }
}
