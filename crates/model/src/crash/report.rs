//! What came of trying the crash states of one load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Acknowledgement, Attempt, CrashClass, CrashCoverage, CrashLoadSpec, CrashScript, CrashSpec, CrashState,
    CutRequest, Damage, DamageKind, DatabaseModes, KnownFinding, LoadStep, ProgramReport, UpdateOutcome,
    UpdateWay,
};
use crate::escape;
use crate::quantity::as_f64;

/// What came of trying the crash states of one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrashReport {
    /// The file system.
    pub file_system: String,
    /// Its mount options and mkfs parameters.
    pub options: Vec<String>,
    /// The medium, as a flag names it. States do not depend on it but for the order that the kernel chooses.
    pub medium: String,
    /// Layers between the drives and the file system, the lowest first, in words (`raid 5 with ppl`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// Number of the drive, from 0, that was lost with the power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_drive: Option<u32>,
    /// The load; none where it was a script or a program of the user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<CrashLoadSpec>,
    /// The operations that were read from a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<CrashScript>,
    /// How SQLite was set, where the load is `database`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseModes>,
    /// The programs as which the load ran: the user's own, or those of a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramReport>,
    /// Operations that a load of fsage did.
    pub operations: u64,
    /// Which states were wanted.
    pub spec: CrashSpec,
    /// How much of what is possible they are.
    pub coverage: CrashCoverage,
    /// States that were tried.
    pub tried: u64,
    /// Of these, states in which everything promised was there.
    pub ok: u64,
    /// Of these, states that the file system's own program checked and that were written to.
    #[serde(default)]
    pub kept_inspected: u64,
    /// States with damage that was not promised not to happen.
    pub documented: u64,
    /// States in which a promise was broken.
    pub broken: u64,
    /// Of these, states in which nothing but known findings broke a promise (docs/power.md).
    #[serde(default)]
    pub known: u64,
    /// The known findings in those, and in how many states; one state may have several.
    #[serde(default)]
    pub findings: Vec<(KnownFinding, u64)>,
    /// States that the file system's check inspected.
    pub checked: u64,
    /// Damaged states, of those that were to be checked and written to. Not counted in records of before.
    #[serde(default)]
    pub damaged_inspected: u64,
    /// Of these, states in which nothing failed and nobody complained: wrong names or bytes are all there is.
    #[serde(default)]
    pub silent: u64,
    /// States in which an array started by force only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forced_starts: u64,
    /// Of these, states with damage.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forced_damaged: u64,
    /// States by the damage in them; one state may have several.
    pub damage: Vec<(DamageKind, u64)>,
    /// What became of files that were being replaced.
    pub updates: Vec<WayOutcomes>,
    /// Times of mounting, comparing, unmounting and checking.
    pub times: Vec<TimeSummary>,
    /// The worst state, with as few missing requests as were found to do the damage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
    /// What failed after the states were tried: a failing state that could not be kept, a volume that could
    /// not be released.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The kernel reported a bug of its own; the run ended there.
    pub oops: bool,
    /// It was ended before all planned states were tried.
    pub interrupted: bool,
    /// The request log, with the data that was overwritten, took the most memory that the disk may have: the load was
    /// stopped there, and states up to there were tried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_full: bool,
    /// It ended because the disk's memory had no room for what was written to a state; that state is not judged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_room: bool,
    /// Wall time of trying the states, in nanoseconds.
    pub elapsed_ns: u64,
}

impl CrashReport {
    /// Of a load without a name, before any state is tried.
    #[must_use]
    pub const fn untried(spec: CrashSpec, coverage: CrashCoverage) -> Self {
        Self {
            file_system: String::new(),
            options: Vec::new(),
            medium: String::new(),
            stack: Vec::new(),
            failed_drive: None,
            load: None,
            script: None,
            database: None,
            program: None,
            operations: 0,
            spec,
            coverage,
            tried: 0,
            ok: 0,
            kept_inspected: 0,
            documented: 0,
            broken: 0,
            known: 0,
            findings: Vec::new(),
            checked: 0,
            damaged_inspected: 0,
            silent: 0,
            forced_starts: 0,
            forced_damaged: 0,
            damage: Vec::new(),
            updates: Vec::new(),
            times: Vec::new(),
            failing: None,
            problems: Vec::new(),
            oops: false,
            interrupted: false,
            log_full: false,
            no_room: false,
            elapsed_ns: 0,
        }
    }
}

/// How often a way of replacing a file ended how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WayOutcomes {
    /// The way.
    pub way: UpdateWay,
    /// Outcomes that came, and how often.
    pub outcomes: Vec<(UpdateOutcome, u64)>,
}

