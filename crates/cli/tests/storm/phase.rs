//! What fsage is doing when it is killed, and what must hold then.

mod disk;
mod image;
mod run;

use std::path::Path;

use super::place::Place;
use crate::dice::Dice;

pub use disk::{Replay, UpDown};
pub use image::{Restore, Save};
pub use run::Run;

/// What the next command after a kill is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// `fsage clean`.
    Clean,
    /// The command that was killed, once more.
    Again,
}

/// A command that is killed.
pub trait Phase {
    fn name(&self) -> &'static str;

    /// Before each kill.
    fn prepare(&mut self, place: &Place, dice: &mut Dice);

    /// The command.
    fn words(&self, place: &Place) -> Vec<String>;

    /// Whether the same command is a recovery.
    fn recovers(&self) -> bool {
        true
    }

    /// Runs the command that was killed once more.
    fn again(&mut self, place: &Place) -> Result<(), String> {
        let words = self.words(place);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match place.run(&words) {
            (Some(0), _) => Ok(()),
            (code, said) => Err(format!("fsage {} ended with {code:?}: {said}", words.join(" "))),
        }
    }

    /// Whether what was done before is still done, and what is half done is not taken for done; after the
    /// recovery. Takes down what is meant to stay.
    fn check(&mut self, place: &Place, recovery: Recovery) -> Result<(), String>;

    /// Whether a file below the place, by its relative path, is one that stays.
    fn keeps(&self, file: &Path) -> bool;
}

/// Every phase, each with its fixtures made.
pub fn all(place: &Place) -> Vec<Box<dyn Phase>> {
    vec![
        Box::new(Run::on_loop(place)),
        Box::new(Run::on_disk(place)),
        Box::new(Age::default()),
        Box::new(Save::new(place)),
        Box::new(Restore::new(place)),
        Box::new(UpDown::default()),
        Box::new(Replay::new(place)),
    ]
}

/// `fsage age` of a directory: it takes nothing from the host, what it made stays in the directory.
#[derive(Default)]
pub struct Age {
    number: u64,
    fast: bool,
}

impl Age {
    fn directory(&self) -> String {
        format!("aged/{}", self.number)
    }
}

impl Phase for Age {
    fn name(&self) -> &'static str {
        "age"
    }

    fn prepare(&mut self, place: &Place, dice: &mut Dice) {
        let _ = std::fs::remove_dir_all(place.path(&self.directory()));
        self.number += 1;
        self.fast = dice.below(2) == 0;
        std::fs::create_dir_all(place.path(&self.directory())).unwrap();
    }

    fn words(&self, place: &Place) -> Vec<String> {
        let mode = if self.fast { "fast" } else { "buffered" };
        let words = "--json --threads 2 --operations 1500 --probe-every 500 --set slots=150 --write-mode";
        let directory = place.text(&self.directory());
        ["age", &directory].into_iter().chain(words.split(' ')).chain([mode]).map(str::to_owned).collect()
    }

    /// A directory that was aged is not aged again.
    fn recovers(&self) -> bool {
        false
    }

    fn check(&mut self, _place: &Place, _recovery: Recovery) -> Result<(), String> {
        Ok(())
    }

    fn keeps(&self, file: &Path) -> bool {
        file.starts_with("aged")
    }
}
