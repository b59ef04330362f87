//! The disk as a network block device on a Unix socket: for QEMU guests, `nbd-client`, `qemu-img`, libnbd's
//! tools and fio.
//!
//! The protocol is that of the NetworkBlockDevice project (doc/proto.md): fixed newstyle negotiation with
//! `EXPORT_NAME`, `INFO`, `GO`, `LIST` and `ABORT`; other options are refused as unsupported, structured
//! replies among them, so every reply is a simple one. Reads, writes, flushes, trims and write-zeroes are
//! served, with FUA. One export, known by the server's name and by the empty name.
//!
//! | NBD | request |
//! | --- | --- |
//! | `WRITE` with FUA | write with `fua` |
//! | `TRIM` | discard |
//! | `WRITE_ZEROES` | discard, since the disk then reads zeros too; with `NO_HOLE` zero |
//! | `TRIM` or `WRITE_ZEROES` with FUA | the same, then flush |
//!
//! **Several clients.** Each connection has a thread; all go through the one gate, so a flush on any covers
//! every write that was answered on any (`CAN_MULTI_CONN` is true).
//!
//! **Batches.** What a client has sent is taken together and handed over as one batch, and answered in one
//! go; in real time each answer waits until it is due. Replies may come in any order, as the protocol has it.
//!
//! **Blocks.** The disk's block is announced as the smallest; who asks for less, or beyond the end, gets an
//! error.
//!
//! **Memory.** A connection has 2 × 4 MiB; a request that needs more makes its buffer grow to that, at most
//! 32 MiB.

mod connection;
mod handshake;
mod message;
#[cfg(test)]
mod tests;

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::{Backend, Gate};

pub use connection::serve;
pub use handshake::Export;

/// Clients at a time; more are turned away.
const CLIENT_LIMIT: usize = 64;

/// What can go wrong with the server as a whole.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The socket cannot be made.
    #[error("cannot listen on {}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The thread that waits for clients cannot be started.
    #[error("cannot start a thread for {}", path.display())]
    Thread {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something is there that is no socket.
    #[error("{} exists and is not a socket", path.display())]
    Taken {
        /// The place.
        path: PathBuf,
    },
}

impl NbdError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Listen { .. } => {
                Some("the path of a Unix socket has at most 107 bytes, in a directory that exists".to_owned())
            }
            Self::Taken { path } => Some(format!("move {} away, or choose another path", path.display())),
            Self::Thread { .. } => None,
        }
    }
}

/// A server on a socket. Ends, with all of its connections, when it is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
    clients: Arc<Clients>,
    thread: Option<JoinHandle<()>>,
}

/// The connections that are open.
#[derive(Debug, Default)]
struct Clients {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    ending: bool,
    next: u64,
    streams: Vec<(u64, UnixStream)>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Serves `gate` under `name` on a socket at `path`; a dead socket there is replaced.
    ///
    /// # Errors
    /// The socket or its thread cannot be made.
    pub fn start<B: Backend + 'static>(
        path: &Path,
        name: &str,
        gate: Arc<Gate<B>>,
    ) -> Result<Self, NbdError> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(NbdError::Taken { path: path.to_owned() });
            }
            Ok(_) => {
                // If it cannot be removed, binding says so.
                let _ = std::fs::remove_file(path);
            }
            Err(_) => {}
        }
        let listen = |source| NbdError::Listen { path: path.to_owned(), source };
        // Anyone who may connect may read and write the disk.
        let listener = super::private_listener(path).map_err(listen)?;
        let clients = Arc::new(Clients::default());
        let export =
            Export { name: name.to_owned(), size_bytes: gate.size_bytes(), block_bytes: gate.block_bytes() };
        let (accepting, open) = (listener.try_clone().map_err(listen)?, Arc::clone(&clients));
        let thread = std::thread::Builder::new()
            .name("nbd".to_owned())
            .spawn(move || accept(&accepting, &export, &gate, &open))
            .map_err(|source| NbdError::Thread { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), listener, clients, thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Connections that are open.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.lock().streams.len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Wakes `accept`, which then fails.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let threads = {
            let mut open = self.clients.lock();
            open.ending = true;
            for (_, stream) in &open.streams {
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            std::mem::take(&mut open.threads)
        };
        for thread in threads {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Clients {
    /// Anyone who panicked left a list that is still one.
    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes clients until the socket is shut down.
fn accept<B: Backend + 'static>(
    listener: &UnixListener,
    export: &Export,
    gate: &Arc<Gate<B>>,
    clients: &Arc<Clients>,
) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => greet(stream, export, gate, clients),
            // The client left before it was let in, or the process has no more descriptors: others may come.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_passing(&error) => std::thread::sleep(std::time::Duration::from_millis(10)),
            Err(_) => return,
        }
    }
}

/// Whether it may be better a moment later.
fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Starts a connection; a client that is one too many is let go.
fn greet<B: Backend + 'static>(
    stream: UnixStream,
    export: &Export,
    gate: &Arc<Gate<B>>,
    clients: &Arc<Clients>,
) {
    let mut open = clients.lock();
    open.threads.retain(|thread| !thread.is_finished());
    let (Ok(kept), true) = (stream.try_clone(), open.streams.len() < CLIENT_LIMIT && !open.ending) else {
        return;
    };
    let number = open.next;
    let (export, gate, leaving) = (export.clone(), Arc::clone(gate), Arc::clone(clients));
    let thread = std::thread::Builder::new().name(format!("nbd {number}")).spawn(move || {
        connection::widen(&stream);
        // A client that breaks the protocol, or goes away, loses its connection: nobody else is concerned.
        let _ = serve(&stream, &stream, &export, &gate);
        let _ = stream.shutdown(std::net::Shutdown::Both);
        leaving.lock().streams.retain(|(other, _)| *other != number);
    });
    if let Ok(thread) = thread {
        open.next += 1;
        open.streams.push((number, kept));
        open.threads.push(thread);
    }
}
