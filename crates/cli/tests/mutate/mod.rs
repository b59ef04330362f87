//! Mutants of files that come from elsewhere, and what happens to them.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

pub mod bytes;
pub mod image;
pub mod journal;
pub mod load;
pub mod log;
pub mod record;
pub mod study;
pub mod tar;
pub mod test_directory;
pub mod trace;
pub mod worker;

use test_directory::TestDirectory;

use crate::dice::Dice;

/// A kind of file that somebody else may have written.
pub trait Format {
    /// The bytes of a mutant.
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8>;

    /// Reads it as the commands do, and does what follows: whether it was accepted. What the reader of such a
    /// file must never do is an error.
    fn read(&mut self, bytes: &[u8], test_directory: &TestDirectory) -> Result<bool, String>;
}

/// Every format by name.
pub const FORMATS: [&str; 9] =
    ["journal", "record", "image", "trace", "request-log", "profile", "study", "listing", "tar"];

/// Makes the fixtures of a format.
pub fn format(name: &str, test_directory: &TestDirectory) -> Box<dyn Format> {
    match name {
        "journal" => Box::new(journal::Journals::new(test_directory)),
        "record" => Box::new(record::Records::new(test_directory)),
        "image" => Box::new(image::Images::new(test_directory)),
        "trace" => Box::new(trace::Traces::new(test_directory)),
        "request-log" => Box::new(log::Logs::new(test_directory)),
        "profile" => Box::new(load::Profiles::new()),
        "study" => Box::new(study::Studies::new(test_directory)),
        "listing" => Box::new(load::Listings::new()),
        "tar" => Box::new(tar::Tars::new()),
        other => panic!("no format is called {other}"),
    }
}
