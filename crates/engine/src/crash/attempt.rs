//! One crash state: mount it, compare, use it, unmount it, check it.

use std::path::Path;
use std::time::Instant;

use fsage_content::fill;
use fsage_model::crash::{
    ATTRIBUTE_NAME, Attempt, AttemptSpec, CrashClass, Damage, DamageKind, KnownFinding,
};
use fsage_model::location::Location;
use fsage_model::protocol::ToolOutput;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fgetxattr, fstat, fsync, unlinkat};
use rustix::io::{Errno, read, write};

use super::kernel_log::KernelLog;
use super::oracle::{self, Found, FoundFile, FoundTree};
use super::run::Histories;
use super::{duration_ns, wide};
use crate::host::HostError;
use crate::host::held::{HeldDevices, await_free};
use crate::location::{Anchor, Reach as _};

/// Most damage that is said of one state.
const MOST_DAMAGE: usize = 24;

/// Longest file that is read: no load writes one that long.
const LONGEST_FILE: usize = 1 << 20;

/// Longest value of an extended attribute that is read: no load sets one that long.
const LONGEST_ATTRIBUTE: usize = 4096;

/// File that shows whether it can be used.
const USED: &str = "fsage-used-after-cut";

/// What compares a state that is mounted with what was promised.
pub trait Judge {
    /// How many promises were made before the cut.
    fn returned(&self, spec: &AttemptSpec) -> u64;

    /// What is damaged; what else there is to say goes into `attempt`.
    ///
    /// # Errors
    /// It cannot be judged.
    fn judge(&self, spec: &AttemptSpec, attempt: &mut Attempt) -> Result<Vec<Damage>, HostError>;

    /// Whether everything below the load's directory can be removed if the file system is whole.
    fn is_removable(&self) -> bool;
}

impl Judge for Histories {
    fn returned(&self, spec: &AttemptSpec) -> u64 {
        let floors = self.all().map(|history| history.floors(spec.cut, spec.promises.fsync_names));
        floors.map(|floors| wide(floors.returned)).sum()
    }

    /// Everything that is there against what was promised.
    fn judge(&self, spec: &AttemptSpec, attempt: &mut Attempt) -> Result<Vec<Damage>, HostError> {
        let directory = match open_load(spec, DamageKind::Name) {
            Ok(directory) => directory,
            Err(damage) => return Ok(vec![damage]),
        };
        let (found, mut damage) = (found(&directory), Vec::new());
        for (history, found) in self.with_found(&found) {
            let mut floors = history.floors(spec.cut, spec.promises.fsync_names);
            floors.missing.clone_from(&spec.missing);
            floors.promises = Some(spec.promises);
            let judgement = oracle::judge(history, &floors, &found);
            attempt.compared += judgement.compared;
            attempt.updates.extend(judgement.updates);
            damage.extend(judgement.damage);
        }
        let stray = "is there, although no thread made it";
        damage.extend(
            self.strays(&found)
                .map(|name| Damage { path: name.to_owned(), ..whole(DamageKind::Name, stray.to_owned()) }),
        );
        Ok(damage)
    }

    fn is_removable(&self) -> bool {
        true
    }
}

/// Tries a state. `check` runs a command that checks the device.
///
/// # Errors
/// It cannot be tried: the device is gone, the file system is not in the kernel, it stays busy.
pub fn attempt(
    spec: &AttemptSpec,
    judge: &dyn Judge,
    held: &HeldDevices,
    check: &dyn Fn(&[String]) -> Result<ToolOutput, HostError>,
) -> Result<Attempt, HostError> {
    let mut attempt = Attempt { returned: judge.returned(spec), ..Attempt::default() };
    if let Some(said) = &spec.layers {
        attempt.damage.push(whole(DamageKind::Mount, said.clone()));
        attempt.class = class(&attempt, spec);
        return Ok(attempt);
    }
    held.forget_cache(&spec.device)?;
    let log = KernelLog::from_now();
    mounted(spec, judge, held, &mut attempt)?;
    // Neither the file system nor the load's directory is missing.
    let is_there = attempt.damage.iter().all(|damage| match damage.kind {
        DamageKind::Mount => false,
        DamageKind::Name => !damage.path.is_empty(),
        _ => true,
    });
    note(&log, spec, &mut attempt)?;
    if let Some(argv) = spec.check.as_ref().filter(|_| !attempt.oops) {
        held.forget_cache(&spec.device)?;
        attempt.checked = true;
        let (checked, check_ns) = timed(|| check(argv));
        attempt.times.check_ns = check_ns;
        attempt.damage.extend(check_damage(checked)?);
    }
    if spec.used && judge.is_removable() && is_there && !attempt.oops {
        emptied(spec, held, &mut attempt)?;
    }
    attempt.damage.sort_by_key(|damage| damage.kind);
    attempt.class = class(&attempt, spec);
    attempt.known = known(&attempt, spec);
    attempt.damage.truncate(MOST_DAMAGE);
    Ok(attempt)
}

