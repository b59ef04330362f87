//! What the kernel asks.

use super::HEADER_BYTES;
use crate::bytes::{u32_at, u64_at};

/// What every request begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole request.
    pub length: u32,
    /// What is asked, as a number.
    pub opcode: u32,
    /// Which answer belongs to it.
    pub unique: u64,
    /// The file or directory it is about.
    pub node: u64,
}

/// A request in its three parts. Where the kernel gave them in one piece, [`fixed_bytes`] says where the
/// second one ends.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// [`HEADER_BYTES`] bytes.
    pub header: &'a [u8],
    /// The part whose size goes by the kind; may be longer than that.
    pub fixed: &'a [u8],
    /// The rest.
    pub payload: &'a [u8],
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// The first request: what both sides can do.
    Init(Init),
    /// Finds a name in a directory.
    Lookup {
        /// Without the NUL at its end.
        name: &'a [u8],
    },
    /// The kernel forgets nodes. Has no answer.
    Forget,
    /// Attributes.
    GetAttr,
    /// Opens a file.
    Open,
    /// Opens a directory.
    OpenDir,
    /// Reads bytes of a file.
    Read(Range),
    /// Writes the payload to a file.
    Write(Range),
    /// A file was closed by one of its users.
    Flush,
    /// Everything written before shall be on the medium.
    Fsync {
        /// What the opening of the file was answered with.
        handle: u64,
    },
    /// A file or directory was closed by its last user.
    Release,
    /// Lists a directory.
    ReadDir(Range),
    /// Space used and free.
    StatFs,
    /// Allocates or releases a range.
    Fallocate {
        /// What the opening of the file was answered with.
        handle: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// `FALLOC_FL_…`
        mode: u32,
    },
    /// Anyone who waits for another request wants to be interrupted. Has no answer.
    Interrupt,
    /// The file system was unmounted.
    Destroy,
    /// May this process?
    Access,
    /// Something else.
    Unknown,
}

/// What the kernel offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Init {
    /// Of the protocol.
    pub major: u32,
    /// Of the protocol.
    pub minor: u32,
    /// Bytes.
    pub max_readahead: u32,
    /// `FUSE_…` bits, the second word in the upper half.
    pub flags: u64,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// What the opening of the file was answered with.
    pub handle: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u32,
}

/// Why a request cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not even a header.
    #[error("request without a whole header")]
    Header,
    /// The fixed part is too short.
    #[error("request {opcode} is cut")]
    Cut {
        /// Which.
        opcode: u32,
    },
    /// The data of a write is not as long as it says.
    #[error("write of {said} bytes comes with {got}")]
    Payload {
        /// By the fixed part.
        said: u32,
        /// That came.
        got: usize,
    },
}

const READ: u32 = 15;
const WRITE: u32 = 16;
const FSYNC: u32 = 20;
const FALLOCATE: u32 = 43;

/// Bytes of the fixed part of a kind of request; 0 of those that have none or that nobody inspects.
#[must_use]
pub const fn fixed_bytes(opcode: u32) -> usize {
    match opcode {
        READ | WRITE | 28 | 44 => 40,
        FALLOCATE => 32,
        FSYNC => 16,
        26 => 64,
        _ => 0,
    }
}

/// The header of a message.
///
/// # Errors
/// [`Malformed::Header`].
#[inline]
pub fn header(message: &Message<'_>) -> Result<Header, Malformed> {
    let bytes = message.header.first_chunk::<HEADER_BYTES>().ok_or(Malformed::Header)?;
    let field = |at| u32_at(bytes, at).ok_or(Malformed::Header);
    let long = |at| u64_at(bytes, at).ok_or(Malformed::Header);
    Ok(Header { length: field(0)?, opcode: field(4)?, unique: long(8)?, node: long(16)? })
}

/// Reads a request whose header is known.
///
/// # Errors
/// [`Malformed`]; anyone who asked is to be told `EINVAL`.
#[inline]
pub fn decode<'a>(header: &Header, message: &Message<'a>) -> Result<Request<'a>, Malformed> {
    let cut = || Malformed::Cut { opcode: header.opcode };
    Ok(match header.opcode {
        READ => Request::Read(range(message.fixed).ok_or_else(cut)?),
        WRITE => {
            let range = range(message.fixed).ok_or_else(cut)?;
            let got = message.payload.len();
            if usize::try_from(range.size) != Ok(got) {
                return Err(Malformed::Payload { said: range.size, got });
            }
            Request::Write(range)
        }
        // `struct fuse_fsync_in`: handle u64, flags u32, …
        FSYNC => Request::Fsync { handle: u64_at(message.fixed, 0).ok_or_else(cut)? },
        FALLOCATE => fallocate(message.fixed).ok_or_else(cut)?,
        1 => Request::Lookup { name: name(message.payload).ok_or_else(cut)? },
        2 | 42 => Request::Forget,
        3 => Request::GetAttr,
        14 => Request::Open,
        17 => Request::StatFs,
        18 | 29 => Request::Release,
        25 => Request::Flush,
        26 => Request::Init(init(message.fixed).ok_or_else(cut)?),
        27 => Request::OpenDir,
        28 => Request::ReadDir(range(message.fixed).ok_or_else(cut)?),
        34 => Request::Access,
        36 => Request::Interrupt,
        38 => Request::Destroy,
        _ => Request::Unknown,
    })
}

