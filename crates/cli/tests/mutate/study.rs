//! Studies: an accepted one is planned, and its dry run writes nothing and says nothing that a terminal would
//! obey.

use std::path::PathBuf;

use fsage::run::one_a_line;
use fsage_lab::run::{RunEvent, RunObserver, RunOptions, run_study};

use super::test_directory::TestDirectory;
use super::{Format, bytes};
use crate::dice::Dice;

const STUDIES: [&str; 3] = [
    include_str!("../../../../studies/aging.toml"),
    include_str!("../data/states.toml"),
    include_str!("../data/lockstep.toml"),
];

pub struct Studies {
    outside: String,
}

impl Studies {
    pub fn new(test_directory: &TestDirectory) -> Self {
        Self { outside: test_directory.sentinels() }
    }
}

#[derive(Default)]
struct Lines(Vec<String>);

impl RunObserver for Lines {
    fn event(&mut self, event: RunEvent) {
        if let RunEvent::DryRun { line } = event {
            self.0.push(line);
        }
    }
}

/// Whether a terminal would do something else with it than show it.
fn obeys(text: &str) -> bool {
    let overrides = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().any(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || overrides(c))
}

impl Format for Studies {
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8> {
        let text = *dice.of(&STUDIES);
        bytes::text(dice, text, &self.outside)
    }

    fn read(&mut self, bytes: &[u8], test_directory: &TestDirectory) -> Result<bool, String> {
        let work = test_directory.work();
        let study = work.join("study.toml");
        std::fs::write(&study, bytes).unwrap();
        let store = work.join("store");
        let options = RunOptions { study, store: Some(store), dry_run: true, ..RunOptions::default() };
        let mut lines = Lines::default();
        let planned = run_study(&options, &mut lines).is_ok();
        // As the command shows them.
        let shown = one_a_line(&lines.0);
        if obeys(&shown) || shown.lines().count() != lines.0.len() {
            return Err(format!("a dry run says {shown:?}"));
        }
        let found: Vec<PathBuf> =
            std::fs::read_dir(&work).unwrap().flatten().map(|entry| entry.path()).collect();
        if found != [work.join("study.toml")] {
            return Err(format!("a dry run made {found:?}"));
        }
        Ok(planned)
    }
}
