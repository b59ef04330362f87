//! The directory and the file, and what is said about them.

use fsage_sys::fuse::ROOT_NODE;
use fsage_sys::fuse::reply::{self, Attributes};
use fsage_sys::fuse::request::{self, Header, Message, Range, Request};
use rustix::io::Errno;

use super::FILE_NAME;
use super::openings::Openings;
use crate::request::{Operation, Request as DiskRequest};

/// The number of the file.
const FILE_NODE: u64 = 2;
const DIRECTORY_MODE: u32 = 0o040_700;
const FILE_MODE: u32 = 0o100_600;
/// Types of directory entries (`DT_…`).
const DIRECTORY_ENTRY: u32 = 4;
const FILE_ENTRY: u32 = 8;

const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 0x10;

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Ask the disk.
    Transfer(DiskRequest),
    /// Answer with so many bytes of the room that was given.
    Answer(usize),
    /// Answer with an error.
    Refuse(Errno),
    /// No answer is expected.
    Nothing,
}

/// Room for the longest answer that is made here.
pub(super) type Room = [u8; 128];

/// What the mount shows.
#[derive(Debug)]
pub(super) struct Tree {
    pub size_bytes: u64,
    pub block_bytes: u32,
    /// Which drives flushes are of, where there are several.
    pub openings: Option<Openings>,
}

impl Tree {
    /// Decides about a request.
    #[inline]
    pub fn decide(&mut self, header: &Header, message: &Message<'_>, room: &mut Room) -> Action {
        let Ok(request) = request::decode(header, message) else {
            return Action::Refuse(Errno::INVAL);
        };
        match request {
            Request::Read(range) if header.node == FILE_NODE => self.read(range),
            Request::Write(range) if header.node == FILE_NODE => {
                let length = u64::from(range.size);
                self.transfer(range.handle, DiskRequest::new(Operation::Write, range.offset, length))
            }
            Request::Fsync { handle } => Action::Transfer(self.flush(handle)),
            Request::Fallocate { handle, offset, length, mode } if header.node == FILE_NODE => {
                match fallocate(mode) {
                    Ok(operation) => self.transfer(handle, DiskRequest::new(operation, offset, length)),
                    Err(refusal) => Action::Refuse(refusal),
                }
            }
            other => self.decide_rest(header, other, room),
        }
    }

    /// What is no request to the disk.
    fn decide_rest(&mut self, header: &Header, request: Request<'_>, room: &mut Room) -> Action {
        match request {
            Request::Lookup { name } if header.node == ROOT_NODE && name == FILE_NAME.as_bytes() => {
                answer(room, &self.file().encode_entry())
            }
            Request::Lookup { .. } => Action::Refuse(Errno::NOENT),
            Request::GetAttr => match header.node {
                ROOT_NODE => answer(room, &self.directory().encode()),
                FILE_NODE => answer(room, &self.file().encode()),
                _ => Action::Refuse(Errno::STALE),
            },
            Request::Open if header.node == FILE_NODE => {
                let handle = self.openings.as_mut().map_or(0, Openings::open);
                let flags = reply::OPEN_DIRECT_IO | reply::OPEN_NO_FLUSH | reply::OPEN_PARALLEL_DIRECT_WRITES;
                answer(room, &reply::open(handle, flags))
            }
            Request::OpenDir if header.node == ROOT_NODE => answer(room, &reply::open(0, 0)),
            Request::ReadDir(range) if header.node == ROOT_NODE => list(room, range),
            Request::StatFs => answer(room, &reply::statfs(self.size_bytes, self.block_bytes)),
            Request::Release | Request::Access | Request::Flush | Request::Destroy => Action::Answer(0),
            Request::Forget | Request::Interrupt => Action::Nothing,
            Request::Init(_) => Action::Refuse(Errno::PROTO),
            Request::Open | Request::OpenDir | Request::ReadDir(_) => Action::Refuse(Errno::STALE),
            _ => Action::Refuse(Errno::NOSYS),
        }
    }

    /// A read that reaches over the end is short, as on any file.
    #[inline]
    fn read(&mut self, range: Range) -> Action {
        let rest = self.size_bytes.saturating_sub(range.offset);
        let length = u64::from(range.size).min(rest);
        if length == 0 {
            return Action::Answer(0);
        }
        self.transfer(range.handle, DiskRequest::new(Operation::Read, range.offset, length))
    }

    #[inline]
    fn transfer(&mut self, handle: u64, request: DiskRequest) -> Action {
        if let Some(openings) = &mut self.openings {
            openings.note(handle, &request);
        }
        Action::Transfer(request)
    }

