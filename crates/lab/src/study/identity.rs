//! What makes a trial the same trial: the canonical text of everything that affects its result.

use fsage_model::crash::CrashLoad;
use fsage_model::protocol::PROTOCOL_VERSION;
use fsage_model::study::{StageSpec, StudySpec, VolumeSpec};
use serde_json::Value;

/// Version of what a load does for one spec and seed. Raise it with every change after which the same spec
/// and seed would make other operations, other data or other calls, so that trials from before are not kept
/// as if they were the same. Not for what is only faster, and not for each release: 0007 says why. 1: first;
/// 2: turns of lock-step end at rest, its copies go through images, media as their data sheets say.
pub const WORKLOAD_VERSION: u32 = 2;

/// The same of the load `sequences` of power cuts alone. 2: directories and extended attributes.
const SEQUENCES_VERSION: u32 = 2;

/// The same of the stage `fio`. 2: a random seed for each point, latencies from the submission on;
/// 3: modelled drives have written out what is in their cache before a point; 4: at points that use the page cache, fio
/// keeps what is in it when it begins its files again; 5: rates are those of complete operations, without the ends of a point; 6: random
/// offsets are those of the point's seed, operations are counted by bytes, and with `writers` a point has no share of reads.
const FIO_VERSION: u32 = 6;

/// The same of volumes on modelled hard disks, of which the first version has none. 2: one head, also for requests
/// in sequence that wait together; 3: a buffer that was filled in a pause, a queue that knows where the head is.
const HARD_DISK_VERSION: u32 = 3;

/// The same of power cuts below several drives, of which the first version has none. 2: a flush is of one drive.
const DRIVES_VERSION: u32 = 2;

/// What runs trials, for their records.
#[must_use]
pub fn program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("fsage {version}, protocol {PROTOCOL_VERSION}, workload {WORKLOAD_VERSION}")
}

/// Version of what goes into [`basis`]; it has the name that ids were first made with.
const BASIS_VERSION: u32 = 1;

/// Canonical JSON (sorted keys, no spaces) of what affects the result of a cell. Left out: names, texts and
/// claims, the matrix and presets it came from, options of other file systems, and stages of other states.
#[must_use]
pub fn canonical(cell: &StudySpec) -> String {
    canonical_at(cell, WORKLOAD_VERSION)
}

fn canonical_at(cell: &StudySpec, workload_version: u32) -> String {
    let mut basis = basis_at(cell, &cell.stages().collect::<Vec<_>>(), workload_version);
    // A control begins with the state of the cell that it is of, and is a trial of its own.
    if let (Some(control), Value::Object(map)) = (cell.control, &mut basis) {
        map.insert("control".to_owned(), serde_json::json!(control));
    }
    // So is a run with options that set nothing.
    if let (false, Value::Object(map)) = (cell.null_options.is_empty(), &mut basis) {
        map.insert("null_options".to_owned(), serde_json::json!(cell.null_options));
    }
    canonical_text(&basis)
}

/// Everything that the state of a volume depends on after `stages`, of which the states they run in are no
/// part.
#[must_use]
pub fn basis(cell: &StudySpec, stages: &[&StageSpec]) -> Value {
    basis_at(cell, stages, WORKLOAD_VERSION)
}

/// The volumes of a stage beside the trial's own, where it says of what kind.
fn other_volumes(stage: &StageSpec) -> Vec<&VolumeSpec> {
    match stage {
        StageSpec::Copy(copy) => copy.volume.iter().collect(),
        StageSpec::Remedy(remedy) => remedy.volume.iter().collect(),
        StageSpec::Lockstep(lockstep) => {
            lockstep.others().filter_map(|(_, other)| other.volume.as_ref()).collect()
        }
        _ => Vec::new(),
    }
}