/// Times of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSummary {
    /// `mount`, `verify`, `unmount`, `check`, `move`.
    pub step: String,
    /// How many.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The median: the mean of the middle two of an even number.
    pub median_ns: u64,
    /// On the average.
    pub mean_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl TimeSummary {
    /// The summary of times; `None` of none.
    #[must_use]
    pub fn of(step: &str, mut times_ns: Vec<u64>) -> Option<Self> {
        times_ns.sort_unstable();
        let count = u64::try_from(times_ns.len()).unwrap_or(u64::MAX);
        let upper = times_ns.get(times_ns.len() / 2).copied()?;
        let lower = times_ns.get(times_ns.len().checked_sub(1)? / 2).copied()?;
        let mean_ns = times_ns.iter().sum::<u64>() / count.max(1);
        let (min_ns, max_ns) = (*times_ns.first()?, *times_ns.last()?);
        Some(Self { step: step.to_owned(), count, min_ns, median_ns: lower.midpoint(upper), mean_ns, max_ns })
    }
}

/// A state with damage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failing {
    /// The state.
    pub state: CrashState,
    /// Requests that were missing when it was found, before those that do not matter were put back.
    pub lost_when_found: u64,
    /// How it is judged.
    pub class: CrashClass,
    /// The known findings that explain it; empty where none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<KnownFinding>,
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// What the kernel logged.
    pub kernel: Vec<String>,
    /// The last operations that had returned before the cut, in order.
    pub before: Vec<LoadStep>,
    /// The operation that may have been under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<LoadStep>,
    /// Of the user's own program: the last lines that were acknowledged before the cut, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acknowledged: Vec<Acknowledgement>,
    /// Of the user's own program: the last requests before the cut and what became of them, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<CutRequest>,
    /// Whether an array below it started by force only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Where the array lacked a drive: how the same state is judged with all drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_all_drives: Option<CrashClass>,
}

impl Failing {
    /// What is known of the drives below it, a line each.
    #[must_use]
    pub fn drives(&self) -> Vec<&'static str> {
        let forced = self.forced.then_some("the array started by force only (`mdadm --assemble --force`)");
        let whole = self.with_all_drives.map(|class| match class {
            CrashClass::Ok => "the same state with all drives: everything promised was there",
            CrashClass::Documented => "the same state with all drives: damaged, though no promise was broken",
            CrashClass::Broken => "the same state with all drives: damaged, a promise was broken",
        });
        forced.into_iter().chain(whole).collect()
    }

    /// Requests and acknowledgements of a program before the cut, in the order of the log, a line each.
    #[must_use]
    pub fn timeline(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut acknowledged = self.acknowledged.iter().peekable();
        let said = |one: &Acknowledgement| format!("{:>8}  ack {}", one.position, escape::line(&one.text));
        for request in &self.requests {
            while let Some(one) = acknowledged.next_if(|one| one.position <= request.entry) {
                lines.push(said(one));
            }
            lines.push(format!("{:>8}    {}", request.entry, request.words()));
        }
        lines.extend(acknowledged.map(said));
        lines
    }
}

impl CrashReport {
    /// The load in words, with its length and threads: `update 4`, `metadata 200, 2 threads`.
    #[must_use]
    pub fn load_words(&self) -> String {
        match self.load {
            Some(load) if load.threads > 1 => {
                format!("{} {}, {} threads", load.load.name(), load.size, load.threads)
            }
            Some(load) => format!("{} {}", load.load.name(), load.size),
            None if self.script.is_some() => "script".to_owned(),
            None => "program".to_owned(),
        }
    }

    /// States of which the user's own check did not say in time whether they are damaged.
    #[must_use]
    pub fn undecided(&self) -> u64 {
        self.program.as_ref().map_or(0, |program| program.undecided)
    }

    /// States with damage.
    #[must_use]
    pub const fn damaged(&self) -> u64 {
        self.documented + self.broken
    }

    /// States in which a promise was broken that no known finding explains.
    #[must_use]
    pub const fn unexplained(&self) -> u64 {
        self.broken.saturating_sub(self.known)
    }

    /// The worst kind of damage, if any.
    #[must_use]
    pub fn worst_damage(&self) -> Option<DamageKind> {
        self.damage.iter().map(|(kind, _)| *kind).min()
    }

