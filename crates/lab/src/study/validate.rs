//! Values that fit the schema and still are invalid: each problem names its path and the limit.

mod cluster;
mod device;
mod fio;
mod precondition;
mod price;
mod remedy;
mod stage;
mod target;
mod think;
pub(super) mod volumes;
mod workload;

use std::collections::BTreeSet;

use fsage_disk::fault::Faults;
use fsage_disk::media::Resolve as _;
use fsage_model::nearest::nearest;
use fsage_model::operation::OperationKind;
use fsage_model::problem::Explain;
use fsage_model::study::{
    CONTROL, ClaimCheck, ClaimSpec, DiskSpec, QueueError, SIZES, StudySpec, VolumeSpec, stack,
};
use serde_json::Value;

pub(super) use device::check as devices;
pub(super) use price::check as prices;

use super::schema::Problem;
use crate::filesystem::parameter::ParameterError;
use crate::filesystem::{FileSystem, FileSystemError, Registry};

/// Repeats, at most; more is taken for a mistake.
const REPEAT_LIMIT: u32 = 10_000;

/// Characters of a name that becomes part of a path: several and an id make one file name, which may have 255
/// bytes.
const LONGEST_NAME: usize = 60;

/// Largest known slowdown.
const SLOWEST: f64 = 100.0;

/// Whether a name can become part of a path.
#[must_use]
pub fn is_path_name(name: &str) -> bool {
    let right = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(right)
}

/// Collects problems below a path.
pub(super) struct Checker {
    path: Vec<String>,
    pub(super) problems: Vec<Problem>,
}

impl Checker {
    fn new(path: &[&str]) -> Self {
        Self { path: path.iter().map(|s| (*s).to_owned()).collect(), problems: Vec::new() }
    }

    pub(super) fn fail(&mut self, key: &str, message: impl Into<String>) {
        let mut path = self.path.clone();
        path.extend(key.split('.').filter(|s| !s.is_empty()).map(str::to_owned));
        self.problems.push(Problem { path, message: message.into(), hint: None });
    }

    /// A name that becomes part of a path: a folder on a volume, a mount point, a file of the store.
    pub(super) fn path_name(&mut self, key: &str, name: &str) {
        if !is_path_name(name) {
            self.fail(key, format!("{name:?} must be lower-case letters, digits and dashes"));
            if let Some(problem) = self.problems.last_mut() {
                let hint = format!("it becomes the name of a folder: 1 to {LONGEST_NAME} of a-z, 0-9 and -");
                problem.hint = Some(hint);
            }
        }
    }

    pub(super) fn require(&mut self, right: bool, key: &str, message: impl FnOnce() -> String) {
        if !right {
            self.fail(key, message());
        }
    }

    pub(super) fn at_least(&mut self, key: &str, value: u64, least: u64) {
        self.require(value >= least, key, || format!("{value} is too small: at least {least}"));
    }

    /// A share in 0..=1.
    pub(super) fn share(&mut self, key: &str, value: f64) {
        self.require((0.0..=1.0).contains(&value), key, || format!("{value} is not a share: 0 to 1"));
    }

    /// A finite number above 0.
    pub(super) fn positive(&mut self, key: &str, value: f64) {
        self.require(value.is_finite() && value > 0.0, key, || format!("{value} must be above 0"));
    }
}

/// Problems of the study as a whole, matrix not expanded.
pub(super) fn study(spec: &StudySpec, written: &Value) -> Vec<Problem> {
    let mut check = Checker::new(&[]);
    check.path_name("name", &spec.name);
    check.at_least("repeats", u64::from(spec.repeats), 1);
    check.require(spec.repeats <= REPEAT_LIMIT, "repeats", || {
        format!("{} is too large: at most {REPEAT_LIMIT}", spec.repeats)
    });
    check.require(!spec.stage.is_empty(), "stage", || "a study needs at least one [[stage]]".to_owned());
    for name in spec.drive.keys() {
        check.path_name(&format!("drive.{name}"), name);
    }
    let mut names = BTreeSet::new();
    for (index, stage) in spec.stage.iter().enumerate() {
        check.require(names.insert(stage.name()), &format!("stage.{index}.name"), || {
            format!("there are two stages `{}`: give each its own name", stage.name())
        });
    }
    for (path, values) in &spec.matrix {
        let written = vec!["matrix".to_owned(), path.clone()];
        if values.is_empty() {
            check.problems.push(Problem::new(&written, "the list is empty: give at least one value"));
        }
        for (index, value) in values.iter().enumerate() {
            if values[..index].contains(value) {
                check.problems.push(Problem::new(&written, format!("{value} is given twice")));
            }
        }
    }
    controls(&mut check, spec, written);
    super::search::check(&mut check, spec);
    for (index, rule) in spec.exclude.iter().enumerate() {
        let at = format!("exclude.{index}");
        check.require(!rule.is_empty(), &at, || "it names no factor, so it leaves nothing out".to_owned());
        for (path, wanted) in rule {
            let any = wanted.as_array().map_or(std::slice::from_ref(wanted), Vec::as_slice);
            any.iter().for_each(|wanted| factor(&mut check, spec, written, &at, path, wanted));
        }
    }
    claims(&mut check, spec, written);
    check.problems
}

