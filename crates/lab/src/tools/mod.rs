//! External programs: arguments, time limit, captured output, error. One file a program; what they are called
//! and what packages have them stands in [`fsage_engine::host::program`].
//!
//! Nothing else starts a program: an [`Invocation`] is built here and run by the agent, because the program
//! may live on another machine than the lab. What only reads the lab's own files is run here
//! ([`Invocation::stream`]).

use std::fmt;
use std::path::Path;
use std::time::Duration;

use fsage_engine::host::program;
use fsage_model::protocol::{FailureKind, ToolOutput, call};

use crate::target::{Session, TargetError};

pub mod blkdiscard;
pub mod btrfs_check;
pub mod btrfs_image;
pub mod dmsetup;
pub mod e2fsck;
pub mod e2image;
pub mod fio;
pub mod fsage_disk;
pub mod generic;
pub mod git;
mod local;
pub mod lvm;
pub mod mdadm;
pub mod mke2fs;
pub mod mkfs_btrfs;
pub mod mkfs_xfs;
pub mod mounted;
pub mod xfs_mdrestore;
pub mod xfs_metadump;
pub mod xfs_repair;

pub use local::Input;

/// Longest that a program may take that makes a layer between drives and a file system.
const MAKING_LAYER: Duration = Duration::from_secs(3600);

/// An external program that fsage calls.
#[derive(Debug)]
pub struct Program {
    /// Name looked up in PATH, `/usr/sbin` and `/sbin`.
    pub name: &'static str,
    /// Debian package that has it.
    pub package: &'static str,
    /// Longest it may run.
    pub time_limit: Duration,
}

impl Program {
    /// The program of [`PROGRAMS`](fsage_engine::host::program::PROGRAMS) that is called `name`.
    ///
    /// # Panics
    /// There is none; in a `static` the compiler says so.
    pub(crate) const fn new(name: &'static str, time_limit: Duration) -> Self {
        Self { name, package: program::named(name).package, time_limit }
    }

    /// This program with `arguments`.
    #[must_use]
    pub fn invoke(&self, arguments: Vec<String>) -> Invocation {
        let mut argv = vec![self.name.to_owned()];
        argv.extend(arguments);
        Invocation::new(argv, self.package.to_owned(), self.time_limit)
    }

    /// The next step when it is not installed.
    #[must_use]
    pub fn install_hint(&self) -> String {
        install_hint(self.package)
    }
}

/// `install it with \`apt-get install PACKAGE\``, or what can be said without a package name.
#[must_use]
pub fn install_hint(package: &str) -> String {
    if package.is_empty() {
        "install the program, or correct its name in the study's `[driver]` table".to_owned()
    } else {
        format!("install it with `apt-get install {package}`")
    }
}

/// One run of an external program, not yet started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    argv: Vec<String>,
    package: String,
    time_limit: Duration,
    outlives: bool,
}

/// What a program left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status; 128 + n when it died of signal n.
    pub status: i32,
    /// Standard output, its last 64 KiB.
    pub stdout: String,
    /// Standard error, its last 64 KiB.
    pub stderr: String,
    /// Wall time.
    pub elapsed: Duration,
}

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is not installed.
    #[error("`{program}` is not installed")]
    Missing {
        /// Its name.
        program: String,
        /// Its package, empty when unknown.
        package: String,
    },
    /// It could not be started or did not end in time.
    #[error("running `{command}`")]
    NotRun {
        /// The command as a shell would read it.
        command: String,
        /// Why.
        #[source]
        source: TargetError,
    },
    /// It ended with a status that means failure.
    #[error("`{command}` ended with status {status}: {tail}")]
    Status {
        /// The command as a shell would read it.
        command: String,
        /// Exit status.
        status: i32,
        /// The end of what it said.
        tail: String,
    },
    /// It runs on this machine and could not be started, fed, or waited for.
    #[error("running `{command}`")]
    Local {
        /// The command as a shell would read it.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// It ended well, but its output cannot be used.
    #[error("unexpected output of `{command}`: {message}")]
    Output {
        /// The command as a shell would read it.
        command: String,
        /// What is wrong with it.
        message: String,
    },
}

