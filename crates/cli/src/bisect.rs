//! `fsage bisect`: which of a row of kernels made a study slower.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use fsage_analysis::compare::gate::{Fired, Gate, Outcome, outcomes};
use fsage_analysis::compare::{Options, compare};
use fsage_lab::bisect::{Built, Commit, Search, Tree, Verdict};
use fsage_lab::guest::kernel;
use fsage_lab::run::{RunOptions, RunSummary, TrialState, run_study};
use fsage_model::escape;
use fsage_model::problem::{EXIT_CANNOT_TELL, EXIT_OK, EXIT_USAGE, Problem};
use serde::Serialize;

use super::run::Screen;
use super::terminal::Terminal;
use super::{compare as compared, text};

const AFTER_HELP: &str = "\
Each kernel boots in a guest and runs the study's trials; a gate compares them with those of the first kernel, as `fsage
compare --fail-if` does. Kernels that do not build, boot or complete the trials are skipped. The same command resumes an
interrupted search: each kernel has its own store below DIR.

Examples:
  sudo fsage bisect regress.toml --kernels 6.1.0-47,6.1.0-52,6.12 --fail-if 'age.model_time > 1.05'
  sudo fsage bisect regress.toml --tree /src/linux --good v6.11 --bad v6.12 --build ./build.sh --fail-if 'age.model_time > 1.02'";

/// Arguments of `fsage bisect`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct BisectArgs {
    /// The study's TOML file, or the name of a study that comes with fsage
    #[arg(value_name = "STUDY")]
    pub study: PathBuf,
    /// Call a kernel bad when a metric's ratio to the first kernel passes a limit, such as 'read > 1.05' (may be repeated)
    #[arg(long, value_name = "EXPR", required = true)]
    pub fail_if: Vec<String>,
    /// Kernels, from a good one to a bad one: fetched versions, or folders of built trees
    #[arg(
        long,
        value_name = "KERNEL,KERNEL",
        value_delimiter = ',',
        conflicts_with = "tree",
        required_unless_present = "tree"
    )]
    pub kernels: Vec<String>,
    /// Git repository whose commits are built and tested
    #[arg(long, value_name = "DIR", requires_all = ["good", "bad", "build"])]
    pub tree: Option<PathBuf>,
    /// Good revision
    #[arg(long, value_name = "REVISION", requires = "tree")]
    pub good: Option<String>,
    /// Bad revision, which follows the good one
    #[arg(long, value_name = "REVISION", requires = "tree")]
    pub bad: Option<String>,
    /// Shell command that builds a commit in its work tree (docs/targets.md lists what it must produce)
    #[arg(long, value_name = "COMMAND", requires = "tree")]
    pub build: Option<String>,
    /// Use the study's `quick` preset
    #[arg(long, conflicts_with = "preset")]
    pub quick: bool,
    /// Use this preset of the study
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Change the study: a dotted path and a TOML value; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Folder for the stores of all kernels
    #[arg(long, value_name = "DIR", default_value = "bisect")]
    pub store: PathBuf,
    /// Run the commands that the study contains (`[driver]`), as root
    #[arg(long)]
    pub allow_commands: bool,
}

/// A kernel of the row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    /// As it is reported.
    name: String,
    /// Its folder below the one of all stores.
    folder: String,
    /// As a study names it.
    kernel: String,
    commit: Option<Commit>,
}

/// What `fsage bisect` prints as JSON.
#[derive(Debug, Serialize)]
struct Found<'a> {
    /// The last good one.
    good: &'a str,
    /// The first bad one, of those that could be tried.
    first_bad: &'a str,
    /// What changed from the one to the other, a sentence for each metric that makes the last kernel bad.
    change: &'a [String],
    /// Those between them, which could not be tried, and why.
    skipped: Vec<(&'a str, &'a str)>,
    steps: &'a [Step],
}

/// One kernel that was tried.
#[derive(Debug, Serialize)]
struct Step {
    kernel: String,
    /// `good`, `bad` or `skipped`.
    verdict: &'static str,
    /// Why it is bad or was skipped.
    why: String,
}

/// Searches.
pub(crate) fn run(args: &BisectArgs, terminal: &Terminal) -> Result<u8, Problem> {
    super::require_root("running a study")?;
    let gates: Vec<Gate> = args.fail_if.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let (tree, row) = row(args)?;
    let followed = BTreeSet::new();
    let mut bisection = Bisection { args, terminal, gates, tree, row, steps: Vec::new(), followed };
    bisection.search()
}

/// The kernels in their order.
fn row(args: &BisectArgs) -> Result<(Option<Tree>, Vec<Candidate>), Problem> {
    let (Some(tree), Some(good), Some(bad)) = (&args.tree, &args.good, &args.bad) else {
        return Ok((None, named(&args.kernels)?));
    };
    let usage = |error: std::io::Error| Problem {
        hint: None,
        ..Problem::new(EXIT_USAGE, format!("cannot use {}: {error}", args.store.display()))
    };
    std::fs::create_dir_all(&args.store).map_err(usage)?;
    let work = args.store.canonicalize().map_err(usage)?.join("tree");
    let tree = Tree::open(tree, &work, good, bad)?;
    let candidate = |commit: &Commit| {
        let short = commit.id.get(..12).unwrap_or(&commit.id);
        Candidate {
            name: format!("{short} {}", commit.subject),
            folder: short.to_owned(),
            kernel: work.display().to_string(),
            commit: Some(commit.clone()),
        }
    };
    let row = tree.commits.iter().map(candidate).collect();
    Ok((Some(tree), row))
}

fn named(kernels: &[String]) -> Result<Vec<Candidate>, Problem> {
    if kernels.len() < 2 {
        let hint = Some("give `--kernels` a good and a bad kernel, and those between them".to_owned());
        return Err(Problem {
            hint,
            ..Problem::new(EXIT_USAGE, "a search needs at least two kernels".to_owned())
        });
    }
    let candidate = |name: &String| {
        // Looked for now: a version that was not fetched is no kernel that fails.
        let found = kernel::find(name, None)?;
        let folder = found.release.clone();
        Ok(Candidate { name: found.release, folder, kernel: name.clone(), commit: None })
    };
    let row = kernels.iter().map(candidate).collect::<Result<Vec<_>, Problem>>()?;
    let twice = row
        .iter()
        .enumerate()
        .find(|(index, one)| row[..*index].iter().any(|other| other.folder == one.folder));
    match twice {
        Some((_, one)) => {
            let hint = Some(
                "name each kernel once; a version stands for the newest fetched kernel of it".to_owned(),
            );
            Err(Problem { hint, ..Problem::new(EXIT_USAGE, format!("{} is given twice", one.name)) })
        }
        None => Ok(row),
    }
}

struct Bisection<'a> {
    args: &'a BisectArgs,
    terminal: &'a Terminal,
    gates: Vec<Gate>,
    tree: Option<Tree>,
    row: Vec<Candidate>,
    steps: Vec<Step>,
    /// The metrics, with their places, that made the last kernel bad: these are followed.
    followed: BTreeSet<(String, String)>,
}

/// What ends a search before its end.
enum Ended {
    /// With this exit code; why was reported.
    Code(u8),
    Problem(Problem),
}

impl From<Problem> for Ended {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl Bisection<'_> {
    fn search(&mut self) -> Result<u8, Problem> {
        match self.searched() {
            Ok(search) => self.tell(&search).map(|()| EXIT_OK),
            Err(Ended::Code(code)) => Ok(code),
            Err(Ended::Problem(problem)) => Err(problem),
        }
    }

    fn searched(&mut self) -> Result<Search, Ended> {
        let last = self.row.len() - 1;
        if let Some(why) = self.trials(0)? {
            return Err(self.end_cannot(0, &why).into());
        }
        match self.step(last)? {
            Verdict::Bad => {}
            Verdict::Skipped(why) => return Err(self.end_cannot(last, &why).into()),
            Verdict::Good => {
                let why =
                    format!("{} is not bad: no gate fires against {}", self.row[last].name, self.row[0].name);
                let hint = Some("`fsage compare` of their stores shows what differs".to_owned());
                return Err(Problem { hint, ..Problem::new(EXIT_USAGE, why) }.into());
            }
        }
        let fired = self.fired(&self.outcomes(last)?);
        self.followed = fired.into_iter().map(|Fired { metric, context, .. }| (metric, context)).collect();
        let mut search = Search::new(self.row.len());
        while let Some(index) = search.next() {
            let left = u64::from(search.steps_left());
            self.terminal.note(&format!("{} left at most", text::plural(left, "step", "steps")));
            let verdict = self.step(index)?;
            search.judge(index, verdict);
        }
        Ok(search)
    }

    /// An end of the row that cannot be tried.
    fn end_cannot(&self, index: usize, why: &str) -> Problem {
        let hint =
            Some("the first and the last kernel must complete the study's trials: name others".to_owned());
        Problem { hint, ..Problem::new(EXIT_USAGE, format!("{}: {why}", self.row[index].name)) }
    }

    /// Tries a kernel.
    fn step(&mut self, index: usize) -> Result<Verdict, Ended> {
        let (verdict, word, why) = match self.trials(index)? {
            Some(why) => (Verdict::Skipped(why.clone()), "skipped", why),
            None => match self.judged(index)?.as_slice() {
                [] => (Verdict::Good, "good", String::new()),
                fired => (Verdict::Bad, "bad", in_words(fired)),
            },
        };
        let kernel = self.row[index].name.clone();
        let more = if why.is_empty() { String::new() } else { format!(": {why}") };
        self.terminal.note(&escape::line(&format!("{kernel} is {word}{more}")));
        self.steps.push(Step { kernel, verdict: word, why });
        Ok(verdict)
    }

    /// Builds a kernel and does the study's trials on it: why that could not be done, if it could not.
    fn trials(&self, index: usize) -> Result<Option<String>, Ended> {
        let candidate = &self.row[index];
        self.terminal.note(&escape::line(&format!("trying {}", candidate.name)));
        if let (Some(tree), Some(commit), Some(build)) = (&self.tree, &candidate.commit, &self.args.build) {
            match tree.build(commit, build).map_err(Problem::from)? {
                Built::Yes => {}
                Built::No(why) => return Ok(Some(why)),
                Built::Interrupted(signal) => return Err(Ended::Code(interrupted(signal))),
            }
        }
        let kernel = toml_string(&candidate.kernel);
        let set = self.args.set.iter().cloned();
        let options = RunOptions {
            study: self.args.study.clone(),
            quick: self.args.quick,
            preset: self.args.preset.clone(),
            set: set.chain(["target.kind=\"guest\"".to_owned(), format!("target.kernel={kernel}")]).collect(),
            store: Some(self.store(index)),
            dry_run: false,
            erase: Vec::new(),
            allow_commands: self.args.allow_commands,
            on_host: false,
            jobs: 1,
            only: None,
        };
        let mut screen = Screen::new(self.terminal, 1);
        let summary = run_study(&options, &mut screen);
        screen.end();
        let summary = match summary {
            Ok(summary) => summary,
            // A tree that lacks something, or a guest that does not boot: nothing of the study is wrong then.
            Err(error) if error.is_of_kernel() => return Ok(Some(fsage_model::cause::in_one_line(&error))),
            Err(error) => return Err(Problem::from(error).into()),
        };
        if summary.interrupted_by.is_some() {
            return Err(Ended::Code(summary.exit_code()));
        }
        Ok(failure(&summary))
    }

    fn store(&self, index: usize) -> PathBuf {
        self.args.store.join(&self.row[index].folder)
    }

    /// What the gates say of a kernel against the first.
    fn outcomes(&self, index: usize) -> Result<Vec<Outcome>, Problem> {
        let side = |path: &Path| compared::side(&path.to_string_lossy());
        let (first, this) = (side(&self.store(0))?, side(&self.store(index))?);
        let comparison = compare(&first, &this, &Options::default())?;
        Ok(outcomes(&self.gates, &comparison)?)
    }

    /// The metrics that make a kernel bad; none: it is good. Where one does not tell, the search ends.
    fn judged(&self, index: usize) -> Result<Vec<Fired>, Ended> {
        let outcomes = self.outcomes(index)?;
        let open =
            |gate: &Outcome| gate.cannot_tell.iter().any(|row| self.is_followed(&row.metric, &row.context));
        let is_open = outcomes.iter().any(open);
        let fired = self.fired(&outcomes);
        if !fired.is_empty() || !is_open {
            return Ok(fired);
        }
        let name = &self.row[index].name;
        self.terminal
            .warn(&escape::line(&format!("{name}: neither good nor bad, its interval contains the limit")));
        for outcome in &outcomes {
            outcome.warnings().iter().for_each(|warning| self.terminal.warn(warning));
            if let Some(power) = outcome.power() {
                self.terminal.note(&power);
            }
        }
        self.terminal.note(
            "more repeats narrow it: the same command with a larger `--set repeats=…` keeps completed trials",
        );
        Err(Ended::Code(EXIT_CANNOT_TELL))
    }

    /// Whether a metric counts: all do until the last kernel has said which made it bad.
    fn is_followed(&self, metric: &str, context: &str) -> bool {
        self.followed.is_empty() || self.followed.contains(&(metric.to_owned(), context.to_owned()))
    }

    /// Which metrics make a kernel bad.
    fn fired(&self, outcomes: &[Outcome]) -> Vec<Fired> {
        let fired = outcomes.iter().flat_map(|gate| &gate.fired);
        fired.filter(|one| self.is_followed(&one.metric, &one.context)).cloned().collect()
    }

    /// What changed from the last good kernel to the first bad one, which nothing has tested so far: a metric that changes a little with
    /// every kernel passes its limit somewhere.
    fn change(&self, good: usize, bad: usize) -> Result<Vec<String>, Problem> {
        let side = |index: usize| compared::side(&self.store(index).to_string_lossy());
        let comparison = compare(&side(good)?, &side(bad)?, &Options::default())?;
        let rows = comparison.rows.iter().filter(|row| self.is_followed(&row.metric, &row.context));
        Ok(rows.map(|row| format!("{}: {}", row.metric, row.words)).collect())
    }

    fn tell(&self, search: &Search) -> Result<(), Problem> {
        let (good, bad) = search.between();
        let name = |index: usize| self.row[index].name.as_str();
        let why =
            |kernel: &str| self.steps.iter().find(|step| step.kernel == kernel).map_or("", |step| &step.why);
        let skipped: Vec<(&str, &str)> =
            (good + 1..bad).map(|index| (name(index), why(name(index)))).collect();
        let change = self.change(good, bad)?;
        if self.terminal.json {
            let found = Found {
                good: name(good),
                first_bad: name(bad),
                change: &change,
                skipped,
                steps: &self.steps,
            };
            return self.terminal.json(&found);
        }
        let mut out =
            format!("last good  {}\nfirst bad  {}\n", escape::line(name(good)), escape::line(name(bad)));
        let evidence = why(name(bad));
        if !evidence.is_empty() {
            out.push_str(&format!(
                "           against {}: {}\n",
                escape::line(name(0)),
                escape::line(evidence)
            ));
        }
        for line in &change {
            out.push_str(&format!(
                "           against {}: {}\n",
                escape::line(name(good)),
                escape::line(line)
            ));
        }
        if !skipped.is_empty() {
            out.push_str("One of these may be the first bad one; they could not be tested:\n");
        }
        for (name, why) in skipped {
            out.push_str(&format!("  {}: {}\n", escape::line(name), escape::line(why)));
        }
        let (first, last) = (self.store(good), self.store(bad));
        out.push_str(&format!("\nNext: fsage compare {} {}\n", first.display(), last.display()));
        self.terminal.result(&out)
    }
}

/// The exit code of a run that was ended by a signal.
const fn interrupted(signal: i32) -> u8 {
    if signal == 15 { 143 } else { 130 }
}

fn in_words(fired: &[Fired]) -> String {
    let words = |Fired { metric, context, ratio, .. }: &Fired| {
        let place = if context.is_empty() { String::new() } else { format!(" ({context})") };
        format!("{metric}{place} is at {ratio:.3}")
    };
    fired.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// Why not all trials are complete.
fn failure(summary: &RunSummary) -> Option<String> {
    let failed = summary
        .trials
        .iter()
        .find(|trial| trial.state != TrialState::Complete && trial.state != TrialState::Kept)?;
    let why = if failed.error.is_empty() { "a trial did not complete" } else { failed.error.as_str() };
    Some(escape::line(why).into_owned())
}

/// A text as TOML has it.
fn toml_string(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
