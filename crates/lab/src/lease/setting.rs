//! The settings of the host that fsage changes, all of them.
//!
//! Two labs, or two trials of one, may change one setting. Each has a lease with the value it set and the value
//! from before both; the first sets it, anyone who releases first leaves, or puts, the other's value there, and
//! the last one puts the old value back. A lock of the host is held meanwhile. A value that is no lab's is somebody else's later change, and
//! stays.
//!
//! One table, asked before a setting is taken and before it is released: what is not in it is not written.

use std::path::Path;

use fsage_model::filesystem;
use fsage_model::protocol::call;
use fsage_model::study::is_parameter;

use super::error::LeaseError;
use super::journal::{Journal, LeaseId};
use super::record::{Lease, LeaseRecord};
use crate::target::Session;

/// Which values a setting has.
#[derive(Debug, Clone, Copy)]
enum Syntax {
    /// A decimal number, which may be negative.
    Number,
    /// Groups of hexadecimal digits with commas between them.
    Mask,
    /// The name of a scheduler.
    Name,
}

/// Settings of the whole host, besides the timers of file systems ([`fsage_model::filesystem`]), which are
/// numbers.
const HOST: &[(&str, Syntax)] = &[
    ("/sys/devices/virtual/workqueue/cpumask", Syntax::Mask),
    ("/sys/module/workqueue/parameters/default_affinity_scope", Syntax::Name),
    ("/proc/sys/vm/dirty_writeback_centisecs", Syntax::Number),
];

/// Settings of a block device, in `/sys/class/block/NAME/queue`.
const QUEUE: &[(&str, Syntax)] = &[
    ("scheduler", Syntax::Name),
    ("max_sectors_kb", Syntax::Number),
    ("wbt_lat_usec", Syntax::Number),
    ("rotational", Syntax::Number),
    ("nr_requests", Syntax::Number),
    ("read_ahead_kb", Syntax::Number),
    ("nomerges", Syntax::Number),
    ("rq_affinity", Syntax::Number),
];

/// What became of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is what it should be by itself.
    Kept,
    /// It is what it should be, until the lease is released.
    Set(LeaseId),
    /// The host refuses the value, or rounds it; what was there is there again.
    Refused,
}

