//! A disk as a network block device, with one connection that all of its users share.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use fsage_disk::export::Gate;
use fsage_disk::export::nbd::Server;

use super::{Client, Exported, Ram};

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
/// Of zeroes: the range stays allocated.
const NO_HOLE: u16 = 2;

pub fn start(gate: Arc<Gate<Ram>>) -> Option<Exported> {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("nbd"), "disk", Arc::clone(&gate)).unwrap();
    let client = Box::new(Connection::new(UnixStream::connect(server.path()).unwrap()));
    Some(Exported { name: "NBD", gate, client, _server: Box::new((server, folder)) })
}

/// Who waits for a reply, and how many bytes of data it has.
type Waiting = Arc<Mutex<HashMap<u64, (usize, Sender<Vec<u8>>)>>>;

/// Sends requests as they come; a thread gives the replies to who waits for them.
struct Connection {
    stream: Mutex<(UnixStream, u64)>,
    waiting: Waiting,
    thread: Option<JoinHandle<()>>,
}

impl Connection {
    fn new(mut stream: UnixStream) -> Self {
        // No zeros, the name is empty, 18 bytes of greeting and 10 of the answer.
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        stream.read_exact(&mut [0; 28]).unwrap();
        let waiting = Waiting::default();
        let (input, asked) = (stream.try_clone().unwrap(), Arc::clone(&waiting));
        let thread = std::thread::spawn(move || hand_out(input, &asked));
        Self { stream: Mutex::new((stream, 0)), waiting, thread: Some(thread) }
    }

    fn ask(&self, command: u16, flags: u16, place: (u64, u64), data: &[u8]) -> Vec<u8> {
        let (sender, receiver) = channel();
        let expected = if command == READ { usize::try_from(place.1).unwrap() } else { 0 };
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&command.to_be_bytes());
        {
            let (stream, cookie) = &mut *self.stream.lock().unwrap();
            *cookie += 1;
            self.waiting.lock().unwrap().insert(*cookie, (expected, sender));
            bytes.extend_from_slice(&cookie.to_be_bytes());
            bytes.extend_from_slice(&place.0.to_be_bytes());
            bytes.extend_from_slice(&u32::try_from(place.1).unwrap().to_be_bytes());
            bytes.extend_from_slice(data);
            stream.write_all(&bytes).unwrap();
        }
        receiver.recv().unwrap()
    }
}

/// Reads replies until the connection ends.
fn hand_out(mut input: UnixStream, waiting: &Waiting) {
    let mut head = [0; 16];
    while input.read_exact(&mut head).is_ok() {
        assert_eq!(head[..8], 0x6744_6698_0000_0000_u64.to_be_bytes(), "a reply without an error");
        let cookie = u64::from_be_bytes(head[8..].try_into().unwrap());
        let (expected, sender) = waiting.lock().unwrap().remove(&cookie).unwrap();
        let mut data = vec![0; expected];
        input.read_exact(&mut data).unwrap();
        sender.send(data).unwrap();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Ok((stream, _)) = self.stream.get_mut() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

impl Client for Connection {
    fn read(&self, offset: u64, data: &mut [u8]) {
        // A request has at most 32 MiB.
        let place = (offset, u64::try_from(data.len()).unwrap());
        data.copy_from_slice(&self.ask(READ, 0, place, &[]));
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.ask(WRITE, 0, (offset, u64::try_from(data.len()).unwrap()), data);
    }

    fn flush(&self) {
        self.ask(FLUSH, 0, (0, 0), &[]);
    }

    fn discard(&self, offset: u64, length: u64) {
        self.ask(TRIM, 0, (offset, length), &[]);
    }

    fn zero(&self, offset: u64, length: u64) {
        self.ask(WRITE_ZEROES, NO_HOLE, (offset, length), &[]);
    }
}