    /// Adds what was found in one state.
    pub fn add(&mut self, attempt: &Attempt, inspected: bool) {
        self.tried += 1;
        self.checked += u64::from(attempt.checked);
        let undecided = attempt.undecided && attempt.class == CrashClass::Ok;
        if let Some(program) = &mut self.program {
            program.left_by_check += u64::from(attempt.left > 0);
            program.undecided += u64::from(undecided);
        }
        *match attempt.class {
            CrashClass::Ok => &mut self.ok,
            CrashClass::Documented => &mut self.documented,
            CrashClass::Broken => &mut self.broken,
        } += u64::from(!undecided);
        let kept = attempt.class == CrashClass::Ok && !undecided;
        self.kept_inspected += u64::from(kept && attempt.checked && attempt.used);
        self.oops |= attempt.oops;
        self.known += u64::from(!attempt.known.is_empty());
        attempt.known.iter().for_each(|finding| bump(&mut self.findings, *finding));
        let mut kinds: Vec<DamageKind> = attempt.damage.iter().map(|damage| damage.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let says =
            |kind: &DamageKind| matches!(kind, DamageKind::Mount | DamageKind::Check | DamageKind::Use);
        let counts = inspected && attempt.class > CrashClass::Ok;
        self.damaged_inspected += u64::from(counts);
        self.silent += u64::from(counts && !kinds.iter().any(says));
        self.forced_starts += u64::from(attempt.forced);
        self.forced_damaged += u64::from(attempt.forced && attempt.class > CrashClass::Ok);
        for kind in kinds {
            bump(&mut self.damage, kind);
        }
        for (way, outcome) in &attempt.updates {
            match self.updates.iter_mut().find(|known| known.way == *way) {
                Some(known) => bump(&mut known.outcomes, *outcome),
                None => self.updates.push(WayOutcomes { way: *way, outcomes: vec![(*outcome, 1)] }),
            }
        }
        self.updates.sort_by_key(|known| known.way);
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn bump<T: Ord + Copy>(counts: &mut Vec<(T, u64)>, what: T) {
    match counts.iter_mut().find(|(known, _)| *known == what) {
        Some((_, count)) => *count += 1,
        None => counts.push((what, 1)),
    }
    counts.sort_unstable();
}

/// The upper end of the exact two-sided 95 % interval of a probability of which nothing was seen in `tried`
/// tries: 1 − 0.025^(1/n), some 3.69/n.
#[must_use]
pub fn at_most(tried: u64) -> f64 {
    if tried == 0 { 1.0 } else { 1.0 - (0.025_f64.ln() / as_f64(tried)).exp() }
}

#[cfg(test)]
mod tests {
    use super::super::CutFate;
    use super::*;

    #[test]
    fn a_timeline_has_acknowledgements_where_they_were_read() {
        let request = |entry, operation: &str, length_bytes, fate| CutRequest {
            entry,
            operation: operation.to_owned(),
            offset_bytes: 4096,
            length_bytes,
            forced: false,
            fate,
        };
        let ack = |text: &str, position| Acknowledgement { text: text.to_owned(), position };
        let requests = vec![
            request(6, "write", 512, CutFate::There),
            request(7, "flush", 0, CutFate::There),
            request(9, "write", 4096, CutFate::Missing),
        ];
        let spec = CrashSpec {
            drive: super::super::DriveBehaviour::Honest,
            atomic_bytes: 4096,
            cache_bytes: 0,
            states: 1,
            seed: 1,
        };
        assert_eq!(CrashReport::untried(spec, CrashCoverage::default()).load_words(), "program");
        let mut failing: Failing = serde_json::from_value(serde_json::json!({
            "state": { "kind": "loss", "cut": 10, "durable": 8, "pending": 1, "lost": [9], "image": 1 },
            "lost_when_found": 1, "class": "broken", "damage": [], "kernel": [], "before": [],
        }))
        .unwrap();
        (failing.requests, failing.acknowledged) = (requests, vec![ack("1", 6), ack("2", 8), ack("3", 10)]);
        assert_eq!(
            failing.timeline(),
            [
                "       6  ack 1",
                "       6    write 4096+512",
                "       7    flush",
                "       8  ack 2",
                "       9    write 4096+4096  MISSING",
                "      10  ack 3",
            ]
        );
    }

    #[test]
    fn nothing_seen_is_not_never() {
        assert!((at_most(1) - 0.975).abs() < 1e-12);
        assert!((at_most(4000) * 4000.0 - 3.69).abs() < 0.01);
        assert!((at_most(0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn times_are_summed_up() {
        let summary = TimeSummary::of("mount", vec![30, 10, 20, 40]).unwrap();
        assert_eq!((summary.min_ns, summary.median_ns, summary.mean_ns, summary.max_ns), (10, 25, 25, 40));
        assert_eq!(TimeSummary::of("mount", vec![4, 9, 2]).map(|summary| summary.median_ns), Some(4));
        assert_eq!(TimeSummary::of("mount", Vec::new()), None);
    }
}
