//! A program that works beside a connection, such as the machine of a second guest.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout};

use super::TargetError;
use super::child::Child;

/// A program that runs until this is dropped.
pub struct Companion {
    child: Child,
    /// Closed pipes would be an end to some programs.
    _pipes: (ChildStdin, ChildStdout),
}

impl fmt::Debug for Companion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Companion").field("child", &self.child).finish_non_exhaustive()
    }
}

impl Companion {
    /// Starts it. It dies with this process, whatever kills that.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(program: PathBuf, arguments: Vec<OsString>) -> Result<Self, TargetError> {
        let (child, stdin, stdout) = Child::start(program, arguments)?;
        Ok(Self { child, _pipes: (stdin, stdout) })
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.child.has_ended()
    }

    /// What it said on its standard error.
    #[must_use]
    pub fn said(&self) -> String {
        self.child.said()
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.child.kill();
    }
}
