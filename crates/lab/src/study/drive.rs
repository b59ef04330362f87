//! Drives that volumes of a study share: which of its tables are volumes, and where each partition lies.
//!
//! The partitions of a drive are the volumes that name it, in the study's order, and those of every stage
//! whatever its states: so a volume lies at the same place in all cells.

use std::collections::BTreeMap;

use fsage_disk::media::Resolve as _;
use fsage_model::extent::Extent;
use fsage_model::medium::{At, PartitionSpec, partition};
use fsage_model::study::{DriveShare, DriveSpec, StageSpec, StudySpec, UNAGED, VolumeSpec};
use serde_json::Value;

use super::schema::Problem;
use super::validate::volumes;

/// The keys of a volume that is a partition of a drive.
const KEYS: [&str; 4] = ["kind", "drive", "size", "at"];

/// The tables of a study that are volumes, as paths of keys.
fn tables(study: &Value) -> Vec<Vec<String>> {
    let path = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let mut found = vec![path(&["volume"])];
    let stages = study.get("stage").and_then(Value::as_array).into_iter().flatten();
    for (index, stage) in stages.enumerate() {
        let index = index.to_string();
        found.push(path(&["stage", &index, "volume"]));
        found.push(path(&["stage", &index, UNAGED, "volume"]));
        let followers = stage.get("followers").and_then(Value::as_object).into_iter().flatten();
        found.extend(followers.map(|(name, _)| path(&["stage", &index, "followers", name, "volume"])));
    }
    found
}

/// What lies at a path.
fn at<'a>(study: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(study, |value, key| match value {
        Value::Array(list) => list.get_mut(key.parse::<usize>().ok()?),
        table => table.get_mut(key),
    })
}

/// Adds the kind of every volume that has a drive or a medium and no kind.
pub(super) fn imply_kinds(study: &mut Value) {
    for path in tables(study) {
        let Some(table) = at(study, &path).and_then(Value::as_object_mut) else { continue };
        let kind = ["drive", "medium"].into_iter().find(|key| table.contains_key(*key));
        if let Some(kind) = kind {
            let kind = if kind == "drive" { "partition" } else { "disk" };
            table.entry("kind").or_insert_with(|| Value::from(kind));
        }
    }
}

/// Keys of partitions that are their drive's.
pub(super) fn misplaced(study: &Value) -> Vec<Problem> {
    let mut study = study.clone();
    let mut problems = Vec::new();
    for path in tables(&study) {
        let Some(table) = at(&mut study, &path).and_then(|found| found.as_object()) else { continue };
        let Some(drive) = table.get("drive").and_then(Value::as_str) else { continue };
        for key in table.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            let message = format!("`{key}` is a setting of the whole drive, not of a volume on it");
            let path = [&path[..], std::slice::from_ref(key)].concat();
            let hint = Some(format!("set it in [drive.{drive}]: a volume has `drive`, `size` and `at`"));
            problems.push(Problem { hint, ..Problem::new(&path, message) });
        }
    }
    problems
}

/// As many as a partition table has room for (UEFI 2.10, 5.3.1).
const MOST_PARTITIONS: usize = 128;

/// A volume that a drive is asked for, with its keys in the study.
type Asked = (Vec<String>, PartitionSpec);

/// Gives every volume that names a drive its partition of it.
pub(super) fn divide(spec: &mut StudySpec) -> Vec<Problem> {
    let mut asked: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
    let mut problems = Vec::new();
    for volumes::Placed { path, volume } in volumes::all(spec) {
        let VolumeSpec::Partition { drive, size, at } = volume else { continue };
        if spec.drive.contains_key(&drive) {
            asked.entry(drive).or_default().push((path, PartitionSpec { size, at }));
        } else if path.last().is_some_and(|key| key == "volume") {
            problems.push(unknown(spec, path, &drive));
        }
    }
    if !asked.is_empty() {
        problems.extend(unsuitable(spec));
    }
    for (name, asked) in asked {
        let Some(drive) = spec.drive.get(&name).cloned() else { continue };
        match extents(&name, &drive, &asked) {
            Err(problem) => problems.push(problem),
            Ok(partitions) => {
                for (number, (path, _)) in asked.iter().enumerate() {
                    let share = DriveShare { drive: name.clone(), partitions: partitions.clone(), number };
                    put(spec, path, VolumeSpec::Disk(Box::new(drive.volume(share))));
                }
            }
        }
    }
    problems
}

