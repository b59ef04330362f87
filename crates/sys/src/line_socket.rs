//! One question and one answer, a line each, over a Unix socket: how a virtual disk's server is asked.
//!
//! The path of a socket proves nothing about who listens behind it. An answer counts only from a process of
//! root, of this user or of who called `sudo` (`SO_PEERCRED`, unix(7)), it has a longest length, and all of it
//! has to come in time.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;

use crate::owners::is_trusted;

/// Longest answer in bytes: what is longer is asked for in parts.
pub const LONGEST_ANSWER: usize = 8 << 20;

/// Asks once: sends the line `question`, without its end, and gives the answer with its end. `limit` is for
/// both; without one the answer may take for ever, but a question does not.
///
/// # Errors
/// Nobody listens, it is another user's process (`ErrorKind::PermissionDenied`), the time is over
/// (`ErrorKind::TimedOut`), or the answer is too long or breaks off.
pub fn ask(socket: &Path, question: &str, limit: Option<Duration>) -> io::Result<String> {
    let stream = connect(socket)?;
    if !is_trusted(socket_peercred(&stream)?.uid.as_raw()) {
        let message = "the process behind it is another user's, whose answers are not believed";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    stream.set_write_timeout(Some(limit.unwrap_or(Duration::from_secs(60))))?;
    (&stream).write_all(format!("{question}\n").as_bytes())?;
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    read_line(deadline, |left, bytes| {
        stream.set_read_timeout(left)?;
        (&stream).read(bytes)
    })
}

/// Reads one line by `read`, which gets the time that is left, before `deadline`.
///
/// # Errors
/// As [`ask`]; or what `read` says.
pub fn read_line(
    deadline: Option<Instant>,
    mut read: impl FnMut(Option<Duration>, &mut [u8]) -> io::Result<usize>,
) -> io::Result<String> {
    let (mut line, mut bytes) = (Vec::new(), vec![0; 64 << 10]);
    while !line.ends_with(b"\n") {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match read(left, &mut bytes) {
            Ok(0) => {
                let message = "it hung up in the middle of its answer";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            Ok(length) => line.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
        if line.len() > LONGEST_ANSWER {
            let message = format!("its answer is longer than {LONGEST_ANSWER} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
    }
    String::from_utf8(line).map_err(io::Error::other)
}

/// Connects by a path that is short, however long the real one is: the address of a socket has 108 bytes.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
        return UnixStream::connect(socket);
    };
    let folder = File::open(folder)?;
    UnixStream::connect(Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Listens once, reads a line and answers as `answer` does.
    fn listening(
        answer: impl FnOnce(&mut UnixStream) + Send + 'static,
    ) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 4];
            stream.read_exact(&mut question).unwrap();
            assert_eq!(&question, b"who\n");
            answer(&mut stream);
        });
        (folder, socket)
    }

    #[test]
    fn a_line_is_answered_by_a_line() {
        let (_folder, socket) = listening(|stream| stream.write_all(b"me\n").unwrap());
        assert_eq!(ask(&socket, "who", Some(Duration::from_secs(10))).unwrap(), "me\n");
        let (_folder, socket) = listening(|stream| stream.write_all(b"m").unwrap());
        let broken = ask(&socket, "who", None).unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn an_answer_that_comes_bit_by_bit_or_never_ends_is_cut_off() {
        let (_folder, socket) = listening(|stream| {
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let begun = Instant::now();
        let slow = ask(&socket, "who", Some(Duration::from_millis(300))).unwrap_err();
        assert_eq!(slow.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(5));
        let (_folder, socket) = listening(|stream| while stream.write_all(&[b'x'; 65536]).is_ok() {});
        let endless = ask(&socket, "who", Some(Duration::from_secs(60))).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
    }
}
