//! `fsage run`: complete trials stay complete, and running on ends with the digests of a run in peace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fsage_model::record::{StageRecord, TrialRecord, TrialStatus};

use super::{Phase, Recovery};
use crate::dice::Dice;
use crate::storm::host::files;
use crate::storm::place::Place;

const STUDY: &str = r#"
name = "kill-storm"
title = "A small run to be killed"
question = "Is anything left behind?"
seed = 7

[volume]
VOLUME
scheduler = "SCHEDULER"

[file_system]
kind = "ext4"

[[stage]]
kind = "age"
threads = 2
stop.operations = 1200
probe_every = 400
probe_layout = true

[stage.workload]
kind = "drift"
slots = 100
file_size = { kind = "uniform", min = "4KiB", max = "64KiB" }
io_size = { kind = "fixed", size = "8KiB" }
choice = { kind = "uniform" }
directories = { count = 10, fan_out = 4, depth = 2 }
fsync_probability = 0.05

[stage.workload.weights]
create = 4
append = 2
random_write = 2
truncate = 1
read = 1
delete = 3

[matrix]
"file_system.kind" = ["ext4", "xfs", "btrfs"]
"#;

/// A file under a loop device.
const ON_LOOP: &str = "kind = \"loop\"\nsize = \"320MiB\"\ndirect_io = false";
/// A virtual disk.
const ON_DISK: &str = "kind = \"disk\"\nsize = \"320MiB\"\nmedium = \"hdd-7200\"\nlog = true";

/// Trial → digests of its stages.
type Digests = BTreeMap<String, String>;

pub struct Run {
    name: &'static str,
    study: String,
    number: u64,
    expected: Digests,
    /// Files of a store that was run in peace.
    shape: BTreeSet<PathBuf>,
    /// Complete trials of the store that is run now.
    kept: Digests,
}

impl Run {
    pub fn on_loop(place: &Place) -> Self {
        Self::new(place, "run on a loop device", ON_LOOP)
    }

    pub fn on_disk(place: &Place) -> Self {
        Self::new(place, "run on a virtual disk", ON_DISK)
    }

    fn new(place: &Place, name: &'static str, volume: &str) -> Self {
        let study = format!("{}.toml", name.replace(' ', "-"));
        let text = STUDY.replace("VOLUME", volume).replace("SCHEDULER", other_scheduler());
        std::fs::write(place.path(&study), text).unwrap();
        let (number, kept) = (0, Digests::new());
        let mut run = Self { name, study, number, expected: Digests::new(), shape: BTreeSet::new(), kept };
        run.again(place).unwrap();
        run.expected = complete(&run.path(place));
        assert_eq!(run.expected.len(), 3);
        run.shape = files(&run.path(place));
        run
    }

    /// The store that is run now.
    fn store(&self) -> String {
        format!("{}.{}", self.study, self.number)
    }

    fn path(&self, place: &Place) -> PathBuf {
        place.path(&self.store())
    }
}

impl Phase for Run {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self, place: &Place, _dice: &mut Dice) {
        if self.kept.len() == self.expected.len() || self.number == 0 {
            std::fs::remove_dir_all(self.path(place)).unwrap();
            self.number += 1;
            self.kept.clear();
        }
    }

    fn words(&self, place: &Place) -> Vec<String> {
        let (study, store) = (place.text(&self.study), place.text(&self.store()));
        ["run", &study, "--store", &store, "--json"].map(str::to_owned).to_vec()
    }

    fn check(&mut self, place: &Place, recovery: Recovery) -> Result<(), String> {
        let now = complete(&self.path(place));
        if let Some(lost) = self.kept.iter().find(|(id, digest)| now.get(*id) != Some(digest)) {
            return Err(format!("the trial {lost:?} was lost"));
        }
        if let Some(other) = now.iter().find(|(id, digest)| self.expected.get(*id) != Some(digest)) {
            return Err(format!("the trial {other:?} has not the digests of a run in peace"));
        }
        self.kept = now;
        if recovery == Recovery::Again {
            let found = files(&self.path(place));
            let more: Vec<_> = found.difference(&self.shape).collect();
            let less: Vec<_> = self.shape.difference(&found).collect();
            if self.kept.len() < self.expected.len() || !more.is_empty() || !less.is_empty() {
                let complete = self.kept.len();
                return Err(format!("run again: {complete} complete, more files {more:?}, fewer {less:?}"));
            }
        }
        Ok(())
    }

    /// What a trial that was cut off wrote stays with its store; the next run of it, inspected above, leaves
    /// nothing of that.
    fn keeps(&self, file: &Path) -> bool {
        file.starts_with(self.store())
            && !file.starts_with(Path::new(&self.store()).join("volumes"))
            && !file.starts_with(Path::new(&self.store()).join("mounts"))
    }
}

/// A scheduler that loop devices can have and that is not their usual one.
fn other_scheduler() -> &'static str {
    let usual = std::fs::read_to_string("/sys/block/loop0/queue/scheduler").unwrap_or_default();
    if usual.contains(" mq-deadline") || usual.starts_with("mq-deadline") { "mq-deadline" } else { "none" }
}

/// The complete trials of a store.
fn complete(store: &Path) -> Digests {
    let mut found = Digests::new();
    for entry in std::fs::read_dir(store.join("trials")).into_iter().flatten().flatten() {
        let Ok(bytes) = std::fs::read(entry.path().join("trial.json")) else { continue };
        let trial: TrialRecord = serde_json::from_slice(&bytes).expect("a trial.json is whole or not there");
        if trial.status == TrialStatus::Complete {
            let digests = trial.stages.iter().filter_map(StageRecord::load).map(|load| load.digest.clone());
            found.insert(trial.id, digests.collect::<Vec<_>>().join(" "));
        }
    }
    found
}