/// What is done while it is mounted, and whether it can be.
fn mounted(
    spec: &AttemptSpec,
    judge: &dyn Judge,
    held: &HeldDevices,
    attempt: &mut Attempt,
) -> Result<(), HostError> {
    let (mounted, mount_ns) =
        timed(|| held.mount(&spec.device, &spec.point, &spec.file_system, &spec.options, false));
    attempt.times.mount_ns = mount_ns;
    if let Err(error) = mounted {
        if !is_refusal(&error) {
            // Not the state's fault: the file system is not there, something else is in the way.
            return Err(error);
        }
        attempt.damage.push(whole(DamageKind::Mount, crate::host::chain(&error)));
        return Ok(());
    }
    let (damage, verify_ns) = timed(|| judge.judge(spec, attempt));
    attempt.times.verify_ns = verify_ns;
    if spec.used && damage.is_ok() {
        attempt.used = true;
        attempt.damage.extend(cannot_use(&spec.point));
    }
    let (unmounted, unmount_ns) = timed(|| held.unmount(&spec.point));
    attempt.times.unmount_ns = unmount_ns;
    attempt.damage.extend(damage?);
    unmounted?;
    // The next state would be judged by what the kernel remembers of this one.
    await_free(&spec.device)
}

/// Whether all that the load left can be removed: after the check, which is to see it.
fn emptied(spec: &AttemptSpec, held: &HeldDevices, attempt: &mut Attempt) -> Result<(), HostError> {
    held.forget_cache(&spec.device)?;
    let log = KernelLog::from_now();
    match held.mount(&spec.device, &spec.point, &spec.file_system, &spec.options, false) {
        Err(error) if is_refusal(&error) => {
            note(&log, spec, attempt)?;
            let what = format!("after it was unmounted: {}", crate::host::chain(&error));
            attempt.damage.push(whole(DamageKind::Mount, what));
            return Ok(());
        }
        mounted => mounted?,
    }
    attempt.damage.extend(cannot_remove(&spec.directory));
    held.unmount(&spec.point)?;
    await_free(&spec.device)?;
    note(&log, spec, attempt)
}

/// What the kernel said meanwhile.
fn note(log: &KernelLog, spec: &AttemptSpec, attempt: &mut Attempt) -> Result<(), HostError> {
    let logged = log.since(&spec.device);
    attempt.oops |= logged.bug;
    attempt.kernel.extend(logged.lines);
    if let Some(line) = logged.failed.filter(|_| !attempt.oops) {
        return Err(HostError::file("read or write", &spec.device)(std::io::Error::other(line)));
    }
    // What cannot be mounted is said already.
    let is_mounted = attempt.damage.iter().all(|damage| damage.kind != DamageKind::Mount);
    let error = logged.error.filter(|_| is_mounted);
    attempt.damage.extend(error.map(|line| whole(DamageKind::Use, format!("the kernel logged: {line}"))));
    Ok(())
}

/// Whether somebody promised that this damage would not happen.
const fn breaks_promise(damage: &Damage, spec: &AttemptSpec) -> bool {
    spec.honest && spec.promises.exclude(damage.kind)
}

/// The known findings that explain every broken promise; none where one is left.
fn known(attempt: &Attempt, spec: &AttemptSpec) -> Vec<KnownFinding> {
    let broken = attempt.damage.iter().filter(|damage| breaks_promise(damage, spec));
    let found: Option<Vec<KnownFinding>> =
        broken.map(|damage| KnownFinding::of(&spec.file_system, damage)).collect();
    let mut found = found.filter(|_| !attempt.oops).unwrap_or_default();
    found.sort_unstable();
    found.dedup();
    found
}

/// What the worst damage amounts to.
fn class(attempt: &Attempt, spec: &AttemptSpec) -> CrashClass {
    let broken = |damage: &Damage| breaks_promise(damage, spec);
    match attempt.damage.as_slice() {
        // A bug that the kernel reports is one whatever the drive does.
        _ if attempt.oops => CrashClass::Broken,
        [] => CrashClass::Ok,
        damage if damage.iter().any(broken) => CrashClass::Broken,
        _ => CrashClass::Documented,
    }
}

/// The load's directory; if it cannot be opened, that is damage of this kind.
pub(super) fn open_load(spec: &AttemptSpec, kind: DamageKind) -> Result<Anchor, Damage> {
    spec.directory
        .open()
        .map_err(|error| whole(kind, format!("the load's directory: {}", crate::host::chain(&error))))
}

