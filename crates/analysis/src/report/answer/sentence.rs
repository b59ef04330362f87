//! The sentences: one for each file system on each device.

use serde::Serialize;

use super::effect::{Cause, Effect};
use crate::report::difference::Finding;
use crate::report::text::{counted, significant, words};
use crate::report::view::View;
use crate::stats::Estimate;

/// What was found on one file system and device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sentence {
    /// File system.
    pub file_system: String,
    /// Device, in words.
    pub device: String,
    /// Times are those of a device model.
    pub model: bool,
    /// The measure or operation.
    pub measure: String,
    /// How many times as long it takes; above 1 is slower.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Repeats behind it: with fewer than three it is of this run only.
    pub repeats: usize,
    /// Before what was found.
    before: String,
    /// What was found: `4.90 times slower [4.60, 5.20]`.
    found: String,
    /// After it.
    after: String,
}

impl Sentence {
    /// The sentence.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}{}", self.before, self.found, self.after)
    }

    /// What stands before the finding, the finding, and what stands after it.
    #[must_use]
    pub fn parts(&self) -> [&str; 3] {
        [&self.before, &self.found, &self.after]
    }
}

/// What a measure or operation does, as the object of a sentence.
pub fn doing(cause: &Cause, what: &str) -> String {
    let known = match (cause, what) {
        (Cause::Running, operation) => return words(operation),
        (_, "grep") => "reading all files",
        (_, "cold-random-read") => "random reads",
        (_, "walk") => "listing all files",
        (_, "large-file") => "writing a large file",
        (_, "create") => "creating files",
        (_, "append") => "appending to files",
        (_, "delete") => "deleting files",
        (_, "write") => "writing",
        (_, "fio") => "the fio job",
        (_, other) => return words(other),
    };
    known.to_owned()
}

/// Every sentence, device by device.
pub fn all(view: &View, effects: &[Effect]) -> Vec<Sentence> {
    let mut devices: Vec<&str> = Vec::new();
    for effect in effects {
        if !devices.contains(&effect.device.as_str()) {
            devices.push(&effect.device);
        }
    }
    let mut sentences = Vec::new();
    for device in devices {
        for file_system in &view.file_systems {
            let own: Vec<&Effect> = effects
                .iter()
                .filter(|effect| effect.device == device && effect.file_system == *file_system)
                .collect();
            sentences.extend(of(&own));
        }
    }
    sentences
}

/// The sentence of one file system and device.
pub(super) fn of(own: &[&Effect]) -> Option<Sentence> {
    let of = |wanted: fn(&Cause) -> bool| -> Vec<&Effect> {
        own.iter().filter(|effect| wanted(&effect.cause)).copied().collect()
    };
    let ages = of(|cause| *cause == Cause::Ageing);
    if let Some(worst) = worst(&ages) {
        return Some(single(worst, &ages, "ageing made"));
    }
    let remedies = of(|cause| *cause == Cause::Remedy);
    if let Some(best) = best(&remedies) {
        return Some(remedied(best, &remedies));
    }
    let uses = of(|cause| *cause == Cause::Use);
    if let Some(worst) = worst(&uses) {
        return Some(use_and_fullness(worst, own));
    }
    let volumes: Vec<&Effect> = own.iter().filter(|effect| effect.is_answer()).copied().collect();
    let worst = worst(&volumes)?;
    Some(match &worst.cause {
        Cause::Volumes { above, below } => {
            let after = format!(" on {above} than on {below}{}", place(worst));
            build(
                worst,
                &format!("{} on {} is ", doing(&worst.cause, &worst.what), worst.file_system),
                &after,
            )
        }
        Cause::Running => while_ageing(worst, &volumes),
        _ => single(worst, &volumes, "fullness made"),
    })
}

/// The most telling of them: the clearest of those that are significantly slower, else the largest.
fn worst<'a>(effects: &[&'a Effect]) -> Option<&'a Effect> {
    let largest = |chosen: Vec<&&'a Effect>| {
        chosen.into_iter().max_by(|a, b| a.at_least().total_cmp(&b.at_least())).copied()
    };
    let found = effects.iter().filter(|effect| effect.finding == Finding::Worse).collect();
    largest(found).or_else(|| largest(effects.iter().collect()))
}

/// The clearest of those that are significantly faster, else the smallest.
fn best<'a>(effects: &[&'a Effect]) -> Option<&'a Effect> {
    let at_most =
        |effect: &Effect| effect.estimate.interval.map_or(effect.estimate.value, |interval| interval.high);
    let smallest = |chosen: Vec<&&'a Effect>| {
        chosen.into_iter().min_by(|a, b| at_most(a).total_cmp(&at_most(b))).copied()
    };
    let found = effects.iter().filter(|effect| effect.finding == Finding::Better).collect();
    smallest(found).or_else(|| smallest(effects.iter().collect()))
}

