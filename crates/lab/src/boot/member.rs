//! A guest among several that share a disk of their host: its network, its cluster, and the way to ask the disk.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use fsage_engine::host::disk::CONTROL;
use fsage_engine::host::served::FOLDER;
use fsage_engine::host::tool::look_up;
use fsage_model::study::ClusterStack;
use rustix::mount::{MountFlags, mount};

use crate::guest::PROGRAMS;
use crate::guest::sharing::{AGENT_PORT, DISK_PORT, Member};
use crate::target::{READY, guest};

/// Where the kernel has clusters of OCFS2 (Linux, `fs/ocfs2/cluster/nodemanager.c`).
const CLUSTER: &str = "/sys/kernel/config/cluster/fsage";

/// Port of the locks' messages.
const LOCKS_PORT: &str = "7777";

/// Sets up what a guest needs before its first trial.
pub(super) fn join(member: &Member) -> io::Result<()> {
    // mkfs.ocfs2 looks there whether the volume is mounted.
    let _ = std::os::unix::fs::symlink("/proc/self/mounts", "/etc/mtab");
    match member.cluster {
        None => Ok(()),
        Some(ClusterStack::O2cb) => o2cb(member),
    }
}

fn o2cb(member: &Member) -> io::Result<()> {
    let address = |number: u32| format!("10.7.0.{}", number + 1);
    ip(&["link", "set", "lo", "up"])?;
    ip(&["address", "add", &format!("{}/24", address(member.number)), "dev", "eth0"])?;
    ip(&["link", "set", "eth0", "up"])?;
    mount("configfs", "/sys/kernel/config", "configfs", MountFlags::empty(), None)?;
    fs::write("/sys/fs/ocfs2/cluster_stack", "o2cb")?;
    // The kernel runs it after an unmount, to end the heartbeat; where it lies differs between distributions.
    let control = look_up("ocfs2_hb_ctl").ok_or(io::ErrorKind::NotFound)?;
    fs::write("/proc/sys/fs/ocfs2/nm/hb_ctl_path", control.as_os_str().as_encoded_bytes())?;
    fs::create_dir(CLUSTER)?;
    for number in 0..member.hosts {
        let node = Path::new(CLUSTER).join("node").join(format!("host{}", number + 1));
        fs::create_dir(&node)?;
        // In this order: the kernel refuses a node's number before its address.
        for (name, value) in [
            ("ipv4_port", LOCKS_PORT.to_owned()),
            ("ipv4_address", address(number)),
            ("num", number.to_string()),
        ] {
            fs::write(node.join(name), value)?;
        }
        if number == member.number {
            fs::write(node.join("local"), "1")?;
        }
    }
    Ok(())
}

/// Sets up the network by the program that administrators use.
fn ip(words: &[&str]) -> io::Result<()> {
    let program = look_up("ip").ok_or(io::ErrorKind::NotFound)?;
    let output = Command::new(program).args(words).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("`ip {}` failed: {}", words.join(" "), said.trim())))
}

/// Listens where disks are asked, and passes questions on to the host, one after the other.
pub(super) fn ask_host() -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(FOLDER)?;
    let port = guest::open(&guest::port(DISK_PORT)?)?;
    let mut answers = BufReader::new(port.try_clone()?);
    let listener = UnixListener::bind(Path::new(FOLDER).join(CONTROL))?;
    std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that goes away is nobody's loss.
            let _ = pass_on(&client, &port, &mut answers);
        }
    })?;
    Ok(())
}

fn pass_on(mut client: &UnixStream, mut port: &File, answers: &mut BufReader<File>) -> io::Result<()> {
    let (mut question, mut answer) = (String::new(), String::new());
    BufReader::new(client).read_line(&mut question)?;
    // Nobody answers half a question.
    if !question.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    port.write_all(question.as_bytes())?;
    if answers.read_line(&mut answer)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    client.write_all(answer.as_bytes())
}

/// Lends this guest's agent to the first one, until that has ended.
pub(super) fn lend() -> io::Result<()> {
    let mut port = guest::open(&guest::port(AGENT_PORT)?)?;
    port.write_all(format!("{READY}\n").as_bytes())?;
    let agent = Path::new(PROGRAMS).join("fsage-agent");
    let input = port.try_clone()?;
    let status = Command::new(agent).stdin(input).stdout(port).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("the agent ended with {status}"))) }
}
