//! The protocol's numbers, and its messages of fixed length. All numbers are big-endian.

use crate::request::IoError;

/// First bytes of the server.
pub(super) const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Before every option.
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before every answer to an option.
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

/// Largest payload.
pub(super) const PAYLOAD_LIMIT: u32 = 32 << 20;
/// Bytes of a request without its payload.
pub(super) const REQUEST_BYTES: usize = 28;
/// Bytes of a reply without its payload.
pub(super) const REPLY_BYTES: usize = 16;

/// Flags of both sides in the negotiation.
pub(super) mod hand {
    pub(in super::super) const FIXED_NEWSTYLE: u16 = 1;
    pub(in super::super) const NO_ZEROES: u16 = 2;
}

/// Options.
pub(super) mod option {
    pub(in super::super) const EXPORT_NAME: u32 = 1;
    pub(in super::super) const ABORT: u32 = 2;
    pub(in super::super) const LIST: u32 = 3;
    pub(in super::super) const INFO: u32 = 6;
    pub(in super::super) const GO: u32 = 7;
}

/// Kinds of answers to options.
pub(super) mod answer {
    pub(in super::super) const ACK: u32 = 1;
    pub(in super::super) const SERVER: u32 = 2;
    pub(in super::super) const INFO: u32 = 3;
    pub(in super::super) const UNSUPPORTED: u32 = 1 << 31 | 1;
    pub(in super::super) const INVALID: u32 = 1 << 31 | 3;
    pub(in super::super) const UNKNOWN: u32 = 1 << 31 | 6;
}

/// Kinds of information about an export.
pub(super) mod info {
    pub(in super::super) const EXPORT: u16 = 0;
    pub(in super::super) const NAME: u16 = 1;
    pub(in super::super) const BLOCK_SIZE: u16 = 3;
}

/// What the export can do: flags, flush, FUA, trim, write-zeroes, several connections, fast zeroes.
pub(super) const CAN: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 11;

/// Commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    /// Not one that was offered.
    Other,
}

const FUA: u16 = 1;
const NO_HOLE: u16 = 1 << 1;
const FAST_ZERO: u16 = 1 << 4;

/// A request's fixed part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub flags: u16,
    pub command: Command,
    pub cookie: [u8; 8],
    pub offset_bytes: u64,
    pub length_bytes: u32,
}

impl Header {
    /// `None`: the client has lost its place, nothing after this can be understood.
    pub(super) fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let [
            m0,
            m1,
            m2,
            m3,
            f0,
            f1,
            c0,
            c1,
            k0,
            k1,
            k2,
            k3,
            k4,
            k5,
            k6,
            k7,
            o0,
            o1,
            o2,
            o3,
            o4,
            o5,
            o6,
            o7,
            l0,
            l1,
            l2,
            l3,
        ] = *bytes;
        if u32::from_be_bytes([m0, m1, m2, m3]) != REQUEST_MAGIC {
            return None;
        }
        let command = match u16::from_be_bytes([c0, c1]) {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            6 => Command::WriteZeroes,
            _ => Command::Other,
        };
        Some(Self {
            flags: u16::from_be_bytes([f0, f1]),
            command,
            cookie: [k0, k1, k2, k3, k4, k5, k6, k7],
            offset_bytes: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            length_bytes: u32::from_be_bytes([l0, l1, l2, l3]),
        })
    }

    pub(super) const fn fua(&self) -> bool {
        self.flags & FUA != 0
    }

    pub(super) const fn no_hole(&self) -> bool {
        self.flags & NO_HOLE != 0
    }

    /// Whether its flags belong to its command. FUA may stand everywhere.
    pub(super) const fn flags_are_known(&self) -> bool {
        let known = match self.command {
            Command::WriteZeroes => FUA | NO_HOLE | FAST_ZERO,
            _ => FUA,
        };
        self.flags & !known == 0
    }

    /// Payload that follows it.
    pub(super) const fn payload_bytes(&self) -> u32 {
        match self.command {
            Command::Write => self.length_bytes,
            _ => 0,
        }
    }
}

/// Error numbers of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Error {
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    Overflow = 75,
}

impl From<IoError> for Error {
    fn from(error: IoError) -> Self {
        match error {
            IoError::Medium => Self::Io,
            IoError::Space => Self::NoSpace,
            IoError::Range => Self::Invalid,
        }
    }
}

/// Writes a reply's fixed part.
pub(super) fn reply(room: &mut [u8; REPLY_BYTES], cookie: [u8; 8], result: Result<(), Error>) {
    let error: u32 = match result {
        Ok(()) => 0,
        Err(Error::Io) => 5,
        Err(Error::Invalid) => 22,
        Err(Error::NoSpace) => 28,
        Err(Error::Overflow) => 75,
    };
    room[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    room[4..8].copy_from_slice(&error.to_be_bytes());
    room[8..].copy_from_slice(&cookie);
}
