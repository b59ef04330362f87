use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use fsage_model::disk::DiskTime;
use proptest::prelude::*;

use super::*;
use crate::request::{Data, IoError, Operation, Request, Transfer};

/// A disk in memory that remembers what was asked of it.
#[derive(Debug)]
struct Memory {
    bytes: Vec<u8>,
    seen: Vec<Request>,
    /// Reads that touch this byte fail.
    bad: Option<u64>,
    /// How long each request takes.
    service_ns: u64,
    clock_ns: u64,
}

impl Backend for Memory {
    fn size_bytes(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap()
    }

    fn block_bytes(&self) -> u32 {
        512
    }

    fn submit(&mut self, transfers: &mut [Transfer<'_>]) {
        for transfer in transfers {
            let request = transfer.request;
            self.seen.push(request);
            self.clock_ns += self.service_ns;
            transfer.done_ns = self.clock_ns;
            let range =
                usize::try_from(request.offset_bytes).unwrap()..usize::try_from(request.end_bytes()).unwrap();
            match &mut transfer.data {
                Data::In(data) => data.copy_from_slice(&self.bytes[range]),
                Data::Out(data) => self.bytes[range].copy_from_slice(data),
                Data::None => self.bytes[range].fill(0),
            }
            let touches = |bad: u64| (request.offset_bytes..request.end_bytes()).contains(&bad);
            if request.operation == Operation::Read && self.bad.is_some_and(touches) {
                transfer.result = Err(IoError::Medium);
            }
        }
    }
}

/// How many requests of a kind came to the disk.
fn seen(gate: &Gate<Memory>, operation: Operation) -> usize {
    gate.with(|memory| memory.seen.iter().filter(|request| request.operation == operation).count())
}

const SIZE: usize = 1 << 20;

fn memory() -> Memory {
    let bytes = (0..SIZE).map(|n| u8::try_from(n / 512 % 251).unwrap()).collect();
    Memory { bytes, seen: Vec::new(), bad: None, service_ns: 0, clock_ns: 0 }
}

fn export() -> Export {
    Export { name: "disk".to_owned(), size_bytes: 1 << 20, block_bytes: 512 }
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

fn write(cookie: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    [&request(WRITE, 0, cookie, offset, u32::try_from(data.len()).unwrap())[..], data].concat()
}

/// What a client says before its requests: the old way to choose has an answer of fixed length.
fn hello() -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
    bytes
}

/// Bytes of the server until its first reply.
const HELLO: usize = 18 + 10;

/// What the server answers to requests.
fn talk(gate: &Gate<Memory>, requests: &[Vec<u8>]) -> (Vec<u8>, io::Result<()>) {
    let input = [hello(), requests.concat()].concat();
    let mut output = Vec::new();
    let result = serve(&input[..], &mut output, &export(), gate);
    (output.split_off(HELLO), result)
}

fn gate() -> Gate<Memory> {
    Gate::new(memory(), DiskTime::Model)
}

/// A reply: error and cookie.
fn reply(bytes: &[u8]) -> (u32, u64) {
    assert_eq!(bytes[..4], 0x6744_6698_u32.to_be_bytes());
    let error = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    (error, u64::from_be_bytes(bytes[8..16].try_into().unwrap()))
}

#[test]
fn requests_are_answered_in_one_batch() {
    let gate = gate();
    let (output, result) = talk(
        &gate,
        &[
            request(READ, 0, 1, 512, 1024),
            write(2, 512, &[9; 512]),
            request(READ, 0, 3, 512, 1024),
            request(FLUSH, 0, 4, 0, 0),
            request(DISCONNECT, 0, 5, 0, 0),
            request(READ, 0, 6, 0, 512),
        ],
    );
    result.unwrap();
    assert_eq!(reply(&output), (0, 1));
    assert_eq!(output[16..1040], [[1; 512], [2; 512]].concat());
    assert_eq!(reply(&output[1040..]), (0, 2));
    assert_eq!(reply(&output[1056..]), (0, 3));
    assert_eq!(output[1072..2096], [[9; 512], [2; 512]].concat());
    assert_eq!((reply(&output[2096..]), output.len()), ((0, 4), 2112));
    assert_eq!(gate.counts().largest_batch, 4, "nothing after the disconnection");
}

#[test]
fn every_command_becomes_what_it_means() {
    let gate = gate();
    let fua = 1;
    let requests = [
        [&request(WRITE, fua, 0, 0, 512)[..], &[1; 512]].concat(),
        request(TRIM, 0, 0, 512, 512),
        request(WRITE_ZEROES, 0, 0, 1024, 512),
        request(WRITE_ZEROES, 2 | 16, 0, 1536, 512),
        request(TRIM, fua, 0, 512, 512),
        request(READ, fua, 0, 0, 512),
        request(FLUSH, 0, 0, 0, 0),
        request(READ, 0, 0, 0, 0),
    ];
    let (output, result) = talk(&gate, &requests);
    result.unwrap();
    assert_eq!(output.len(), 8 * 16 + 512);
    let of = Request::new;
    let expected = [
        Request { fua: true, ..of(Operation::Write, 0, 512) },
        of(Operation::Discard, 512, 512),
        of(Operation::Discard, 1024, 512),
        of(Operation::Zero, 1536, 512),
        of(Operation::Discard, 512, 512),
        of(Operation::Flush, 0, 0),
        of(Operation::Read, 0, 512),
        of(Operation::Flush, 0, 0),
    ];
    assert_eq!(gate.with(|memory| std::mem::take(&mut memory.seen)), expected);
}

#[test]
fn what_cannot_be_done_is_answered_with_its_error() {
    let gate = gate();
    gate.with(|memory| memory.bad = Some(4096));
    let size = 1 << 20;
    let requests = [
        request(READ, 0, 0, size, 512),
        request(READ, 0, 1, 100, 512),
        write(2, size - 512, &[0; 1024]),
        request(WRITE_ZEROES, 0, 3, u64::MAX - 511, 512),
        request(TRIM, 0, 4, size, 512),
        request(READ, 4, 5, 0, 512),
        request(7, 0, 6, 0, 512),
        request(FLUSH, 0, 7, 0, 512),
        request(READ, 0, 8, 3584, 1024),
        request(READ, 0, 9, 0, 512),
    ];
    let (output, result) = talk(&gate, &requests);
    result.unwrap();
    let expected = [22, 22, 28, 28, 22, 22, 22, 22, 5];
    for (cookie, error) in (0..).zip(expected) {
        let at = 16 * usize::try_from(cookie).unwrap();
        assert_eq!(reply(&output[at..]), (error, cookie));
    }
    assert_eq!(
        (reply(&output[9 * 16..]), output.len()),
        ((0, 9), 10 * 16 + 512),
        "a failed read has no data"
    );
    assert_eq!(seen(&gate, Operation::Read), 2);
    assert_eq!(gate.counts().refused, 0, "it is refused before");
}

#[test]
fn large_requests_and_many_small_ones_fit() {
    let mut memory = memory();
    memory.bytes = vec![0; 24 << 20];
    let gate = Gate::new(memory, DiskTime::Model);
    let export = Export { size_bytes: 24 << 20, ..export() };
    let data: Vec<u8> = (0..20 << 20).map(|n| u8::try_from(n % 253).unwrap()).collect();
    let mut input = hello();
    input.extend_from_slice(&write(1, 512, &data));
    for n in 0..500_u32 {
        input.extend_from_slice(&write(
            u64::from(n),
            u64::from(n % 3) * 512,
            &[u8::try_from(n % 250).unwrap(); 512],
        ));
    }
    input.extend_from_slice(&request(READ, 0, 2, 1536, (20 << 20) - 1024));
    let mut output = Vec::new();
    serve(&input[..], &mut output, &export, &gate).unwrap();
    assert_eq!(output.len(), HELLO + 502 * 16 + (20 << 20) - 1024);
    assert!(output.ends_with(&data[1024..]));
    let firsts = gate.with(|memory| [memory.bytes[0], memory.bytes[512], memory.bytes[1024]]);
    assert_eq!(firsts, [498 % 250, 499 % 250, 497 % 250].map(|n| u8::try_from(n).unwrap()));
}

#[test]
fn a_broken_client_is_served_up_to_where_it_breaks() {
    for (garbage, kind) in [
        (vec![7; 28], io::ErrorKind::InvalidData),
        (vec![7; 3], io::ErrorKind::UnexpectedEof),
        (request(WRITE, 0, 0, 0, u32::MAX), io::ErrorKind::InvalidData),
        (request(WRITE, 0, 0, 0, 512), io::ErrorKind::UnexpectedEof),
    ] {
        let gate = gate();
        let (output, result) = talk(&gate, &[write(1, 0, &[5; 512]), garbage]);
        assert_eq!(result.unwrap_err().kind(), kind);
        assert_eq!((reply(&output), output.len()), ((0, 1), 16));
        assert_eq!(gate.with(|memory| memory.bytes[0]), 5);
    }
}

#[test]
fn in_real_time_answers_wait_until_they_are_due() {
    let mut memory = memory();
    memory.service_ns = 20_000_000;
    let gate = Gate::new(memory, DiskTime::Real);
    let begin = fsage_sys::clock::raw_ns();
    let requests = [request(READ, 0, 1, 0, 512), request(FLUSH, 0, 2, 0, 0), request(READ, 0, 3, 512, 512)];
    let (output, result) = talk(&gate, &requests);
    let took_ns = fsage_sys::clock::raw_ns() - begin;
    result.unwrap();
    // A flush is accounted, not waited for: it overtakes.
    assert_eq!(reply(&output), (0, 2));
    assert_eq!((reply(&output[16..]), output[32..544].to_vec()), ((0, 1), vec![0; 512]));
    assert_eq!((reply(&output[544..]), output[560..].to_vec()), ((0, 3), vec![1; 512]));
    assert!(took_ns >= 60_000_000, "{took_ns}");
    assert_eq!(gate.delay_error().answers, 2);
}

proptest! {
    /// The model is the bytes; pieces of requests come as they like.
    #[test]
    fn a_disk_is_what_was_written(
        work in prop::collection::vec((0..5_u16, 0..2048_u64, 0..40_u32, any::<u8>()), 1..80),
        cuts in prop::collection::vec(1..5000_usize, 1..20),
    ) {
        let gate = gate();
        let mut model = gate.with(|memory| memory.bytes.clone());
        let (mut input, mut expected) = (hello(), Vec::new());
        for (cookie, (command, sector, sectors, fill)) in (0..).zip(work) {
            let (offset, length) = (sector * 512, sectors.min(u32::try_from(2048 - sector).unwrap()) * 512);
            let range = usize::try_from(offset).unwrap()..usize::try_from(offset + u64::from(length)).unwrap();
            let mut data = Vec::new();
            match command {
                0 => {
                    input.extend_from_slice(&request(READ, 0, cookie, offset, length));
                    data.extend_from_slice(&model[range]);
                }
                1 => {
                    model[range.clone()].fill(fill);
                    input.extend_from_slice(&write(cookie, offset, &model[range]));
                }
                2 => input.extend_from_slice(&request(FLUSH, 0, cookie, 0, 0)),
                3 => {
                    model[range].fill(0);
                    input.extend_from_slice(&request(TRIM, 1, cookie, offset, length));
                }
                _ => {
                    model[range].fill(0);
                    input.extend_from_slice(&request(WRITE_ZEROES, 2, cookie, offset, length));
                }
            }
            expected.extend_from_slice(&0x6744_6698_0000_0000_u64.to_be_bytes());
            expected.extend_from_slice(&cookie.to_be_bytes());
            expected.extend_from_slice(&data);
        }
        let mut output = Vec::new();
        serve(Pieces { left: &input, cuts: cuts.into_iter().cycle() }, &mut output, &export(), &gate).unwrap();
        prop_assert!(output[HELLO..] == expected);
        prop_assert!(gate.with(|memory| memory.bytes == model));
    }

    #[test]
    fn no_input_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), greets in any::<bool>()) {
        let input = if greets { [hello(), bytes].concat() } else { bytes };
        let _ = serve(&input[..], &mut Vec::new(), &export(), &gate());
    }
}

