//! The search of a study: what is wrong with it, what its budget can show, and the cells of its runs.

use std::collections::BTreeMap;

use fsage_model::metric;
use fsage_model::nearest::nearest;
use fsage_model::number::grouped;
use fsage_model::search::{Configuration, MOST_OPTIONS, Method, foresee};
use fsage_model::study::{
    FileSystemOptions, SEARCH, SearchSpec, Space, StageSpec, StudySpec, added, is_mount, is_option_of_another,
};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::schema::Problem;
use super::validate::Checker;
use super::{Cell, Study, identity, path, validate};

/// Runs of a search, at most; more is taken for a mistake.
const BUDGET_LIMIT: u32 = 10_000;

/// Paths that an option may set.
const PATHS: &str = "`volume.scheduler`, those below `volume.queue`, `file_system.options.KIND.mount` and \
                     `file_system.options.KIND.mkfs.NAME`";

/// What the budget of one search can show, said before anything is run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchForesight {
    /// The cell of the matrix; empty when there is only one.
    pub cell: String,
    /// Options.
    pub options: usize,
    /// Runs, at most.
    pub budget: usize,
    /// The least gain that matters, as a share.
    pub least_gain: f64,
    /// Assumed noise of one run, as a share.
    pub noise: f64,
    /// Chance to find an option that gains so much; absent of a greedy search, which has none to speak of.
    pub power: Option<f64>,
    /// Runs with which the chance is 80 %; absent likewise.
    pub needed_runs: Option<usize>,
}

impl SearchForesight {
    /// One sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let cell = if self.cell.is_empty() { String::new() } else { format!("{}: ", self.cell) };
        let head = format!("{cell}search of {} options in at most {} runs", self.options, self.budget);
        let (Some(power), Some(needed)) = (self.power, self.needed_runs) else {
            return format!("{head}, greedy: a gain of one run is mostly noise");
        };
        format!(
            "{head}: an option that gains {} is found with a chance of {:.0} % where a run has {} of noise; \
             80 % takes {} runs",
            short(self.least_gain),
            100.0 * power,
            short(self.noise),
            grouped(u64::try_from(needed).unwrap_or(u64::MAX))
        )
    }
}

/// A share in percent, without zeros at its end.
fn short(share: f64) -> String {
    let number = format!("{:.3}", 100.0 * share);
    format!("{} %", number.trim_end_matches('0').trim_end_matches('.'))
}

/// What each search of a study can show; none without a search.
#[must_use]
pub fn foresight(study: &Study) -> Vec<SearchForesight> {
    let Some(search) = &study.spec.search else { return Vec::new() };
    // A study that runs has the cells of runs as well.
    let cells: Vec<&Cell> = study.cells.iter().filter(|cell| !cell.factors.contains_key(SEARCH)).collect();
    let of_cell = |cell: &Cell| {
        let problem = space(search, &cell.spec).problem;
        let found = (problem.method == Method::Evidence).then(|| foresee(&problem, search.noise));
        SearchForesight {
            cell: words(cell, cells.len()),
            options: problem.options,
            budget: problem.budget,
            least_gain: problem.least_gain,
            noise: search.noise,
            power: found.map(|found| found.power),
            needed_runs: found.map(|found| found.needed_runs),
        }
    };
    cells.iter().copied().map(of_cell).collect()
}

/// The factors of a cell in words; empty when it is the only one.
pub(crate) fn words(cell: &Cell, cells: usize) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let values = cell.factors.iter().filter(|(path, _)| *path != SEARCH).map(|(_, value)| text(value));
    if cells > 1 { values.collect::<Vec<_>>().join(", ") } else { String::new() }
}

/// The options of the search on a cell.
pub(crate) fn space(search: &SearchSpec, cell: &StudySpec) -> Space {
    search.space(&cell.file_system.kind, cell.seed)
}