/// `struct fuse_read_in`, `struct fuse_write_in`: handle u64, offset u64, size u32, …
#[inline]
fn range(fixed: &[u8]) -> Option<Range> {
    Some(Range { handle: u64_at(fixed, 0)?, offset: u64_at(fixed, 8)?, size: u32_at(fixed, 16)? })
}

/// `struct fuse_fallocate_in`: handle u64, offset u64, length u64, mode u32, …
fn fallocate(fixed: &[u8]) -> Option<Request<'static>> {
    Some(Request::Fallocate {
        handle: u64_at(fixed, 0)?,
        offset: u64_at(fixed, 8)?,
        length: u64_at(fixed, 16)?,
        mode: u32_at(fixed, 24)?,
    })
}

/// `struct fuse_init_in`: major, minor, read-ahead, flags, and since 7.36 flags2, all u32.
fn init(fixed: &[u8]) -> Option<Init> {
    let low = u64::from(u32_at(fixed, 12)?);
    let high = u64::from(u32_at(fixed, 16).unwrap_or(0));
    // The second word only counts when the first one says that it is there.
    let high = if low & super::reply::INIT_EXT == 0 { 0 } else { high };
    Some(Init {
        major: u32_at(fixed, 0)?,
        minor: u32_at(fixed, 4)?,
        max_readahead: u32_at(fixed, 8)?,
        flags: low | high << 32,
    })
}

/// A name that ends in NUL.
fn name(payload: &[u8]) -> Option<&[u8]> {
    let (last, name) = payload.split_last()?;
    (*last == 0 && !name.contains(&0)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_of(opcode: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [99_u32, opcode] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [7_u64, 2] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.resize(HEADER_BYTES, 0);
        bytes
    }

    fn ask<'a>(
        opcode: u32,
        fixed: &'a [u8],
        payload: &'a [u8],
        head: &'a mut Vec<u8>,
    ) -> Result<Request<'a>, Malformed> {
        *head = header_of(opcode);
        let message = Message { header: head, fixed, payload };
        let header = header(&message)?;
        assert_eq!(header, Header { length: 99, opcode, unique: 7, node: 2 });
        decode(&header, &message)
    }

    fn words(longs: &[u64], shorts: &[u32]) -> Vec<u8> {
        let mut bytes: Vec<u8> = longs.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(shorts.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn transfers_carry_their_range() {
        let fixed = words(&[1, 1 << 40], &[3, 0]);
        let range = Range { handle: 1, offset: 1 << 40, size: 3 };
        assert_eq!(ask(15, &fixed, &[], &mut Vec::new()), Ok(Request::Read(range)));
        assert_eq!(ask(16, &fixed, &[1, 2, 3], &mut Vec::new()), Ok(Request::Write(range)));
        assert_eq!(ask(16, &fixed, &[1, 2], &mut Vec::new()), Err(Malformed::Payload { said: 3, got: 2 }));
        let fixed = words(&[1, 4096, 8192], &[3, 0]);
        let wanted = Request::Fallocate { handle: 1, offset: 4096, length: 8192, mode: 3 };
        assert_eq!(ask(43, &fixed, &[], &mut Vec::new()), Ok(wanted));
        assert_eq!(ask(20, &words(&[9], &[1, 0]), &[], &mut Vec::new()), Ok(Request::Fsync { handle: 9 }));
    }

    #[test]
    fn names_end_in_nul_and_contain_none() {
        assert_eq!(ask(1, &[], b"disk\0", &mut Vec::new()), Ok(Request::Lookup { name: b"disk" }));
        for bad in [&b""[..], b"disk", b"di\0sk\0"] {
            assert_eq!(ask(1, &[], bad, &mut Vec::new()), Err(Malformed::Cut { opcode: 1 }));
        }
    }

    #[test]
    fn the_second_word_of_flags_counts_only_when_announced() {
        let mut fixed = words(&[], &[7, 45, 4096, 1 << 30, 1 << 9]);
        let Ok(Request::Init(init)) = ask(26, &fixed, &[], &mut Vec::new()) else { panic!() };
        assert_eq!((init.major, init.minor, init.flags), (7, 45, 1 << 30 | 1 << 41));
        fixed[12..16].copy_from_slice(&5_u32.to_ne_bytes());
        let Ok(Request::Init(init)) = ask(26, &fixed, &[], &mut Vec::new()) else { panic!() };
        assert_eq!(init.flags, 5);
        let Ok(Request::Init(init)) = ask(26, &fixed[..16], &[], &mut Vec::new()) else { panic!() };
        assert_eq!(init.flags, 5);
    }

    #[test]
    fn what_is_cut_is_said_to_be() {
        for opcode in [15, 16, 20, 26, 28, 43] {
            let fixed = vec![0; fixed_bytes(opcode)];
            assert!(ask(opcode, &fixed, &[], &mut Vec::new()).is_ok());
            // Of a sync only the handle is read.
            for length in 0..if opcode == FSYNC { 8 } else { 12 } {
                let mut head = Vec::new();
                let cut = ask(opcode, &fixed[..length], &[], &mut head);
                assert_eq!(cut, Err(Malformed::Cut { opcode }));
            }
        }
        let message = Message { header: &[0; 39], fixed: &[], payload: &[] };
        assert_eq!(header(&message), Err(Malformed::Header));
    }
}
