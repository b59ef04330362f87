//! What every scripted agent answers alike: a host with tools, a loop device and room.

use fsage_model::protocol::{BlockFacts, Call as _, Failure, HostActivity, HostFacts, Reply, Request, Usage};

/// The answer to a request about the host or its devices; `None` for the others.
pub fn host(request: &Request) -> Option<Result<Reply, Failure>> {
    Some(match request {
        Request::HostFacts(call) => {
            let tools = ["mkfs.ext4", "mke2fs", "e2fsck", "fsck.ext4", "mkfs.xfs", "xfs_repair"];
            let facts = HostFacts {
                tools: tools.iter().map(|tool| ((*tool).to_owned(), "1".to_owned())).collect(),
                memory_bytes: 1 << 20,
                ..HostFacts::default()
            };
            call.reply(&facts)
        }
        Request::HostActivity(call) => call.reply(&HostActivity::default()),
        // The lab really makes what it leases.
        Request::RemoveMade(call) => {
            let left = fsage_engine::host::file::remove_made(&call.path, call.directory, &call.made);
            call.reply(&left.expect("removed"))
        }
        Request::LoopAttach(call) => call.reply(&"/dev/loop-scripted".into()),
        Request::BlockFacts(call) => {
            let path = call.device.clone();
            call.reply(&BlockFacts { path, size_bytes: 400 << 20, ..BlockFacts::default() })
        }
        Request::Usage(call) => call.reply(&Usage {
            used_bytes: 0,
            total_bytes: 1 << 40,
            available_bytes: 1 << 40,
            file_system: "script".into(),
        }),
        _ => return None,
    })
}