/// Changes a setting to what `value` makes of what it is; `None` where this host does not have it.
///
/// While other labs hold the setting, what it was before the first of them is what the last one puts back, in
/// whatever order they end.
///
/// # Errors
/// It cannot be leased, or the agent is lost.
pub(crate) fn set(
    session: &mut Session,
    journal: &mut Journal,
    path: &Path,
    value: impl FnOnce(&str) -> String,
) -> Result<Option<Outcome>, LeaseError> {
    // Reading a file of the kernel can do something, too.
    let Some(syntax) = path.to_str().and_then(syntax) else {
        let what = format!("fsage never changes {}", path.display());
        return Err(LeaseError::NotOurs { what });
    };
    let _held = journal.hold_settings()?;
    let now = match session.call(call::Get { path: path.to_owned() }) {
        Ok(now) => now,
        Err(error) if session.is_lost() => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let others = journal.others_on(path);
    // What is there counts as theirs only if one of them set it, or if nothing has changed it: anything else is a later
    // change by somebody.
    let of = |record: &LeaseRecord| match &record.lease {
        Lease::Setting { old, new, .. } => Some((old.clone(), new.clone())),
        _ => None,
    };
    let theirs: Vec<(String, String)> = others.iter().filter_map(of).collect();
    let first = theirs.first().map(|(old, _)| old.clone());
    let first =
        first.filter(|old| syntax.same(&now, old) || theirs.iter().any(|(_, new)| syntax.same(&now, new)));
    let new = value(&now);
    if now == new && first.is_none() {
        return Ok(Some(Outcome::Kept));
    }
    let is_set = now == new;
    let old = first.unwrap_or_else(|| now.clone());
    journal.list_directory()?;
    let id = journal.take(Lease::Setting { path: path.to_owned(), old: old.clone(), new: new.clone() })?;
    if is_set {
        return Ok(Some(Outcome::Set(id)));
    }
    let is_refused = match session.call(call::Set { path: path.to_owned(), value: new.clone() }) {
        Ok(_) => false,
        Err(error) if session.is_lost() => return Err(error.into()),
        Err(_) => true,
    };
    let put = Put { before: now, old, new, syntax, is_refused };
    kept(session, journal, path, put, id).map(Some)
}

/// A value that was written.
struct Put {
    /// What was there.
    before: String,
    /// What was there before any lab changed it.
    old: String,
    /// What was to be there.
    new: String,
    syntax: Syntax,
    /// The kernel said that it does not take it.
    is_refused: bool,
}

/// What became of a setting. The kernel rounds some values, and may have changed something where it refuses one (a scheduler
/// that does not start leaves the queue without any): what it made of a value is not what the lease would put back, so
/// that it is taken out at once.
fn kept(
    session: &mut Session,
    journal: &mut Journal,
    path: &Path,
    put: Put,
    id: LeaseId,
) -> Result<Outcome, LeaseError> {
    let Put { before, old, new, syntax, is_refused } = put;
    let now = match session.call(call::Get { path: path.to_owned() }) {
        Ok(now) => now,
        Err(error) if session.is_lost() => return Err(error.into()),
        // It can be written and not read.
        Err(_) if !is_refused => return Ok(Outcome::Set(id)),
        Err(_) => before.clone(),
    };
    if !is_refused && syntax.same(&now, &new) {
        return Ok(Outcome::Set(id));
    }
    if now != before {
        // Should this end in the middle, the lease on what the kernel made of it puts the original value back.
        let path = path.to_owned();
        let rounded = journal.take(Lease::Setting { path: path.clone(), old, new: now.clone() });
        session.call(call::Restore { path, old: before, new: now })?;
        journal.release(rounded?)?;
    }
    // A lease on a value that is not there would be another lab's to put back.
    journal.release(id)?;
    Ok(Outcome::Refused)
}

/// Whether fsage sets this setting to such a value.
///
/// # Errors
/// Why not.
pub(super) fn check(path: &Path, value: &str) -> Result<(), String> {
    let Some(syntax) = path.to_str().and_then(syntax) else {
        return Err(format!("fsage never changes {}", path.display()));
    };
    if syntax.holds(value) {
        return Ok(());
    }
    Err(format!("{} cannot be {value:?}", path.display()))
}

fn syntax(path: &str) -> Option<Syntax> {
    let find = |table: &[(&str, Syntax)], name: &str| {
        table.iter().find(|(known, _)| *known == name).map(|(_, syntax)| *syntax)
    };
    let Some(rest) = path.strip_prefix("/sys/class/block/") else {
        let mut timers = filesystem::ALL.iter().flat_map(|row| row.timers);
        return find(HOST, path)
            .or_else(|| timers.any(|(timer, _)| *timer == path).then_some(Syntax::Number));
    };
    let (device, setting) = rest.split_once("/queue/")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-!:".contains(&byte);
    if device.is_empty() || !device.bytes().all(plain) {
        return None;
    }
    if let Some(parameter) = setting.strip_prefix("iosched/") {
        return is_parameter(parameter).then_some(Syntax::Number);
    }
    find(QUEUE, setting)
}

impl Syntax {
    /// Whether the kernel shows this value so.
    fn same(self, shown: &str, value: &str) -> bool {
        let number = |text: &str| text.trim().parse::<i64>().ok();
        match self {
            Self::Number => number(shown).is_some() && number(shown) == number(value),
            Self::Name => shown == value,
            // Groups of digits that the kernel writes its own way.
            Self::Mask => true,
        }
    }

    fn holds(self, value: &str) -> bool {
        if value.is_empty() || value.len() > 4096 {
            return false;
        }
        match self {
            Self::Number => {
                let digits = value.strip_prefix('-').unwrap_or(value);
                digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u64>().is_ok()
            }
            Self::Mask => value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b','),
            Self::Name => value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use fsage_model::protocol::{Call as _, Failure, FailureKind, Request};

    use super::*;
    use crate::lease::release;
    use crate::target::Target;

    /// What an agent says of a value that the kernel does not take.
    fn refusal() -> Failure {
        Failure { message: "no".to_owned(), hint: String::new(), errno: None, kind: FailureKind::Failed }
    }

    /// A host with one setting, and an agent on it that treats it as agents do.
    fn session(host: &Arc<Mutex<String>>) -> Session {
        let host = Arc::clone(host);
        Target::scripted(Box::new(move |request, _| {
            let mut value = host.lock().unwrap();
            Some(match request {
                Request::Get(get) => get.reply(&value),
                Request::Set(set) => set.reply(&std::mem::replace(&mut *value, set.value.clone())),
                Request::Restore(restore) => {
                    if *value == restore.new {
                        value.clone_from(&restore.old);
                    }
                    restore.reply(&())
                }
                _ => Err(refusal()),
            })
        }))
    }

    /// What the host's setting is after two labs have taken it, after the first of them to end, and after the
    /// last.
    fn ends(values: [&str; 2], first: usize) -> [String; 3] {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        // Each run of this test has a device of its own, which nobody else has a lease on.
        let device = folders[0].path().file_name().unwrap().to_string_lossy().replace('.', "");
        let path = PathBuf::from(format!("/sys/class/block/{device}/queue/max_sectors_kb"));
        let host = Arc::new(Mutex::new("1280".to_owned()));
        let mut labs: Vec<(Session, Journal, LeaseId)> = Vec::new();
        for (folder, value) in folders.iter().zip(values) {
            let (mut session, mut journal) = (session(&host), Journal::open(folder.path()).unwrap());
            let outcome = set(&mut session, &mut journal, &path, |_| value.to_owned()).unwrap();
            let Some(Outcome::Set(id)) = outcome else { panic!("{outcome:?}") };
            labs.push((session, journal, id));
        }
        let taken = host.lock().unwrap().clone();
        let mut end = |which: usize| {
            let (session, journal, id) = &mut labs[which];
            release(session, journal, *id).unwrap();
            host.lock().unwrap().clone()
        };
        [taken, end(first), end(1 - first)]
    }

    #[test]
    fn the_last_of_two_labs_puts_the_old_value_back() {
        assert_eq!(ends(["64", "64"], 0), ["64", "64", "1280"]);
        assert_eq!(ends(["64", "64"], 1), ["64", "64", "1280"]);
        assert_eq!(ends(["64", "128"], 0), ["128", "128", "1280"]);
        assert_eq!(ends(["64", "128"], 1), ["128", "64", "1280"]);
    }

    #[test]
    fn two_trials_of_one_lab_set_it_once_and_the_last_puts_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().file_name().unwrap().to_string_lossy().replace('.', "");
        let path = PathBuf::from(format!("/sys/class/block/{device}/queue/max_sectors_kb"));
        for (first, joined) in [(0, false), (1, false), (0, true)] {
            let host = Arc::new(Mutex::new("1280".to_owned()));
            let (asked, seen) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&host));
            let log = Arc::clone(&asked);
            let mut inner = session(&seen);
            let mut session = Target::scripted(Box::new(move |request, _| {
                log.lock().unwrap().push(request.name());
                Some(match request {
                    Request::Get(get) => get.reply(&inner.call(get.clone()).unwrap()),
                    Request::Set(set) => set.reply(&inner.call(set.clone()).unwrap()),
                    Request::Restore(restore) => restore.reply(&inner.call(restore.clone()).unwrap()),
                    other => panic!("{other:?}"),
                })
            }));
            let mut journal = Journal::open(folder.path()).unwrap();
            let mut trials = vec![journal.branch(), journal.branch()];
            let ids: Vec<LeaseId> = trials
                .iter_mut()
                .map(|trial| match set(&mut session, trial, &path, |_| "64".to_owned()) {
                    Ok(Some(Outcome::Set(id))) => id,
                    other => panic!("{other:?}"),
                })
                .collect();
            let sets = asked.lock().unwrap().iter().filter(|name| *name == "set").count();
            assert_eq!((sets, host.lock().unwrap().as_str()), (1, "64"));
            if joined {
                // As when the run releases what both left: one journal has both leases, and no trial runs any more.
                trials.into_iter().for_each(|trial| journal.join(trial));
                release(&mut session, &mut journal, ids[1]).unwrap();
                release(&mut session, &mut journal, ids[0]).unwrap();
                assert!(journal.outstanding().is_empty());
            } else {
                release(&mut session, &mut trials[first], ids[first]).unwrap();
                assert_eq!(host.lock().unwrap().as_str(), "64", "the other trial still runs");
                release(&mut session, &mut trials[1 - first], ids[1 - first]).unwrap();
            }
            assert_eq!(host.lock().unwrap().as_str(), "1280");
        }
    }

    #[test]
    fn a_value_that_the_kernel_rounds_is_refused_and_the_old_one_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().file_name().unwrap().to_string_lossy().replace('.', "");
        let path = PathBuf::from(format!("/sys/class/block/{device}/queue/read_ahead_kb"));
        let host = Arc::new(Mutex::new("128".to_owned()));
        let (kernel, mut inner) = (Arc::clone(&host), session(&host));
        let mut session = Target::scripted(Box::new(move |request, _| {
            Some(match request {
                Request::Get(get) => get.reply(&inner.call(get.clone()).unwrap()),
                Request::Set(set) => {
                    let before = inner.call(set.clone()).unwrap();
                    let mut value = kernel.lock().unwrap();
                    let kib: u64 = value.parse().unwrap();
                    *value = (kib / 4 * 4).to_string();
                    set.reply(&before)
                }
                Request::Restore(restore) => restore.reply(&inner.call(restore.clone()).unwrap()),
                other => panic!("{other:?}"),
            })
        }));
        let mut journal = Journal::open(folder.path()).unwrap();
        let outcome = set(&mut session, &mut journal, &path, |_| "5".to_owned()).unwrap();
        assert_eq!(outcome, Some(Outcome::Refused));
        assert_eq!(host.lock().unwrap().as_str(), "128");
        assert!(journal.outstanding().is_empty());
        let outcome = set(&mut session, &mut journal, &path, |_| "8".to_owned()).unwrap();
        let Some(Outcome::Set(id)) = outcome else { panic!("{outcome:?}") };
        release(&mut session, &mut journal, id).unwrap();
        assert_eq!(host.lock().unwrap().as_str(), "128");
    }

    #[test]
    fn what_the_table_does_not_have_is_not_even_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = Target::scripted(Box::new(|request, _| panic!("{request:?}")));
        let mut journal = Journal::open(folder.path()).unwrap();
        for path in [
            "/sys/class/block/loop7/queue/iosched/../../../../../../kernel/tracing/trace_pipe",
            "/sys/kernel/tracing/trace_pipe",
        ] {
            let error = set(&mut session, &mut journal, Path::new(path), str::to_owned).unwrap_err();
            assert!(matches!(error, LeaseError::NotOurs { .. }), "{error}");
        }
    }

    #[test]
    fn a_value_that_is_refused_is_nobody_elses_to_put_back() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let device = folders[0].path().file_name().unwrap().to_string_lossy().replace('.', "");
        let path = PathBuf::from(format!("/sys/class/block/{device}/queue/nr_requests"));
        let host = Arc::new(Mutex::new("256".to_owned()));
        let mut first = (session(&host), Journal::open(folders[0].path()).unwrap());
        let outcome = set(&mut first.0, &mut first.1, &path, |_| "64".to_owned()).unwrap();
        let Some(Outcome::Set(id)) = outcome else { panic!("{outcome:?}") };
        let mut inner = session(&host);
        let mut refusing = Target::scripted(Box::new(move |request, _| {
            Some(match request {
                Request::Get(get) => get.reply(&inner.call(get.clone()).unwrap()),
                Request::Set(_) => Err(refusal()),
                other => panic!("{other:?}"),
            })
        }));
        let mut second = Journal::open(folders[1].path()).unwrap();
        let outcome = set(&mut refusing, &mut second, &path, |_| "9".to_owned()).unwrap();
        assert!(outcome == Some(Outcome::Refused) && second.outstanding().is_empty());
        release(&mut first.0, &mut first.1, id).unwrap();
        assert_eq!(host.lock().unwrap().as_str(), "256");
    }

    #[test]
    fn a_later_change_by_somebody_is_what_comes_back() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let device = folders[0].path().file_name().unwrap().to_string_lossy().replace('.', "");
        let path = PathBuf::from(format!("/sys/class/block/{device}/queue/scheduler"));
        let host = Arc::new(Mutex::new("none".to_owned()));
        let mut first = (session(&host), Journal::open(folders[0].path()).unwrap());
        let Some(Outcome::Set(one)) = set(&mut first.0, &mut first.1, &path, |_| "bfq".to_owned()).unwrap()
        else {
            panic!("not set");
        };
        "kyber".clone_into(&mut host.lock().unwrap());
        let mut second = (session(&host), Journal::open(folders[1].path()).unwrap());
        let Some(Outcome::Set(two)) =
            set(&mut second.0, &mut second.1, &path, |_| "mq-deadline".to_owned()).unwrap()
        else {
            panic!("not set");
        };
        release(&mut first.0, &mut first.1, one).unwrap();
        release(&mut second.0, &mut second.1, two).unwrap();
        assert_eq!(host.lock().unwrap().as_str(), "kyber");
    }

    #[test]
    fn a_scheduler_that_does_not_start_is_followed_by_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().file_name().unwrap().to_string_lossy().replace('.', "");
        let path = PathBuf::from(format!("/sys/class/block/{device}/queue/scheduler"));
        let host = Arc::new(Mutex::new("mq-deadline".to_owned()));
        let (kernel, mut inner) = (Arc::clone(&host), session(&host));
        let mut session = Target::scripted(Box::new(move |request, _| {
            Some(match request {
                Request::Get(get) => get.reply(&inner.call(get.clone()).unwrap()),
                Request::Set(_) => {
                    "none".clone_into(&mut kernel.lock().unwrap());
                    Err(refusal())
                }
                Request::Restore(restore) => restore.reply(&inner.call(restore.clone()).unwrap()),
                other => panic!("{other:?}"),
            })
        }));
        let mut journal = Journal::open(folder.path()).unwrap();
        let outcome = set(&mut session, &mut journal, &path, |_| "bfq".to_owned()).unwrap();
        assert!(outcome == Some(Outcome::Refused) && journal.outstanding().is_empty());
        assert_eq!(host.lock().unwrap().as_str(), "mq-deadline");
    }

    #[test]
    fn what_is_right_by_itself_is_not_leased() {
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(Mutex::new("64".to_owned()));
        let mut journal = Journal::open(folder.path()).unwrap();
        let path = Path::new("/sys/class/block/no-such-device/queue/max_sectors_kb");
        let outcome = set(&mut session(&host), &mut journal, path, str::to_owned).unwrap();
        assert!(outcome == Some(Outcome::Kept) && journal.outstanding().is_empty());
    }

    #[test]
    fn only_what_the_table_has_is_set() {
        let right = |path: &str, value: &str| check(Path::new(path), value).is_ok();
        assert!(right("/sys/class/block/loop7/queue/scheduler", "mq-deadline"));
        assert!(right("/sys/class/block/nvme0n1/queue/rotational", "0"));
        assert!(right("/sys/class/block/sda/queue/wbt_lat_usec", "-1"));
        assert!(right("/sys/devices/virtual/workqueue/cpumask", "ffffffff,00000003"));
        assert!(right("/sys/class/block/loop7/queue/iosched/fifo_batch", "1"));
        assert!(!right("/sys/class/block/loop7/queue/iosched/../scheduler", "1"));
        assert!(!right("/sys/class/block/loop7/queue/iosched/fifo_batch", "none"));
        assert!(!right("/sys/class/block/loop7/queue/io_poll", "4"));
        assert!(!right("/sys/class/block/loop7/queue/nr_requests", "-+5"));
        assert!(!right("/sys/class/block/loop7/../loop8/queue/scheduler", "none"));
        assert!(!right("/sys/class/block//queue/scheduler", "none"));
        assert!(!right("/sys/class/block/loop7/queue/scheduler", "none\nbfq"));
        assert!(!right("/sys/class/block/loop7/queue/rotational", ""));
        assert!(!right("/proc/sys/kernel/core_pattern", "0"));
        assert!(!right("/sys/devices/virtual/workqueue/cpumask", "0x3"));
    }
}
