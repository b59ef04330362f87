//! The record of a board in a store: `STORE/NAME/` has the file as it was (`board.toml`), the cycles
//! (`record.jsonl`) and, for each life, the lines that its load acknowledged (`acknowledged-CONFIGURATION-LIFE`).
//!
//! Lines are appended and synced: first those of the load, then the cycle with the length that their file has from
//! then on. So whenever a run is killed, what belongs to recorded cycles is whole; the next run verifies the whole
//! lines beyond it too, and then cuts them off. Their file is only ever shortened: one that is missing or shorter
//! than a record says is damaged. One run at a time holds the lock.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use fsage_model::crash::MOST_ACKNOWLEDGED_BYTES;
use fsage_model::power_cycle::{
    CycleRecord, POWER_CYCLE_VERSION, PowerCycleHeader, PowerCycleSpec, Progress, RecordLine, Turn,
};
use fsage_sys::input::{self, RECORD_LIMIT};
use fsage_sys::new_file::open_existing;

use super::PowerCycleError;
use super::plan::Plan;
use crate::store::file::{self, failed, folder};
use crate::store::{Lock, StoreError};
use crate::time::now_rfc3339;

const RECORD: &str = "record.jsonl";

/// A record open for writing.
#[derive(Debug)]
pub struct Record {
    root: PathBuf,
    file: File,
    progress: Progress,
    _lock: Lock,
}

/// The cycles of a record, without its lock: also while another run writes to it.
///
/// # Errors
/// There is none, or it is damaged or of another version.
pub fn read(plan: &Plan, store: &Path) -> Result<Vec<CycleRecord>, PowerCycleError> {
    let root = store.join(&plan.spec.name);
    if !root.join(RECORD).is_file() {
        return Err(PowerCycleError::NoRecord { path: root });
    }
    let (cycles, _) = parse(plan, &root, &bytes(&root)?)?;
    Ok(cycles)
}

impl Record {
    /// Opens the record of a board, or begins it.
    ///
    /// # Errors
    /// Another run holds it, it is of another file, damaged, or cannot be written.
    pub fn open(plan: &Plan, store: &Path) -> Result<Self, PowerCycleError> {
        let root = store.join(&plan.spec.name);
        make(store, &plan.spec.name)?;
        let lock = Lock::take(&root)?;
        let path = root.join(RECORD);
        let own = folder(&root, &[])?;
        let open = own.open_own(RECORD.as_ref(), false, 0o644).map_err(|e| failed("open", &path, e))?;
        let mut record = Self { root, file: open, progress: Progress::default(), _lock: lock };
        let (cycles, whole) = parse(plan, &record.root, &bytes(&record.root)?)?;
        record.progress = Progress::of(&cycles);
        // A line without an end was being written when a run was killed.
        let cut = record.file.set_len(whole).and_then(|()| record.file.seek(SeekFrom::End(0)));
        cut.map_err(|e| failed("write", &path, e))?;
        if whole == 0 {
            file::write(&record.root.join("board.toml"), plan.text.as_bytes())?;
            record.append_line(&RecordLine::Begun(PowerCycleHeader {
                version: POWER_CYCLE_VERSION,
                name: plan.spec.name.clone(),
                digest: plan.digest(),
                at: now_rfc3339(),
            }))?;
            own.sync().map_err(|e| failed("write", &path, e))?;
        }
        Ok(record)
    }