/// mkfs.btrfs asks the backing file of every loop device of the host, so one dead FUSE server stops it
/// everywhere.
const DEAD_SERVER: &str = "a FUSE server on this host died and its mount is still there; if it was a virtual disk, \
     `fsage clean` or `fsage disk down NAME` releases it";

impl ToolError {
    /// The next step.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { package, .. } => Some(install_hint(package)),
            Self::NotRun { source, .. } => source.hint(),
            Self::Status { tail, .. } if tail.contains("Transport endpoint is not connected") => {
                Some(DEAD_SERVER.to_owned())
            }
            Self::Status { .. } | Self::Local { .. } | Self::Output { .. } => None,
        }
    }

    /// Which kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Missing { .. } => FailureKind::Missing,
            Self::NotRun { source, .. } => source.kind(),
            Self::Status { .. } | Self::Local { .. } | Self::Output { .. } => FailureKind::Failed,
        }
    }
}

impl Invocation {
    /// A program by its words; the first is its name.
    #[must_use]
    pub const fn new(argv: Vec<String>, package: String, time_limit: Duration) -> Self {
        Self { argv, package, time_limit, outlives: false }
    }

    /// This invocation, where what it leaves in the background is to outlive the agent.
    #[must_use]
    pub fn outliving(self) -> Self {
        Self { outlives: true, ..self }
    }

    /// This invocation, which may take so long.
    #[must_use]
    pub fn within(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Name and arguments.
    #[must_use]
    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// Longest it may run.
    #[must_use]
    pub const fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// Name of the program.
    #[must_use]
    pub fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// Its package, empty when unknown.
    #[must_use]
    pub fn package(&self) -> &str {
        &self.package
    }

    /// This invocation with more words at its end.
    #[must_use]
    pub fn with(mut self, words: &[String]) -> Self {
        self.argv.extend_from_slice(words);
        self
    }

    /// This invocation with `{device}` and `{point}` replaced.
    #[must_use]
    pub fn placed(&self, device: &Path, point: &Path) -> Self {
        let place = |word: &String| {
            word.replace("{device}", &device.to_string_lossy()).replace("{point}", &point.to_string_lossy())
        };
        Self { argv: self.argv.iter().map(place).collect(), ..self.clone() }
    }

    /// Runs it; any exit status is a success here.
    ///
    /// # Errors
    /// When it is missing, cannot be started or does not end in time.
    pub fn run(&self, session: &mut Session) -> Result<Output, ToolError> {
        let timeout_ms = u64::try_from(self.time_limit.as_millis()).unwrap_or(u64::MAX);
        let argv = self.argv.clone();
        let ended = if self.outlives {
            session.call(call::StartServer { argv, timeout_ms })
        } else {
            session.call(call::RunTool { argv, timeout_ms })
        };
        match ended {
            Ok(ToolOutput { status, stdout, stderr, elapsed_ns, .. }) => {
                Ok(Output { status, stdout, stderr, elapsed: Duration::from_nanos(elapsed_ns) })
            }
            Err(TargetError::Failed { failure, .. }) if failure.kind == FailureKind::Missing => {
                Err(ToolError::Missing { program: self.program().to_owned(), package: self.package.clone() })
            }
            Err(source) => Err(ToolError::NotRun { command: self.to_string(), source }),
        }
    }

    /// Runs it and takes any status but 0 for a failure.
    ///
    /// # Errors
    /// As [`Invocation::run`], and when the status is not 0.
    pub fn run_checked(&self, session: &mut Session) -> Result<Output, ToolError> {
        let output = self.run(session)?;
        if output.status == 0 { Ok(output) } else { Err(self.failed(&output)) }
    }

    /// The error of a run whose status means failure.
    #[must_use]
    pub fn failed(&self, output: &Output) -> ToolError {
        ToolError::Status { command: self.to_string(), status: output.status, tail: output.tail() }
    }
}

impl Output {
    /// What it said on stderr, or on stdout when stderr is empty: the first line (some programs explain
    /// themselves at length after the error) and as many of the last as fit into about 400 characters.
    #[must_use]
    pub fn tail(&self) -> String {
        let text = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let Some((first, rest)) = lines.split_first() else { return String::new() };
        let mut length = first.len();
        let fits = |line: &&&str| {
            length += line.len() + 3;
            length <= 400
        };
        let kept = rest.iter().rev().take_while(fits).count();
        let gap = if kept < rest.len() { &["…"][..] } else { &[] };
        [&[*first], gap, &rest[rest.len() - kept..]].concat().join(" | ")
    }
}

impl fsage_model::problem::Explain for ToolError {
    fn exit_code(&self) -> u8 {
        fsage_model::problem::exit_code_of(self.kind())
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}

impl fmt::Display for Invocation {
    /// As a shell would read it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, word) in self.argv.iter().enumerate() {
            if position > 0 {
                f.write_str(" ")?;
            }
            f.write_str(&quote(word))?;
        }
        Ok(())
    }
}

