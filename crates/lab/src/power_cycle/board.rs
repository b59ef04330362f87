//! What the loop needs of the world: commands, a load, and time. Tests script it with a clock of their own.

use std::fs::File;
use std::time::Duration;

use super::PowerCycleError;

/// A command to be run.
#[derive(Debug)]
pub struct Step<'a> {
    /// Its key in the file.
    pub key: &'static str,
    /// Its command line.
    pub argv: &'a [String],
    /// Its standard input, from where the file stands; empty where none is given.
    pub input: Option<File>,
    /// Longest that it runs.
    pub limit: Duration,
    /// Whether it may be ended because the user wants the run to end. What switches the power may not.
    pub stoppable: bool,
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ran {
    /// Its exit status, 128 and more: of a signal; `None`: it was ended at its limit.
    pub status: Option<i32>,
    /// The process, if it could not be ended at its limit: it was left.
    pub left: Option<u32>,
    /// It was ended by a signal on this host.
    pub by_signal: bool,
    /// The first line of its standard output.
    pub first_line: String,
    /// The last line that is not empty of its standard output; if there is none, of standard error.
    pub last_line: String,
    /// How long it ran.
    pub elapsed: Duration,
}

/// How the load is after its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Working {
    /// It works.
    Runs,
    /// It had ended by itself.
    Ended {
        /// Its exit status.
        status: i32,
        /// Its last line.
        said: String,
    },
}

/// A board, as the loop sees it.
pub trait Board {
    /// Runs a command to its end. A load that runs goes on, and what it prints is not kept.
    ///
    /// # Errors
    /// It is missing or cannot be run, or the user wants the run to end.
    fn run(&mut self, step: Step<'_>) -> Result<Ran, PowerCycleError>;

    /// Starts the load and lets it run for so long, or to its end. `line` gets each line of its standard output that
    /// was read by then, as it is. It runs on when this returns.
    ///
    /// # Errors
    /// As [`Board::run`]; what `line` says. Then the load is ended.
    fn work(
        &mut self,
        argv: &[String],
        time: Duration,
        line: &mut dyn FnMut(&[u8]) -> Result<(), PowerCycleError>,
    ) -> Result<Working, PowerCycleError>;

    /// Ends the load: its process group on this host. Its process, if it could not be ended: it was left.
    fn end_load(&mut self) -> Option<u32>;

    /// Lets time pass, or less where the user wants the run to end.
    fn pause(&mut self, time: Duration);

    /// Time since some moment.
    fn now(&self) -> Duration;

    /// Whether the user wants the run to end.
    fn is_over(&self) -> bool;
}