fn unknown(spec: &StudySpec, mut path: Vec<String>, drive: &str) -> Problem {
    path.push("drive".to_owned());
    let known = spec.drive.keys().map(String::as_str);
    let hint = match fsage_model::nearest::nearest(drive, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if spec.drive.is_empty() => format!("describe it in a table [drive.{drive}] with its `medium`"),
        None => format!("drives: {}", known.collect::<Vec<_>>().join(", ")),
    };
    Problem { hint: Some(hint), ..Problem::new(&path, format!("there is no drive `{drive}`")) }
}

/// Stages that begin again on a fresh disk, which a drive with other volumes on it is not.
fn unsuitable(spec: &StudySpec) -> Vec<Problem> {
    let stages = spec.stage.iter().enumerate().filter(|(_, stage)| stage.runs_in(&spec.state));
    let of = |(index, stage): (usize, &StageSpec)| {
        let needs = matches!(stage, StageSpec::Image(_) | StageSpec::Remedy(_));
        needs.then(|| {
            let message = format!(
                "`{}` needs disks of its own: what it restores begins on a new disk, and the other volumes of a drive \
                 keep it as it is",
                stage.kind()
            );
            let hint = Some("give the volumes a `medium` instead of a `drive`".to_owned());
            Problem { hint, ..Problem::new(&["stage".to_owned(), index.to_string()], message) }
        })
    };
    stages.filter_map(of).collect()
}

/// Where the partitions of a drive lie.
fn extents(name: &str, drive: &DriveSpec, asked: &[Asked]) -> Result<Vec<Extent>, Problem> {
    if let Some((path, _)) = asked.get(MOST_PARTITIONS) {
        let message = format!("drive `{name}` has {} volumes: at most {MOST_PARTITIONS}", asked.len());
        return Err(Problem { hint: Some("use several drives".to_owned()), ..Problem::new(path, message) });
    }
    let of_medium = |message: String, hint: Option<String>| {
        let path = ["drive", name, "medium"].map(str::to_owned);
        Problem { hint, ..Problem::new(&path, message) }
    };
    if drive.medium.at() != At::Outer {
        let hint = Some("give each volume its own `at`".to_owned());
        return Err(of_medium("`at` is the position of one volume on the drive".to_owned(), hint));
    }
    let parameters = drive.medium.resolved().map_err(|error| of_medium(error.to_string(), error.hint()))?;
    let partitions: Vec<PartitionSpec> = asked.iter().map(|(_, partition)| *partition).collect();
    let placed = partition::place(&partitions, parameters.capacity_bytes()).map_err(|error| {
        let path = asked.get(error.number()).map(|(path, _)| path.clone()).unwrap_or_default();
        let hint = Some(error.hint().to_owned());
        Problem { hint, ..Problem::new(&path, format!("{error} (drive `{name}`)")) }
    })?;
    drive.medium.partitioned(&partitions).map_err(|error| of_medium(error.to_string(), error.hint()))?;
    Ok(placed)
}