/// Controls name factors of the matrix, which has none of their own name.
fn controls(check: &mut Checker, spec: &StudySpec, written: &Value) {
    check.require(!spec.matrix.contains_key(CONTROL), "matrix", || {
        format!("`{CONTROL}` is the factor that `controls` makes: the matrix cannot have it")
    });
    let Some(controls) = &spec.controls else { return };
    let slow = controls.slow;
    check.require(slow == 0.0 || (slow > 1.0 && slow <= SLOWEST), "controls.slow", || {
        format!("{slow} is not a slowdown: above 1 and at most {SLOWEST}, or 0 for none")
    });
    let extra = controls.extra;
    check.require((0.0..=1.0).contains(&extra), "controls.extra", || {
        format!("{extra} is not a share of a measure's time: above 0 and at most 1, or 0 for none")
    });
    let margin = controls.margin;
    check.require(margin > 0.0 && margin <= 1.0, "controls.margin", || {
        format!("{margin} is not an equivalence margin: above 0 and at most 1, such as 0.05 for 5 %")
    });
    for (path, wanted) in &controls.of {
        let any = wanted.as_array().map_or(std::slice::from_ref(wanted), Vec::as_slice);
        any.iter().for_each(|wanted| factor(check, spec, written, "controls.of", path, wanted));
    }
}

fn claims(check: &mut Checker, spec: &StudySpec, written: &Value) {
    let mut ids = BTreeSet::new();
    for (index, claim) in spec.claim.iter().enumerate() {
        let at = format!("claim.{index}");
        check.require(ids.insert(&claim.id), &format!("{at}.id"), || {
            format!("there are two claims `{}`", claim.id)
        });
        let tested = claim.clauses().next().is_some();
        check.require(tested || !claim.not_tested.is_empty(), &at, || {
            format!("claim `{}` needs a `check` or `all`, or `not_tested` with the reason", claim.id)
        });
        check.require(claim.check.is_none() || claim.all.is_empty(), &format!("{at}.all"), || {
            format!("claim `{}` has `check` as well: put every clause into `all`", claim.id)
        });
        if let Some(path) = &claim.each {
            each(check, claim, &format!("{at}.each"), path);
            let place = format!("{at}.each").split('.').map(str::to_owned).collect();
            values_of(check, spec, written, place, path);
        }
        for (index, test) in claim.clauses().enumerate() {
            let at = if claim.all.is_empty() { format!("{at}.check") } else { format!("{at}.all.{index}") };
            clause(check, spec, written, &at, test);
        }
    }
}

fn clause(check: &mut Checker, spec: &StudySpec, written: &Value, at: &str, test: &ClaimCheck) {
    if let ClaimCheck::Trend { operation, .. } = test {
        let known = OperationKind::ALL.iter().any(|k| k.name() == operation);
        check.require(known, &format!("{at}.operation"), || format!("`{operation}` is not an operation"));
    }
    check.require(!test.is_malformed(), at, || {
        match test.counts() {
            None => {
                "it needs a bound that can be met: `above`, `below` (above it), or a `margin` above 0 alone"
            }
            Some(_) => "`metric` counts what is looked for and `of` what was inspected: name two metrics",
        }
        .to_owned()
    });
    for (side, cells) in test.sides() {
        for (path, wanted) in cells {
            factor(check, spec, written, &format!("{at}.{side}"), path, wanted);
        }
    }
}

