//! One client after the negotiation: requests in batches, replies.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use arrayvec::ArrayVec;
use fsage_sys::clock;

use super::handshake::{End, Export, negotiate};
use super::message::{Command, Error, Header, PAYLOAD_LIMIT, REPLY_BYTES, REQUEST_BYTES, reply};
use crate::export::{BATCH, Backend, Gate, gate::Wall};
use crate::request::{Data, Operation, Request, Transfer};

/// Bytes of requests, and of replies, that are taken together; a single one may be larger.
const BUFFER_BYTES: usize = 4 << 20;

/// Most requests in a batch: one with FUA may be two transfers.
const REQUESTS: usize = BATCH / 2;

/// Makes the socket carry large requests in one piece; the kernel cuts this to what it allows.
pub(super) fn widen(stream: &UnixStream) {
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(stream, BUFFER_BYTES);
}

/// Serves one client until it goes.
///
/// # Errors
/// The client breaks the protocol, or its connection breaks.
pub fn serve<B: Backend>(
    mut input: impl Read,
    mut output: impl Write,
    export: &Export,
    gate: &Gate<B>,
) -> io::Result<()> {
    match negotiate(&mut input, &mut output, export)? {
        End::Gone => Ok(()),
        End::Go => Connection::new(export).run(&mut input, &mut output, gate),
    }
}

/// A request as it came.
#[derive(Debug, Clone, Copy)]
struct Pending {
    header: Header,
    /// Where its payload is in the buffer of requests.
    payload: usize,
    /// Where its reply is in the buffer of replies.
    reply: usize,
    /// Bytes of data that its reply has room for.
    data_bytes: usize,
    /// What is wrong with it.
    result: Result<(), Error>,
    /// When to answer; nothing: at once.
    due_ns: Option<u64>,
}

impl Pending {
    /// The reply in its buffer, as it is sent: one that failed has no data.
    const fn range(&self) -> std::ops::Range<usize> {
        let data_bytes = if self.result.is_ok() { self.data_bytes } else { 0 };
        self.reply..self.reply + REPLY_BYTES + data_bytes
    }

    /// Whether there is something to do.
    const fn is_work(&self) -> bool {
        self.result.is_ok() && (self.header.length_bytes > 0 || matches!(self.header.command, Command::Flush))
    }
}

type Batch = ArrayVec<Pending, REQUESTS>;

/// The buffers of a client.
struct Connection {
    size_bytes: u64,
    block_bytes: u64,
    /// What came, as it came; `begin..end` of it is not served.
    requests: Vec<u8>,
    begin: usize,
    end: usize,
    replies: Vec<u8>,
}