/// The cell of a run: that of the matrix with the settings of the options.
///
/// # Errors
/// What the file system's driver says against them.
pub(crate) fn configured(cell: &Cell, space: &Space, set: Configuration) -> Result<Cell, Vec<Problem>> {
    let none = BTreeMap::new();
    let settings_of = |name: &str| cell.spec.search.as_ref()?.option.get(name);
    let mut value = serde_json::to_value(&cell.spec).unwrap_or_default();
    let mut null: Vec<Value> = Vec::new();
    for name in set.options().filter_map(|option| space.options.get(option)) {
        let settings = settings_of(name).unwrap_or(&none);
        if settings.is_empty() {
            null.push(name.as_str().into());
        }
        for (at, wanted) in settings {
            if is_option_of_another(at, &cell.spec.file_system.kind) {
                continue;
            }
            let place = ["search", "option", name, at].map(str::to_owned);
            put(&mut value, at, wanted).map_err(|why| vec![Problem::new(&place, why)])?;
        }
    }
    if !null.is_empty() {
        value["null_options"] = null.into();
    }
    let at = ["search".to_owned(), "option".to_owned()];
    let spec = StudySpec::deserialize(&value)
        .map_err(|error| vec![Problem::new(&at, format!("a value does not fit its setting: {error}"))])?;
    let file_system = validate::cell(&spec)?;
    let mut factors = cell.factors.clone();
    factors.insert(SEARCH.to_owned(), space.label(set).into());
    Ok(Cell { factors, spec, file_system })
}

/// Puts a value at a path; mount options are added to those that are there.
fn put(value: &mut Value, at: &str, wanted: &Value) -> Result<(), String> {
    let segments = path::resolve(value, at).map_err(|error| error.to_string())?;
    let mut wanted = wanted.clone();
    if is_mount(at) {
        let texts = |list: &Value| serde_json::from_value::<Vec<String>>(list.clone()).ok();
        let more = texts(&wanted).ok_or("a list of mount options is expected")?;
        let own = path::get(value, &segments).and_then(texts).unwrap_or_default();
        wanted = added(&own, &more).into();
    }
    path::set(value, &segments, wanted).map_err(|error| error.to_string())
}

/// Problems of the search that do not depend on a cell.
pub(super) fn check(check: &mut Checker, spec: &StudySpec) {
    check.require(!spec.matrix.contains_key(SEARCH), "matrix", || {
        format!("`{SEARCH}` is the factor that a search makes: the matrix cannot have it")
    });
    let Some(search) = &spec.search else { return };
    check.require(spec.repeats == 1, "repeats", || {
        "a search chooses the number of runs itself: leave `repeats` out".to_owned()
    });
    check.require(spec.controls.is_none(), "controls", || {
        "a search has its own controls: options that are known to gain nothing (`search.null`)".to_owned()
    });
    let limit = |share: f64| share > 0.0 && share <= 1.0;
    for (key, value) in [("least_gain", search.least_gain), ("noise", search.noise)] {
        check.require(limit(value), &format!("search.{key}"), || {
            format!("{value} is not a share: above 0 and at most 1, such as 0.02 for 2 %")
        });
    }
    check.require(search.wear.is_none_or(|most| most >= 1.01 && most.is_finite()), "search.wear", || {
        "the ratio to what is written without options is at least 1.01, such as 1.1 for a tenth more"
            .to_owned()
    });
    let ages = spec.stages().any(|stage| matches!(stage, StageSpec::Age(_)));
    check.require(search.wear.is_none() || ages, "search.wear", || {
        "the written amount is known for `age` stages only, and the study has none".to_owned()
    });
    check.require(search.wear.is_none() || search.method == Method::Evidence, "search.wear", || {
        "a greedy search takes no account of it: leave it out".to_owned()
    });
    check.require(search.budget <= BUDGET_LIMIT, "search.budget", || {
        format!("{} is too large: at most {BUDGET_LIMIT}", search.budget)
    });
    options(check, search);
    score(check, spec, search);
}

