//! `kill -9` of lab, agent, disk server and several of them at random moments of every command that takes
//! something from the host, and of the cleaning itself: after the next command, or `fsage clean`, nothing is
//! left on the host and no complete trial is lost.
//!
//! `FSAGE_KILLS` sets how many kills (14), `FSAGE_SEED` where they fall (printed); `scripts/kill-storm` makes
//! a long storm of it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod dice;
mod storm;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use dice::{Dice, number};
use storm::host::{Settings, files, held};
use storm::phase::{self, Phase, Recovery};
use storm::place::Place;
use storm::victim::{self, Strike};

/// After so many kills that left something a long storm tells enough.
const ENOUGH: usize = 10;

/// A command that hangs has not ended by then.
const PATIENCE: Duration = Duration::from_secs(120);

/// An agent ends with its lab, in its own time, where no `clean` waits for it.
const AGENT_ENDS: Duration = Duration::from_secs(5);

/// How long a command takes when nobody kills it, as far as is known: kills fall anywhere in it.
struct Lengths(BTreeMap<&'static str, Duration>);

impl Lengths {
    fn moment(&self, name: &str, dice: &mut Dice) -> Duration {
        let whole = self.0.get(name).copied().unwrap_or(Duration::from_millis(300));
        whole * u32::try_from(dice.below(1050)).unwrap() / 1000
    }

    fn took(&mut self, name: &'static str, time: Duration) {
        let whole = self.0.entry(name).or_insert(time);
        *whole = (*whole * 3 + time) / 4;
    }
}

struct Storm {
    place: Place,
    settings: Settings,
    fixtures: BTreeSet<PathBuf>,
    dice: Dice,
    lengths: Lengths,
    /// Command and victims → kills.
    kills: BTreeMap<(&'static str, String), u64>,
    /// What was left, or lost.
    faults: Vec<String>,
}

impl Storm {
    fn new(seed: u64) -> (Self, Vec<Box<dyn Phase>>) {
        let settings = Settings::now();
        let place = Place::new();
        let phases = phase::all(&place);
        let fixtures = files(place.folder());
        let lengths = Lengths(BTreeMap::new());
        let (kills, faults) = (BTreeMap::new(), Vec::new());
        let storm = Self { place, settings, fixtures, dice: Dice(seed), lengths, kills, faults };
        (storm, phases)
    }

    /// Runs a command until a random moment and kills; whom, or nothing when it ended before.
    fn strike(&mut self, name: &'static str, mut command: Command) -> Option<String> {
        let moment = self.lengths.moment(name, &mut self.dice);
        let mut lab = command.spawn().unwrap();
        let started = Instant::now();
        while started.elapsed() < moment {
            if lab.try_wait().unwrap().is_some() {
                self.lengths.took(name, started.elapsed());
                return None;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        let living = victim::ours(self.place.folder());
        let strike = Strike::choose(&mut self.dice, &living);
        strike.at(lab.id(), &living);
        wait(&mut lab, &format!("{name}, killed: {strike}"));
        *self.kills.entry((name, strike.to_string())).or_default() += 1;
        Some(format!("{strike} after {} ms", moment.as_millis()))
    }

    /// Kills a phase's command, and perhaps what cleans up after it; then recovers and looks. How many kills
    /// that made.
    fn round(&mut self, phases: &mut [Box<dyn Phase>], turn: usize) -> u64 {
        let phase = phases[turn].as_mut();
        phase.prepare(&self.place, &mut self.dice);
        let words = phase.words(&self.place);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = phase.name();
        let Some(first) = self.strike(name, self.place.fsage(&words)) else {
            // Nothing was killed; what it did goes the same way.
            self.recover(phases, turn, &format!("{name}: not killed"));
            return 0;
        };
        let mut context = format!("{name}: {first}");
        let mut kills = 1;
        for _ in 0..self.dice.below(3) {
            if let Some(again) = self.strike("clean", self.place.fsage(&["clean"])) {
                context.push_str(&format!(", then clean: {again}"));
                kills += 1;
            }
        }
        self.recover(phases, turn, &context);
        kills
    }

    fn recover(&mut self, phases: &mut [Box<dyn Phase>], turn: usize, context: &str) {
        let phase = phases[turn].as_mut();
        let again = phase.recovers() && self.dice.below(2) == 0;
        let recovery = if again { Recovery::Again } else { Recovery::Clean };
        let started = Instant::now();
        let recovered = match recovery {
            Recovery::Again => phase.again(&self.place),
            Recovery::Clean => clean(&self.place),
        };
        if recovery == Recovery::Clean && started.elapsed() > Duration::from_millis(50) {
            self.lengths.took("clean", started.elapsed());
        }
        let mut faults: Vec<String> = recovered.err().into_iter().collect();
        faults.extend(phase.check(&self.place, recovery).err());
        let waits = !phase.recovers();
        faults.extend(self.left(phases, waits));
        if !faults.is_empty() {
            let fault = format!("{context}; {recovery:?}: {faults:#?}");
            println!("FAULT {fault}");
            self.faults.push(fault);
            self.start_over(phases);
        }
    }

    /// What is left on the host; processes may take some time where it `waits`.
    fn left(&mut self, phases: &[Box<dyn Phase>], waits: bool) -> Vec<String> {
        let deadline = Instant::now() + if waits { AGENT_ENDS } else { Duration::ZERO };
        let mut left = held(self.place.folder());
        while !left.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
            left = held(self.place.folder());
        }
        let mut left: Vec<String> = left.into_iter().collect();
        left.extend(self.settings.changed(self.place.folder()));
        left.extend(self.strange(phases).iter().map(|file| format!("file: {}", file.display())));
        left
    }

    /// Files that are neither fixtures nor kept by a phase.
    fn strange(&self, phases: &[Box<dyn Phase>]) -> Vec<PathBuf> {
        let stays = |file: &PathBuf| {
            let folder = self.place.folder().join(file).is_dir();
            folder || self.fixtures.contains(file) || phases.iter().any(|phase| phase.keeps(file))
        };
        files(self.place.folder()).into_iter().filter(|file| !stays(file)).collect()
    }

    /// Ends and removes by force what a fault left, so that the next kill is judged by itself.
    fn start_over(&mut self, phases: &[Box<dyn Phase>]) {
        victim::sweep(self.place.folder());
        let _ = self.place.run(&["clean"]);
        for name in ["named", "onto"] {
            let _ = self.place.run(&["disk", "down", name]);
        }
        for file in self.strange(phases) {
            let _ = std::fs::remove_file(self.place.folder().join(file));
        }
        let unjudged = std::mem::replace(&mut self.settings, Settings::now()).unjudged;
        self.settings.unjudged = unjudged;
    }

    fn figure(&self, kills: u64, started: Instant) {
        for ((command, victims), count) in &self.kills {
            println!("{count:5}  {command}: {victims}");
        }
        let seconds = started.elapsed().as_secs_f64();
        let (faults, unjudged) = (self.faults.len(), self.settings.unjudged);
        println!(
            "{kills} kills in {seconds:.0} s, {faults} left or lost something; settings not judged {unjudged} times"
        );
    }
}

fn clean(place: &Place) -> Result<(), String> {
    match place.run(&["clean"]) {
        (Some(0), _) => Ok(()),
        (code, said) => Err(format!("fsage clean ended with {code:?}: {said}")),
    }
}

fn wait(lab: &mut Child, what: &str) {
    let deadline = Instant::now() + PATIENCE;
    while lab.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "{what}: the lab does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nothing_is_left_and_nothing_is_lost_whatever_is_killed() {
    if !support::can_mount() || !support::can_serve_disks() {
        return;
    }
    let (wanted, seed) = (number("FSAGE_KILLS", 14), number("FSAGE_SEED", 20_261_121));
    println!("FSAGE_KILLS={wanted} FSAGE_SEED={seed}");
    let (mut storm, mut phases) = Storm::new(seed);
    let (started, mut kills, mut rounds) = (Instant::now(), 0, 0);
    while kills < wanted && storm.faults.len() < ENOUGH {
        let turn = rounds % phases.len();
        rounds += 1;
        assert!(u64::try_from(rounds).unwrap() < 20 * wanted, "too many commands end before they are killed");
        kills += storm.round(&mut phases, turn);
    }
    storm.figure(kills, started);
    assert!(storm.faults.is_empty(), "{:#?}", storm.faults);
}
