//! Frames in both directions, with a heartbeat: a connection that is silently gone shows no end of its stream.
//!
//! Each side sends an empty frame every two seconds. Who hears nothing for half a minute takes the other side for
//! lost, also while it does something else: [`Watch`] is notified on a thread of its own.

use std::fmt;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsage_engine::frame::{self, Frame, FrameError, FrameKind};
use serde::Serialize;

use super::child::Output;

/// How often each side says that it is there.
const BEAT: Duration = Duration::from_secs(2);

/// How long nothing may be heard.
const SILENCE: Duration = Duration::from_secs(30);

/// Frames that wait for who receives them; then the other side waits.
const WAITING: usize = 64;

/// Bytes of a file in one frame.
const CHUNK: usize = 64 << 10;

/// Is notified at once, on another thread than the one that [receives](Wire::receive).
pub type Watch = dyn Fn(Heard<'_>) -> bool + Send + Sync;

/// What [`Watch`] is notified of.
#[derive(Debug, Clone, Copy)]
pub enum Heard<'a> {
    /// A frame; `true` says that nobody else is to get it.
    Frame(&'a Frame),
    /// The other side ended.
    Ended,
    /// Nothing was heard for too long.
    Silent,
}

/// Why nothing comes any more.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The stream ended.
    #[error("the connection ended")]
    Ended,
    /// Nothing was heard for too long.
    #[error("nothing was heard for {} s", SILENCE.as_secs())]
    Silent,
    /// What came is no frame, or the stream failed.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// One end of a connection.
pub struct Wire {
    output: Output,
    frames: Receiver<Result<Frame, FrameError>>,
    line: Arc<Line>,
}

/// What the threads of one end have in common.
struct Line {
    since: Instant,
    /// Milliseconds after `since` at which the last frame came.
    heard: AtomicU64,
    silent: AtomicBool,
    gone: AtomicBool,
    over: AtomicBool,
}

impl Line {
    fn is_silent(&self) -> bool {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(heard) > SILENCE
    }

    fn hear(&self) {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

/// How long an end waits for a word of the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// So long, then it takes the other one for lost.
    Lost,
    /// For ever: by a clock that does not go as the other side's. The stream ends with the other side.
    Allowed,
}

impl Wire {
    /// Listens to `input`, and sends heartbeats to `output` from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn over(
        output: Box<dyn Write + Send>,
        input: impl Read + Send + 'static,
        watch: Arc<Watch>,
        silence: Silence,
    ) -> std::io::Result<Self> {
        let output: Output = Arc::new(Mutex::new(Some(output)));
        let line = Arc::new(Line {
            since: Instant::now(),
            heard: AtomicU64::new(0),
            silent: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let (to, frames) = mpsc::sync_channel(WAITING);
        let (own, told) = (Arc::clone(&line), Arc::clone(&watch));
        std::thread::Builder::new().name("wire-reader".to_owned()).spawn(move || {
            let mut reader = frame::Reader::new(input);
            loop {
                let next = reader.next_frame();
                own.hear();
                match next {
                    Ok(Some(frame)) if is_beat(&frame) => {}
                    Ok(Some(frame)) => {
                        if !told(Heard::Frame(&frame)) && to.send(Ok(frame)).is_err() {
                            return;
                        }
                        // It may have waited here for who receives.
                        own.hear();
                    }
                    end => {
                        own.gone.store(true, Ordering::Relaxed);
                        told(Heard::Ended);
                        if let Err(error) = end {
                            // Nobody who receives is left: then nobody wants to know.
                            let _ = to.send(Err(error));
                        }
                        return;
                    }
                }
            }
        })?;
        let own = Arc::clone(&line);
        // Apart from who sends: a write may wait for ever.
        std::thread::Builder::new().name("wire-watch".to_owned()).spawn(move || {
            while silence == Silence::Lost && !own.over.load(Ordering::Relaxed) {
                if own.is_silent() && !own.gone.swap(true, Ordering::Relaxed) {
                    own.silent.store(true, Ordering::Relaxed);
                    watch(Heard::Silent);
                }
                std::thread::sleep(BEAT / 4);
            }
        })?;
        let (own, out) = (Arc::clone(&line), Arc::clone(&output));
        std::thread::Builder::new().name("wire-heartbeat".to_owned()).spawn(move || {
            while !own.over.load(Ordering::Relaxed) {
                // A write that waits for the other side holds the lock: it is a sign of life itself, or the end.
                if let Ok(mut out) = out.try_lock()
                    && let Some(out) = out.as_mut()
                    && frame::write(out, FrameKind::Event, BEAT_ID, &[]).is_err()
                {
                    return;
                }
                std::thread::sleep(BEAT);
            }
        })?;
        Ok(Self { output, frames, line })
    }

    /// Sends a value.
    ///
    /// # Errors
    /// The stream failed, or the value is longer than a frame may be.
    pub fn send(&self, value: &impl Serialize) -> Result<(), FrameError> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let output = output.as_mut().ok_or_else(closed)?;
        frame::write_json(output, FrameKind::Request, 0, value)
    }

    /// Sends everything that `from` has, in frames of bytes; how much that was.
    ///
    /// # Errors
    /// The stream failed, or `from` cannot be read.
    pub fn send_bytes(&self, from: &mut dyn Read) -> Result<u64, FrameError> {
        let (mut buffer, mut sent) = (vec![0; CHUNK], 0);
        loop {
            let count = from.read(&mut buffer).map_err(FrameError::Stream)?;
            if count == 0 {
                return Ok(sent);
            }
            let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
            let output = output.as_mut().ok_or_else(closed)?;
            frame::write(output, FrameKind::Chunk, 0, &buffer[..count])?;
            sent += count as u64;
        }
    }

    /// Says that all bytes of a file were sent.
    ///
    /// # Errors
    /// The stream failed.
    pub fn send_end(&self) -> Result<(), FrameError> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let output = output.as_mut().ok_or_else(closed)?;
        frame::write(output, FrameKind::Chunk, 0, &[])
    }

    /// The next frame; `None` when none has come within `wait`.
    ///
    /// # Errors
    /// The connection ended, nothing was heard for too long, or something that is no frame came.
    pub fn receive(&self, wait: Duration) -> Result<Option<Frame>, WireError> {
        let received = match self.frames.recv_timeout(wait) {
            Ok(frame) => frame.map(Some).map_err(WireError::from),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(WireError::Ended),
        };
        match received {
            // The stream may have been ended for it.
            Ok(None) | Err(_) if self.line.silent.load(Ordering::Relaxed) => Err(WireError::Silent),
            received => received,
        }
    }

    /// Whether the other side is known to be gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.line.gone.load(Ordering::Relaxed)
    }

    /// What goes to the other side, to close it.
    pub(super) fn output(&self) -> &Output {
        &self.output
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.line.over.store(true, Ordering::Relaxed);
    }
}