    /// How far it is.
    #[must_use]
    pub const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Adds a cycle; it is durable when this returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, cycle: &CycleRecord) -> Result<(), PowerCycleError> {
        self.append_line(&RecordLine::Cycle(cycle.clone()))?;
        self.progress.add(cycle);
        Ok(())
    }

    fn append_line(&mut self, line: &RecordLine) -> Result<(), PowerCycleError> {
        let path = self.root.join(RECORD);
        let mut text = serde_json::to_string(line)
            .map_err(|error| failed("write", &path, std::io::Error::other(error)))?;
        text.push('\n');
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        Ok(written.map_err(|e| failed("write", &path, e))?)
    }

    /// Makes the file of a life's lines, without any.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(&self, turn: &Turn) -> Result<(), PowerCycleError> {
        let name = name_of_lines(&turn.configuration, turn.life);
        let path = self.root.join(&name);
        let folder = folder(&self.root, &[])?;
        let file = folder.open_own(name.as_ref(), false, 0o600).map_err(|e| failed("open", &path, e))?;
        let made = file.set_len(0).and_then(|()| file.sync_all()).and_then(|()| folder.sync());
        Ok(made.map_err(|e| failed("write", &path, e))?)
    }

    /// The configuration for which a life began of which no cycle is recorded: its file system is on the device.
    #[must_use]
    pub fn prepared_since<'a>(&self, spec: &'a PowerCycleSpec) -> Option<&'a str> {
        let names = spec.configuration.keys().map(String::as_str);
        names.into_iter().find(|name| {
            let life = self.progress.configuration(name).lives + 1;
            self.root.join(name_of_lines(name, life)).is_file()
        })
    }

    /// Adds the lines of a cycle to those of its life, which end where the turn says; the length from then on.
    ///
    /// # Errors
    /// They cannot be written, or those of recorded cycles are not there.
    pub fn acknowledge(&self, turn: &Turn, lines: &[String]) -> Result<u64, PowerCycleError> {
        let (path, mut file, _) = self.lines_of(turn)?;
        let mut text = lines.join("\n");
        if !lines.is_empty() {
            text.push('\n');
        }
        let written = file.set_len(turn.acknowledged_bytes).and_then(|()| {
            file.seek(SeekFrom::End(0))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            file.stream_position()
        });
        Ok(written.map_err(|e| failed("write", &path, e))?)
    }

    /// Where the last whole line of a life ends. Lines beyond what the turn says are of a cycle that was cut and
    /// not recorded: they were written after they had been acknowledged, and before its inspection.
    ///
    /// # Errors
    /// They cannot be read, or those of recorded cycles are not there.
    pub fn whole_lines(&self, turn: &Turn) -> Result<u64, PowerCycleError> {
        let (path, mut file, _) = self.lines_of(turn)?;
        let mut beyond = Vec::new();
        // A cycle adds no more than this.
        let most = u64::try_from(MOST_ACKNOWLEDGED_BYTES).unwrap_or(u64::MAX);
        let read = file.seek(SeekFrom::Start(turn.acknowledged_bytes));
        let read = read.and_then(|_| file.take(most).read_to_end(&mut beyond));
        read.map_err(|e| failed("read", &path, e))?;
        let whole = beyond.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        Ok(turn.acknowledged_bytes.saturating_add(u64::try_from(whole).unwrap_or(u64::MAX)))
    }

    /// The newest lines of a life up to this length of their file, at most [`MOST_ACKNOWLEDGED_BYTES`]: a file to
    /// be read from where it stands.
    ///
    /// # Errors
    /// They cannot be read, or are not there.
    pub fn acknowledged(&self, turn: &Turn, bytes: u64) -> Result<File, PowerCycleError> {
        let (path, file, length) = self.lines_of(&Turn { acknowledged_bytes: bytes, ..turn.clone() })?;
        if length > bytes {
            // A line without an end.
            file.set_len(bytes).map_err(|e| failed("write", &path, e))?;
        }
        let most = u64::try_from(MOST_ACKNOWLEDGED_BYTES).unwrap_or(u64::MAX);
        let name = path.file_name().unwrap_or_default();
        // For `verify` to read, and not to write.
        let opened = input::open_below(&self.root, Path::new(name));
        let placed = opened.and_then(|mut file| {
            if let Some(before) = bytes.checked_sub(most + 1) {
                // From the byte before, which ends a line if the first whole line begins there.
                file.seek(SeekFrom::Start(before))?;
                let mut near = vec![0; LOOK_BYTES];
                let count = file.read(&mut near)?;
                let line = near.iter().take(count).position(|byte| *byte == b'\n').unwrap_or(0);
                let skipped = u64::try_from(line + 1).unwrap_or(1);
                file.seek(SeekFrom::Start(before + skipped))?;
            }
            Ok(file)
        });
        Ok(placed.map_err(|e| failed("read", &path, e))?)
    }

    /// The file of a life's lines, and its length, which is not below what the turn says.
    fn lines_of(&self, turn: &Turn) -> Result<(PathBuf, File, u64), PowerCycleError> {
        let path = self.root.join(name_of_lines(&turn.configuration, turn.life));
        folder(&self.root, &[])?;
        let wanted = turn.acknowledged_bytes;
        let damaged = |reason: String| PowerCycleError::Damaged { path: path.clone(), reason };
        let file = open_existing(&path).map_err(|e| failed("open", &path, e))?;
        let file = file.ok_or_else(|| damaged("it is missing".to_owned()))?;
        let length = file.metadata().map_err(|e| failed("read", &path, e))?.len();
        if length < wanted {
            return Err(damaged(format!("it has {length} bytes where the record says {wanted}")));
        }
        Ok((path, file, length))
    }
}