fn as_usize(bytes: u32) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Connection {
    fn new(export: &Export) -> Self {
        Self {
            size_bytes: export.size_bytes,
            block_bytes: u64::from(export.block_bytes.max(1)),
            requests: vec![0; BUFFER_BYTES],
            begin: 0,
            end: 0,
            replies: vec![0; BUFFER_BYTES],
        }
    }

    fn run<B: Backend>(
        &mut self,
        input: &mut impl Read,
        output: &mut impl Write,
        gate: &Gate<B>,
    ) -> io::Result<()> {
        loop {
            let mut batch = Batch::new();
            let goes_on = self.gather(&mut batch)?;
            if !batch.is_empty() {
                self.submit(&mut batch, gate);
                self.answer(&mut batch, output, gate)?;
            }
            if !goes_on {
                return Ok(());
            }
            if batch.is_empty() && !self.receive(input)? {
                return Ok(());
            }
        }
    }

    /// Takes requests out of the buffer, as many as are whole and fit a batch. `false`: the client wants no
    /// more.
    fn gather(&mut self, batch: &mut Batch) -> io::Result<bool> {
        let mut reply = 0;
        while !batch.is_full() {
            let waiting = &self.requests[self.begin..self.end];
            let Some(bytes) = waiting.first_chunk::<REQUEST_BYTES>() else { break };
            let header = match understand(bytes) {
                Ok(header) => header,
                // What came before it is served first.
                Err(_) if !batch.is_empty() => break,
                Err(error) => return Err(error),
            };
            if header.command == Command::Disconnect {
                return Ok(false);
            }
            let length = REQUEST_BYTES + as_usize(header.payload_bytes());
            if waiting.len() < length {
                break;
            }
            let result = self.check(&header);
            let data_bytes = match header.command {
                Command::Read if result.is_ok() => as_usize(header.length_bytes),
                _ => 0,
            };
            if reply + REPLY_BYTES + data_bytes > BUFFER_BYTES && !batch.is_empty() {
                break;
            }
            let payload = self.begin + REQUEST_BYTES;
            let pending = Pending { header, payload, reply, data_bytes, result, due_ns: None };
            reply += REPLY_BYTES + data_bytes;
            batch.push(pending);
            self.begin += length;
        }
        Ok(true)
    }

    /// Waits for bytes. `false`: no more come, and none are missing. Not while a batch refers to the buffer.
    fn receive(&mut self, input: &mut impl Read) -> io::Result<bool> {
        let waiting = &self.requests[self.begin..self.end];
        // At least the rest of the request that is incomplete must find room.
        let payload =
            waiting.first_chunk().and_then(Header::decode).map_or(0, |header| header.payload_bytes());
        let length = REQUEST_BYTES + as_usize(payload);
        if waiting.is_empty() || self.begin + length > self.requests.len() {
            self.requests.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if length > self.requests.len() {
            self.requests.resize(length, 0);
        }
        loop {
            match input.read(&mut self.requests[self.end..]) {
                Ok(0) if self.begin == self.end => return Ok(false),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.end += length;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a request can be served.
    fn check(&self, header: &Header) -> Result<(), Error> {
        if !header.flags_are_known() {
            return Err(Error::Invalid);
        }
        let beyond = match header.command {
            Command::Read | Command::Trim => Error::Invalid,
            Command::Write | Command::WriteZeroes => Error::NoSpace,
            Command::Flush if header.offset_bytes == 0 && header.length_bytes == 0 => return Ok(()),
            Command::Flush | Command::Disconnect | Command::Other => return Err(Error::Invalid),
        };
        let length = u64::from(header.length_bytes);
        if !header.offset_bytes.is_multiple_of(self.block_bytes) || !length.is_multiple_of(self.block_bytes) {
            return Err(Error::Invalid);
        }
        if header.offset_bytes.checked_add(length).is_none_or(|end| end > self.size_bytes) {
            return Err(beyond);
        }
        match header.command {
            Command::Read if header.length_bytes > PAYLOAD_LIMIT => Err(Error::Overflow),
            _ => Ok(()),
        }
    }

    /// Hands a batch over.
    fn submit<B: Backend>(&mut self, batch: &mut Batch, gate: &Gate<B>) {
        let room = batch.last().map_or(0, |last| last.reply + REPLY_BYTES + last.data_bytes);
        if self.replies.len() < room {
            self.replies.resize(room, 0);
        }
        let mut transfers = ArrayVec::<Transfer<'_>, BATCH>::new();
        let mut replies = &mut self.replies[..room];
        for pending in &*batch {
            let (data, rest) = std::mem::take(&mut replies)[REPLY_BYTES..].split_at_mut(pending.data_bytes);
            replies = rest;
            if pending.is_work() {
                let payload = &self.requests[pending.payload..];
                let payload = &payload[..as_usize(pending.header.payload_bytes())];
                add_transfers(&mut transfers, &pending.header, data, payload);
            }
        }
        if !transfers.is_empty() {
            let wall = gate.submit(&mut transfers);
            take_results(batch, &transfers, wall);
        }
    }

    /// Answers a batch: at once, or each when it is due.
    fn answer<B: Backend>(
        &mut self,
        batch: &mut Batch,
        output: &mut impl Write,
        gate: &Gate<B>,
    ) -> io::Result<()> {
        for pending in &*batch {
            let room = self.replies[pending.reply..].first_chunk_mut::<REPLY_BYTES>();
            if let Some(room) = room {
                reply(room, pending.header.cookie, pending.result);
            }
        }
        // Those that are not delayed come first and in their order: what lies together goes together.
        batch.sort_unstable_by_key(|pending| (pending.due_ns, pending.reply));
        let mut ready = 0..0;
        for pending in &*batch {
            let range = pending.range();
            if pending.due_ns.is_none() && ready.end == range.start {
                ready.end = range.end;
                continue;
            }
            output.write_all(&self.replies[std::mem::replace(&mut ready, range)])?;
            if let Some(due_ns) = pending.due_ns {
                gate.note_late(sleep_until(due_ns));
            }
        }
        output.write_all(&self.replies[ready])
    }
}

/// A request's fixed part; after one that is no request, nothing can be understood.
fn understand(bytes: &[u8; REQUEST_BYTES]) -> io::Result<Header> {
    let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let header = Header::decode(bytes).ok_or_else(|| broken("no request begins there"))?;
    if header.payload_bytes() > PAYLOAD_LIMIT {
        return Err(broken("a payload is too long"));
    }
    Ok(header)
}

/// Adds what a request asks of the disk.
fn add_transfers<'a>(
    transfers: &mut ArrayVec<Transfer<'a>, BATCH>,
    header: &Header,
    room: &'a mut [u8],
    payload: &'a [u8],
) {
    let (operation, data) = match header.command {
        Command::Read => (Operation::Read, Data::In(room)),
        Command::Write => (Operation::Write, Data::Out(payload)),
        Command::Trim => (Operation::Discard, Data::None),
        Command::WriteZeroes if header.no_hole() => (Operation::Zero, Data::None),
        Command::WriteZeroes => (Operation::Discard, Data::None),
        Command::Flush | Command::Disconnect | Command::Other => (Operation::Flush, Data::None),
    };
    let mut request = Request::new(operation, header.offset_bytes, u64::from(header.length_bytes));
    request.fua = operation == Operation::Write && header.fua();
    // A batch of requests has half as many as one of transfers: there is room for both.
    transfers.push(Transfer::new(request, data));
    if flushes_after(header) {
        transfers.push(Transfer::new(Request::new(Operation::Flush, 0, 0), Data::None));
    }
}

/// Whether a flush follows a request: only writes carry their own.
const fn flushes_after(header: &Header) -> bool {
    header.fua() && matches!(header.command, Command::Trim | Command::WriteZeroes)
}

/// Takes over how the transfers of a batch went.
fn take_results(batch: &mut Batch, transfers: &[Transfer<'_>], wall: Wall) {
    let mut transfers = transfers.iter();
    for pending in batch.iter_mut().filter(|pending| pending.is_work()) {
        for transfer in transfers.by_ref().take(1 + usize::from(flushes_after(&pending.header))) {
            pending.result = pending.result.and(transfer.result.map_err(Error::from));
            let due_ns = wall.due_ns(transfer.request.operation, transfer.done_ns);
            pending.due_ns = pending.due_ns.max(due_ns);
        }
    }
}

/// Sleeps until this time ([`clock::raw_ns`]), and says how much later it was.
fn sleep_until(due_ns: u64) -> u64 {
    loop {
        let now_ns = clock::raw_ns();
        if now_ns >= due_ns {
            return now_ns - due_ns;
        }
        std::thread::sleep(std::time::Duration::from_nanos(due_ns - now_ns));
    }
}