fn options(check: &mut Checker, search: &SearchSpec) {
    check.require(!search.option.is_empty(), "search.option", || "there is no option to search".to_owned());
    for (name, settings) in &search.option {
        let at = format!("search.option.{name}");
        check.path_name(&at, name);
        check.require(name != fsage_model::study::BASE, &at, || {
            "that is what runs without options are called: choose another name".to_owned()
        });
        check.require(!settings.is_empty() || search.null.contains(name), &at, || {
            "it sets nothing; as a control that gains nothing it has to be named in `search.null`".to_owned()
        });
        for path in settings.keys().filter(|path| !is_allowed(path)) {
            let place = ["search", "option", name, path].map(str::to_owned);
            let message = "an option cannot set this".to_owned();
            let hint = Some(format!("options set {PATHS}; anything else is a factor of the matrix"));
            check.problems.push(Problem { path: place.to_vec(), message, hint });
        }
    }
    let mut named = |key: &str, name: &str| {
        if !search.option.contains_key(name) {
            let path = format!("search.{key}").split('.').map(str::to_owned).collect();
            let near = nearest(name, search.option.keys().map(String::as_str));
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            check.problems.push(Problem { path, message: format!("there is no option `{name}`"), hint });
        }
    };
    search.only.iter().for_each(|name| named("only", name));
    search.null.iter().for_each(|name| named("null", name));
    for (index, set) in search.clashes.iter().enumerate() {
        set.iter().for_each(|name| named(&format!("clashes.{index}"), name));
    }
    for (index, set) in search.clashes.iter().enumerate() {
        let twice = set.iter().enumerate().any(|(n, name)| set[..n].contains(name));
        check.require(set.len() > 1 && !twice, &format!("search.clashes.{index}"), || {
            "name two or more different options that exclude each other".to_owned()
        });
    }
}

/// Whether an option may set this: only what the file system and the queue do, never what runs on which device.
fn is_allowed(path: &str) -> bool {
    let parts: Vec<&str> = path.split('.').collect();
    // Quotes would name the same setting by another text.
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let is_whole = matches!(parts.as_slice(), ["volume", "queue", "iosched"]);
    let is_known = matches!(
        parts.as_slice(),
        ["volume", "scheduler"]
            | ["volume", "queue", _]
            | ["volume", "queue", "iosched", _]
            | ["file_system", "options", _, "mount"]
            | ["file_system", "options", _, "mkfs", _]
    );
    is_plain && !is_whole && is_known
}

fn score(check: &mut Checker, spec: &StudySpec, search: &SearchSpec) {
    let known: Vec<String> = spec.workloads().into_iter().flat_map(|workload| workload.metrics).collect();
    check.require(!search.score.is_empty() || !known.is_empty(), "search.score", || {
        "no stage measures anything that counts by itself: name the metrics of the score".to_owned()
    });
    for (index, part) in search.score.iter().enumerate() {
        let at = format!("search.score.{index}");
        check.positive(&format!("{at}.weight"), part.weight);
        if !is_metric(spec, &known, &part.metric) {
            let path = format!("{at}.metric").split('.').map(str::to_owned).collect();
            let near = nearest(&part.metric, known.iter().map(String::as_str));
            let hint = near
                .or_else(|| known.first().map(String::as_str))
                .map(|near| format!("did you mean `{near}`?"));
            let message = format!("no stage of the study measures `{}`", part.metric);
            check.problems.push(Problem { path, message, hint });
        }
    }
}

/// Whether the study's trials may have a metric of this name.
fn is_metric(spec: &StudySpec, known: &[String], name: &str) -> bool {
    // What stands below a measure or a point of fio is known only from its results.
    let stem =
        |known: &str| known.strip_suffix(&format!(".{}", metric::BANDWIDTH)).unwrap_or(known).to_owned();
    let below =
        |stem: &str| name.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    if known.iter().any(|known| below(&stem(known))) {
        return true;
    }
    let of_stage = |stage: &StageSpec| match stage {
        StageSpec::Age(_) => {
            ["age.", "latency.", "use.", "free.", "layout."].iter().any(|begin| name.starts_with(begin))
        }
        StageSpec::Lockstep(_) => true,
        _ => false,
    };
    let named = |stage: &StageSpec| name.strip_prefix(stage.name()).is_some_and(|rest| rest.starts_with('.'));
    spec.stages().any(|stage| of_stage(stage) || named(stage))
}