    /// Of everything that was reached through this opening, and of the whole disk where nobody knows.
    fn flush(&self, handle: u64) -> DiskRequest {
        let (from, to) =
            self.openings.as_ref().and_then(|openings| openings.reached(handle)).unwrap_or((0, 0));
        let block = u64::from(self.block_bytes.max(1));
        let (from, to) = (from.min(self.size_bytes), to.min(self.size_bytes).next_multiple_of(block));
        let from = from - from % block;
        DiskRequest::new(Operation::Flush, from, to.saturating_sub(from))
    }

    const fn directory(&self) -> Attributes {
        let block_bytes = self.block_bytes;
        Attributes { node: ROOT_NODE, size: 0, mode: DIRECTORY_MODE, links: 2, block_bytes }
    }

    const fn file(&self) -> Attributes {
        let Self { size_bytes, block_bytes, .. } = *self;
        Attributes { node: FILE_NODE, size: size_bytes, mode: FILE_MODE, links: 1, block_bytes }
    }
}

const fn fallocate(mode: u32) -> Result<Operation, Errno> {
    match mode & !KEEP_SIZE {
        PUNCH_HOLE if mode & KEEP_SIZE != 0 => Ok(Operation::Discard),
        ZERO_RANGE => Ok(Operation::Zero),
        _ => Err(Errno::OPNOTSUPP),
    }
}

fn answer(room: &mut Room, bytes: &[u8]) -> Action {
    room[..bytes.len()].copy_from_slice(bytes);
    Action::Answer(bytes.len())
}

