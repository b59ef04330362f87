//! The `age` stage: a load in a folder of its own on the mounted file system.

use std::collections::VecDeque;
use std::path::Path;

use fsage_model::load::{LoadResult, LoadSpec, Probe, StopReason, Tick};
use fsage_model::location::Location;
use fsage_model::number;
use fsage_model::protocol::{Event, call};
use fsage_model::quantity::as_f64;
use fsage_model::record::StageRecord;
use fsage_model::study::{AgeStage, StageSpec};
use fsage_model::warning::Warning;
use fsage_model::workload::WorkloadSpec;

use super::places::Volume;
use super::{Stage, StageContext};
use crate::run::error::TrialError;
use crate::run::observer::{RunEvent, RunObserver};
use crate::run::trial_volume::TrialVolume;
use crate::run::warning;
use crate::store::{StoreError, TrialFolder};
use crate::target::{Control, Incoming};

impl Stage for AgeStage {
    /// Runs the load, then checks its data if asked.
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let folder = self.continues.as_deref().unwrap_or(&self.name);
        let (directory, seed) = (place.folder(folder), seed(self, context.planned.seed));
        context.commands.extend(self.describe(place.point(), seed));
        context.session.call(call::MakeFolder { directory: directory.clone() })?;
        context.observer.event(RunEvent::Step { name: self.name.clone(), detail: in_words(self) });
        let load = LoadSpec {
            workload: self.workload.clone(),
            directory: directory.path.clone(),
            threads: self.threads,
            seed,
            stop: self.stop.clone(),
            write_mode: self.write_mode,
            probe_every: self.probe_every,
            // What a study asks for is done, whatever it takes; the result says how long that was.
            probe_share: None,
            probe_layout: self.probe_layout,
            trim: self.trim,
            trace: self.trace,
            deterministic: context.spec.deterministic,
            pace: self.pace,
            continues: self.continues.is_some(),
        };
        let watch = context.watch()?;
        let mut result = load_with_events(self, load, place.point(), context)?;
        let volume_bytes = place.facts().size_bytes;
        let now = context.session.call(call::HostActivity)?;
        let next = context.spec.stages().skip_while(|other| other.name() != self.name).nth(1);
        // What continues with this mount must not find what a look has read; a remedy mounts it again first.
        let continues_here =
            !matches!(next, None | Some(StageSpec::Measure(_) | StageSpec::Image(_) | StageSpec::Remedy(_)));
        if !continues_here {
            settle(&directory, &mut result, place, context)?;
        }
        for warning in warning::of_age(self, &result, context.facts, volume_bytes, watch, now) {
            context.warn(warning);
        }
        if self.verify {
            verify(&directory, context)?;
        }
        // Where the files lay before is known, and what comes after is another stage's subject.
        if self.continues.is_some() || continues_here {
            return Ok(());
        }
        let volume = &context.spec.volume;
        context.explain(&Volume { stage: &self.name, name: "", spec: volume, directory: &directory })
    }

    fn describe(&self, point: &Path, seed: u64) -> Vec<String> {
        let directory = point.join(self.continues.as_deref().unwrap_or(&self.name));
        let seed = self::seed(self, seed);
        let mut line = format!("fsage age {} --threads {} --seed {seed}", directory.display(), self.threads);
        if let Some(operations) = self.stop.operations {
            line.push_str(&format!(" --operations {operations}"));
        }
        let make = self.continues.is_none().then(|| format!("mkdir {}", directory.display()));
        make.into_iter().chain([format!("{line} # {}", shown(&self.workload))]).collect()
    }
}

/// What its choices follow from: one that continues another's files does not make the same choices once more.
fn seed(stage: &AgeStage, trial: u64) -> u64 {
    if stage.continues.is_some() { trial.rotate_left(17) ^ 0x9e37_79b9_7f4a_7c15 } else { trial }
}

/// Looks at free space again where some of it is hidden by what the allocator keeps in memory until unmount (ext4).
fn settle(
    directory: &Location,
    result: &mut LoadResult,
    place: &mut TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    if !result.free_space.as_ref().is_some_and(|free| free.is_estimate) {
        return Ok(());
    }
    place.remount(context)?;
    let free = context.session.call(call::FreeSpace { directory: directory.clone() })?;
    result.free_space = Some(free);
    if let Some(StageRecord::Age { result: recorded, .. }) = context.done.last_mut() {
        recorded.free_space.clone_from(&result.free_space);
    }
    Ok(())
}

/// Checks every block of data below a directory.
pub(super) fn verify(directory: &Location, context: &mut StageContext<'_>) -> Result<(), TrialError> {
    let shown = directory.path.display();
    context.step("verify", &shown.to_string());
    context.commands.push(format!("fsage verify {shown}"));
    let result = context.session.call(call::Verify { directory: directory.clone(), cross_mounts: false })?;
    if result.bad_blocks.values().any(|n| *n > 0) {
        return Err(TrialError::Damaged(Box::new(result)));
    }
    context.folder.log(&format!(
        "verified {} of {}",
        number::plural(result.good_blocks, "block", "blocks"),
        number::plural(result.files, "file", "files")
    ));
    Ok(())
}

