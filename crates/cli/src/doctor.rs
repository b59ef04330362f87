//! `fsage doctor`: shows what [`fsage_lab::doctor`] found.

use std::fmt::Write as _;

use clap::Args;
use fsage_model::problem::{EXIT_MISSING, EXIT_OK, Problem};
use fsage_model::protocol::call;

use super::terminal::Terminal;
use super::{session, text};
use fsage_lab::doctor::{Check, Diagnosis, State, examine};

/// Longest detail shown, in characters.
const DETAIL: usize = 72;

/// Arguments of `fsage doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Exits with 0 if everything that `fsage run` needs is available, else with 3.")]
pub struct DoctorArgs {}

/// Examines the host.
pub(crate) fn run(_args: &DoctorArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let diagnosis = examine(session::ask(call::HostFacts)?);
    if terminal.json {
        terminal.json(&diagnosis)?;
    } else {
        terminal.result(&show(&diagnosis, terminal))?;
    }
    Ok(if diagnosis.ready { EXIT_OK } else { EXIT_MISSING })
}

fn show(diagnosis: &Diagnosis, terminal: &Terminal) -> String {
    let host = &diagnosis.host;
    let mut text = format!(
        "{}\n  {}\n  {}, {}{}\n",
        terminal.bold(&format!("{}, Linux {}, {}", host.distribution, host.kernel, host.machine)),
        host.cpu_model,
        text::plural(u64::from(host.cpus), "CPU", "CPUs"),
        text::size(host.memory_bytes),
        if host.virtualisation.is_empty() { String::new() } else { format!(", {}", host.virtualisation) },
    );
    let width = diagnosis.checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let mut group = "";
    for check in &diagnosis.checks {
        if check.group != group {
            group = check.group;
            let _ = write!(text, "\n{}\n", terminal.bold(group));
        }
        let detail: String = check.detail.chars().take(DETAIL).collect();
        let _ = writeln!(text, "  {}  {:<width$}  {detail}", mark(check, terminal), check.name);
    }
    let verdict = if diagnosis.ready {
        terminal.paint("1;32", "Everything that `fsage run` needs is here.")
    } else {
        terminal.paint("1;31", "`fsage run` cannot run the shipped studies here: see `missing` above.")
    };
    let _ = write!(text, "\n{verdict}\n");
    if !diagnosis.install.is_empty() {
        let _ = writeln!(text, "To install what is missing:\n  {}", diagnosis.install);
    }
    text
}

fn mark(check: &Check, terminal: &Terminal) -> String {
    match check.state {
        State::Ok => terminal.paint("32", "ok     "),
        State::Missing => terminal.paint("1;31", "missing"),
        State::Absent => terminal.paint("33", "absent "),
    }
}