/// A word as a POSIX shell would have to be given it.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::protocol::Failure;

    use super::*;
    use crate::target::Target;
    use fsage_model::protocol::{Call as _, Request};

    #[test]
    fn words_are_quoted_for_a_shell() {
        let argv = ["mke2fs", "-O", "^has_journal", "-L", "my disk", "it's", ""];
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let invocation = Invocation::new(argv, String::new(), Duration::from_secs(1));
        assert_eq!(invocation.to_string(), r"mke2fs -O ^has_journal -L 'my disk' 'it'\''s' ''");
    }

    #[test]
    fn the_tail_is_the_first_and_the_last_of_stderr() {
        let output = Output {
            status: 1,
            stdout: "out\n".into(),
            stderr: "a\n\n b \n".into(),
            elapsed: Duration::ZERO,
        };
        assert_eq!(output.tail(), "a | b");
        let silent = Output { stderr: String::new(), ..output.clone() };
        assert_eq!(silent.tail(), "out");
        let long = Output { stderr: "x".repeat(1000), ..output };
        assert_eq!(long.tail().len(), 1000, "one line is never lost");
        let many = Output { stderr: format!("error\n{}", "usage\n".repeat(100)), ..long.clone() };
        assert!(many.tail().starts_with("error | … | usage | usage") && many.tail().len() < 420);
        assert_eq!(Output { stdout: String::new(), stderr: String::new(), ..long }.tail(), "");
    }

    #[test]
    fn a_missing_program_says_what_to_install() {
        let failure =
            Failure { message: "no".into(), hint: String::new(), errno: Some(2), kind: FailureKind::Missing };
        let mut session = Target::scripted(Box::new(move |_, _| Some(Err(failure.clone()))));
        let error = mkfs_xfs::PROGRAM.invoke(vec![]).run(&mut session).expect_err("missing");
        assert_eq!(error.to_string(), "`mkfs.xfs` is not installed");
        assert_eq!(error.hint().as_deref(), Some("install it with `apt-get install xfsprogs`"));
        assert_eq!(error.kind(), FailureKind::Missing);
    }

    #[test]
    fn a_failing_program_is_quoted() {
        let mut session = Target::scripted(Box::new(|request, _| {
            let Request::RunTool(run) = request else { return None };
            let stderr = "mkfs.xfs: cannot open /dev/null/x\n".to_owned();
            let argv = run.argv.clone();
            Some(run.reply(&ToolOutput { argv, status: 1, stdout: String::new(), stderr, elapsed_ns: 5 }))
        }));
        let invocation = mkfs_xfs::PROGRAM.invoke(vec!["/dev/null/x".into()]);
        assert_eq!(invocation.run(&mut session).expect("a reply").status, 1);
        let error = invocation.run_checked(&mut session).expect_err("status 1");
        assert_eq!(
            error.to_string(),
            "`mkfs.xfs /dev/null/x` ended with status 1: mkfs.xfs: cannot open /dev/null/x"
        );
        assert_eq!(error.kind(), FailureKind::Failed);
        assert_eq!(error.hint(), None);
    }

    #[test]
    fn a_dead_fuse_server_is_named() {
        let tail =
            "ERROR: cannot check mount status of /dev/loop1: Transport endpoint is not connected".into();
        let error = ToolError::Status { command: "mkfs.btrfs".into(), status: 1, tail };
        assert_eq!(error.hint().as_deref(), Some(DEAD_SERVER));
    }
}