/// Gives bytes in pieces of these lengths.
struct Pieces<'a, I> {
    left: &'a [u8],
    cuts: I,
}

impl<I: Iterator<Item = usize>> io::Read for Pieces<'_, I> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let length = self.cuts.next().unwrap_or(1).min(room.len()).min(self.left.len());
        let (piece, left) = self.left.split_at(length);
        room[..length].copy_from_slice(piece);
        self.left = left;
        Ok(length)
    }
}

/// A client on the server's socket.
fn client(server: &Server) -> UnixStream {
    let mut stream = UnixStream::connect(server.path()).unwrap();
    stream.write_all(&hello()).unwrap();
    let mut greeting = [0; HELLO];
    stream.read_exact(&mut greeting).unwrap();
    stream
}

fn ask(stream: &mut UnixStream, request: &[u8], data: usize) -> Vec<u8> {
    stream.write_all(request).unwrap();
    let mut bytes = vec![0; 16 + data];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(reply(&bytes).0, 0);
    bytes.split_off(16)
}

#[test]
fn what_one_client_wrote_another_reads_and_all_end_with_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nbd");
    let gate = Arc::new(gate());
    let server = Server::start(&path, "disk", Arc::clone(&gate)).unwrap();
    let (mut one, mut other) = (client(&server), client(&server));
    ask(&mut one, &write(1, 0, &[77; 512]), 0);
    assert_eq!(ask(&mut other, &request(READ, 0, 2, 0, 512), 512), [77; 512]);
    ask(&mut other, &request(FLUSH, 0, 3, 0, 0), 0);
    assert_eq!(seen(&gate, Operation::Flush), 1);
    // One that breaks the protocol loses its own connection only.
    let mut third = client(&server);
    third.write_all(&[0; 28]).unwrap();
    assert_eq!(third.read(&mut [0; 1]).unwrap(), 0);
    ask(&mut one, &write(1, 0, &[78; 512]), 0);
    drop(server);
    assert_eq!(one.read(&mut [0; 1]).unwrap(), 0);
    assert!(!path.exists());
    assert!(UnixStream::connect(&path).is_err());
}

#[test]
fn a_dead_socket_is_replaced_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nbd");
    // What a killed server leaves.
    drop(UnixListener::bind(&path).unwrap());
    let server = Server::start(&path, "disk", Arc::new(gate())).unwrap();
    client(&server);
    drop(server);
    std::fs::write(&path, "mine").unwrap();
    let error = Server::start(&path, "disk", Arc::new(gate())).unwrap_err();
    assert!(matches!(error, NbdError::Taken { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    let long = directory.path().join("n".repeat(200));
    assert!(matches!(Server::start(&long, "disk", Arc::new(gate())), Err(NbdError::Listen { .. })));
}

#[test]
fn more_clients_than_there_is_room_for_are_turned_away() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("nbd"), "disk", Arc::new(gate())).unwrap();
    let mut clients: Vec<_> = (0..CLIENT_LIMIT).map(|_| client(&server)).collect();
    let mut late = UnixStream::connect(server.path()).unwrap();
    assert_eq!(late.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(server.clients(), CLIENT_LIMIT);
    ask(&mut clients[7], &request(READ, 0, 2, 0, 512), 512);
}