fn name_of_lines(configuration: &str, life: u64) -> String {
    format!("acknowledged-{configuration}-{life}")
}

/// Longer than any line: within so many bytes one ends.
const LOOK_BYTES: usize = 16_384;

/// Makes the folder of a record and the store around it.
fn make(store: &Path, name: &str) -> Result<(), PowerCycleError> {
    let made = fsage_sys::new_file::make_folder(store, 0o777).map_err(|e| failed("make", store, e))?;
    drop(made);
    folder(store, &[name])?;
    Ok(())
}

fn bytes(root: &Path) -> Result<Vec<u8>, PowerCycleError> {
    let read = input::read_below(root, Path::new(RECORD), RECORD_LIMIT);
    Ok(read.map_err(|e| failed("read", &root.join(RECORD), e))?)
}

/// The cycles, and how many bytes their lines and the header have.
fn parse(plan: &Plan, root: &Path, bytes: &[u8]) -> Result<(Vec<CycleRecord>, u64), PowerCycleError> {
    let path = root.join(RECORD);
    let damaged = |number: usize, reason: &str| PowerCycleError::Damaged {
        path: path.clone(),
        reason: format!("line {}: {reason}", number + 1),
    };
    let (mut cycles, mut whole) = (Vec::new(), 0);
    let mut progress = Progress::default();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for (number, line) in lines.enumerate() {
        let read: RecordLine =
            serde_json::from_slice(line).map_err(|error| damaged(number, &error.to_string()))?;
        match read {
            RecordLine::Begun(header) if number == 0 => check(plan, root, &header)?,
            RecordLine::Cycle(cycle) if !plan.spec.configuration.contains_key(&cycle.configuration) => {
                return Err(damaged(number, "its configuration is not in the file"));
            }
            RecordLine::Cycle(cycle) if number > 0 && progress.can_be_followed_by(&cycle) => {
                progress.add(&cycle);
                cycles.push(cycle);
            }
            _ => return Err(damaged(number, "it is out of place")),
        }
        whole += u64::try_from(line.len()).unwrap_or(u64::MAX);
    }
    Ok((cycles, whole))
}

fn check(plan: &Plan, root: &Path, header: &PowerCycleHeader) -> Result<(), PowerCycleError> {
    if header.version != POWER_CYCLE_VERSION {
        let path = root.to_owned();
        let (found, known) = (header.version, POWER_CYCLE_VERSION);
        return Err(StoreError::Version { path, found, known }.into());
    }
    if header.digest != plan.digest() {
        return Err(PowerCycleError::Changed { path: root.to_owned() });
    }
    Ok(())
}