/// A factor each of whose values is judged is not one that a check chooses a value of.
fn each(check: &mut Checker, claim: &ClaimSpec, at: &str, path: &str) {
    if claim.clauses().next().is_none() {
        check.fail(at, format!("claim `{}` has no `check` to judge each value by", claim.id));
        return;
    }
    let named = claim.clauses().flat_map(ClaimCheck::sides).any(|(_, cells)| cells.contains_key(path));
    check.require(!named, at, || format!("the check names a value of `{path}` itself"));
}

/// A factor value that a claim names must be one somewhere: in the matrix, as it is written or as it is now,
/// or in that of a preset. Where it is in another one than that which is run, the claim is untested, not
/// wrong.
fn factor(check: &mut Checker, spec: &StudySpec, written: &Value, at: &str, path: &str, wanted: &Value) {
    let mut place: Vec<String> = at.split('.').map(str::to_owned).collect();
    place.push(path.to_owned());
    let values = values_of(check, spec, written, place, path);
    if values.is_some_and(|values| !values.contains(&wanted)) {
        check.fail(at, format!("{wanted} is not a value of the factor `{path}`"));
    }
}

/// The values that a factor has anywhere; without one it is a problem of `place`.
fn values_of<'a>(
    check: &mut Checker,
    spec: &'a StudySpec,
    written: &'a Value,
    place: Vec<String>,
    path: &str,
) -> Option<Vec<&'a Value>> {
    let presets = written.get("preset").and_then(Value::as_object).into_iter().flat_map(|all| all.values());
    let of_presets = presets.filter_map(|preset| preset.get(format!("matrix.{path}")));
    let of_study = written.get("matrix").and_then(|matrix| matrix.get(path));
    let mut lists: Vec<&Vec<Value>> = of_presets.chain(of_study).filter_map(Value::as_array).collect();
    lists.extend(spec.matrix.get(path));
    if lists.is_empty() {
        let hint =
            nearest(path, spec.matrix.keys().map(String::as_str)).map(|n| format!("did you mean `{n}`?"));
        let message = "this factor is not in the matrix".to_owned();
        check.problems.push(Problem { path: place, message, hint });
        return None;
    }
    Some(lists.into_iter().flatten().collect())
}

/// The file system of one cell, resolved.
///
/// # Errors
/// Every problem of the cell.
pub(super) fn cell(spec: &StudySpec) -> Result<FileSystem, Vec<Problem>> {
    let mut problems = volume(&spec.volume);
    problems.extend(of_layers(spec));
    if spec.deterministic && !spec.volume.is_model_time() {
        let what =
            "only times of a virtual disk's clock are reproducible: this volume is timed by the wall clock";
        let mut problem = Problem::new(&["deterministic".to_owned()], what);
        problem.hint =
            Some("leave `deterministic` out, or give the volume a medium and `time = \"model\"`".to_owned());
        problems.push(problem);
    }
    let file_system = file_system(spec).map_err(|error| problems.push(of_file_system(spec, &error)));
    problems.extend(stage::check(spec));
    problems.extend(think::check(spec));
    problems.extend(fio::check(spec));
    problems.extend(precondition::check(spec));
    problems.extend(target::check(spec));
    problems.extend(cluster::check(spec));
    file_system.ok().filter(|_| problems.is_empty()).ok_or(problems)
}

/// Layers whose own timers go by the wall's clock are not the same from run to run.
fn of_layers(spec: &StudySpec) -> Option<Problem> {
    let VolumeSpec::Disk(disk) = &spec.volume else { return None };
    let timed = disk.stack.iter().find(|layer| layer.goes_by_the_wall()).filter(|_| spec.deterministic)?;
    let what = format!("`{}` has timers of its own, which follow the wall clock", timed.name());
    let hint = Some("leave `deterministic` out, or use other layers".to_owned());
    Some(Problem { hint, ..Problem::new(&["deterministic".to_owned()], what) })
}

/// What the driver checks: kind, parameters, mount options, smallest volume.
fn file_system(spec: &StudySpec) -> Result<FileSystem, FileSystemError> {
    let file_system = Registry::new(&spec.driver).resolve(&spec.file_system)?;
    spec.volume.size().map_or(Ok(()), |size| file_system.fits(size.0))?;
    Ok(file_system)
}

