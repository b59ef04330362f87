//! A disk behind the loop of ublk, on a queue in memory in the place of the driver's: what the block layer
//! would do is done here.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_disk::export::ublk::{MAX_TRANSFER_BYTES, Queue, Slot, serve};
use fsage_disk::export::{BATCH, Gate, Heartbeat};
use fsage_sys::ublk::{Descriptor, FLAG_NO_UNMAP, operation};

use super::{Client, Exported, Ram};

pub fn start(gate: Arc<Gate<Ram>>) -> Option<Exported> {
    let (sender, receiver) = channel();
    let served = Arc::clone(&gate);
    let thread = std::thread::spawn(move || {
        serve(&served, &mut Simulated { receiver }, &Heartbeat::default()).unwrap();
    });
    let client = Box::new(BlockLayer { sender: Mutex::new(Some(sender)), thread: Some(thread) });
    Some(Exported { name: "ublk, simulated", gate, client, _server: Box::new(()) })
}

/// A request with its data, and who waits for it.
struct Room {
    descriptor: Descriptor,
    data: Vec<u8>,
    waiting: Sender<(i32, Vec<u8>)>,
}

impl Slot for Room {
    fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    fn data(&self) -> &[u8] {
        &self.data
    }

    fn data_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }
}

/// The queue; ends when the client has gone.
struct Simulated {
    receiver: Receiver<Room>,
}

impl Queue for Simulated {
    type Slot = Room;

    fn receive(&mut self, arrived: &mut Vec<Room>, timeout_ns: Option<u64>) -> fsage_sys::Result<bool> {
        let first = match timeout_ns {
            Some(ns) => self.receiver.recv_timeout(Duration::from_nanos(ns)),
            None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match first {
            Ok(room) => arrived.push(room),
            Err(RecvTimeoutError::Timeout) => return Ok(true),
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
        }
        arrived.extend(self.receiver.try_iter().take(BATCH - 1));
        Ok(true)
    }

    fn answer(&mut self, slot: Room, result: i32) -> fsage_sys::Result<()> {
        slot.waiting.send((result, slot.data)).unwrap();
        Ok(())
    }

    fn slots(&self) -> usize {
        BATCH
    }
}

/// Cuts what its users ask into requests that fit a slot, and asks all of them at once.
struct BlockLayer {
    sender: Mutex<Option<Sender<Room>>>,
    thread: Option<JoinHandle<()>>,
}

impl BlockLayer {
    fn ask(&self, op_flags: u32, offset: u64, data: Vec<u8>, length: u64) -> Receiver<(i32, Vec<u8>)> {
        let (waiting, answer) = channel();
        let sectors = u32::try_from(length / 512).unwrap();
        let descriptor = Descriptor { op_flags, sectors, start_sector: offset / 512, address: 0 };
        let sender = self.sender.lock().unwrap();
        sender.as_ref().unwrap().send(Room { descriptor, data, waiting }).unwrap();
        answer
    }

    fn ask_and_wait(&self, op_flags: u32, offset: u64, length: u64) {
        let (result, _) = self.ask(op_flags, offset, Vec::new(), length).recv().unwrap();
        assert_eq!(result, 0);
    }
}

const PIECE: usize = MAX_TRANSFER_BYTES as usize;

impl Client for BlockLayer {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let places = (offset..).step_by(PIECE);
        let asked: Vec<_> = data
            .chunks_mut(PIECE)
            .zip(places)
            .map(|(piece, place)| {
                let room = vec![0; piece.len()];
                let answer = self.ask(operation::READ, place, room, piece.len() as u64);
                (piece, answer)
            })
            .collect();
        for (piece, answer) in asked {
            let (result, read) = answer.recv().unwrap();
            assert_eq!(usize::try_from(result).unwrap(), piece.len());
            piece.copy_from_slice(&read);
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let places = (offset..).step_by(PIECE);
        let asked: Vec<_> = data
            .chunks(PIECE)
            .zip(places)
            .map(|(piece, place)| {
                (piece.len(), self.ask(operation::WRITE, place, piece.to_vec(), piece.len() as u64))
            })
            .collect();
        for (length, answer) in asked {
            assert_eq!(usize::try_from(answer.recv().unwrap().0).unwrap(), length);
        }
    }

    fn flush(&self) {
        self.ask_and_wait(operation::FLUSH, 0, 0);
    }

    fn discard(&self, offset: u64, length: u64) {
        self.ask_and_wait(operation::DISCARD, offset, length);
    }

    fn zero(&self, offset: u64, length: u64) {
        self.ask_and_wait(operation::WRITE_ZEROES | FLAG_NO_UNMAP, offset, length);
    }
}

impl Drop for BlockLayer {
    fn drop(&mut self) {
        drop(self.sender.lock().unwrap().take());
        let served = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            served.unwrap();
        }
    }
}