/// Problems of the search on the cells of the matrix: options that resolve to nothing, to the same, or to what the
/// driver refuses, and budgets that cannot tell anything.
pub(super) fn check_cells(spec: &StudySpec, cells: &[Cell]) -> Vec<Problem> {
    let Some(search) = &spec.search else { return Vec::new() };
    let mut problems = Vec::new();
    for cell in cells {
        let of_cell = words(cell, cells.len());
        let on = if of_cell.is_empty() { String::new() } else { format!(" on {of_cell}") };
        let space = space(search, &cell.spec);
        problems.extend(check_base(search, cell, &on));
        if problems.is_empty() {
            problems.extend(check_number(search, &space, &cell.spec.file_system.kind, &on));
        }
        if problems.is_empty() {
            problems.extend(check_settings(search, cell, &space, &on));
        }
        if !problems.is_empty() {
            break;
        }
    }
    problems
}

/// What is required of options has to hold without any.
fn check_base(search: &SearchSpec, cell: &Cell, on: &str) -> Option<Problem> {
    let problem = |message: String, hint: &str| {
        Some(Problem {
            path: vec!["search".to_owned(), "require".to_owned()],
            message,
            hint: Some(hint.to_owned()),
        })
    };
    let own = &cell.spec.file_system;
    let options = own.options.get(&own.kind).map(FileSystemOptions::listed).unwrap_or_default();
    search.require.iter().find_map(|requirement| match requirement.holds(&own.kind, &options) {
        Some(true) => None,
        Some(false) => problem(
            format!("`{requirement}` does not hold{on} without any option"),
            "leave the file system out of the matrix, or its options in `file_system.options` that give this up",
        ),
        None => problem(
            format!("what `{}` promises after a power cut is unknown, so `{requirement}` cannot be judged", own.kind),
            "search it without `require`, and try the result with a study of power cuts (docs/power.md)",
        ),
    })
}

/// Too many options, none, or a budget that cannot tell anything.
fn check_number(search: &SearchSpec, space: &Space, kind: &str, on: &str) -> Option<Problem> {
    let problem = |key: &str, message: String, hint: Option<String>| {
        Some(Problem { path: vec!["search".to_owned(), key.to_owned()], message, hint })
    };
    let options = space.problem.options;
    let nulls = space.null.len();
    if u32::try_from(options).is_ok_and(|options| options == nulls) {
        let unfit = search.unfit(kind);
        let hint = (!unfit.is_empty())
            .then(|| format!("`search.require` leaves out {}", unfit.join(", ")))
            .or_else(|| (nulls > 0).then(|| "there are only controls, which gain nothing".to_owned()));
        return problem("option", format!("there is no option to search{on}"), hint);
    }
    if options > MOST_OPTIONS {
        let hint = Some("name those to search in `search.only`".to_owned());
        return problem(
            "option",
            format!("{options} options{on} are too many: at most {MOST_OPTIONS}"),
            hint,
        );
    }
    let budget = space.problem.budget;
    if search.method == Method::Greedy {
        let least = options + 1;
        let message =
            format!("{budget} runs{on} cannot try the base and {options} options: at least {least}");
        return (budget < least).then(|| problem("budget", message, None)).flatten();
    }
    let found = foresee(&space.problem, search.noise);
    if budget >= found.least_runs {
        return None;
    }
    let message = format!(
        "{budget} runs{on} can tell nothing about {options} options: at least {} are needed",
        found.least_runs
    );
    let (gain, noise) = (short(search.least_gain), short(search.noise));
    let hint = format!(
        "about {} runs find a gain of {gain} in 80 of 100 searches where a run has {noise} of noise; or search \
         fewer options (`search.only`)",
        found.needed_runs
    );
    problem("budget", message, Some(hint))
}

