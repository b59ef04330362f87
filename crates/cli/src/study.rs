//! `fsage study`: study files without running them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use fsage_model::escape;
use fsage_model::problem::{EXIT_OK, EXIT_USAGE, Problem};

use super::foresight;
use super::terminal::Terminal;
use fsage_lab::study::{self, Consent, SearchForesight, StudyCheck};

/// Arguments of `fsage study`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct StudyArgs {
    /// What to do with studies.
    #[command(subcommand)]
    pub action: StudyAction,
}

/// What to do with studies.
#[derive(Debug, Subcommand)]
pub enum StudyAction {
    /// Check study files: syntax, keys, values, and that every trial resolves
    Check(CheckArgs),
    /// List the studies of a directory
    List(ListArgs),
    /// Print the JSON Schema of study files, for editors
    Schema,
}

/// Arguments of `fsage study check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Study files
    #[arg(value_name = "STUDY", required = true)]
    pub studies: Vec<PathBuf>,

    /// Allow reading files and folders that the studies name outside their own folders
    #[arg(long)]
    pub allow_commands: bool,
}

/// Arguments of `fsage study list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Directory of study files
    #[arg(value_name = "DIR", default_value = "studies")]
    pub directory: PathBuf,
}

/// Does it.
pub(crate) fn run(args: &StudyArgs, terminal: &Terminal) -> Result<u8, Problem> {
    match &args.action {
        StudyAction::Schema => {
            terminal.json(&study::schema())?;
            Ok(EXIT_OK)
        }
        StudyAction::Check(args) => check(args, terminal),
        StudyAction::List(args) => list(args, terminal),
    }
}

/// Every study is checked even when one is wrong; the worst exit code counts.
fn check(args: &CheckArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let consent = if args.allow_commands { Consent::Given } else { Consent::Below(None) };
    let mut code = EXIT_OK;
    let mut found = Vec::new();
    for path in &args.studies {
        match study::check(path, consent, &foresight::unjudged) {
            Ok(check) if terminal.json => found.push(check),
            Ok(check) => terminal.result(&format!(
                "{}: {}\n{}{}{}",
                path.display(),
                words(&check),
                searches(&check),
                on_host(&check),
                unjudged(&check)
            ))?,
            Err(error) => {
                let problem = Problem::from(error);
                terminal.error(&problem);
                code = code.max(problem.exit_code);
            }
        }
    }
    if terminal.json {
        terminal.json(&found)?;
    }
    Ok(code)
}

fn words(check: &StudyCheck) -> String {
    let trials: Vec<String> =
        check.trials.iter().map(|(preset, trials)| format!("{} {trials}", escape::line(preset))).collect();
    format!("ok, trials: {}; {} of {} claims are checked", trials.join(", "), check.claims.0, check.claims.1)
}

/// What the budgets of searches can show, before hours are spent on them.
fn searches(check: &StudyCheck) -> String {
    let of = |(preset, found): (&String, &Vec<SearchForesight>)| {
        let line =
            |one: &SearchForesight| format!("  {}: {}\n", escape::line(preset), escape::line(&one.text()));
        found.iter().map(line).collect::<String>()
    };
    check.searches.iter().map(of).collect()
}

/// Presets that mount what no kernel wrote.
fn on_host(check: &StudyCheck) -> String {
    let line = |preset: &String| {
        format!("  {}: has drives with flash faults, and runs only with --on-host\n", escape::line(preset))
    };
    check.on_host.iter().map(line).collect()
}

/// Lines on the claims that a preset cannot judge, before hours are spent on it.
fn unjudged(check: &StudyCheck) -> String {
    let of = |(preset, claims): (&String, &BTreeMap<String, String>)| {
        let head = format!("  {} cannot judge {} of the claims:\n", escape::line(preset), claims.len());
        let lines = foresight::lines(claims);
        lines.iter().fold(head, |out, line| format!("{out}    {}\n", escape::line(line)))
    };
    check.unjudged.iter().map(of).collect()
}

fn list(args: &ListArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let studies = study::list(&args.directory);
    if terminal.json {
        terminal.json(&studies)?;
        return Ok(EXIT_OK);
    }
    if studies.is_empty() {
        return Err(Problem::new(EXIT_USAGE, format!("no study in `{}`", args.directory.display())));
    }
    let rows: Vec<Vec<String>> = studies
        .iter()
        .map(|study| {
            vec![
                escape::line(&study.name).into_owned(),
                escape::line(if study.error.is_empty() { &study.title } else { &study.error }).into_owned(),
            ]
        })
        .collect();
    let width = rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
    let lines: Vec<String> = rows.iter().map(|row| format!("{:<width$}  {}\n", row[0], row[1])).collect();
    terminal.result(&lines.concat())?;
    Ok(EXIT_OK)
}
