//! Mutants of files that come from elsewhere, and what happens to them.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

pub mod bytes;
pub mod ground;
pub mod image;
pub mod journal;
pub mod load;
pub mod log;
pub mod record;
pub mod study;
pub mod tar;
pub mod trace;
pub mod worker;

use ground::Ground;

use crate::dice::Dice;

/// A kind of file that somebody else may have written.
pub trait Format {
    /// The bytes of a mutant.
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8>;

    /// Reads it as the commands do, and does what follows: whether it was accepted. What the reader of such a file must never do is an
    /// error.
    fn read(&mut self, bytes: &[u8], ground: &Ground) -> Result<bool, String>;
}

/// Every format by name.
pub const FORMATS: [&str; 9] =
    ["journal", "record", "image", "trace", "request-log", "profile", "study", "listing", "tar"];

/// Makes the fixtures of a format.
pub fn format(name: &str, ground: &Ground) -> Box<dyn Format> {
    match name {
        "journal" => Box::new(journal::Journals::new(ground)),
        "record" => Box::new(record::Records::new(ground)),
        "image" => Box::new(image::Images::new(ground)),
        "trace" => Box::new(trace::Traces::new(ground)),
        "request-log" => Box::new(log::Logs::new(ground)),
        "profile" => Box::new(load::Profiles::new()),
        "study" => Box::new(study::Studies::new(ground)),
        "listing" => Box::new(load::Listings::new()),
        "tar" => Box::new(tar::Tars::new()),
        other => panic!("no format is called {other}"),
    }
}