/// The remedy that helped most, and what the others did for the same measure.
fn remedied(best: &Effect, among: &[&Effect]) -> Sentence {
    let what = doing(&best.cause, &best.what);
    let before = format!("{} made {what} on {} ", remedy(&best.settings), best.file_system);
    let others = among.iter().filter(|effect| {
        effect.what == best.what && effect.settings != best.settings && effect.finding == Finding::Better
    });
    let others: Vec<String> =
        others.map(|effect| format!(", {} {}", remedy(&effect.settings), slower(&effect.estimate))).collect();
    let faster = among.iter().filter(|effect| effect.finding == Finding::Better).count();
    let rank = match (among.len(), best.is_general()) {
        (1, _) => String::new(),
        (n, true) => format!("; the best of {}, {faster} significantly faster", counted(n, "comparison")),
        (n, false) => format!("; the best of {}", counted(n, "comparison")),
    };
    build(best, &before, &format!(" on {}{}{rank}", best.device, others.concat()))
}

/// What a remedy's method is called in a sentence.
fn remedy(method: &str) -> String {
    match method {
        "defragment" => "defragmentation".to_owned(),
        "balance" => "balancing".to_owned(),
        "fstrim" => "trimming".to_owned(),
        "copy" => "a copy to a fresh volume".to_owned(),
        other => match other.strip_prefix("free-") {
            Some(percent) => format!("deleting {percent}\u{202f}% of the files"),
            None => other.to_owned(),
        },
    }
}

/// One measure of several.
fn single(worst: &Effect, among: &[&Effect], made: &str) -> Sentence {
    let before = format!("{made} {} on {} ", doing(&worst.cause, &worst.what), worst.file_system);
    build(worst, &before, &format!("{}{}", place(worst), rank(worst, among, "measure")))
}

/// One operation of a run.
fn while_ageing(worst: &Effect, among: &[&Effect]) -> Sentence {
    let before =
        format!("while it aged, {} on {} became ", doing(&worst.cause, &worst.what), worst.file_system);
    build(worst, &before, &format!("{}{}", place(worst), rank(worst, among, "operation")))
}

/// Among how many it is the worst, and how many of them are slower.
fn rank(worst: &Effect, among: &[&Effect], kind: &str) -> String {
    let settings = among.iter().any(|effect| effect.settings != worst.settings);
    let kind = if settings { "comparison" } else { kind };
    let slower = among.iter().filter(|effect| effect.finding == Finding::Worse).count();
    match (among.len(), worst.is_general()) {
        (1, _) => String::new(),
        (n, true) => format!("; the worst of {}, {slower} significantly slower", counted(n, kind)),
        (n, false) => format!("; the worst of {}", counted(n, kind)),
    }
}

/// Use beside fullness, as Conway et al. 2019 compare them.
fn use_and_fullness(worst: &Effect, own: &[&Effect]) -> Sentence {
    let with = |what: &str| {
        own.iter().find(|effect| {
            effect.cause == Cause::Fullness && effect.what == what && effect.settings == worst.settings
        })
    };
    let fullness =
        with(&worst.what).map_or_else(String::new, |full| format!(", fullness {}", slower(&full.estimate)));
    let writing = with(fsage_model::metric::WRITE)
        .map_or_else(String::new, |write| format!("; writing when full is {}", slower(&write.estimate)));
    let before = format!("use made {} on {} ", doing(&worst.cause, &worst.what), worst.file_system);
    build(worst, &before, &format!("{fullness},{}{writing}", place(worst)))
}

/// Where: device and settings.
fn place(effect: &Effect) -> String {
    let settings = if effect.settings.is_empty() { String::new() } else { format!(", {}", effect.settings) };
    format!(" on {}{settings}", effect.device)
}

fn build(effect: &Effect, before: &str, after: &str) -> Sentence {
    let before = match effect.is_general() {
        true => capital(before),
        false => format!("In this run, {before}"),
    };
    let why = match effect.finding {
        Finding::NoEvidence if effect.corrected => " (not significant after correction)",
        Finding::NoEvidence if effect.estimate.interval.is_some() => " (no evidence of a difference)",
        _ => "",
    };
    Sentence {
        file_system: effect.file_system.clone(),
        device: effect.device.clone(),
        model: effect.model,
        measure: effect.what.clone(),
        ratio: effect.estimate.value,
        low: effect.estimate.interval.map(|interval| interval.low),
        high: effect.estimate.interval.map(|interval| interval.high),
        repeats: effect.estimate.units,
        before,
        found: slower(&effect.estimate),
        after: format!("{why}{after}."),
    }
}

/// `4.90 times slower [4.60, 5.20]`, `1.10 times faster [1.05, 1.15]`.
fn slower(estimate: &Estimate) -> String {
    let faster = estimate.value < 1.0;
    let end = |value: f64| significant(if faster { value.recip() } else { value });
    let interval = estimate.interval.map_or_else(String::new, |interval| {
        let (low, high) = if faster { (interval.high, interval.low) } else { (interval.low, interval.high) };
        format!(" [{}, {}]", end(low), end(high))
    });
    let value = end(estimate.value);
    match value.as_str() {
        // To the digits shown there is no difference to give a direction to.
        "1.00" => format!("1.00 times as slow{interval}"),
        _ => format!("{value} times {}{interval}", if faster { "faster" } else { "slower" }),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