/// The entries of the root directory from `range.offset` on: as many as fit.
fn list(room: &mut Room, range: Range) -> Action {
    const ENTRIES: [(&[u8], u64, u32); 3] = [
        (b".", ROOT_NODE, DIRECTORY_ENTRY),
        (b"..", ROOT_NODE, DIRECTORY_ENTRY),
        (FILE_NAME.as_bytes(), FILE_NODE, FILE_ENTRY),
    ];
    let first = usize::try_from(range.offset).unwrap_or(usize::MAX);
    let limit = usize::try_from(range.size).unwrap_or(usize::MAX).min(room.len());
    let mut used = 0;
    for ((name, node, kind), next) in ENTRIES.into_iter().zip(1_u64..).skip(first) {
        let end = used + reply::directory_entry_bytes(name);
        if end > limit {
            break;
        }
        reply::directory_entry(&mut room[used..end], node, next, kind, name);
        used = end;
    }
    Action::Answer(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: Tree = Tree { size_bytes: 1 << 30, block_bytes: 4096, openings: None };

    fn decide(opcode: u32, node: u64, fixed: &[u8], payload: &[u8]) -> Action {
        decide_by(&mut { TREE }, (opcode, node), fixed, payload)
    }

    fn decide_by(tree: &mut Tree, (opcode, node): (u32, u64), fixed: &[u8], payload: &[u8]) -> Action {
        let header = Header { length: 0, opcode, unique: 1, node };
        tree.decide(&header, &Message { header: &[], fixed, payload }, &mut [0; 128])
    }

    fn range(offset: u64, size: u32) -> Vec<u8> {
        let mut fixed = vec![0; 40];
        fixed[8..16].copy_from_slice(&offset.to_ne_bytes());
        fixed[16..20].copy_from_slice(&size.to_ne_bytes());
        fixed
    }

    fn fallocated(mode: u32) -> Action {
        let mut fixed = vec![0; 32];
        fixed[8..16].copy_from_slice(&4096_u64.to_ne_bytes());
        fixed[16..24].copy_from_slice(&8192_u64.to_ne_bytes());
        fixed[24..28].copy_from_slice(&mode.to_ne_bytes());
        decide(43, FILE_NODE, &fixed, &[])
    }

    #[test]
    fn transfers_become_requests_to_the_disk() {
        let wanted =
            |operation, offset, length| Action::Transfer(DiskRequest::new(operation, offset, length));
        assert_eq!(decide(15, FILE_NODE, &range(8192, 4096), &[]), wanted(Operation::Read, 8192, 4096));
        assert_eq!(decide(16, FILE_NODE, &range(8192, 2), &[1, 2]), wanted(Operation::Write, 8192, 2));
        assert_eq!(decide(20, FILE_NODE, &[0; 16], &[]), wanted(Operation::Flush, 0, 0));
        assert_eq!(fallocated(3), wanted(Operation::Discard, 4096, 8192));
        assert_eq!(fallocated(0x11), wanted(Operation::Zero, 4096, 8192));
        assert_eq!(fallocated(0x10), wanted(Operation::Zero, 4096, 8192));
        for mode in [0, 1, 2, 8, 0x20, 0x43, u32::MAX] {
            assert_eq!(fallocated(mode), Action::Refuse(Errno::OPNOTSUPP), "{mode:#x}");
        }
    }

    #[test]
    fn a_flush_is_of_what_was_reached_through_its_opening() {
        let mut tree = Tree { openings: Some(Openings::default()), ..TREE };
        let mut by = |opcode, handle: u64, offset, size, payload: &[u8]| {
            let mut fixed = range(offset, size);
            fixed[..8].copy_from_slice(&handle.to_ne_bytes());
            decide_by(&mut tree, (opcode, FILE_NODE), &fixed, payload)
        };
        let flush = |from, length| Action::Transfer(DiskRequest::new(Operation::Flush, from, length));
        assert_eq!([by(14, 0, 0, 0, &[]), by(14, 0, 0, 0, &[])], [Action::Answer(16), Action::Answer(16)]);
        assert_eq!(by(20, 1, 0, 0, &[]), flush(0, 0), "nothing yet: of everything");
        by(15, 1, 1 << 20, 4096, &[]);
        by(16, 1, (1 << 20) + 8192, 2, &[1, 2]);
        by(16, 2, 512 << 20, 1, &[1]);
        assert_eq!(by(20, 1, 0, 0, &[]), flush(1 << 20, 12288));
        assert_eq!(by(20, 2, 0, 0, &[]), flush(512 << 20, 4096));
        assert_eq!(by(20, 3, 0, 0, &[]), flush(0, 0), "never opened");
        by(15, 2, (1 << 30) - 4096, 4096, &[]);
        assert_eq!(by(20, 2, 0, 0, &[]), flush(512 << 20, 512 << 20));
        let mut discard = vec![0; 32];
        for (place, word) in [(0, 1_u64), (8, 1 << 19), (16, 4096), (24, 3)] {
            discard[place..place + 8].copy_from_slice(&word.to_le_bytes());
        }
        decide_by(&mut tree, (43, FILE_NODE), &discard, &[]);
        let fixed = [&1_u64.to_ne_bytes()[..], &[0; 32]].concat();
        assert_eq!(decide_by(&mut tree, (20, FILE_NODE), &fixed, &[]), flush(1 << 19, (1 << 19) + 12288));
    }

    #[test]
    fn reads_end_where_the_disk_ends() {
        let last = TREE.size_bytes - 4096;
        let wanted = Action::Transfer(DiskRequest::new(Operation::Read, last, 4096));
        assert_eq!(decide(15, FILE_NODE, &range(last, 1 << 20), &[]), wanted);
        assert_eq!(decide(15, FILE_NODE, &range(u64::MAX, 4096), &[]), Action::Answer(0));
    }

    #[test]
    fn only_the_disk_can_be_found_and_opened() {
        assert_eq!(decide(1, ROOT_NODE, &[], b"disk\0"), Action::Answer(128));
        for (node, name) in [(ROOT_NODE, &b"other\0"[..]), (FILE_NODE, b"disk\0")] {
            assert_eq!(decide(1, node, &[], name), Action::Refuse(Errno::NOENT));
        }
        assert_eq!(decide(14, FILE_NODE, &[], &[]), Action::Answer(16));
        assert_eq!(decide(14, 3, &[], &[]), Action::Refuse(Errno::STALE));
        assert_eq!(decide(15, ROOT_NODE, &range(0, 4096), &[]), Action::Refuse(Errno::NOSYS));
    }

    #[test]
    fn a_listing_can_be_read_in_pieces() {
        let length = |offset, size| match decide(28, ROOT_NODE, &range(offset, size), &[]) {
            Action::Answer(length) => length,
            other => panic!("{other:?}"),
        };
        assert_eq!(length(0, 4096), 96);
        assert_eq!(length(0, 64), 64);
        assert_eq!(length(2, 4096), 32);
        assert_eq!(length(3, 4096), 0);
        assert_eq!(length(u64::MAX, 4096), 0);
    }

    #[test]
    fn malformed_and_unknown_requests_are_refused() {
        assert_eq!(decide(15, FILE_NODE, &[0; 11], &[]), Action::Refuse(Errno::INVAL));
        assert_eq!(decide(16, FILE_NODE, &range(0, 9), &[]), Action::Refuse(Errno::INVAL));
        assert_eq!(decide(9999, FILE_NODE, &[], &[]), Action::Refuse(Errno::NOSYS));
        assert_eq!(decide(2, FILE_NODE, &[], &[]), Action::Nothing);
    }
}
