//! A program of the user's as the load: its command line, and what is said of it.

use std::fmt::Write as _;

use fsage_model::crash::{ProgramReport, ProgramSpec};
use fsage_model::escape;
use fsage_model::problem::{EXIT_USAGE, Problem};
use fsage_model::quantity::as_f64;

use super::CrashArgs;

/// The programs of a command line; none where it names no load.
pub(super) fn resolve(args: &CrashArgs) -> Result<Option<ProgramSpec>, Problem> {
    let Some(check) = &args.check else { return Ok(None) };
    let check: Vec<String> = check.split_whitespace().map(str::to_owned).collect();
    if check.is_empty() {
        let problem = Problem::new(EXIT_USAGE, "`--check` names no program");
        return Err(problem.hint("name one, as --check ./check.sh"));
    }
    Ok(Some(ProgramSpec {
        load: absolute(&args.program)?,
        check: absolute(&check)?,
        load_timeout_ms: u64::from(args.load_timeout) * 1000,
        check_timeout_ms: u64::from(args.check_timeout) * 1000,
    }))
}

/// The program by its absolute path, where it is given by a path: it runs in another directory. It must be
/// there; a name without a slash is found in `PATH`.
fn absolute(words: &[String]) -> Result<Vec<String>, Problem> {
    let mut words = words.to_vec();
    let Some(program) = words.first_mut().filter(|program| program.contains('/')) else { return Ok(words) };
    let name = escape::line(program).into_owned();
    let no = |error: &std::io::Error| {
        Problem::new(EXIT_USAGE, format!("there is no program {name}"))
            .because(error)
            .hint("name a program by its path, or one that is in PATH")
    };
    let path = std::path::absolute(&*program).map_err(|error| no(&error))?;
    path.metadata().map_err(|error| no(&error))?;
    *program = path.into_os_string().into_string().map_err(|_| {
        Problem::new(EXIT_USAGE, format!("the path of {name} is not UTF-8"))
            .hint("call it by a path that is UTF-8")
    })?;
    Ok(words)
}

/// The load, as the summary begins; its command line where it has no `name`.
pub(super) fn what(program: &ProgramReport, name: Option<String>) -> String {
    let command = || escape::line(&program.program.load.join(" ")).into_owned();
    format!(
        "load {}: {} acknowledgements in {:.1} s",
        name.unwrap_or_else(command),
        program.acknowledged,
        as_f64(program.elapsed_ns) / 1e9
    )
}

/// What the user should know of the programs.
pub(super) fn notes(program: &ProgramReport) -> String {
    let mut words = String::new();
    if program.undecided > 0 {
        let _ = writeln!(
            words,
            "  {} undecided: the check did not end within {} s",
            program.undecided,
            program.program.check_timeout_ms / 1000
        );
    }
    if program.timed_out {
        let seconds = program.program.load_timeout_ms / 1000;
        let _ = writeln!(words, "  the load was ended after {seconds} s (--load-timeout for a program)");
    }
    if program.left > 0 {
        let _ = writeln!(
            words,
            "  the load left {} running, ended with it: use a load that does not daemonise",
            processes(program.left)
        );
    }
    if program.left_by_check > 0 {
        let _ = writeln!(words, "  the check left processes running in {} states", program.left_by_check);
    }
    if program.acknowledged == 0 {
        words.push_str("  the load acknowledged nothing (no line `ack TEXT`): nothing had to survive\n");
    }
    if program.flushes == 0 {
        words.push_str("  no flush reached the disk while the load ran: nothing that it wrote was durable\n");
    }
    words
}

fn processes(count: u64) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}