fn basis_at(cell: &StudySpec, stages: &[&StageSpec], workload_version: u32) -> Value {
    let others = stages.iter().flat_map(|stage| other_volumes(stage));
    let on_hard_disk = std::iter::once(&cell.volume).chain(others).any(VolumeSpec::is_hard_disk);
    let kind = &cell.file_system.kind;
    let drives = matches!(&cell.volume, VolumeSpec::Disk(disk) if disk.drives > 1 || disk.fast.is_some());
    let stages: Vec<Value> = stages
        .iter()
        .map(|stage| {
            let mut value = serde_json::to_value(stage).unwrap_or_default();
            if let Some(map) = value.as_object_mut() {
                map.remove("when");
                // Its first version had no directories and no attributes.
                if map.get("load") == Some(&serde_json::json!(CrashLoad::Sequences)) {
                    map.insert("load_version".to_owned(), SEQUENCES_VERSION.into());
                }
                if drives && matches!(stage, StageSpec::PowerCuts(_)) {
                    map.insert("drives_version".to_owned(), DRIVES_VERSION.into());
                }
                if matches!(stage, StageSpec::Fio(_)) {
                    map.insert("fio_version".to_owned(), FIO_VERSION.into());
                }
            }
            value
        })
        .collect();
    let mut value = serde_json::json!({
        "store_version": BASIS_VERSION,
        "seed": cell.seed,
        "target": cell.target.basis(),
        "volume": cell.volume,
        "file_system": kind,
        "options": cell.file_system.options.get(kind).cloned().unwrap_or_default(),
        "driver": cell.driver.get(kind),
        "stage": stages,
    });
    // In model time all trials were deterministic once: those keep their ids.
    if cell.volume.is_model_time()
        && !cell.deterministic
        && let Value::Object(map) = &mut value
    {
        map.insert("deterministic".to_owned(), false.into());
    }
    // The first version had no such key: its trials keep their ids.
    if workload_version > 1
        && let Value::Object(map) = &mut value
    {
        map.insert("workload_version".to_owned(), workload_version.into());
    }
    if on_hard_disk && let Value::Object(map) = &mut value {
        map.insert("hard_disk_version".to_owned(), HARD_DISK_VERSION.into());
    }
    value
}

/// JSON with sorted keys and no spaces: the same values have the same text.
#[must_use]
pub fn canonical_text(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// Hex characters of a trial's id.
pub const TRIAL_ID_LENGTH: usize = 16;

/// Id of a trial: the first 16 hex characters of BLAKE3 over cell, repeat and seed.
#[must_use]
pub fn trial_id(cell: &StudySpec, repeat: u32, seed: u64) -> String {
    let text = format!("{}\n{repeat}\n{seed}", canonical(cell));
    blake3::hash(text.as_bytes()).to_hex()[..TRIAL_ID_LENGTH].to_owned()
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            text.push('{');
            for (n, key) in keys.into_iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                text.push_str(&Value::String(key.clone()).to_string());
                text.push(':');
                write(&map[key], text);
            }
            text.push('}');
        }
        Value::Array(list) => {
            text.push('[');
            for (n, value) in list.iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                write(value, text);
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Overrides, load};

    /// A trial of before has no threads in its id, and another load than `sequences` no version.
    #[test]
    fn loads_of_power_cuts_keep_their_ids_but_for_sequences() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("power.toml");
        let text = include_str!("../../../../studies/power.toml");
        std::fs::write(&file, text.replacen(r#""data"]"#, r#""data", "sequences"]"#, 1)).unwrap();
        let study = load(&file, &Overrides::default(), crate::study::Consent::Given).unwrap();
        let texts: Vec<String> = study.cells.iter().map(|cell| canonical(&cell.spec)).collect();
        let of = |load: &str| {
            let word = format!(r#""load":"{load}""#);
            let found = texts.iter().find(|text| text.contains(&word));
            found.unwrap_or_else(|| panic!("no cell has {load}: {texts:?}"))
        };
        for load in ["metadata", "data"] {
            assert!(!of(load).contains("threads") && !of(load).contains(r#""load_version""#), "{}", of(load));
        }
        assert!(of("sequences").contains(r#""load_version":2"#), "{}", of("sequences"));
    }

    #[test]
    fn trials_on_modelled_hard_disks_have_the_version_of_their_model() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tiny.toml");
        let on = |volume: &str| {
            let text = include_str!("../../../cli/tests/data/tiny.toml");
            std::fs::write(&file, text.replacen(r#"kind = "loop""#, volume, 1)).unwrap();
            let study = load(&file, &Overrides::default(), crate::study::Consent::Given).unwrap();
            canonical(&study.cells[0].spec)
        };
        let version = r#""hard_disk_version":3"#;
        assert!(on("medium = 'hdd-7200'").contains(version));
        assert!(!on("medium = 'ssd'").contains(version));
        assert!(!on("kind = 'loop'").contains(version));
    }

    #[test]
    fn another_workload_version_is_another_trial_and_the_first_keeps_its_ids() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tiny.toml");
        std::fs::write(&file, include_str!("../../../cli/tests/data/tiny.toml")).unwrap();
        let study = load(&file, &Overrides::default(), crate::study::Consent::Given).unwrap();
        let spec = &study.cells[0].spec;
        assert_eq!(canonical(spec), canonical_at(spec, WORKLOAD_VERSION));
        let (first, second) = (canonical_at(spec, 1), canonical_at(spec, 2));
        assert!(!first.contains("workload_version"), "{first}");
        assert!(second.ends_with(r#","workload_version":2}"#), "{second}");
        assert!(!second.contains(r#""load_version""#), "{second}");
        assert_eq!(
            program(),
            format!(
                "fsage {}, protocol {PROTOCOL_VERSION}, workload {WORKLOAD_VERSION}",
                env!("CARGO_PKG_VERSION")
            )
        );
    }
}
