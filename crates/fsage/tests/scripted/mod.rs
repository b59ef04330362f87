//! What every scripted agent answers alike: a host with tools, a loop device and room.

use fsage_model::protocol::{BlockFacts, HostFacts, Reply, Request};

/// The answer to a request about the host or its devices; `None` for the others.
pub fn host(request: &Request) -> Option<Reply> {
    Some(match request {
        Request::HostFacts => {
            let tools = ["mkfs.ext4", "mke2fs", "e2fsck", "fsck.ext4", "mkfs.xfs", "xfs_repair"];
            let facts = HostFacts {
                tools: tools.iter().map(|tool| ((*tool).to_owned(), "1".to_owned())).collect(),
                memory_bytes: 1 << 20,
                ..HostFacts::default()
            };
            Reply::HostFacts { facts: Box::new(facts) }
        }
        // The lab really makes what it leases.
        Request::RemoveMade { path, directory, made } => {
            let left = fsage_engine::host::file::remove_made(path, *directory, made);
            left.expect("removed").map_or(Reply::Done, |why| Reply::Left { why })
        }
        Request::LoopAttach { .. } => Reply::Device { device: "/dev/loop-scripted".into() },
        Request::BlockFacts { device } => {
            let facts = BlockFacts { path: device.clone(), size_bytes: 400 << 20, ..BlockFacts::default() };
            Reply::BlockFacts { facts: Box::new(facts) }
        }
        Request::Usage { .. } => Reply::Usage {
            used_bytes: 0,
            total_bytes: 1 << 40,
            available_bytes: 1 << 40,
            file_system: "script".into(),
        },
        _ => return None,
    })
}