/// Id of heartbeats; other frames have 0.
const BEAT_ID: u64 = u64::MAX;

fn is_beat(frame: &Frame) -> bool {
    frame.id == BEAT_ID
}

fn closed() -> FrameError {
    FrameError::Stream(std::io::ErrorKind::BrokenPipe.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(watch: Arc<Watch>) -> (Wire, std::io::PipeWriter, std::io::PipeReader) {
        let (far_reads, output) = std::io::pipe().unwrap();
        let (input, far_writes) = std::io::pipe().unwrap();
        (Wire::over(Box::new(output), input, watch, Silence::Lost).unwrap(), far_writes, far_reads)
    }

    #[test]
    fn heartbeats_are_sent_and_reach_nobody() {
        let (wire, mut far, far_reads) = pair(Arc::new(|_| false));
        let mut sent = frame::Reader::new(far_reads);
        assert!(is_beat(&sent.next_frame().unwrap().unwrap()));
        frame::write(&mut far, FrameKind::Event, BEAT_ID, &[]).unwrap();
        frame::write_json(&mut far, FrameKind::Request, 0, &"hello").unwrap();
        let frame = wire.receive(Duration::from_secs(5)).unwrap().unwrap();
        assert_eq!(frame.json::<String>().unwrap(), "hello");
        assert!(wire.receive(Duration::from_millis(1)).unwrap().is_none());
        wire.send_bytes(&mut &[7; 3][..]).unwrap();
        let chunk = std::iter::from_fn(|| sent.next_frame().unwrap()).find(|frame| !is_beat(frame)).unwrap();
        assert_eq!((chunk.kind, chunk.payload), (FrameKind::Chunk, vec![7; 3]));
    }

    #[test]
    fn the_watch_is_told_at_once_and_of_the_end() {
        let (to, told) = mpsc::channel();
        let watch: Arc<Watch> = Arc::new(move |heard: Heard<'_>| {
            to.send(matches!(heard, Heard::Ended)).unwrap();
            true
        });
        let (wire, mut far, _far_reads) = pair(watch);
        frame::write_json(&mut far, FrameKind::Request, 0, &1).unwrap();
        assert!(!told.recv_timeout(Duration::from_secs(5)).unwrap());
        drop(far);
        assert!(told.recv_timeout(Duration::from_secs(5)).unwrap());
        assert!(matches!(wire.receive(Duration::from_secs(5)), Err(WireError::Ended)));
    }
}
