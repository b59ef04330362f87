//! Runs a load from its specification to its result.
//!
//! The calling thread is in charge ([`Lead`]): it hands out phases (work until so many operations), collects
//! latencies and trace bytes, and between phases, with every thread waiting and no time counted, probes and
//! keeps up. Each thread gets its fixed share of every phase, so that what each does depends on the seed
//! alone.

use std::sync::atomic::AtomicU64;

use crossbeam_channel::bounded;
use fsage_model::digest::Digest;
use fsage_model::filesystem::FileSystemFacts;
use fsage_model::load::{LoadResult, LoadSpec};
use fsage_model::location::Location;
use fsage_model::workload::WorkloadSpec;
use fsage_sys::clock::raw_ns;

use super::fullness::{Fullness, usage};
use super::halt::Halt;
use super::lead::{Lead, Lines};
use super::left;
use super::message::Message;
use super::setup::{self, TestDirectory};
use super::source::Source;
use super::tally::Progress;
use super::tick::Evolution;
use super::worker::{Limits, Shared, State, Worker, share_of};
use super::{Control, LoadError, LoadSink};
use crate::disk::Clock;
use crate::executor::{Executor, ExecutorOptions, WriteBack};
use crate::filesystem;
use crate::trace::{Batches, Feed, Preamble};
use crate::tree::Directory;
use crate::workload::{AnyWorkload, ResolveContext, resolve};
use fsage_model::fit::derived;

/// Runs a load: makes the initial directories (untimed), starts the threads, probes, and returns when a
/// stop condition is met. Blocks the calling thread, which the sink is called from.
///
/// # Errors
/// Before anything is done: a missing, read-only or used directory, a specification that is invalid.
/// Later: the device stopped working, a probe failed.
pub fn run(spec: &LoadSpec, control: &Control, sink: &mut dyn LoadSink) -> Result<LoadResult, LoadError> {
    run_in(&Location::from(&*spec.directory), spec, control, sink)
}

/// As [`run`], in the specification's directory as it is found at `location`.
///
/// # Errors
/// As [`run`]; the location leaves its volume.
pub fn run_in(
    location: &Location,
    spec: &LoadSpec,
    control: &Control,
    sink: &mut dyn LoadSink,
) -> Result<LoadResult, LoadError> {
    setup::check(spec)?;
    let test_directory = TestDirectory::open(location)?;
    let test_directory = if spec.continues { test_directory.resumed() } else { test_directory };
    let volume = test_directory.usage()?;
    // What follows from a profile is settled once, for the threads and for anyone who reads the trace.
    let spec = &derived_load(spec, volume.total_bytes);
    let context = ResolveContext { volume_bytes: volume.total_bytes, write_mode: spec.write_mode };
    let mut sources = Vec::new();
    let mut initial = Vec::new();
    for thread in 0..spec.threads {
        let mut source = resolve(&spec.workload, thread, spec.threads, spec.seed, &context)
            .map_err(|error| LoadError::Workload { what: error.to_string(), hint: error.hint() })?;
        if spec.continues {
            let left = left::read_tree(&test_directory, thread)?;
            source.adopt(&left).map_err(|what| LoadError::Workload { what, hint: String::new() })?;
        }
        initial.push(source.initial_directories());
        sources.push(source);
    }
    let (mut result, sources) =
        run_sources(spec, &test_directory, sources, &initial, spec.stop.operations, control, sink)?;
    let mut digest = Digest::default();
    sources.iter().for_each(|source: &AnyWorkload| digest.merge(&source.digest()));
    result.digest = digest.to_string();
    result.files = sources.iter().map(AnyWorkload::files).sum();
    result.live_bytes = sources.iter().map(AnyWorkload::size_bytes).sum();
    Ok(result)
}