/// Puts a volume where its keys say.
fn put(spec: &mut StudySpec, path: &[String], volume: VolumeSpec) {
    let keys: Vec<&str> = path.iter().map(String::as_str).collect();
    let ["stage", index, keys @ ..] = &keys[..] else {
        spec.volume = volume;
        return;
    };
    let stage = index.parse::<usize>().ok().and_then(|index| spec.stage.get_mut(index));
    match stage {
        Some(StageSpec::Copy(copy)) => copy.volume = Some(volume),
        Some(StageSpec::Remedy(remedy)) => remedy.volume = Some(volume),
        Some(StageSpec::Lockstep(lockstep)) => {
            let follower = match keys {
                ["followers", name, ..] => lockstep.followers.get_mut(*name),
                _ => lockstep.unaged.as_mut(),
            };
            if let Some(follower) = follower {
                (follower.volume, follower.size) = (Some(volume), None);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Consent, Overrides, parse};
    use super::*;

    const LOCKSTEP: &str = r#"
[drive.one]
medium = "hdd-7200"
[file_system]
kind = "ext4"
[[stage]]
kind = "lockstep"
every = 1
rounds = 1
round_operations = 10
followers = { empty = { size = "50GiB" } }
unaged = { volume = { drive = "one", size = "5GiB", at = "inner" } }
measures = []
workload = { kind = "drift", slots = 50, file_size = { kind = "fixed", size = "8KiB" } }
"#;

    fn cells(volume: &str, rest: &str) -> Result<Vec<Cell>, String> {
        let text = format!("name = \"n\"\ntitle = \"t\"\nquestion = \"q\"\nvolume = {volume}\n{rest}");
        parse("drives.toml".as_ref(), text, &Overrides::default(), Consent::Given)
            .map(|study| study.cells)
            .map_err(|error| fsage_model::problem::Problem::from(error).render(false))
    }

    #[test]
    fn the_volumes_of_a_lock_step_lie_beside_each_other_on_one_drive() {
        let cells = cells(r#"{ drive = "one", size = "5GiB" }"#, LOCKSTEP).unwrap();
        let spec = &cells[0].spec;
        let StageSpec::Lockstep(lockstep) = &spec.stage[0] else { unreachable!() };
        let others = lockstep.others().filter_map(|(_, other)| other.resolve(&spec.volume));
        let all: Vec<VolumeSpec> = std::iter::once(spec.volume.clone()).chain(others).collect();
        let shares: Vec<DriveShare> = all.iter().filter_map(|volume| volume.share().cloned()).collect();
        let starts: Vec<u64> = shares.iter().map(|share| share.extent().start_bytes >> 30).collect();
        assert_eq!(starts[..2], [0, 5]);
        assert!(starts[2] > 400, "{starts:?}");
        assert_eq!(
            shares.iter().map(|share| share.served().start_bytes >> 30).collect::<Vec<_>>(),
            [0, 5, 55]
        );
        assert!(all.iter().all(VolumeSpec::is_model_time));
    }

    #[test]
    fn every_state_has_its_volumes_at_the_same_place() {
        let rest = r#"
[drive.one]
medium = "ssd"
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
stop.operations = 10
workload = { kind = "drift" }
[[stage]]
kind = "copy"
when = ["copied"]
[[stage]]
kind = "measure"
measures = [{ kind = "grep" }]
[matrix]
state = ["aged", "copied"]
"drive.one.medium" = ["ssd", "hdd-7200"]
"#;
        let cells = cells(r#"{ drive = "one", size = "2GiB" }"#, rest).unwrap();
        assert_eq!(cells.len(), 4);
        for cell in &cells {
            let StageSpec::Copy(copy) = &cell.spec.stage[1] else { unreachable!() };
            let copy = copy.volume.as_ref().and_then(VolumeSpec::share).unwrap();
            let own = cell.spec.volume.share().unwrap();
            assert_eq!((own.number, copy.number, copy.extent().start_bytes), (0, 1, 2 << 30));
            let VolumeSpec::Disk(disk) = &cell.spec.volume else { unreachable!() };
            assert_eq!(cell.factors["drive.one.medium"], disk.medium.to_string());
        }
    }

    #[test]
    fn what_a_drive_cannot_have_is_refused_with_the_reason() {
        let price = format!(
            "price = [\"smr\"]\n{}",
            LOCKSTEP.replace("\"hdd-7200\"\n", "\"hdd-7200\"\nlog = true\n")
        );
        let image = format!("{LOCKSTEP}[[stage]]\nkind = \"image\"\n");
        for (volume, rest, wanted) in [
            (r#"{ drive = "one", size = "500GiB" }"#, LOCKSTEP, "no room for a partition of 500GiB"),
            (r#"{ drive = "one", size = "5GiB", at = "inner" }"#, LOCKSTEP, "overlaps the one of 5GiB"),
            (r#"{ drive = "two", size = "5GiB" }"#, LOCKSTEP, "there is no drive `two`"),
            (
                r#"{ drive = "one", size = "5GiB", medium = "ssd" }"#,
                LOCKSTEP,
                "`medium` is a setting of the whole drive",
            ),
            (r#"{ drive = "one", size = "5GiB", log = true }"#, LOCKSTEP, "set it in [drive.one]"),
            (r#"{ drive = "one", size = 4096 }"#, LOCKSTEP, "multiple of 1MiB"),
            (r#"{ drive = "one", size = "5GiB" }"#, image.as_str(), "`image` needs disks of its own"),
            (r#"{ drive = "one", size = "5GiB" }"#, price.as_str(), "only logs of one volume are priced"),
            (
                r#"{ drive = "one", size = "5GiB" }"#,
                LOCKSTEP.replace("\"hdd-7200\"\n", "{ preset = \"hdd-7200\", at = \"inner\" }\n").as_str(),
                "position of one volume",
            ),
            (
                r#"{ drive = "one", size = "5GiB" }"#,
                LOCKSTEP.replace("drive.one", "drive.One").as_str(),
                "lower-case letters",
            ),
        ] {
            let said = cells(volume, rest).unwrap_err();
            assert!(said.contains(wanted), "{volume}: {said}");
        }
    }
}