fn load_with_events(
    stage: &AgeStage,
    load: LoadSpec,
    mount: &Path,
    context: &mut StageContext<'_>,
) -> Result<LoadResult, TrialError> {
    let mut collect = Collect {
        stage: &stage.name,
        ticks: Vec::new(),
        probes: Vec::new(),
        warnings: context.warnings,
        folder: context.folder,
        observer: context.observer,
        control: context.session.control(),
        pace: Pace::default(),
        store: Ok(()),
    };
    let (interrupt, control) = (context.interrupt, context.session.control());
    let answer = context.session.call_and(
        call::Load { load: Box::new(load), mount: Some(mount.to_owned()) },
        &mut || interrupt.direct(Some(control.clone())),
        &mut |i| collect.incoming(i),
    );
    context.interrupt.direct(None);
    let Collect { ticks, probes, store, .. } = collect;
    store?;
    // An error stays what it is also after a signal: a lost agent calls for a fresh one to release.
    let result = answer?;
    if context.interrupt.by().is_some() || result.stopped_by == StopReason::Asked {
        return Err(TrialError::Interrupted);
    }
    context.done.push(StageRecord::Age {
        name: stage.name.clone(),
        image: None,
        continues: stage.continues.clone(),
        result: Box::new(result.clone()),
        ticks,
        probes,
    });
    Ok(result)
}

/// Takes in what a load says.
struct Collect<'a> {
    stage: &'a str,
    ticks: Vec<Tick>,
    probes: Vec<Probe>,
    warnings: &'a mut Vec<Warning>,
    folder: &'a mut TrialFolder,
    observer: &'a mut dyn RunObserver,
    control: Control,
    pace: Pace,
    /// What became of writing the trace; after a failure the load is stopped.
    store: Result<(), StoreError>,
}

impl Collect<'_> {
    fn incoming(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Chunk(bytes) => self.chunk(&bytes),
            Incoming::Event(Event::Tick { tick }) => self.ticks.push(tick),
            Incoming::Event(Event::Probe { probe }) => self.probes.push(*probe),
            Incoming::Event(Event::Warning { warning }) => {
                self.folder.log(&format!("warning {}: {}", warning.kind, warning.message));
                self.observer.event(RunEvent::Warning { warning: warning.clone() });
                self.warnings.push(warning);
            }
            Incoming::Event(Event::Progress { operations, elapsed_ns, share, note }) => {
                let (rate, eta_s) = self.pace.step(operations, elapsed_ns, share);
                let stage = self.stage.to_owned();
                self.observer.event(RunEvent::Progress {
                    stage,
                    operations,
                    elapsed_ns,
                    share,
                    rate,
                    eta_s,
                    note,
                });
            }
        }
    }

    fn chunk(&mut self, bytes: &[u8]) {
        if self.store.is_ok() {
            self.store = self.folder.trace_chunk(self.stage, bytes);
            if self.store.is_err() {
                self.control.abandon();
            }
        }
    }
}

/// Rate and time left, over the last few seconds of load.
#[derive(Debug, Default)]
struct Pace {
    /// Operations, load time, share.
    steps: VecDeque<(u64, u64, f64)>,
}

/// Load time that the pace looks back.
const LOOK_BACK_NS: u64 = 5_000_000_000;

impl Pace {
    /// Operations a second and, where the end is known, seconds left.
    fn step(&mut self, operations: u64, elapsed_ns: u64, share: Option<f64>) -> (f64, Option<f64>) {
        self.steps.push_back((operations, elapsed_ns, share.unwrap_or(0.0)));
        while self.steps.len() > 2 && self.steps[1].1 + LOOK_BACK_NS < elapsed_ns {
            self.steps.pop_front();
        }
        // The first step stands against the beginning of the load.
        let (o, e, s) = if self.steps.len() > 1 { self.steps[0] } else { (0, 0, 0.0) };
        let seconds = as_f64(elapsed_ns.saturating_sub(e)) / 1e9;
        if seconds <= 0.0 {
            return (0.0, None);
        }
        let rate = as_f64(operations.saturating_sub(o)) / seconds;
        let eta = share.and_then(|now| {
            let speed = (now - s) / seconds;
            (speed > 0.0).then(|| (1.0 - now) / speed)
        });
        (rate, eta)
    }
}

/// Characters of a workload that a command line shows.
const LONGEST_WORKLOAD: usize = 1_500;

/// A workload in one line. A profile or a history stands in the record's spec; here it would only hide the
/// rest.
pub(super) fn shown(workload: &WorkloadSpec) -> String {
    let mut text = serde_json::to_string(workload).unwrap_or_default();
    if let Some((end, _)) = text.char_indices().nth(LONGEST_WORKLOAD) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn in_words(stage: &AgeStage) -> String {
    match stage.stop.operations {
        Some(operations) => number::plural(operations, "operation", "operations"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_tells_rate_and_time_left() {
        let mut pace = Pace::default();
        assert_eq!(pace.step(1000, 1_000_000_000, Some(0.1)), (1000.0, Some(9.0)));
        let (rate, eta) = pace.step(3000, 2_000_000_000, Some(0.3));
        assert!((rate - 2000.0).abs() < 1e-9);
        assert!((eta.unwrap() - 3.5).abs() < 1e-9);
        assert_eq!(pace.step(3000, 2_000_000_000, None).1, None);
    }

    #[test]
    fn pace_forgets_what_is_long_ago() {
        let mut pace = Pace::default();
        for second in 1..=100u64 {
            pace.step(if second < 90 { 0 } else { (second - 89) * 10 }, second * 1_000_000_000, None);
        }
        let (rate, _) = pace.step(120, 101_000_000_000, None);
        assert!((rate - 10.0).abs() < 0.1, "{rate}");
        assert!(pace.steps.len() < 10);
    }
}