fn check_settings(search: &SearchSpec, cell: &Cell, space: &Space, on: &str) -> Vec<Problem> {
    let place = |option: usize| vec!["search".to_owned(), "option".to_owned(), space.options[option].clone()];
    let at =
        |option: usize, message: String, hint: Option<String>| Problem { path: place(option), message, hint };
    let base = identity::canonical(&cell.spec);
    let mut problems = Vec::new();
    let mut seen: Vec<(usize, String)> = Vec::new();
    for option in 0..space.problem.options {
        let name = &space.options[option];
        match configured(cell, space, Configuration::BASE.with(option)) {
            Err(found) => {
                problems.extend(found.into_iter().map(|found| at(option, found.message, found.hint)))
            }
            Ok(own) => {
                let text = identity::canonical(&own.spec);
                let hint = Some("a control has no settings and is named in `search.null`".to_owned());
                if cell.spec.volume.is_model_time() && schedules(search, name) {
                    let message =
                        format!("`{name}` sets how requests wait{on}, which has no effect in model time");
                    let hint =
                        "leave it out of `search.only`, or search on a loop file or a device".to_owned();
                    problems.push(at(option, message, Some(hint)));
                } else if text == base {
                    problems.push(at(option, format!("`{name}` changes nothing{on}"), hint));
                } else if let Some((other, _)) = seen.iter().find(|(_, known)| *known == text) {
                    let other = &space.options[*other];
                    problems.push(at(option, format!("`{name}` sets the same as `{other}`{on}"), None));
                }
                seen.push((option, text));
            }
        }
    }
    if problems.is_empty() && search.method == Method::Evidence {
        // Each option has a text of its own by now.
        problems.extend(check_pairs(cell, space, on, &seen));
    }
    problems
}

/// Whether an option sets what only waiting requests notice: the scheduler and the queue, but not what is read ahead and how
/// requests are merged.
fn schedules(search: &SearchSpec, name: &str) -> bool {
    search.option.get(name).is_some_and(|settings| settings.keys().any(|path| is_of_queue(path)))
}

fn is_of_queue(path: &str) -> bool {
    path == "volume.scheduler"
        || (path.starts_with("volume.queue.")
            && !matches!(path, "volume.queue.read_ahead_kb" | "volume.queue.nomerges"))
}

