//! A FUSE file system, served here, that says of everything in it that it is root's.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use fsage_sys::fuse::reply::{self, Attributes, InitReply};
use fsage_sys::fuse::request::{self, Request};
use fsage_sys::fuse::{Device, MessageBuffer, ROOT_NODE, Received};
use fsage_sys::mount;

/// Bytes of the largest write that is asked for.
const MOST: usize = 64 << 10;

const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;

/// Mounted at a path until it is dropped. It holds a folder `mine`, and all users may enter.
pub struct Served {
    point: PathBuf,
    server: Option<JoinHandle<()>>,
}

impl Served {
    /// Mounts it at `point`, which is made, in the name of `user`: as if that user's program served it.
    pub fn new(point: PathBuf, user: u32) -> Self {
        std::fs::create_dir(&point).unwrap();
        let device = Device::open().unwrap();
        let options = [
            format!("fd={}", device.as_fd().as_raw_fd()),
            "rootmode=40000".to_owned(),
            format!("user_id={user}"),
            "group_id=0".to_owned(),
            "allow_other".to_owned(),
        ];
        mount::mount(Path::new("served"), &point, "fuse", &options).unwrap();
        Self { point, server: Some(std::thread::spawn(move || serve(&device))) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        mount::unmount(&self.point).or_else(|_| mount::unmount_lazily(&self.point)).unwrap();
        self.server.take().unwrap().join().unwrap();
    }
}

fn serve(device: &Device) {
    let mut buffer = MessageBuffer::new(MOST);
    loop {
        match device.receive(&mut buffer).unwrap() {
            Received::Ended => return,
            Received::Nothing => device.wait(None).unwrap(),
            Received::Message => {
                let message = buffer.message();
                let header = request::header(&message).unwrap();
                let asked = request::decode(&header, &message).unwrap();
                if matches!(asked, Request::Forget | Request::Interrupt) {
                    continue;
                }
                match answer(header.node, asked) {
                    Ok(body) => device.answer(header.unique, 0, &body).unwrap(),
                    Err(errno) => device.answer(header.unique, errno, &[]).unwrap(),
                }
            }
        }
    }
}

fn answer(node: u64, asked: Request<'_>) -> Result<Vec<u8>, i32> {
    let folder = |node| Attributes { node, size: 0, mode: 0o040_755, links: 2, block_bytes: 4096 };
    Ok(match asked {
        Request::Init(offered) => InitReply {
            offered,
            flags: 0,
            max_background: 12,
            max_write: u32::try_from(MOST).unwrap(),
            max_pages: 16,
            request_timeout_s: 0,
        }
        .encode()
        .to_vec(),
        Request::Lookup { name: b"mine" } => folder(ROOT_NODE + 1).encode_entry().to_vec(),
        Request::Lookup { .. } => return Err(ENOENT),
        Request::GetAttr => folder(node).encode().to_vec(),
        Request::StatFs => reply::statfs(1 << 30, 4096).to_vec(),
        _ => return Err(ENOSYS),
    })
}
