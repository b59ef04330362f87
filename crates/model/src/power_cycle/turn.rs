//! Which cycle is next: it follows from the record alone, so that a resumed run does what an undisturbed one does.
//!
//! A board has one device, so configurations take turns by lives: when a life ends, the configuration with the
//! fewest lives is next, in the order of names. With a limit of cycles per life a drift of the device (wear,
//! temperature) meets all configurations alike.

use std::collections::BTreeMap;

use super::{AfterDamage, CycleOutcome, CycleRecord, PowerCycleSpec};

/// How far a board is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    configurations: BTreeMap<String, ConfigurationProgress>,
    /// The last recorded cycle.
    last: Option<Last>,
}

/// How far a configuration is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConfigurationProgress {
    /// Recorded cycles.
    pub cycles: u64,
    /// File systems that had at least one.
    pub lives: u64,
    /// Of these, lives that ended by damage.
    pub damaged: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Last {
    configuration: String,
    life: u64,
    cycle: u64,
    acknowledged_bytes: u64,
    ended: bool,
    undecided: bool,
}

/// What is next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The configuration.
    pub configuration: String,
    /// Which life of it, from 1.
    pub life: u64,
    /// Which cycle of the life, from 1: at 1 the file system has to be prepared.
    pub cycle: u64,
    /// Bytes of the life's acknowledged lines that belong to recorded cycles.
    pub acknowledged_bytes: u64,
}

impl Progress {
    /// How far a record is.
    #[must_use]
    pub fn of(records: &[CycleRecord]) -> Self {
        let mut progress = Self::default();
        records.iter().for_each(|record| progress.add(record));
        progress
    }

    /// Takes one more cycle into account.
    pub fn add(&mut self, record: &CycleRecord) {
        let own = self.configurations.entry(record.configuration.clone()).or_default();
        let is_damage = matches!(record.outcome, CycleOutcome::Damage { .. });
        own.cycles += u64::from(!record.resumed);
        own.lives = own.lives.max(record.life);
        own.damaged += u64::from(is_damage);
        self.last = Some(Last {
            configuration: record.configuration.clone(),
            life: record.life,
            cycle: record.cycle,
            acknowledged_bytes: record.acknowledged_bytes,
            // An undecided cycle is inspected again; where that is undecided too, a record of its own says so.
            ended: is_damage || record.resumed,
            undecided: matches!(record.outcome, CycleOutcome::Undecided { .. }),
        });
    }

