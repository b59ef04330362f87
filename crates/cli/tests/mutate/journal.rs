//! Lease journals: what one says was taken is released, so it must say nothing that fsage cannot have taken.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex};

use fsage_engine::host::file::remove_made;
use fsage_lab::lease::{Journal, clean};
use fsage_lab::target::{Session, Target};
use fsage_model::protocol::{Call as _, Failure, FailureKind, Reply, Request};

use super::test_directory::TestDirectory;
use super::{Format, bytes};
use crate::dice::Dice;

/// Settings that fsage changes; nothing else may be asked for.
const SETTINGS: [&str; 5] = [
    "/sys/class/block/",
    "/sys/block/",
    "/proc/sys/vm/dirty_writeback_centisecs",
    "/proc/sys/fs/xfs/",
    "/sys/devices/virtual/workqueue/cpumask",
];

pub struct Journals {
    text: String,
    outside: String,
    session: Session,
    wrong: Arc<Mutex<Option<String>>>,
}

impl Journals {
    pub fn new(test_directory: &TestDirectory) -> Self {
        let inside = test_directory.path("inside").to_str().unwrap().to_owned();
        let (outside, work) = (test_directory.sentinels(), test_directory.path("inside/work"));
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let boot = boot.trim();
        let taken = format!(r#""boot_id":"{boot}","state":"taken","lease""#);
        let sentinel = std::fs::metadata(test_directory.path("outside/sentinel")).unwrap();
        let identity = |inode: u64| format!(r#"{{"device":{},"inode":{inode},"born":null}}"#, sentinel.dev());
        let (staged, device) = (r#""staged":".volume.0123456789abcdef.partial""#, sentinel.dev());
        let lines = [
            format!(r#"{{"store":"{}","pid":4194303,"start_ticks":5,"boot_id":"{boot}"}}"#, work.display()),
            format!(r#"{{"number":1,{taken}:"process","pid":4194303,"start_ticks":5}}"#),
            format!(
                r#"{{"number":2,{taken}:"file","path":"{inside}/volume","made":{{{staged},"identity":null}}}}"#
            ),
            format!(
                r#"{{"number":2,{taken}:"file","path":"{inside}/volume","made":{{{staged},"identity":{}}}}}"#,
                identity(7)
            ),
            format!(
                r#"{{"number":3,{taken}:"loop","file":"{inside}/volume","backing":{{"device":{device},"inode":7}}}}"#
            ),
            format!(
                r#"{{"number":4,{taken}:"setting","path":"/sys/class/block/loop0/queue/scheduler","old":"none","new":"mq-deadline"}}"#
            ),
            format!(
                r#"{{"number":5,{taken}:"directory","path":"{outside}/empty","made":{{{staged},"identity":{}}}}}"#,
                identity(8)
            ),
            format!(r#"{{"number":6,{taken}:"mount","point":"{inside}/mnt"}}"#),
            format!(r#"{{"number":7,{taken}:"trace-instance","name":"fsage-7-1"}}"#),
            format!(r#"{{"number":8,{taken}:"disk","directory":"{inside}/volumes/0123456789abcdef"}}"#),
            format!(r#"{{"number":10,{taken}:"memory-group","path":"/sys/fs/cgroup/memory/fsage-7-2"}}"#),
            format!(r#"{{"number":9,{taken}:"layer","name":"fsage-0123456789abcdef-0","device":"mapped"}}"#),
        ];
        let wrong = Arc::default();
        let session = session(&wrong);
        Self { text: lines.join("\n") + "\n", outside, session, wrong }
    }
}

/// A session that notes the first request that no journal may lead to. It removes files and directories, and
/// does none of the others.
fn session(wrong: &Arc<Mutex<Option<String>>>) -> Session {
    let wrong = Arc::clone(wrong);
    Target::scripted(Box::new(move |request, _| {
        if !may_be_asked(request) {
            wrong.lock().unwrap().get_or_insert_with(|| format!("the agent was asked for {request:?}"));
        }
        let failed = |message: String| Failure {
            message,
            hint: String::new(),
            errno: None,
            kind: FailureKind::Failed,
        };
        Some(match request {
            Request::RemoveMade(call) => match remove_made(&call.path, call.directory, &call.made) {
                Ok(left) => call.reply(&left),
                Err(error) => Err(failed(error.to_string())),
            },
            Request::Unmount(_) => Err(failed("not tried".to_owned())),
            _ => Ok(Reply::done()),
        })
    }))
}

/// Absolute, and without a way back up.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| part != Component::ParentDir)
}

/// What may be asked for at most, whatever the journal says.
fn may_be_asked(request: &Request) -> bool {
    match request {
        Request::RemoveMade(call) => {
            let staged = &call.made.staged;
            is_plain(&call.path)
                && staged.starts_with('.')
                && staged.ends_with(".partial")
                && !staged.contains('/')
        }
        Request::LoopDetach(call) => is_plain(&call.file),
        Request::Unmount(call) => is_plain(&call.point),
        Request::EndDisk(call) => {
            let text = call.directory.to_string_lossy();
            is_plain(&call.directory) && (text.contains("/volumes/") || text.ends_with("/served"))
        }
        Request::Restore(call) => {
            is_plain(&call.path)
                && SETTINGS.iter().any(|start| call.path.to_string_lossy().starts_with(start))
        }
        Request::EndLayer(call) => fsage_model::layer::is_name(&call.name),
        Request::RemoveTraceInstance(call) => call.name.starts_with("fsage-") && !call.name.contains('/'),
        Request::RemoveMemoryGroup(call) => {
            let name = call.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            is_plain(&call.path) && call.path.starts_with("/sys/fs/cgroup") && name.starts_with("fsage-")
        }
        Request::EndProcess(call) => call.pid > 1,
        _ => false,
    }
}

impl Format for Journals {
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8> {
        bytes::text(dice, &self.text, &self.outside)
    }

    fn read(&mut self, bytes: &[u8], test_directory: &TestDirectory) -> Result<bool, String> {
        let store = test_directory.work();
        let path = Journal::open(&store).unwrap().path().to_owned();
        std::fs::write(&path, bytes).unwrap();
        let cleaned = Journal::open(&store).and_then(|mut journal| clean(&mut self.session, &mut journal));
        // Whatever is in it: the next mutant begins with none.
        let _ = std::fs::remove_file(&path);
        match self.wrong.lock().unwrap().take() {
            Some(wrong) => Err(wrong),
            None => Ok(cleaned.is_ok_and(|summary| !summary.released.is_empty())),
        }
    }
}
