//! Devices that a study has preconditioned: done once a device, because it takes hours and wears the device.
//!
//! `preconditioned.json` of the store lists them, written when a device is done. An entry counts for the very same
//! device and the very same parameters; a device that cannot be distinguished from others of its kind has none. What was done to
//! the device since, outside of this store, cannot be known.

use std::path::{Path, PathBuf};

use fsage_model::precondition::PreconditionRecord;
use fsage_model::protocol::BlockFacts;
use fsage_model::record::STORE_VERSION;
use fsage_sys::input::{self, RECORD_LIMIT};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{StoreError, file};

/// The list in a store.
const FILE: &str = "preconditioned.json";

/// A device that was preconditioned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    /// Which device, and with what parameters.
    basis: Value,
    /// The trial that did it.
    trial: String,
    record: PreconditionRecord,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
    version: u32,
    devices: Vec<Entry>,
}

/// Those of one store.
#[derive(Debug, Clone)]
pub struct Preconditioned {
    root: PathBuf,
}

/// What an entry is known by: the device by its own serial number or that of its partition, with model and place, and
/// the stage's parameters. Nothing where a device has neither.
#[must_use]
pub fn basis(device: &BlockFacts, parameters: &Value) -> Option<Value> {
    let is_known = !device.serial.is_empty() || !device.part_uuid.is_empty();
    is_known.then(|| {
        json!({
            "model": device.model,
            "serial": device.serial,
            "part_uuid": device.part_uuid,
            "start_bytes": device.start_bytes,
            "size_bytes": device.size_bytes,
            "parameters": parameters,
        })
    })
}

impl Preconditioned {
    /// Those of the store in `root`; there need not be any.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// What was done to a device, with the trial that did it. A list that cannot be read has nothing.
    #[must_use]
    pub fn find(&self, basis: &Value) -> Option<PreconditionRecord> {
        let entry = self.read().devices.into_iter().rev().find(|entry| entry.basis == *basis)?;
        Some(PreconditionRecord { taken_from: Some(entry.trial), ..entry.record })
    }

    /// Lists a device that is done; an earlier entry of it goes.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn keep(&self, basis: Value, trial: &str, record: &PreconditionRecord) -> Result<(), StoreError> {
        let mut list = self.read();
        list.version = STORE_VERSION;
        list.devices.retain(|entry| entry.basis != basis);
        list.devices.push(Entry { basis, trial: trial.to_owned(), record: record.clone() });
        let text = serde_json::to_vec_pretty(&list).unwrap_or_default();
        file::write(&self.root.join(FILE), &text)
    }

    /// Removes every entry of a device: something undoes what was done to it.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there is no space.
    pub fn forget(&self, device: &BlockFacts) -> Result<(), StoreError> {
        let Some(own) = basis(device, &Value::Null) else { return Ok(()) };
        let mut list = self.read();
        let is_other = |entry: &Entry| {
            let entry = entry.basis.as_object();
            own.as_object().zip(entry).is_none_or(|(own, entry)| {
                own.iter().any(|(key, value)| key != "parameters" && entry.get(key) != Some(value))
            })
        };
        let known = list.devices.len();
        list.devices.retain(is_other);
        if list.devices.len() == known {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(&list).unwrap_or_default();
        file::write(&self.root.join(FILE), &text)
    }

    fn read(&self) -> List {
        let text = input::read_below(&self.root, Path::new(FILE), RECORD_LIMIT).ok();
        let list = text.and_then(|text| serde_json::from_slice::<List>(&text).ok());
        list.filter(|list| list.version == STORE_VERSION).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::fio::{FioEnd, FioLatency};

    use super::*;

    fn record() -> PreconditionRecord {
        PreconditionRecord {
            name: "precondition".to_owned(),
            version: "fio-3.33".to_owned(),
            made: "2026-01-01T00:00:00Z".to_owned(),
            taken_from: None,
            continues: None,
            earlier_bytes: 0,
            passes: Vec::new(),
            end: FioEnd::Steady,
            write: FioLatency::default(),
            runtime_ns: 7,
            samples: Vec::new(),
            device: None,
            elapsed_ns: 9,
        }
    }

    fn disk(serial: &str) -> BlockFacts {
        BlockFacts { serial: serial.to_owned(), size_bytes: 1 << 30, ..BlockFacts::default() }
    }

    #[test]
    fn a_device_is_found_again_by_its_serial_number_and_parameters() {
        let folder = tempfile::tempdir().unwrap();
        let store = Preconditioned::of(folder.path());
        let of = |serial: &str, fills: u32| basis(&disk(serial), &json!({"fills": fills})).unwrap();
        assert_eq!(store.find(&of("a", 2)), None);
        store.keep(of("a", 2), "first", &record()).unwrap();
        store.keep(of("b", 2), "second", &record()).unwrap();
        let found = store.find(&of("a", 2)).unwrap();
        assert_eq!(found, PreconditionRecord { taken_from: Some("first".to_owned()), ..record() });
        assert_eq!((store.find(&of("c", 2)), store.find(&of("a", 3))), (None, None));
        let larger = BlockFacts { size_bytes: 2 << 30, ..disk("a") };
        assert_eq!(store.find(&basis(&larger, &json!({"fills": 2})).unwrap()), None);
        store.keep(of("a", 2), "third", &record()).unwrap();
        assert_eq!(store.find(&of("a", 2)).unwrap().taken_from.as_deref(), Some("third"));
        assert!(store.find(&of("b", 2)).is_some());
    }

    #[test]
    fn what_is_undone_is_forgotten_whatever_its_parameters_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let store = Preconditioned::of(folder.path());
        let of = |serial: &str, fills: u32| basis(&disk(serial), &json!({"fills": fills})).unwrap();
        for (serial, fills) in [("a", 1), ("a", 2), ("b", 2)] {
            store.keep(of(serial, fills), "t", &record()).unwrap();
        }
        store.forget(&disk("c")).unwrap();
        store.forget(&disk("")).unwrap();
        assert!(store.find(&of("a", 1)).is_some());
        store.forget(&disk("a")).unwrap();
        assert_eq!((store.find(&of("a", 1)), store.find(&of("a", 2))), (None, None));
        assert!(store.find(&of("b", 2)).is_some());
    }

    #[test]
    fn a_device_without_a_number_of_its_own_is_never_taken_for_another() {
        assert_eq!(basis(&disk(""), &json!({})), None);
        let partition = BlockFacts { part_uuid: "x".to_owned(), ..disk("") };
        assert!(basis(&partition, &json!({})).is_some());
    }

    #[test]
    fn a_list_that_cannot_be_read_has_nothing_and_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Preconditioned::of(folder.path());
        let own = basis(&disk("a"), &json!({})).unwrap();
        for text in ["", "{", "[]", r#"{"version": 999, "devices": []}"#, r#"{"version": 5, "devices": [7]}"#]
        {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            assert_eq!(store.find(&own), None, "{text}");
        }
        store.keep(own.clone(), "t", &record()).unwrap();
        assert!(store.find(&own).is_some());
    }
}
