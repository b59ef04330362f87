//! Frames: how messages lie on the byte stream.
//!
//! | bytes | field | why |
//! | --- | --- | --- |
//! | 0..4 | `length: u32 LE`, bytes after this field | a reader knows at once how much to wait for |
//! | 4 | `kind: u8` | a reader can skip kinds before it inspects anything else |
//! | 5..13 | `id: u64 LE` | whose answer this is |
//! | 13.. | payload | JSON, or raw bytes of a trace |
//!
//! Nothing that arrives can make a reader panic or allocate more than what really arrived plus one
//! read's worth: a length that lies costs its sender the stream, not the reader its memory.

use std::io::{ErrorKind, Read, Write};

use fsage_model::protocol::FRAME_LIMIT;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of kind and id, which every frame has after its length.
const FIXED_BYTES: u32 = 9;

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 13;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Lab to agent: a request.
    Request = 0,
    /// Agent to lab: an event of a request that runs.
    Event = 1,
    /// Agent to lab: a request succeeded.
    Reply = 2,
    /// Agent to lab: bytes of the trace.
    Chunk = 3,
    /// Agent to lab: a request failed.
    Failure = 4,
}

impl FrameKind {
    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Request),
            1 => Some(Self::Event),
            2 => Some(Self::Reply),
            3 => Some(Self::Chunk),
            4 => Some(Self::Failure),
            _ => None,
        }
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it carries.
    pub kind: FrameKind,
    /// The request it belongs to.
    pub id: u64,
    /// At most [`FRAME_LIMIT`] − 9 bytes.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The payload as JSON.
    ///
    /// # Errors
    /// It is not the JSON that is asked for.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        serde_json::from_slice(&self.payload).map_err(|source| FrameError::Json { kind: self.kind, source })
    }
}

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream itself failed.
    #[error("the stream failed")]
    Stream(#[source] std::io::Error),
    /// The stream ended within a frame.
    #[error("the stream ended within a frame, after {had} of {wanted} bytes")]
    Truncated {
        /// Bytes the frame needs.
        wanted: usize,
        /// Bytes that came.
        had: usize,
    },
    /// The frame says that it is longer than [`FRAME_LIMIT`], or is about to be.
    #[error("a frame of {length} bytes is longer than the limit of {FRAME_LIMIT} bytes")]
    TooLong {
        /// Bytes after the length field.
        length: u64,
    },
    /// The frame says that it is too short to have a kind and an id.
    #[error("a frame of {length} bytes is too short to be one")]
    TooShort {
        /// Bytes after the length field.
        length: u32,
    },
    /// The kind is none we know.
    #[error("a frame of unknown kind {kind}")]
    UnknownKind {
        /// The kind.
        kind: u8,
    },
    /// The payload is not the JSON it must be.
    #[error("a {kind:?} frame holds something else")]
    Json {
        /// Kind of the frame.
        kind: FrameKind,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// What the first bytes of a frame say.
struct Header {
    kind: FrameKind,
    id: u64,
    payload_bytes: usize,
}

fn header(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
    let [l0, l1, l2, l3, kind, id @ ..] = *bytes;
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    if length > FRAME_LIMIT {
        return Err(FrameError::TooLong { length: u64::from(length) });
    }
    let Some(payload) = length.checked_sub(FIXED_BYTES) else {
        return Err(FrameError::TooShort { length });
    };
    let kind = FrameKind::from_byte(kind).ok_or(FrameError::UnknownKind { kind })?;
    // u32 fits usize wherever this runs; a target where it does not could never take such a frame.
    let payload_bytes =
        usize::try_from(payload).map_err(|_| FrameError::TooLong { length: u64::from(length) })?;
    Ok(Header { kind, id: u64::from_le_bytes(id), payload_bytes })
}

/// The frame that `bytes` begins with and how many bytes it takes; `None` when more bytes are needed.
/// Pure: the fuzz target of this format.
///
/// # Errors
/// The bytes can never become a frame, whatever follows.
pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, FrameError> {
    let Some(first) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let Header { kind, id, payload_bytes } = header(first)?;
    let end = HEADER_BYTES + payload_bytes;
    Ok(bytes.get(HEADER_BYTES..end).map(|payload| (Frame { kind, id, payload: payload.to_vec() }, end)))
}

/// Writes one frame and flushes it.
///
/// # Errors
/// The payload is too long (nothing is written), or the stream failed.
pub fn write(output: &mut impl Write, kind: FrameKind, id: u64, payload: &[u8]) -> Result<(), FrameError> {
    let long = || FrameError::TooLong { length: payload.len() as u64 + u64::from(FIXED_BYTES) };
    let length = u32::try_from(payload.len()).ok().and_then(|n| n.checked_add(FIXED_BYTES));
    let length = length.filter(|&n| n <= FRAME_LIMIT).ok_or_else(long)?;
    let mut start = [0; HEADER_BYTES];
    start[..4].copy_from_slice(&length.to_le_bytes());
    start[4] = kind as u8;
    start[5..].copy_from_slice(&id.to_le_bytes());
    output.write_all(&start).map_err(FrameError::Stream)?;
    output.write_all(payload).map_err(FrameError::Stream)?;
    output.flush().map_err(FrameError::Stream)
}

/// Writes one frame with a JSON payload and flushes it.
///
/// # Errors
/// As [`write()`]; also a value that JSON cannot express.
pub fn write_json(
    output: &mut impl Write,
    kind: FrameKind,
    id: u64,
    value: &impl Serialize,
) -> Result<(), FrameError> {
    let payload = serde_json::to_vec(value).map_err(|source| FrameError::Json { kind, source })?;
    write(output, kind, id, &payload)
}

/// Reads frames off a stream.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
}

impl<R: Read> Reader<R> {
    /// A reader of `input`, which should be buffered.
    pub const fn new(input: R) -> Self {
        Self { input }
    }

    /// The next frame; `None` when the stream ended between two frames. After an error the stream is out
    /// of step and must not be read on.
    ///
    /// # Errors
    /// The stream failed, ended within a frame, or carries something that is not a frame.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let mut start = [0; HEADER_BYTES];
        let had = self.fill(&mut start)?;
        if had == 0 {
            return Ok(None);
        }
        if had < HEADER_BYTES {
            return Err(FrameError::Truncated { wanted: HEADER_BYTES, had });
        }
        let Header { kind, id, payload_bytes } = header(&start)?;
        // `read_to_end` grows with what arrives: a length that lies does not cost memory.
        let mut payload = Vec::with_capacity(payload_bytes.min(64 << 10));
        let limit = payload_bytes as u64;
        let had = (&mut self.input).take(limit).read_to_end(&mut payload).map_err(FrameError::Stream)?;
        if had < payload_bytes {
            return Err(FrameError::Truncated {
                wanted: HEADER_BYTES + payload_bytes,
                had: HEADER_BYTES + had,
            });
        }
        Ok(Some(Frame { kind, id, payload }))
    }

    /// Fills `buffer` as far as the stream goes; returns how far.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, FrameError> {
        let mut had = 0;
        while let Some(rest) = buffer.get_mut(had..).filter(|rest| !rest.is_empty()) {
            match self.input.read(rest) {
                Ok(0) => break,
                Ok(count) => had += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(FrameError::Stream(error)),
            }
        }
        Ok(had)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds() -> impl Strategy<Value = FrameKind> {
        prop_oneof![
            Just(FrameKind::Request),
            Just(FrameKind::Event),
            Just(FrameKind::Reply),
            Just(FrameKind::Chunk),
            Just(FrameKind::Failure)
        ]
    }

    /// Hands out one to three bytes a read, as a slow pipe would.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 = self.1 % 3 + 1;
            let count = self.1.min(buffer.len());
            self.0.read(&mut buffer[..count])
        }
    }

    proptest! {
        #[test]
        fn frames_come_back_as_sent(
            frames in prop::collection::vec(
                (kinds(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..300)), 0..12
            )
        ) {
            let mut stream = Vec::new();
            for (kind, id, payload) in &frames {
                write(&mut stream, *kind, *id, payload).unwrap();
            }
            let mut reader = Reader::new(Dribble(&stream, 0));
            let mut rest = stream.as_slice();
            for (kind, id, payload) in frames {
                let sent = Frame { kind, id, payload };
                prop_assert_eq!(&reader.next_frame().unwrap().unwrap(), &sent);
                let (decoded, used) = decode(rest).unwrap().unwrap();
                prop_assert_eq!(decoded, sent);
                rest = &rest[used..];
            }
            prop_assert!(reader.next_frame().unwrap().is_none());
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn a_stream_cut_anywhere_is_an_error_or_an_end(
            payload in prop::collection::vec(any::<u8>(), 0..100), cut in 0_usize..113
        ) {
            let mut stream = Vec::new();
            write(&mut stream, FrameKind::Event, 7, &payload).unwrap();
            let cut = cut.min(stream.len() - 1);
            let outcome = Reader::new(&stream[..cut]).next_frame();
            if cut == 0 {
                prop_assert!(outcome.unwrap().is_none());
            } else {
                let truncated =
                    matches!(outcome, Err(FrameError::Truncated { had, wanted }) if had == cut && had < wanted);
                prop_assert!(truncated);
            }
            prop_assert!(decode(&stream[..cut]).unwrap().is_none());
        }

        #[test]
        fn garbage_never_panics_and_both_readers_agree(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let decoded = decode(&bytes);
            let read = Reader::new(bytes.as_slice()).next_frame();
            match (decoded, read) {
                (Ok(Some((frame, _))), Ok(Some(other))) => prop_assert_eq!(frame, other),
                (Ok(None), Ok(None)) => prop_assert!(bytes.is_empty()),
                (Ok(None), Err(FrameError::Truncated { .. })) => {}
                (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
                (one, other) => prop_assert!(false, "{:?} but {:?}", one, other),
            }
        }
    }

    #[test]
    fn limits_are_kept() {
        let mut long = u32::MAX.to_le_bytes().to_vec();
        long.resize(HEADER_BYTES, 0);
        assert!(matches!(decode(&long), Err(FrameError::TooLong { length: 0xffff_ffff })));
        let mut short = 8_u32.to_le_bytes().to_vec();
        short.resize(HEADER_BYTES, 0);
        assert!(matches!(decode(&short), Err(FrameError::TooShort { length: 8 })));
        let mut output = Vec::new();
        let payload = vec![0; (FRAME_LIMIT - FIXED_BYTES) as usize + 1];
        assert!(matches!(write(&mut output, FrameKind::Chunk, 1, &payload), Err(FrameError::TooLong { .. })));
        assert!(output.is_empty());
        write(&mut output, FrameKind::Chunk, 1, &payload[1..]).unwrap();
        assert_eq!(decode(&output).unwrap().unwrap().1, output.len());
    }

    #[test]
    fn a_lying_length_costs_no_memory() {
        let mut stream = FRAME_LIMIT.to_le_bytes().to_vec();
        stream.push(3);
        stream.extend([0; 8]);
        stream.extend([1, 2, 3]);
        let outcome = Reader::new(stream.as_slice()).next_frame();
        assert!(matches!(outcome, Err(FrameError::Truncated { had: 16, .. })));
    }
}