/// Where in the study the problem is.
fn of_file_system(spec: &StudySpec, error: &FileSystemError) -> Problem {
    let path: Vec<&str> = match error {
        FileSystemError::UnknownKind { kind, .. } if *kind == spec.file_system.kind => {
            vec!["file_system", "kind"]
        }
        FileSystemError::UnknownKind { kind, .. } => vec!["file_system", "options", kind],
        FileSystemError::Taken { name } => vec!["driver", name],
        FileSystemError::Description { driver, key, .. } => vec!["driver", driver, key],
        FileSystemError::Parameter(
            ParameterError::Unknown { driver, name, .. }
            | ParameterError::Elsewhere { driver, name, .. }
            | ParameterError::Value { driver, name, .. }
            | ParameterError::Item { driver, name, .. },
        ) => vec!["file_system", "options", driver, "mkfs", name],
        FileSystemError::Parameter(ParameterError::Together { driver, .. }) => {
            vec!["file_system", "options", driver, "mkfs"]
        }
        FileSystemError::MountOption { driver, .. } => vec!["file_system", "options", driver, "mount"],
        FileSystemError::TooSmall { .. } => vec!["volume", "size"],
        _ => vec!["file_system"],
    };
    let path = path.into_iter().map(str::to_owned).collect();
    Problem { path, message: error.to_string(), hint: error.hint() }
}

fn volume(spec: &VolumeSpec) -> Vec<Problem> {
    let mut check = Checker::new(&["volume"]);
    volume_limits(&mut check, spec);
    check.problems
}

/// Settings of the queue that no device could have.
fn queue_limits(check: &mut Checker, spec: &VolumeSpec) {
    let Some((scheduler, queue)) = spec.queue() else { return };
    for (key, error) in queue.problems(scheduler) {
        let key = format!("queue.{key}");
        let path = check.path.iter().cloned().chain(key.split('.').map(str::to_owned)).collect();
        let hint = match &error {
            QueueError::Unknown { name, known } => Some(nearest(name, known.iter().copied()).map_or_else(
                || format!("parameters: {}", known.join(", ")),
                |near| format!("did you mean `{near}`?"),
            )),
            QueueError::OfAnother { owner, .. } => Some(format!("set `scheduler = \"{owner}\"`")),
            QueueError::Value { .. } | QueueError::Page { .. } => None,
        };
        check.problems.push(Problem { path, message: error.to_string(), hint });
    }
}

fn volume_limits(check: &mut Checker, spec: &VolumeSpec) {
    queue_limits(check, spec);
    match spec {
        VolumeSpec::Loop { size, sector_bytes, .. } => {
            check.require(size.0 >= 1 << 20, "size", || format!("{size} is too small: at least 1MiB"));
            check.require(size.0 <= 1 << 60, "size", || format!("{size} is too large: at most 1 EiB"));
            check.require([512, 4096].contains(sector_bytes), "sector_bytes", || {
                format!("{sector_bytes} is not a sector size: 512 or 4096")
            });
        }
        VolumeSpec::Disk(disk) => disk_limits(check, disk),
        // In a cell it is a part of its drive.
        VolumeSpec::Partition { .. } => {}
        VolumeSpec::Device { path, .. } => {
            check.require(path.is_absolute(), "path", || {
                format!(
                    "{} is not a device: give its full path, preferably /dev/disk/by-id/…",
                    path.display()
                )
            });
        }
    }
}

fn disk_limits(check: &mut Checker, disk: &DiskSpec) {
    let (size, block_bytes) = (disk.size, disk.block_bytes);
    check.require(size.0 >= *SIZES.start(), "size", || format!("{size} is too small: at least 1MiB"));
    check.require(size.0 <= *SIZES.end(), "size", || format!("{size} is too large: at most 16 TiB"));
    check.require(size.0.is_multiple_of(4096), "size", || format!("{} is not a multiple of 4096", size.0));
    check.require([512, 4096].contains(&block_bytes), "block_bytes", || {
        format!("{block_bytes} is not a block size: 512 or 4096")
    });
    if let Some((key, why)) =
        stack::problem(disk.drives, disk.fast.as_ref().map(|fast| fast.size.0), &disk.stack)
    {
        check.fail(&key, &why);
    }
    check.require(disk.stack.is_empty() || disk.queue.is_empty(), "queue", || {
        "layers have limits of their own, which the drives' settings do not reach: leave it out".to_owned()
    });
    check.require(disk.all_bytes() <= *SIZES.end(), "drives", || {
        format!("{} drives of {size} are more than 16 TiB together", disk.drives)
    });
    if let Some(spill) = &disk.spill {
        check.require(spill.is_absolute(), "spill", || format!("{} is not a full path", spill.display()));
    }
    let served_bytes = disk.served_bytes();
    if let Some(Err(error)) = disk.faults.as_ref().map(|faults| Faults::new(faults, served_bytes)) {
        let mut path = check.path.clone();
        path.push("faults".to_owned());
        check.problems.push(Problem { path, message: error.to_string(), hint: Some(error.hint()) });
    }
    let fast = disk.fast.as_ref().and_then(|fast| fast.medium.resolve(fast.size.0).err());
    if let Some(error) = fast {
        let path = check.path.iter().cloned().chain(["fast", "medium"].map(str::to_owned)).collect();
        check.problems.push(Problem { path, message: error.to_string(), hint: error.hint() });
    }
    if let Err(error) = disk.drive().resolve(size.0) {
        let hint = error.hint();
        let mut path = check.path.clone();
        path.push("medium".to_owned());
        check.problems.push(Problem { path, message: error.to_string(), hint });
    }
}