pub(super) fn whole(kind: DamageKind, what: String) -> Damage {
    Damage { kind, path: String::new(), what, pattern: None }
}

/// Whether the file system refused what it found.
fn is_refusal(error: &HostError) -> bool {
    const ENODEV: i32 = 19;
    const EBUSY: i32 = 16;
    const EPERM: i32 = 1;
    matches!(error, HostError::Kernel { source, .. } if ![ENODEV, EBUSY, EPERM].contains(&source.errno()))
        || matches!(error, HostError::Companion { .. } | HostError::Joined { .. })
}

fn check_damage(checked: Result<ToolOutput, HostError>) -> Result<Option<Damage>, HostError> {
    match checked {
        Ok(output) if output.status == 0 => Ok(None),
        Ok(output) => {
            let said = format!("{}\n{}", output.stdout, output.stderr);
            let lines: Vec<&str> =
                said.lines().map(str::trim).filter(|line| !line.is_empty()).take(6).collect();
            Ok(Some(whole(DamageKind::Check, format!("exit status {}: {}", output.status, lines.join("; ")))))
        }
        Err(error @ HostError::TimedOut { .. }) => Ok(Some(whole(DamageKind::Check, error.to_string()))),
        Err(error) => Err(error),
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let started = Instant::now();
    let done = work();
    (done, duration_ns(started.elapsed()))
}

/// Everything below the load's directory.
fn found(directory: &Anchor) -> FoundTree {
    let mut found = FoundTree::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        match list(directory, &path) {
            Ok(entries) => {
                for (name, kind) in entries {
                    let below = if path.is_empty() { name } else { format!("{path}/{name}") };
                    if kind == FileType::Directory {
                        open.push(below.clone());
                    }
                    let what = match kind {
                        FileType::Directory => Found::Directory,
                        FileType::RegularFile => read_whole(directory, &below).map_or_else(
                            |errno| Found::Unreadable(format!("cannot be read: {errno}")),
                            Found::File,
                        ),
                        other => Found::Unreadable(format!("is a {other:?}")),
                    };
                    found.insert(below, what);
                }
            }
            Err(errno) => {
                found.insert(path, Found::Unreadable(format!("cannot be listed: {errno}")));
            }
        }
    }
    found
}

fn list(directory: &Anchor, path: &str) -> Result<Vec<(String, FileType)>, Errno> {
    let path = if path.is_empty() { "." } else { path };
    let opened = directory.open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            entries.push((name, entry.file_type()));
        }
    }
    Ok(entries)
}

/// A file with its extended attribute.
fn read_whole(directory: &Anchor, path: &str) -> Result<FoundFile, Errno> {
    let file = directory.open(path, OFlags::RDONLY, Mode::empty())?;
    let mut value = [0; LONGEST_ATTRIBUTE];
    let attribute = match fgetxattr(&file, ATTRIBUTE_NAME, &mut value) {
        Ok(length) => Some(value.get(..length).unwrap_or_default().to_vec()),
        // It has none, or the file system knows of none.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => None,
        Err(errno) => return Err(errno),
    };
    let inode = fstat(&file)?.st_ino;
    Ok(FoundFile { bytes: read_all(file)?, attribute, inode })
}

fn read_file(directory: &Anchor, path: &str) -> Result<Vec<u8>, Errno> {
    read_all(directory.open(path, OFlags::RDONLY, Mode::empty())?)
}

fn read_all(file: impl AsFd) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 32 << 10];
    loop {
        let length = read(&file, &mut buffer)?;
        bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
        if length == 0 || bytes.len() >= LONGEST_FILE {
            return Ok(bytes);
        }
    }
}

/// What it cannot be used for, if anything.
fn cannot_use(point: &Path) -> Option<Damage> {
    let root = match Location::on(point, "").open() {
        Ok(root) => root,
        Err(error) => return Some(whole(DamageKind::Use, crate::host::chain(&error))),
    };
    let mut wanted = vec![0; 8192];
    fill(&mut wanted, u64::MAX, 0, 1);
    let used = || -> Result<bool, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = root.open(USED, flags, Mode::RUSR | Mode::WUSR)?;
        let mut rest = wanted.as_slice();
        while !rest.is_empty() {
            let written = write(&file, rest)?;
            rest = rest.get(written..).unwrap_or_default();
        }
        fsync(&file)?;
        let same = read_file(&root, USED)? == wanted;
        unlinkat(&root, USED, AtFlags::empty())?;
        fsync(&root)?;
        Ok(same)
    };
    match used() {
        Ok(true) => None,
        Ok(false) => {
            Some(whole(DamageKind::Use, "a file that was just written reads differently".to_owned()))
        }
        Err(errno) => {
            Some(whole(DamageKind::Use, format!("a new file cannot be written and removed: {errno}")))
        }
    }
}

