//! An SSH server of a test's own, on the loopback interface.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs::Permissions;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Scratch, free_port, skip, wait_for};

/// A server with keys of its own; it ends with this value.
pub struct Server {
    scratch: Scratch,
    port: u16,
    child: Child,
}

impl Server {
    /// `None`, and a word why, where there is no program for it.
    pub fn new() -> Option<Self> {
        let program = Path::new("/usr/sbin/sshd");
        if !program.is_file() {
            skip("no sshd: install openssh-server");
            return None;
        }
        let scratch = Scratch::new();
        let path = |name: &str| scratch.path().join(name);
        for name in ["host", "user", "stranger"] {
            let mut keygen = Command::new("ssh-keygen");
            let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(name)).status().unwrap();
            assert!(made.success());
        }
        std::fs::copy(path("user.pub"), path("authorized")).unwrap();
        for name in ["places", "runtime"] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::set_permissions(path(name), Permissions::from_mode(0o700)).unwrap();
        }
        // The folder that sshd leaves its rights in: a package that was never started has none yet.
        let _ = std::fs::create_dir("/run/sshd");
        let port = free_port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {host}\nAuthorizedKeysFile {authorized}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nSetEnv FSAGE_RUNTIME_DIR={runtime}\n",
            host = path("host").display(),
            authorized = path("authorized").display(),
            runtime = path("runtime").display(),
        );
        std::fs::write(path("config"), config).unwrap();
        let key = std::fs::read_to_string(path("host.pub")).unwrap();
        std::fs::write(path("known"), format!("[127.0.0.1]:{port} {key}")).unwrap();
        let mut command = Command::new(program);
        command.args(["-D", "-e", "-f"]).arg(path("config"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(path("log")).unwrap());
        fsage_sys::process::die_with_parent(&mut command);
        let child = command.spawn().unwrap();
        wait_for("sshd", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { scratch, port, child })
    }

    /// A file of the server: its keys, its list of known hosts.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Folder for the folders of connections.
    pub fn places(&self) -> PathBuf {
        self.path("places")
    }

    /// What marks processes of connections.
    pub fn mark(&self) -> PathBuf {
        self.path("runtime")
    }

    /// The `target` of a study, with this key and list of known hosts.
    pub fn target_with(&self, key: &str, known: &str) -> String {
        format!(
            r#"target={{ kind = "ssh", host = "127.0.0.1", port = {}, user = "root", identity = "{}", known_hosts = "{}", directory = "{}" }}"#,
            self.port,
            self.path(key).display(),
            self.path(known).display(),
            self.places().display()
        )
    }

    /// The `target` of a study.
    pub fn target(&self) -> String {
        self.target_with("user", "known")
    }

    /// Mounts, loop devices and folders of connections that are there.
    pub fn left(&self) -> Vec<String> {
        let mut left = self.scratch.left_behind();
        let places = std::fs::read_dir(self.places()).unwrap().flatten();
        left.extend(places.map(|entry| entry.path().display().to_string()));
        left
    }

    /// Nothing of a run is left, perhaps a moment later.
    pub fn nothing_left(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.left().is_empty() {
            assert!(Instant::now() < deadline, "left: {:?}", self.left());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        crate::victim::sweep(&self.mark());
    }
}