#[cfg(test)]
mod tests {
    use crate::study::{Consent, Overrides, parse};

    /// What a study with this volume is refused for, with its hint.
    fn said(volume: &str, rest: &str) -> Result<(), String> {
        let text = format!(
            r#"name = "drives"
title = "t"
question = "q"
volume = {volume}
[file_system]
kind = "ext4"
{rest}
"#
        );
        let read = parse("drives.toml".as_ref(), text, &Overrides::default(), Consent::Given);
        read.map(drop).map_err(|error| fsage_model::problem::Problem::from(error).render(false))
    }

    const AGE: &str = "[[stage]]\nkind = \"age\"\nstop.operations = 10\nworkload = { kind = \"drift\", slots = 50, file_size = { kind = \"fixed\", size = \"8KiB\" } }";

    #[test]
    fn drives_that_cannot_be_are_refused_with_the_reason() {
        assert_eq!(said(r#"{ medium = "hdd-7200", size = "1GiB", at = "inner" }"#, AGE), Ok(()));
        for (volume, wanted) in [
            (r#"{ medium = "hdd-720", size = "1GiB" }"#, "there is no medium `hdd-720`"),
            (r#"{ medium = { preset = "hdd-7200", rpm = 1 }, size = "1GiB" }"#, "rpm"),
            (r#"{ medium = { preset = "hdd-7200", rmp = 7200 }, size = "1GiB" }"#, "has no parameter `rmp`"),
            (
                r#"{ medium = { preset = "hdd-7200", average_seek_ns = 17000000 }, size = "1GiB" }"#,
                "no rising seek curve",
            ),
            (
                r#"{ medium = { preset = "ssd", occupied_permille = 1001 }, size = "1GiB" }"#,
                "occupied_permille",
            ),
            (r#"{ medium = "hdd-7200", size = "15TiB" }"#, "does not fit on the drive's"),
            (r#"{ medium = "hdd-7200", size = "1GiB", at = 4096 }"#, "begins at a multiple of 1MiB"),
            (r#"{ medium = "hdd-7200", size = "1GiB", at = "middle" }"#, "middle"),
            (r#"{ medium = "hdd-7200", size = "1GiB", at = "15TiB" }"#, "does not fit on the drive's"),
        ] {
            let error = said(volume, AGE).unwrap_err();
            assert!(error.contains(wanted), "{volume}: {error}");
        }
    }

    #[test]
    fn a_partition_of_a_device_that_is_also_used_whole_is_refused() {
        let whole = "/dev/disk/by-id/ata-EXAMPLE";
        let volume = |path: &str| format!(r#"{{ kind = "device", path = "{path}" }}"#);
        let stage = |path: &str| {
            format!(
                "[[stage]]\nkind = \"lockstep\"\nevery = 1\nrounds = 1\nround_operations = 10\nmeasures = [{{ kind = \"grep\" }}]\n\
                 workload = {{ kind = \"drift\", slots = 50, file_size = {{ kind = \"fixed\", size = \"8KiB\" }} }}\n[stage.followers]\nempty = {{ volume = {} }}",
                volume(path)
            )
        };
        let refused = |own: &str, other: &str| said(&volume(own), &stage(other)).unwrap_err();
        let part = format!("{whole}-part1");
        let error = refused(whole, &part);
        assert!(
            error.contains(&format!("`{part}` is a partition of `{whole}`, which the study also uses whole")),
            "{error}"
        );
        assert!(refused(whole, whole).contains("is the device of"), "one device for two volumes");
        assert_eq!(said(&volume(&part), &stage(&format!("{whole}-part2"))), Ok(()));
    }
}