    /// The last record is undecided, so that its file system has to be inspected again.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.undecided)
    }

    /// Whether a record can be the next line: the next cycle of the life that goes on, or the first of the next
    /// life of its configuration.
    #[must_use]
    pub fn can_be_followed_by(&self, record: &CycleRecord) -> bool {
        let goes_on = self.last.as_ref().is_some_and(|last| {
            !last.ended
                && (&last.configuration, last.life, last.cycle + 1)
                    == (&record.configuration, record.life, record.cycle)
                && last.acknowledged_bytes <= record.acknowledged_bytes
        });
        let lives = self.configuration(&record.configuration).lives;
        goes_on || (record.life, record.cycle, record.resumed) == (lives + 1, 1, false)
    }

    /// How far a configuration is.
    #[must_use]
    pub fn configuration(&self, name: &str) -> ConfigurationProgress {
        self.configurations.get(name).copied().unwrap_or_default()
    }

    /// What is next; nothing when every configuration has its cycles or has stopped.
    #[must_use]
    pub fn next(&self, spec: &PowerCycleSpec) -> Option<Turn> {
        let is_open = |name: &str| {
            let own = self.configuration(name);
            let stopped = spec.after_damage == AfterDamage::Stop && own.damaged > 0;
            own.cycles < spec.cycles && !stopped
        };
        let limit = spec.cycles_per_life.unwrap_or(u64::MAX);
        let goes_on = |last: &&Last| !last.ended && last.cycle < limit && is_open(&last.configuration);
        if let Some(last) = self.last.as_ref().filter(goes_on) {
            return Some(Turn {
                configuration: last.configuration.clone(),
                life: last.life,
                cycle: last.cycle + 1,
                acknowledged_bytes: last.acknowledged_bytes,
            });
        }
        let open = spec.configuration.keys().filter(|name| is_open(name));
        let name = open.min_by_key(|name| self.configuration(name).lives)?;
        let life = self.configuration(name).lives + 1;
        Some(Turn { configuration: name.clone(), life, cycle: 1, acknowledged_bytes: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CommandSpec, CutDamage, StepTimes, TimeoutSpec, UndecidedSpec};
    use super::*;

    fn spec(after_damage: AfterDamage, cycles: u64, cycles_per_life: Option<u64>) -> PowerCycleSpec {
        let none = Vec::new;
        PowerCycleSpec {
            name: "board".to_owned(),
            seed: 1,
            cut_after_s: [1.0, 2.0],
            off_for_s: 1.0,
            after_damage,
            cycles,
            cycles_per_life,
            check_repaired: none(),
            undecided: UndecidedSpec::default(),
            command: CommandSpec {
                power_off: Vec::new(),
                power_on: Vec::new(),
                boot_id: Vec::new(),
                prepare: Vec::new(),
                check: Vec::new(),
                mount: Vec::new(),
                verify: Vec::new(),
                unmount: Vec::new(),
                load: Vec::new(),
            },
            timeout: TimeoutSpec::default(),
            configuration: ["a", "b"].map(|name| (name.to_owned(), BTreeMap::new())).into(),
        }
    }

    fn record(turn: &Turn, outcome: CycleOutcome) -> CycleRecord {
        CycleRecord {
            configuration: turn.configuration.clone(),
            life: turn.life,
            cycle: turn.cycle,
            at: String::new(),
            cut_after_ns: 1,
            outcome,
            repaired: false,
            idle: false,
            resumed: false,
            acknowledged: 1,
            acknowledged_bytes: turn.acknowledged_bytes + 3,
            boot_id: String::new(),
            times: StepTimes::default(),
        }
    }

    /// The turns as `a1.1`, where the cycles with these numbers find damage.
    fn turns(spec: &PowerCycleSpec, damaged: &[usize]) -> Vec<String> {
        let (mut progress, mut turns) = (Progress::default(), Vec::new());
        while let Some(turn) = progress.next(spec) {
            turns.push(format!("{}{}.{}", turn.configuration, turn.life, turn.cycle));
            let damage =
                CycleOutcome::Damage { found_by: CutDamage::Check, status: 4, reason: String::new() };
            let is_damaged = damaged.contains(&turns.len());
            progress.add(&record(&turn, if is_damaged { damage } else { CycleOutcome::Survived }));
        }
        turns
    }

    #[test]
    fn without_a_limit_a_configuration_has_one_life_until_it_is_damaged() {
        assert_eq!(turns(&spec(AfterDamage::Stop, 2, None), &[]), ["a1.1", "a1.2", "b1.1", "b1.2"]);
        assert_eq!(turns(&spec(AfterDamage::Stop, 2, None), &[1]), ["a1.1", "b1.1", "b1.2"]);
        let prepared = turns(&spec(AfterDamage::Prepare, 3, None), &[2]);
        assert_eq!(prepared, ["a1.1", "a1.2", "b1.1", "b1.2", "b1.3", "a2.1"]);
    }

    #[test]
    fn with_a_limit_configurations_take_turns() {
        let turns = turns(&spec(AfterDamage::Stop, 3, Some(2)), &[]);
        assert_eq!(turns, ["a1.1", "a1.2", "b1.1", "b1.2", "a2.1", "b2.1"]);
    }

    #[test]
    fn a_life_goes_on_where_its_lines_end_and_a_new_one_has_none() {
        let spec = spec(AfterDamage::Stop, 3, Some(2));
        let mut progress = Progress::default();
        let mut turn = progress.next(&spec).unwrap();
        for bytes in [3, 0] {
            progress.add(&record(&turn, CycleOutcome::Survived));
            turn = progress.next(&spec).unwrap();
            assert_eq!(turn.acknowledged_bytes, bytes);
        }
    }

    #[test]
    fn damage_that_a_resumed_run_finds_ends_the_life_and_is_no_cycle() {
        let spec = spec(AfterDamage::Prepare, 3, None);
        let first = Progress::default().next(&spec).unwrap();
        let found = CycleOutcome::Damage { found_by: CutDamage::Mount, status: 32, reason: String::new() };
        let mut records = vec![record(&first, CycleOutcome::Survived), record(&first, found)];
        records[1].resumed = true;
        let progress = Progress::of(&records);
        assert_eq!(progress.configuration("a"), ConfigurationProgress { cycles: 1, lives: 1, damaged: 1 });
        assert_eq!(progress.next(&spec).unwrap().configuration, "b");
    }

    #[test]
    fn an_undecided_cycle_stops_nothing_and_a_life_that_stays_undecided_ends() {
        let spec = spec(AfterDamage::Stop, 3, None);
        let first = Progress::default().next(&spec).unwrap();
        let unknown = || CycleOutcome::Undecided { step: "check".to_owned(), reason: String::new() };
        let mut progress = Progress::of(&[record(&first, unknown())]);
        assert!(progress.is_undecided());
        let second = progress.next(&spec).unwrap();
        assert_eq!((&*second.configuration, second.life, second.cycle), ("a", 1, 2));
        progress.add(&CycleRecord { resumed: true, ..record(&second, unknown()) });
        assert_eq!(progress.configuration("a"), ConfigurationProgress { cycles: 1, lives: 1, damaged: 0 });
        let other = progress.next(&spec).unwrap();
        assert_eq!((&*other.configuration, other.life, other.cycle), ("b", 1, 1));
    }

    #[test]
    fn a_record_follows_its_life_or_begins_one() {
        let spec = spec(AfterDamage::Prepare, 3, None);
        let first = Progress::default().next(&spec).unwrap();
        let begun = record(&first, CycleOutcome::Survived);
        let progress = Progress::of(std::slice::from_ref(&begun));
        let second = record(&progress.next(&spec).unwrap(), CycleOutcome::Survived);
        assert!(Progress::default().can_be_followed_by(&begun) && progress.can_be_followed_by(&second));
        for wrong in [
            begun,
            CycleRecord { cycle: 3, ..second.clone() },
            CycleRecord { life: 2, ..second.clone() },
            CycleRecord { acknowledged_bytes: 2, ..second.clone() },
        ] {
            assert!(!progress.can_be_followed_by(&wrong), "{wrong:?}");
        }
        assert!(progress.can_be_followed_by(&CycleRecord { life: 2, cycle: 1, ..second }));
    }
}
