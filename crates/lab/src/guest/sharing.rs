//! Guests that share a disk of this host: the devices by which each of them has it, and what connects them.
//!
//! The disk is a network block device of the server, behind a virtio disk of each guest, and each asks it at a serial port of its own,
//! through a [`Relay`] that passes on nothing but questions. A network of one cable lies between two guests, and the first one speaks with
//! the agent of each other one at a serial port.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_engine::host::served::SERIAL;
use fsage_model::disk::call::Command;
use fsage_model::study::ClusterStack;
use fsage_sys::line_socket;
use serde::{Deserialize, Serialize};

use super::Sharing;
use crate::target::guest::port_of;

/// Which of the guests that share a disk one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// 0: it does the trial; others lend it their agents.
    pub(crate) number: u32,
    /// How many there are.
    pub(crate) hosts: u32,
    /// What they set up to know of each other.
    pub(crate) cluster: Option<ClusterStack>,
}

/// Name of the serial port at which the disk is asked.
pub(crate) const DISK_PORT: &str = "fsage-disk";

/// Name of the serial port at which another guest's agent listens.
pub(crate) const AGENT_PORT: &str = "fsage-agent";

/// How long the disk may take to answer.
const ANSWERS: Duration = Duration::from_secs(60);

/// Bytes of a question.
const QUESTION_BYTES: u64 = 4096;

/// Name of the socket of a guest's relay in the guest's folder.
const RELAY: &str = "disk";

/// Arguments of QEMU.
pub(super) fn arguments(sharing: &Sharing<'_>, own: &Path) -> Vec<OsString> {
    let meeting = sharing.meeting.unwrap_or(own);
    let member = sharing.member;
    let socket = |path: &Path| escaped(path);
    let block_bytes = sharing.served.block_bytes;
    let mut pairs = vec![
        (
            "-blockdev",
            format!(
                "driver=nbd,node-name=shared,server.type=unix,server.path={},discard=unmap",
                socket(&sharing.served.nbd)
            ),
        ),
        (
            "-device",
            format!(
                "virtio-blk-device,drive=shared,serial={SERIAL},logical_block_size={block_bytes},physical_block_size={}",
                block_bytes.max(4096)
            ),
        ),
        ("-chardev", format!("socket,id={DISK_PORT},path={},server=off", socket(&own.join(RELAY)))),
        ("-device", format!("virtserialport,chardev={DISK_PORT},name={DISK_PORT}")),
    ];
    if member.cluster.is_some() {
        let end = |number: u32| socket(&meeting.join(format!("cable{number}")));
        let (mine, other) = (end(member.number), end(1 - member.number.min(1)));
        pairs.extend([
            (
                "-netdev",
                format!(
                    "dgram,id=cable,local.type=unix,local.path={mine},remote.type=unix,remote.path={other}"
                ),
            ),
            ("-device", format!("virtio-net-device,netdev=cable,mac=52:54:00:00:00:0{}", member.number + 1)),
        ]);
    }
    let agent = |number: u32| socket(&agent_socket(meeting, number));
    if member.number == 0 {
        for number in 1..member.hosts {
            let name = port_of(number);
            pairs.extend([
                ("-chardev", format!("socket,id={name},path={},server=off", agent(number))),
                ("-device", format!("virtserialport,chardev={name},name={name}")),
            ]);
        }
    } else {
        pairs.extend([
            // The first guest starts later.
            ("-chardev", format!("socket,id={AGENT_PORT},path={},server=on,wait=off", agent(member.number))),
            ("-device", format!("virtserialport,chardev={AGENT_PORT},name={AGENT_PORT}")),
        ]);
    }
    pairs.into_iter().flat_map(|(key, value)| [key.into(), value.into()]).collect()
}

/// Where the agent of another guest than the first is to be met.
pub(crate) fn agent_socket(meeting: &Path, number: u32) -> PathBuf {
    meeting.join(format!("agent{number}"))
}