/// Runs the operations of `sources`, one thread each, and gives them back with the result, in which the
/// digest and the numbers of live files and bytes are still missing. `expected` operations are what progress
/// is told by; only `spec.stop` and the sources themselves end the load.
pub(crate) fn run_sources<S: Source>(
    spec: &LoadSpec,
    test_directory: &TestDirectory,
    sources: Vec<S>,
    initial: &[Vec<Directory>],
    expected: Option<u64>,
    control: &Control,
    sink: &mut dyn LoadSink,
) -> Result<(LoadResult, Vec<S>), LoadError> {
    let threads = sources.len();
    let facts =
        filesystem::facts(test_directory.fd()).map_err(|errno| test_directory.error("statfs", errno))?;
    setup::check_write_mode(test_directory, spec.write_mode)?;
    let clock = Clock::under(&test_directory.held())?;
    let executors = make_executors(spec, test_directory, initial, facts, &clock)?;
    let volume = usage(test_directory.fd()).map_err(|errno| test_directory.error("statfs", errno))?;
    let shared = Shared {
        control,
        halt: Halt::default(),
        fullness: Fullness::new(volume),
        progress: (0..threads).map(|_| Progress::default()).collect(),
        start_raw_ns: AtomicU64::new(raw_ns()),
        grow_share: AtomicU64::new(0),
        model_time: clock.is_model(),
        by_operations: clock.is_model() && spec.deterministic,
    };
    std::thread::scope(|scope| {
        let (messages, inbox) = bounded(8 * threads + 8);
        let mut lines = Lines::new(threads);
        let evolution = Evolution::new(expected);
        let feeds: Vec<Option<Feed>> = if spec.trace {
            let (feeds, batches) = Batches::open(threads);
            let preamble = Preamble::of_load(spec.clone(), initial.to_vec());
            let out = messages.clone();
            scope.spawn(move || {
                let sent = batches.write(&preamble, |chunk| out.send(Message::Trace(chunk)).is_ok());
                if let Err(error) = sent {
                    let _ = out.send(Message::TraceFailed(error.to_string()));
                }
            });
            feeds.into_iter().map(Some).collect()
        } else {
            (0..threads).map(|_| None).collect()
        };
        let mut handles = Vec::new();
        for (((thread, executor), source), trace) in executors.into_iter().enumerate().zip(sources).zip(feeds)
        {
            let batch = evolution.batch(u64::try_from(threads).unwrap_or(1));
            let worker = Worker {
                thread,
                executor,
                source,
                shared: &shared,
                limits: limits(spec, thread, threads),
                messages: messages.clone(),
                commands: lines.open(batch),
                empty: lines.empty(),
                trace,
                state: State::new(batch),
            };
            handles.push(scope.spawn(move || worker.work()));
        }
        drop(messages);
        let lead = Lead::new(spec, test_directory, &shared, facts, lines, inbox, evolution, expected, sink);
        let result = lead.lead();
        let sources: Result<Vec<S>, LoadError> =
            handles.into_iter().map(|handle| handle.join().map_err(|_| LoadError::Panicked)).collect();
        Ok((result?, sources?))
    })
}

/// The same with all that follows from the workload's profile on a volume of this size.
fn derived_load(spec: &LoadSpec, volume_bytes: u64) -> LoadSpec {
    let WorkloadSpec::Drift(drift) = &spec.workload else { return spec.clone() };
    LoadSpec { workload: WorkloadSpec::Drift(derived(drift, volume_bytes, spec.threads)), ..spec.clone() }
}

fn limits(spec: &LoadSpec, thread: usize, threads: usize) -> Limits {
    Limits {
        bytes: spec.stop.bytes.map(|bytes| share_of(bytes.0, thread, threads)),
        full: spec.stop.full,
        upkeep: spec.workload.utilisation().is_some(),
    }
}

/// Refuses pauses on a clock that stands still in them.
fn check_pace(spec: &LoadSpec, clock: &Clock) -> Result<(), LoadError> {
    if spec.pace.is_none() || !clock.is_model() || clock.counts_cpu() {
        return Ok(());
    }
    let what = "in model time, pace needs a virtual disk with cpu = \"serial\", whose clock can be moved on";
    Err(LoadError::Spec { what: what.to_owned() })
}