/// What of the load's directory cannot be removed, if anything: names that are counted wrongly are found by the last one only.
fn cannot_remove(directory: &Location) -> Option<Damage> {
    let root = match directory.open_to_change() {
        Ok(root) => root,
        Err(error) => return Some(whole(DamageKind::Use, crate::host::chain(&error))),
    };
    let mut directories = vec![String::new()];
    let mut next = 0;
    while let Some(path) = directories.get(next).cloned() {
        next += 1;
        let names = match list(&root, &path) {
            Ok(names) => names,
            Err(errno) => return Some(left(&path, errno)),
        };
        for (name, kind) in names {
            let below = if path.is_empty() { name } else { format!("{path}/{name}") };
            if kind == FileType::Directory {
                directories.push(below);
            } else if let Err(errno) = remove(&root, &below, AtFlags::empty()) {
                return Some(left(&below, errno));
            }
        }
    }
    // Those further down come later.
    let removed =
        directories.iter().skip(1).rev().map(|path| (path, remove(&root, path, AtFlags::REMOVEDIR)));
    removed.into_iter().find_map(|(path, removed)| removed.err().map(|errno| left(path, errno)))
}

fn remove(root: &Anchor, path: &str, flags: AtFlags) -> Result<(), Errno> {
    let (parent, name) = root.parent(Path::new(path))?;
    unlinkat(parent, name, flags)
}

fn left(path: &str, errno: Errno) -> Damage {
    Damage { path: path.to_owned(), ..whole(DamageKind::Use, format!("cannot be removed: {errno}")) }
}

#[cfg(test)]
mod tests {
    use fsage_model::crash::promises;

    use super::*;

    fn spec(file_system: &str, honest: bool) -> AttemptSpec {
        AttemptSpec {
            device: "/dev/loop0".into(),
            point: "/nowhere".into(),
            directory: Location::on(Path::new("/nowhere"), "load"),
            file_system: file_system.to_owned(),
            options: Vec::new(),
            promises: promises(file_system, &[]).unwrap(),
            honest,
            cut: 0,
            missing: Vec::new(),
            layers: None,
            used: false,
            check: None,
            check_timeout_ms: 0,
        }
    }

    fn with(damage: Vec<Damage>, oops: bool) -> Attempt {
        Attempt { damage, oops, ..Attempt::default() }
    }

    #[test]
    fn a_bug_that_the_kernel_reports_is_broken_whatever_the_drive_and_the_file_system_do() {
        for (file_system, honest) in [("ext4", true), ("ext4", false), ("ext2", false)] {
            let spec = spec(file_system, honest);
            assert_eq!(class(&with(Vec::new(), true), &spec), CrashClass::Broken);
            assert_eq!(class(&with(Vec::new(), false), &spec), CrashClass::Ok);
        }
    }

    #[test]
    fn a_known_finding_explains_a_state_only_where_it_explains_every_broken_promise() {
        let both = || Damage {
            kind: DamageKind::Name,
            path: "c".to_owned(),
            what: "c and one/c lead to one file, which can have at most 1 of these names at once".to_owned(),
            pattern: Some(KnownFinding::BtrfsRenamedFileHasBothNames),
        };
        let btrfs = spec("btrfs", true);
        let is = [KnownFinding::BtrfsRenamedFileHasBothNames];
        assert_eq!(known(&with(vec![both(), both()], false), &btrfs), is);
        let lost = whole(DamageKind::Content, "zeros".to_owned());
        assert_eq!(known(&with(vec![both(), lost], false), &btrfs), []);
        assert_eq!(known(&with(vec![both()], true), &btrfs), []);
        // The same words where a condition of the finding is not met.
        assert_eq!(known(&with(vec![Damage { pattern: None, ..both() }], false), &btrfs), []);
        assert_eq!(known(&with(vec![both()], false), &spec("ext4", true)), []);
        // Nothing is broken where the drive breaks its word, or nothing is damaged.
        assert_eq!(known(&with(vec![both()], false), &spec("btrfs", false)), []);
        assert_eq!(known(&with(Vec::new(), false), &btrfs), []);
    }

    #[test]
    fn damage_is_broken_where_somebody_promised_otherwise() {
        let check = || with(vec![whole(DamageKind::Check, "bad".to_owned())], false);
        assert_eq!(class(&check(), &spec("ext4", true)), CrashClass::Broken);
        assert_eq!(class(&check(), &spec("ext4", false)), CrashClass::Documented);
        assert_eq!(class(&check(), &spec("ext2", true)), CrashClass::Documented);
    }
}
