//! Traces: an accepted one is replayed below a directory, and nowhere else.

use std::path::PathBuf;

use fsage_engine::load::{self, LoadSink, NoSink};
use fsage_engine::replay::run_with;
use fsage_engine::trace::{self, Checkpoint, Preamble, Record, TraceWriter};
use fsage_model::load::{LoadSpec, Probe, StopSpec, Tick};
use fsage_model::operation::{Action, DirectoryEntry, OperationKind};
use fsage_model::replay::ReplayOptions;
use fsage_model::warning::Warning;

use super::test_directory::{TestDirectory, limited};
use super::{Format, bytes};
use crate::dice::Dice;

/// Most records that a replay is given; a footer may promise more than anyone can wait for.
const RECORDS: usize = 100_000;

/// Operations of the recorded load.
const OPERATIONS: u64 = 120;

pub struct Traces {
    whole: Vec<u8>,
    preamble: Preamble,
    checkpoints: Vec<Checkpoint>,
    records: Vec<Record>,
    path: PathBuf,
    outside: String,
}

struct Kept(Vec<u8>);

impl LoadSink for Kept {
    fn tick(&mut self, _: Tick) {}
    fn probe(&mut self, _: Probe) {}
    fn progress(&mut self, _: u64, _: u64, _: Option<f64>, _: &str) {}
    fn warning(&mut self, _: Warning) {}
    fn trace_chunk(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
    }
}

impl Traces {
    pub fn new(test_directory: &TestDirectory) -> Self {
        let path = test_directory.path("inside/trace");
        let mut kept = Kept(Vec::new());
        let spec = super::load::spec(&test_directory.work(), super::load::drift(), OPERATIONS);
        // Not by time: on a busy host it would be shorter.
        let stop = StopSpec { operations: Some(OPERATIONS), ..StopSpec::default() };
        load::run(&LoadSpec { trace: true, stop, ..spec }, &load::Control::new(), &mut kept).unwrap();
        std::fs::write(&path, &kept.0).unwrap();
        let reader = trace::read(&path).unwrap();
        let (mut preamble, checkpoints) = (reader.preamble().clone(), reader.checkpoints().to_vec());
        let mut records: Vec<Record> = reader.map(Result::unwrap).collect();
        // Nothing of this run's own time and, but for paths that lead elsewhere, place: the same seed makes the same mutants
        // again.
        preamble.load.directory = PathBuf::from("/nowhere");
        for (start_ns, record) in (0..).step_by(100_000).zip(&mut records) {
            record.start_ns = start_ns;
            record.outcome.latency_ns = 20_000 + record.sequence % 7 * 1_000;
        }
        let whole = written(&preamble, &records, &checkpoints).unwrap();
        let outside = test_directory.sentinels();
        Self { whole, preamble, checkpoints, records, path, outside }
    }

    /// Rows changed, and written as the writer writes them.
    fn rewritten(&self, dice: &mut Dice) -> Option<Vec<u8>> {
        let (mut records, mut preamble) = (self.records.clone(), self.preamble.clone());
        for _ in 0..=dice.below(4) {
            let (at, other) = (dice.index(records.len()), dice.index(records.len()));
            match dice.below(6) {
                0 => drop(records.remove(at)),
                1 => records.insert(at, records[other]),
                2 => records.swap(at, other),
                _ => change(dice, &mut records[at]),
            }
        }
        if dice.one_in(4) {
            let mut spec = serde_json::to_value(&preamble.load).unwrap();
            bytes::json(dice, &mut spec, &self.outside);
            preamble.load = serde_json::from_value(spec).unwrap_or(preamble.load);
        }
        if dice.one_in(8)
            && let Some(directory) = preamble.directories.first_mut().and_then(|tree| tree.first_mut())
        {
            directory.number = u32::try_from(bytes::word(dice) & 0xffff_ffff).unwrap();
        }
        written(&preamble, &records, &self.checkpoints)
    }
}

/// A trace of these rows; nothing where the writer refuses them.
fn written(preamble: &Preamble, records: &[Record], checkpoints: &[Checkpoint]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = TraceWriter::new(&mut out, preamble).ok()?;
    writer.extend(records).ok()?;
    writer.finish(checkpoints).ok()?;
    Some(out)
}

fn change(dice: &mut Dice, record: &mut Record) {
    let number = bytes::word(dice);
    let narrow = u32::try_from(number & 0xffff_ffff).unwrap();
    let operation = &mut record.operation;
    let (mut kind, mut columns) = (operation.kind(), operation.columns());
    match dice.below(13) {
        0 => kind = *dice.of(&OperationKind::ALL),
        1 => operation.file = number,
        2 => operation.place = DirectoryEntry { directory: narrow, ..operation.place },
        3 => operation.place = DirectoryEntry { name: number, ..operation.place },
        4 => columns.target = DirectoryEntry { directory: narrow, name: number },
        5 => columns.offset = number,
        6 => columns.length = number,
        7 => operation.size = number,
        8 => operation.version = narrow,
        9 => columns.accesses = narrow,
        10 => record.thread = narrow,
        11 => record.sequence = number,
        _ => record.start_ns = number,
    }
    record.operation.action = Action::from_columns(kind, columns);
}

impl Format for Traces {
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8> {
        // The writer may refuse what no reader would ever see from it.
        let rewritten = if dice.one_in(3) { None } else { self.rewritten(dice) };
        rewritten.unwrap_or_else(|| {
            let mut mutant = self.whole.clone();
            let times = 1 + dice.below(4);
            bytes::bytes(dice, &mut mutant, times);
            mutant
        })
    }

    fn read(&mut self, bytes: &[u8], test_directory: &TestDirectory) -> Result<bool, String> {
        std::fs::write(&self.path, bytes).unwrap();
        let Ok(reader) = trace::read(&self.path) else { return Ok(false) };
        let whole = reader.take(RECORDS).all(|record| record.is_ok());
        // A damaged one is replayed until its damage, as the command does.
        let directory = test_directory.work();
        let replayed = limited(|control| {
            run_with(&self.path, &directory, &ReplayOptions::default(), control, &mut NoSink)
        });
        Ok(whole && replayed.is_ok())
    }
}