/// Executors of the threads, with the directories they begin with on the volume.
fn make_executors(
    spec: &LoadSpec,
    test_directory: &TestDirectory,
    initial: &[Vec<Directory>],
    facts: &FileSystemFacts,
    clock: &Clock,
) -> Result<Vec<Executor>, LoadError> {
    check_pace(spec, clock)?;
    let threads = initial.len();
    if !test_directory.is_resumed() {
        test_directory.make_tops(threads)?;
    }
    let options = ExecutorOptions {
        write_mode: spec.write_mode,
        in_place: !facts.copy_on_write,
        open_directories: setup::descriptors() / threads,
        write_back: WriteBack::under(&test_directory.held(), clock, spec.deterministic),
        pause: spec.pace.map(|pace| pace.interval()).unwrap_or_default(),
        burst: spec.pace.map_or(1, |pace| pace.burst),
    };
    let error = |errno| test_directory.error("mkdir", errno);
    let executors = (0_u32..)
        .zip(initial)
        .map(|(thread, directories)| {
            let mut executor =
                Executor::open(test_directory.fd(), thread, options, clock.clone()).map_err(error)?;
            if test_directory.is_resumed() {
                directories.iter().for_each(|directory| executor.know_directory(*directory));
            } else {
                directories
                    .iter()
                    .try_for_each(|directory| executor.make_directory(*directory))
                    .map_err(error)?;
            }
            Ok(executor)
        })
        .collect::<Result<_, LoadError>>()?;
    test_directory.sync()?;
    Ok(executors)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::load::NoSink;
    use crate::load::source::Step;
    use crate::workload::{Feedback, LiveFile};
    use fsage_model::load::{AgeTarget, StopReason, StopSpec, WriteMode};
    use fsage_model::operation::{Action, DirectoryEntry, Operation, Outcome};
    use fsage_model::workload::{DriftSpec, UtilisationSpec};

    /// Makes directories until it ends, or panics.
    struct Scripted {
        left: u32,
        panics: bool,
        /// Always the same directory.
        same: bool,
    }

    impl Source for Scripted {
        fn next(&mut self, _: &Feedback) -> Step {
            let Some(left) = self.left.checked_sub(1) else {
                assert!(!self.panics, "as scripted");
                return Step::End;
            };
            self.left = left;
            let place = DirectoryEntry { directory: if self.same { 1 } else { left + 1 }, name: 0 };
            Step::Do(Operation { action: Action::Mkdir { parent: 0 }, file: 0, place, size: 0, version: 0 })
        }
        fn release(&mut self) -> Option<Operation> {
            None
        }
        fn completed(&mut self, _: &Operation, _: &Outcome) {}
        fn is_stuck(&self) -> bool {
            false
        }
        fn live_bytes(&self) -> u64 {
            0
        }
        fn files(&self) -> u64 {
            0
        }
        fn try_for_each_live<E>(&self, _: impl FnMut(LiveFile) -> Result<(), E>) -> Result<(), E> {
            Ok(())
        }
        fn digest(&self) -> Digest {
            Digest::default()
        }
    }

    fn spec(directory: &Path, threads: usize, utilisation: Option<UtilisationSpec>) -> LoadSpec {
        LoadSpec {
            workload: WorkloadSpec::Drift(DriftSpec { utilisation, ..DriftSpec::default() }),
            directory: directory.to_owned(),
            threads: u32::try_from(threads).unwrap(),
            seed: 1,
            stop: StopSpec::default(),
            write_mode: WriteMode::Buffered,
            probe_every: 0,
            probe_share: None,
            probe_layout: false,
            trim: false,
            trace: false,
            deterministic: false,
            pace: None,
            continues: false,
        }
    }

    fn scripted(
        sources: Vec<Scripted>,
        utilisation: Option<UtilisationSpec>,
    ) -> Result<LoadResult, LoadError> {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path(), sources.len(), utilisation);
        let test_directory = TestDirectory::open(&folder.path().into())?;
        let initial = vec![Vec::new(); sources.len()];
        run_sources(&spec, &test_directory, sources, &initial, None, &Control::new(), &mut NoSink)
            .map(|(result, _)| result)
    }

    #[test]
    fn a_thread_that_panics_ends_the_load() {
        let sources = vec![
            Scripted { left: 10, panics: true, same: false },
            Scripted { left: 200_000, panics: false, same: false },
        ];
        assert!(matches!(scripted(sources, None), Err(LoadError::Panicked)));
    }

    #[test]
    fn threads_may_end_at_different_times_while_fullness_is_held() {
        let sources = vec![
            Scripted { left: 10, panics: false, same: false },
            Scripted { left: 2000, panics: false, same: false },
        ];
        let result = scripted(sources, Some(UtilisationSpec::Hold { target: 0.5 })).unwrap();
        assert_eq!((result.operations, result.stopped_by), (2010, StopReason::Ended));
        assert!(result.cpu_user_ns + result.cpu_sys_ns > 0);
    }

    #[test]
    fn a_load_in_which_nothing_works_is_given_up() {
        // Every directory is there already: the same number again and again.
        let sources = vec![Scripted { left: 100_000, panics: false, same: true }];
        let error = scripted(sources, None).unwrap_err();
        assert!(matches!(error, LoadError::Futile { consecutive: 4096, .. }), "{error}");
        assert!(error.to_string().contains("EEXIST"), "{error}");
    }

    #[test]
    fn ages_that_make_no_sense_are_refused() {
        let refused = |age: AgeTarget| {
            let stop = StopSpec { age: Some(age), ..StopSpec::default() };
            let spec = LoadSpec { stop, probe_every: 1, ..spec(Path::new("/"), 1, None) };
            matches!(setup::check(&spec), Err(LoadError::Spec { .. }))
        };
        let none = AgeTarget::default;
        assert!(refused(none()));
        for value in [f64::NAN, -0.1, 1.1] {
            assert!(refused(AgeTarget { fragmented_share: Some(value), ..none() }));
            assert!(refused(AgeTarget { converged: Some(value), ..none() }));
        }
        assert!(refused(AgeTarget { extents_per_file: Some(0.9), ..none() }));
        assert!(refused(AgeTarget { volume_overwrites: Some(0.0), ..none() }));
        assert!(refused(AgeTarget { volume_overwrites: Some(f64::INFINITY), ..none() }));
        assert!(!refused(AgeTarget { fragmented_share: Some(0.5), converged: Some(0.05), ..none() }));
    }
}