/// Pairs of options must clash where the driver refuses them together, and where one of them sets all that the other sets:
/// designs set any two that do not clash, and two runs would be one. `single`: each option and what it alone makes of the study.
fn check_pairs(cell: &Cell, space: &Space, on: &str, single: &[(usize, String)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let canonical = |set| configured(cell, space, set).map(|own| identity::canonical(&own.spec));
    let is_alone =
        |option: usize, both: &String| single.iter().any(|(of, text)| *of == option && text == both);
    for a in 0..space.problem.options {
        for b in (0..a).filter(|b| !space.problem.clash(a, *b)) {
            let (one, other) = (&space.options[a], &space.options[b]);
            let message = match canonical(Configuration::BASE.with(a).with(b)) {
                Err(found) => {
                    let why = found.first().map_or(String::new(), |found| format!(": {}", found.message));
                    format!("`{other}` and `{one}` cannot be set together{on}{why}")
                }
                Ok(both) if is_alone(a, &both) => {
                    format!("`{one}` sets all that `{other}` sets{on}, so that both together are `{one}`")
                }
                Ok(both) if is_alone(b, &both) => {
                    format!("`{other}` sets all that `{one}` sets{on}, so that both together are `{other}`")
                }
                Ok(_) => continue,
            };
            problems.push(Problem {
                path: vec!["search".to_owned(), "option".to_owned(), one.clone()],
                message,
                hint: Some(format!("say so: `clashes = [[\"{other}\", \"{one}\"]]`")),
            });
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use fsage_model::study::VolumeSpec;

    use super::*;
    use crate::study::{Consent, Overrides, parse};

    const STUDY: &str = r#"
name = "tuned"
title = "t"
question = "q"
volume = { kind = "loop", size = "1GiB" }
[file_system]
kind = "ext4"
options.ext4.mount = ["commit=5"]
[[stage]]
kind = "age"
stop.operations = 10
workload = { kind = "drift", slots = 50, file_size = { kind = "fixed", size = "8KiB" } }
[[stage]]
kind = "measure"
measures = [{ kind = "grep" }]
[search]
budget = 30
"#;

    fn read(search: &str) -> Result<Study, String> {
        let text = format!("{STUDY}{search}");
        parse("tuned.toml".as_ref(), text, &Overrides::default(), Consent::Given)
            .map_err(|error| fsage_model::problem::Problem::from(error).render(false))
    }

    const OPTIONS: &str = r#"
[search.option.noatime]
"file_system.options.ext4.mount" = ["noatime"]
[search.option.commit-30]
"file_system.options.ext4.mount" = ["commit=30"]
[search.option.no-journal]
"file_system.options.ext4.mkfs.journal" = false
[search.option.kyber]
"volume.scheduler" = "kyber"
[search.option.btrfs-ssd]
"file_system.options.btrfs.mount" = ["ssd"]
"#;

    #[test]
    fn options_compose_into_the_cells_of_runs() {
        let study = read(OPTIONS).unwrap();
        let cell = &study.cells[0];
        let space = space(study.spec.search.as_ref().unwrap(), &cell.spec);
        assert_eq!(space.options, ["commit-30", "kyber", "no-journal", "noatime"]);
        let all = configured(cell, &space, (0..4).collect()).unwrap();
        let options = &all.spec.file_system.options["ext4"];
        assert_eq!(options.mount, ["commit=30", "noatime"]);
        assert_eq!(options.mkfs["journal"], Value::Bool(false));
        let scheduler = serde_json::to_value(&all.spec.volume).unwrap()["scheduler"].clone();
        assert_eq!(
            (scheduler, &all.factors[SEARCH]),
            ("kyber".into(), &"commit-30 + kyber + no-journal + noatime".into())
        );
        let base = configured(cell, &space, Configuration::BASE).unwrap();
        assert_eq!(identity::canonical(&base.spec), identity::canonical(&cell.spec));
        let found = foresight(&study);
        assert_eq!((found[0].options, found[0].budget), (4, 30));
        assert!(
            found[0]
                .text()
                .starts_with("search of 4 options in at most 30 runs: an option that gains 2 % is")
        );
    }

    #[test]
    fn controls_without_settings_are_runs_of_their_own() {
        let study = read("null = [\"aa\"]\nonly = [\"aa\", \"kyber\"]\n[search.option.aa]\n[search.option.kyber]\n\"volume.scheduler\" = \"kyber\"").unwrap();
        let cell = &study.cells[0];
        let space = space(study.spec.search.as_ref().unwrap(), &cell.spec);
        let own = configured(cell, &space, Configuration::BASE.with(0)).unwrap();
        assert_ne!(identity::canonical(&own.spec), identity::canonical(&cell.spec));
        assert_eq!(own.spec.file_system, cell.spec.file_system);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_way_out() {
        for (search, wanted) in [
            ("option = {}", "there is no option to search"),
            ("[search.option.a]\n\"volume.size\" = \"2GiB\"", "an option cannot set this"),
            ("[search.option.a]", "has to be named in `search.null`"),
            ("[search.option.A]\n\"volume.scheduler\" = \"none\"", "must be lower-case letters"),
            (
                "only = [\"kyper\"]\n[search.option.kyber]\n\"volume.scheduler\" = \"kyber\"",
                "did you mean `kyber`?",
            ),
            (
                "clashes = [[\"kyber\"]]\n[search.option.kyber]\n\"volume.scheduler\" = \"kyber\"",
                "two or more different",
            ),
            (
                "score = [{ metric = \"grap\" }]\n[search.option.kyber]\n\"volume.scheduler\" = \"kyber\"",
                "did you mean `grep`?",
            ),
            ("wear = 0.9\n[search.option.kyber]\n\"volume.scheduler\" = \"kyber\"", "is at least 1.01"),
            (
                "wear = 1.1\nmethod = \"greedy\"\n[search.option.a]\n\"volume.scheduler\" = \"none\"",
                "takes no account of it",
            ),
            ("least_gain = 0.0\n[search.option.kyber]\n\"volume.scheduler\" = \"kyber\"", "is not a share"),
            ("[search.option.a]\n\"file_system.options.ext4.mount\" = [\"commit=5\"]", "`a` changes nothing"),
            ("[search.option.a]\n\"file_system.options.ext4.mount\" = [\"logdev=/dev/x\"]", "logdev"),
            (
                "[search.option.a]\n\"file_system.options.ext4.mount\" = \"noatime\"",
                "a list of mount options is expected",
            ),
            ("[search.option.a]\n\"volume.scheduler\" = 3", "does not fit its setting"),
            (
                "[search.option.a]\n\"file_system.options.xfs.mount\" = [\"noatime\"]",
                "there is no option to search",
            ),
            (
                "[search.option.a]\n\"volume.scheduler\" = \"none\"\n[search.option.b]\n\"volume.scheduler\" = \"none\"",
                "`b` sets the same as `a`",
            ),
            (
                "method = \"gready\"\n[search.option.a]\n\"volume.scheduler\" = \"none\"",
                "did you mean `greedy`?",
            ),
        ] {
            let error = read(search).unwrap_err();
            assert!(error.contains(wanted), "{search}: {error}");
        }
    }

    #[test]
    fn what_is_required_leaves_options_out_and_has_to_hold_without_any() {
        let require = "require = [\"survives-power-cut\"]\n";
        let study = read(&format!("{require}{OPTIONS}")).unwrap();
        let space = space(study.spec.search.as_ref().unwrap(), &study.cells[0].spec);
        assert_eq!(space.options, ["commit-30", "kyber", "noatime"]);
        let refused = |study: &str| {
            let read = parse("t.toml".as_ref(), study.to_owned(), &Overrides::default(), Consent::Given);
            fsage_model::problem::Problem::from(read.unwrap_err()).render(false)
        };
        let without = STUDY.replace("\"commit=5\"", "\"barrier=0\"");
        let error = refused(&format!("{without}{require}{OPTIONS}"));
        assert!(error.contains("`survives-power-cut` does not hold without any option"), "{error}");
        let unknown =
            STUDY.replace("kind = \"ext4\"\noptions.ext4.mount = [\"commit=5\"]", "kind = \"other\"");
        let driver = "[driver.other]\nmkfs = [\"true\", \"{device}\"]\n";
        let error = refused(&format!("{unknown}{require}{OPTIONS}{driver}"));
        assert!(error.contains("what `other` promises after a power cut is unknown"), "{error}");
    }

    #[test]
    fn settings_of_the_queue_are_options_and_are_checked() {
        let option = |settings: &str| format!("[search.option.a]\n{settings}\n");
        let study =
            read(&option("\"volume.scheduler\" = \"bfq\"\n\"volume.queue.iosched.slice_idle_us\" = 0"))
                .unwrap();
        let space = space(study.spec.search.as_ref().unwrap(), &study.cells[0].spec);
        let own = configured(&study.cells[0], &space, Configuration::BASE.with(0)).unwrap();
        let VolumeSpec::Loop { scheduler, queue, .. } = &own.spec.volume else {
            panic!("{:?}", own.spec.volume)
        };
        assert_eq!(
            (scheduler.as_deref(), queue.settings()),
            (Some("bfq"), vec![("iosched/slice_idle_us".to_owned(), 0)])
        );
        for (settings, wanted) in [
            ("\"volume.queue.nr_requests\" = 1", "1 is not possible: from 4"),
            ("\"volume.queue.iosched\" = { slice_idle_us = 0 }", "an option cannot set this"),
            ("\"volume.queue.\\\"nr_requests\\\"\" = 8", "an option cannot set this"),
            ("\"volume.queue.nr_request\" = 8", "does not fit its setting"),
            ("\"volume.queue.iosched.slice_idel_us\" = 8", "did you mean `slice_idle_us`?"),
            (
                "\"volume.scheduler\" = \"kyber\"\n\"volume.queue.iosched.slice_idle_us\" = 8",
                "set `scheduler = \"bfq\"`",
            ),
        ] {
            let error = read(&option(settings)).unwrap_err();
            assert!(error.contains(wanted), "{settings}: {error}");
        }
    }

    #[test]
    fn options_that_contain_others_have_to_clash() {
        let two = "[search.option.a]\n\"volume.scheduler\" = \"bfq\"\n[search.option.b]\n\"volume.scheduler\" = \"bfq\"\n\
                   \"volume.queue.iosched.low_latency\" = 0\n";
        let error = read(two).unwrap_err();
        assert!(error.contains("`b` sets all that `a` sets, so that both together are `b`"), "{error}");
        assert!(error.contains("clashes = [[\"a\", \"b\"]]"), "{error}");
        read(&format!("clashes = [[\"a\", \"b\"]]\n{two}")).unwrap();
    }

    #[test]
    fn a_limit_on_what_is_written_needs_ageing_and_a_require_that_leaves_nothing_is_named() {
        let refused = |study: &str| {
            let read = parse("t.toml".as_ref(), study.to_owned(), &Overrides::default(), Consent::Given);
            fsage_model::problem::Problem::from(read.unwrap_err()).render(false)
        };
        let (head, rest) = STUDY.split_once("[[stage]]\n").unwrap();
        let without = format!("{head}{}", &rest[rest.find("[[stage]]").unwrap()..]);
        let error = refused(&format!("{without}wear = 1.1\n{OPTIONS}"));
        assert!(error.contains("the written amount is known for `age` stages only"), "{error}");
        read(&format!("wear = 1.1\n{OPTIONS}")).unwrap();
        let error = refused(&format!(
            "{STUDY}require = [\"survives-power-cut\"]\nonly = [\"no-journal\", \"same\"]\nnull = [\"same\"]\n[search.option.same]\n{OPTIONS}"
        ));
        assert!(error.contains("`search.require` leaves out no-journal"), "{error}");
    }

    #[test]
    fn budgets_and_numbers_that_cannot_be_are_refused_with_what_is_needed() {
        let small = STUDY.replace("budget = 30", "budget = 8");
        let refused = |text: String| {
            let read = parse("tuned.toml".as_ref(), text, &Overrides::default(), Consent::Given);
            fsage_model::problem::Problem::from(read.unwrap_err()).render(false)
        };
        let error = refused(format!("{small}{OPTIONS}"));
        assert!(error.contains("8 runs can tell nothing about 4 options: at least 14 are needed"), "{error}");
        assert!(error.contains("runs find a gain of 2 % in 80 of 100 searches"), "{error}");
        let greedy = STUDY.replace("budget = 30", "budget = 4\nmethod = \"greedy\"");
        assert!(refused(format!("{greedy}{OPTIONS}")).contains("at least 5"));
        let option = |n: usize| format!("[search.option.o{n}]\n\"volume.scheduler\" = \"s{n}\"\n");
        let many: String = (0..41).map(option).collect();
        assert!(refused(format!("{STUDY}{many}")).contains("41 options are too many: at most 40"));
        let model = STUDY.replace("kind = \"loop\"", "medium = \"ssd\"");
        assert!(refused(format!("{model}{OPTIONS}")).contains("which has no effect in model time"));
        let repeated = STUDY.replace("title", "repeats = 2\ntitle");
        assert!(refused(format!("{repeated}{OPTIONS}")).contains("leave `repeats` out"));
    }
}
