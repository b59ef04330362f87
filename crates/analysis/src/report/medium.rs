//! Time of virtual media: what each part of each trial took, by component.
//!
//! Components are the medium's own counters in nanoseconds, but for those that are sums of others; of an
//! SSD's dies, what they did for the host and what for garbage collection. Work that a medium does side by
//! side (dies of an SSD, a cache that is written back while the next request comes) adds up to more than the
//! time that went by.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::disk::{CPU_COUNTER, DiskCpu, WAITING};
use fsage_model::quantity::as_f64;
use serde::Serialize;

use super::factor;
use super::text::rounded;
use super::view::{DiskPart, Trial, View};

/// Counters in nanoseconds that are sums of others, or waiting and no work.
const SUMS: [&str; 4] = ["busy_ns", "elapsed_ns", "bus_wait_ns", WAITING];

/// Work of an SSD's dies, of which [`COLLECTION`] is a part.
const ON_DIES: [&str; 3] = ["read", "program", "erase"];

/// What an SSD did to make room.
const COLLECTION: &str = "gc";

/// What one part of a trial took, as the mean over its repeats.
#[derive(Debug, Clone, Serialize)]
pub struct Spending {
    /// Index in the view's file systems.
    pub file_system: usize,
    /// The medium.
    pub medium: String,
    /// The trials' other factors, in words.
    pub context: String,
    /// `age`, or a measure.
    pub what: String,
    /// Trials.
    pub trials: usize,
    /// Time that went by on the disk's clock.
    pub elapsed_ns: f64,
    /// CPU time meanwhile; a part of `elapsed_ns` where the disk counted it.
    pub cpu_ns: f64,
    /// Whether it is such a part.
    pub serial: bool,
    /// The CPU time of each trial.
    #[serde(skip)]
    pub cpus_ns: Vec<f64>,
    /// Component → nanoseconds, those that took any.
    pub parts: BTreeMap<String, f64>,
    /// Everything else that the medium counted.
    #[serde(skip)]
    pub counters: BTreeMap<String, f64>,
}

/// Every part of every kind of trial on a virtual disk.
pub fn all(view: &View) -> Vec<Spending> {
    let mut found: Vec<Spending> = Vec::new();
    for trial in &view.trials {
        let Some(medium) = &trial.medium else { continue };
        let without = BTreeSet::from([factor::FILE_SYSTEM, factor::MEDIUM]);
        let context = factor::context(&trial.factors, &without);
        let file_system = view.file_systems.iter().position(|name| *name == trial.file_system).unwrap_or(0);
        for part in &trial.disk {
            let place = found.iter().position(|known| {
                (known.file_system, &known.medium, &known.context, &known.what)
                    == (file_system, &medium.name, &context, &part.what)
            });
            let spending = match place {
                Some(place) => &mut found[place],
                None => {
                    found.push(Spending {
                        file_system,
                        medium: medium.name.clone(),
                        context: context.clone(),
                        what: part.what.clone(),
                        trials: 0,
                        elapsed_ns: 0.0,
                        cpu_ns: 0.0,
                        serial: false,
                        cpus_ns: Vec::new(),
                        parts: BTreeMap::new(),
                        counters: BTreeMap::new(),
                    });
                    let last = found.len() - 1;
                    &mut found[last]
                }
            };
            spending.add(part);
        }
    }
    found.iter_mut().for_each(Spending::settle);
    found
}

/// Media of the view's trials, each once.
pub fn media(view: &View) -> Vec<&super::view::Medium> {
    let mut found: Vec<&super::view::Medium> = Vec::new();
    for medium in view.trials.iter().filter_map(|trial: &Trial| trial.medium.as_ref()) {
        if !found.iter().any(|known| known.name == medium.name) {
            found.push(medium);
        }
    }
    found
}

impl Spending {
    /// How far the CPU time of one trial lies from the mean, as a share of it: the standard deviation over
    /// the repeats; nothing for one trial.
    pub fn cpu_noise(&self) -> Option<f64> {
        let count = as_f64(u64::try_from(self.cpus_ns.len()).unwrap_or(0));
        let mean = self.cpus_ns.iter().sum::<f64>() / count.max(1.0);
        let squares: f64 = self.cpus_ns.iter().map(|cpu| (cpu - mean).powi(2)).sum();
        (count >= 2.0 && mean > 0.0).then(|| (squares / (count - 1.0)).sqrt() / mean)
    }

    fn add(&mut self, part: &DiskPart) {
        self.trials += 1;
        self.elapsed_ns += as_f64(part.used.elapsed_ns);
        let counted = part.used.counter(CPU_COUNTER).filter(|_| part.used.cpu == DiskCpu::Serial);
        let cpu_ns = counted.unwrap_or_else(|| as_f64(part.cpu_ns));
        self.serial |= counted.is_some();
        self.cpu_ns += cpu_ns;
        self.cpus_ns.push(cpu_ns);
        for counter in &part.used.counters {
            let component = counter.unit == "ns" && !counter.state && !SUMS.contains(&counter.name.as_str());
            let (map, name) = match counter.name.strip_suffix("_ns").filter(|_| component) {
                Some(name) => (&mut self.parts, name.replace('_', " ")),
                None => (&mut self.counters, counter.name.clone()),
            };
            *map.entry(name).or_default() += counter.value;
        }
    }

    /// Sums become means.
    fn settle(&mut self) {
        let trials = as_f64(u64::try_from(self.trials).unwrap_or(1).max(1));
        self.elapsed_ns = rounded(self.elapsed_ns / trials);
        self.cpu_ns = rounded(self.cpu_ns / trials);
        for value in self.parts.values_mut().chain(self.counters.values_mut()) {
            *value = rounded(*value / trials);
        }
        if let Some(collection) = self.parts.remove(COLLECTION) {
            let on_dies: f64 = ON_DIES.iter().filter_map(|name| self.parts.remove(*name)).sum();
            self.parts.insert("flash for the host".to_owned(), rounded((on_dies - collection).max(0.0)));
            self.parts.insert("garbage collection".to_owned(), collection);
        }
        self.parts.retain(|_, value| *value > 0.0);
    }
}