/// A path as a value in QEMU's options, where a comma ends it.
pub(super) fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Passes on a guest's questions to the disk, and nothing that changes it or this host.
#[derive(Debug)]
pub(crate) struct Relay {
    listener: UnixListener,
    /// The guest's end, once it came.
    guest: Arc<Mutex<Option<UnixStream>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl Relay {
    /// For the guest with this folder; `control` is the disk's socket.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(crate) fn start(folder: &Path, control: &Path) -> io::Result<Self> {
        let path = folder.join(RELAY);
        let listener = UnixListener::bind(&path)?;
        let (guest, is_over) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let (accepting, control) = (listener.try_clone()?, control.to_owned());
        let (came, over) = (Arc::clone(&guest), Arc::clone(&is_over));
        let thread = std::thread::Builder::new().name("disk relay".to_owned()).spawn(move || {
            // One guest, which comes once: nobody else but root may enter the folder.
            if let Ok((guest, _)) = accepting.accept() {
                *came.lock().unwrap_or_else(PoisonError::into_inner) = guest.try_clone().ok();
                if over.load(Ordering::SeqCst) {
                    return;
                }
                // A guest that is gone asks no more.
                let _ = answer(&guest, |question| line_socket::ask(&control, question, Some(ANSWERS)));
            }
        })?;
        Ok(Self { listener, guest, is_over, thread: Some(thread), path })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Wakes the thread, which then ends at once, or within a minute if the disk does not answer.
        self.is_over.store(true, Ordering::SeqCst);
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(guest) = &*self.guest.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = guest.shutdown(std::net::Shutdown::Both);
        }
        let _ = std::fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers a guest until it has no more questions.
fn answer(mut guest: &UnixStream, ask: impl Fn(&str) -> io::Result<String>) -> io::Result<()> {
    let mut questions = BufReader::new(guest);
    loop {
        let mut line = String::new();
        if questions.by_ref().take(QUESTION_BYTES).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let is_allowed = matches!(serde_json::from_str(&line), Ok(Command::Stat(_)));
        let said = if is_allowed {
            ask(line.trim_end())
        } else {
            Err(io::Error::other("guests may ask for `stat` only"))
        };
        let said = said.unwrap_or_else(|error| {
            format!("{}\n", serde_json::json!({ "error": error.to_string(), "hint": null }))
        });
        guest.write_all(said.as_bytes())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::Served;

    #[test]
    fn a_guest_asks_and_does_nothing_else() {
        let (host, mut guest) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            answer(&host, |question| {
                assert_eq!(question, r#"{"command":"stat"}"#);
                Ok("{\"ok\":1}\n".to_owned())
            })
        });
        let mut answers = BufReader::new(guest.try_clone().unwrap());
        let mut said = |question: &str| {
            guest.write_all(format!("{question}\n").as_bytes()).unwrap();
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            line
        };
        assert_eq!(said(r#"{"command":"stat"}"#), "{\"ok\":1}\n");
        for bad in [
            r#"{"command":"save-log","file":"/etc/passwd","without_data":true}"#,
            r#"{"command":"down"}"#,
            r#"{"command":"rest"}"#,
            r#"{"command":"set-faults","faults":{}}"#,
            "nonsense",
        ] {
            assert!(said(bad).contains("`stat` only"), "{bad}");
        }
        guest.shutdown(std::net::Shutdown::Both).unwrap();
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn a_relay_ends_while_its_guest_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let relay = Relay::start(folder.path(), Path::new("/nowhere")).unwrap();
        let guest = UnixStream::connect(folder.path().join(RELAY)).unwrap();
        (&guest).write_all(b"{\"command\":\"stat\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(&guest).read_line(&mut line).unwrap();
        assert!(line.contains("error"), "{line}");
        drop(relay);
        assert_eq!((&guest).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_comma_in_a_path_is_no_end_of_it() {
        assert_eq!(escaped(Path::new("/a,b/c")), "/a,,b/c");
    }

    #[test]
    fn a_relay_nobody_came_to_ends() {
        let folder = tempfile::tempdir().unwrap();
        let relay = Relay::start(folder.path(), Path::new("/nowhere")).unwrap();
        drop(relay);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn guests_meet_at_the_sockets_of_the_first() {
        let served = Served {
            nbd: "/d/nbd".into(),
            control: "/d/control".into(),
            block_bytes: 512,
            commands: Vec::new(),
        };
        let words = |number, meeting: Option<&Path>, own: &str| -> String {
            let member = Member { number, hosts: 2, cluster: Some(ClusterStack::O2cb) };
            let found = arguments(&Sharing { member, served: &served, meeting }, Path::new(own));
            found.iter().map(|word| word.to_string_lossy().into_owned() + " ").collect()
        };
        let (first, second) = (words(0, None, "/a"), words(1, Some(Path::new("/a")), "/b"));
        for both in [&first, &second] {
            assert!(both.contains("server.path=/d/nbd,") && both.contains("serial=fsage-disk,"), "{both}");
        }
        assert!(first.contains("path=/a/agent1,server=off") && first.contains("path=/a/disk,"));
        assert!(second.contains("path=/a/agent1,server=on,wait=off") && second.contains("path=/b/disk,"));
        assert!(first.contains("local.path=/a/cable0,") && first.contains("remote.path=/a/cable1"));
        assert!(second.contains("local.path=/a/cable1,") && second.contains("remote.path=/a/cable0"));
        assert!(first.contains("mac=52:54:00:00:00:01") && second.contains("mac=52:54:00:00:00:02"));
    }
}
