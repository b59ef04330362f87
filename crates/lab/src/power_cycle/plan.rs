//! The file of a board: read, checked, and its commands with the values of a configuration in place.
//!
//! Its commands run as the caller. So root reads a file only where no other user could have written it or may
//! exchange it (`--allow-foreign-owner` allows it).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_engine::host::tool::look_up;
use fsage_model::power_cycle::{AfterDamage, CommandSpec, PLACES, PowerCycleSpec, Turn};
use fsage_model::quantity::as_f64;
use fsage_sys::{input, new_file};
use rustix::process::geteuid;

use super::PowerCycleError;
use crate::study::schema::Problem;
use crate::study::{is_path_name, nearest, typed};

/// Longest time that a file may name, in seconds: 30 days.
const LONGEST_S: f64 = 30.0 * 86_400.0;

/// A board's file, checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it says.
    pub spec: PowerCycleSpec,
    /// Its text.
    pub text: String,
    /// Its folder, in which the commands run.
    pub folder: PathBuf,
}

impl Plan {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// It cannot be read, root may not believe it, or what is wrong with it and where.
    pub fn load(path: &Path) -> Result<Self, PowerCycleError> {
        let failed = |source| PowerCycleError::Read { path: path.to_owned(), source };
        let is_checked = geteuid().is_root() && !new_file::is_foreign_allowed();
        let file = if is_checked { new_file::open_unnamed(path) } else { input::open(path) };
        let text = input::text_of(file.map_err(failed)?, input::TEXT_LIMIT).map_err(failed)?;
        let whole = std::path::absolute(path).map_err(failed)?;
        let folder = whole.parent().unwrap_or(Path::new("/")).to_owned();
        let schema = schemars::schema_for!(PowerCycleSpec).to_value();
        let spec = typed::parse(path, &text, &schema, problems)?;
        Ok(Self { spec, text, folder })
    }

    /// Digest of all that decides what a cycle is: a record may get more cycles, and commands more time.
    #[must_use]
    pub fn digest(&self) -> String {
        let spec = PowerCycleSpec { cycles: 0, timeout: Default::default(), ..self.spec.clone() };
        // A struct of texts and numbers always has a JSON form.
        let text = serde_json::to_string(&spec).unwrap_or_default();
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }

    /// The commands of a turn.
    #[must_use]
    pub fn commands(&self, turn: &Turn) -> CommandSpec {
        let mut values = self.spec.configuration.get(&turn.configuration).cloned().unwrap_or_default();
        let own = [turn.configuration.clone(), turn.life.to_string(), turn.cycle.to_string()];
        values.extend(PLACES.map(str::to_owned).into_iter().zip(own));
        let filled = |argv: &[String]| -> Vec<String> {
            // Every name was looked for when the file was checked.
            let mut argv: Vec<String> =
                argv.iter().map(|word| fill(word, &values).unwrap_or_default()).collect();
            if let Some(program) = argv.first_mut().filter(|program| program.contains('/')) {
                *program = self.folder.join(&*program).to_string_lossy().into_owned();
            }
            argv
        };
        let command = &self.spec.command;
        CommandSpec {
            power_off: filled(&command.power_off),
            power_on: filled(&command.power_on),
            boot_id: filled(&command.boot_id),
            prepare: filled(&command.prepare),
            check: filled(&command.check),
            mount: filled(&command.mount),
            verify: filled(&command.verify),
            unmount: filled(&command.unmount),
            load: filled(&command.load),
        }
    }

    /// Looks every program up, before anything is cut.
    ///
    /// # Errors
    /// One is missing.
    pub fn find_programs(&self) -> Result<(), PowerCycleError> {
        for configuration in self.spec.configuration.keys() {
            let turn =
                Turn { configuration: configuration.clone(), life: 1, cycle: 1, acknowledged_bytes: 0 };
            for (step, argv) in self.commands(&turn).all() {
                let Some(program) = argv.first() else { continue };
                if look_up(program).is_none() {
                    return Err(PowerCycleError::Missing { step, program: program.clone() });
                }
            }
        }
        Ok(())
    }

    /// How long the load of a turn runs before the cut: uniform, from the seed and the place of the turn alone, so
    /// that a cycle that is done again has the same.
    #[must_use]
    pub fn cut_after(&self, turn: &Turn) -> Duration {
        let mut hash = blake3::Hasher::new();
        for number in [self.spec.seed, turn.life, turn.cycle] {
            hash.update(&number.to_le_bytes());
        }
        hash.update(turn.configuration.as_bytes());
        let mut bytes = [0; 8];
        hash.finalize_xof().fill(&mut bytes);
        // 53 bits: as many as a double holds exactly.
        let share = as_f64(u64::from_le_bytes(bytes) >> 11) / as_f64(1 << 53);
        let [least, most] = self.spec.cut_after_s;
        seconds((most - least).mul_add(share, least))
    }
}

/// A checked number of seconds.
pub(super) fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or_default()
}

/// The text with values in the place of `{NAME}`, and `{` of `{{`.
///
/// # Errors
/// The name that has no value.
fn fill(text: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
            filled.push_str(&from[..1]);
            rest = after;
        } else if let Some((name, after)) = from.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            filled.push_str(values.get(name).ok_or_else(|| name.to_owned())?);
            rest = after;
        } else {
            filled.push_str(&from[..1]);
            rest = &from[1..];
        }
    }
    Ok(filled + rest)
}

fn problem(path: &[&str], message: impl Into<String>, hint: &str) -> Problem {
    let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
    Problem { hint: Some(hint.to_owned()).filter(|hint| !hint.is_empty()), ..Problem::new(&path, message) }
}

/// What is invalid in a file that fits the schema.
fn problems(spec: &PowerCycleSpec) -> Vec<Problem> {
    let mut problems = numbers(spec);
    const NAMED: &str = "1 to 60 of a-z, 0-9 and -";
    if !is_path_name(&spec.name) {
        problems.push(problem(&["name"], "it becomes the name of a folder", NAMED));
    }
    if spec.configuration.is_empty() {
        let hint = "write `[configuration.default]`";
        problems.push(problem(&["configuration"], "at least one is needed", hint));
    }
    for (name, values) in &spec.configuration {
        if !is_path_name(name) {
            problems.push(problem(&["configuration", name], "it becomes a part of a file's name", NAMED));
        }
        for key in values.keys().filter(|key| PLACES.contains(&key.as_str())) {
            let hint = "{configuration}, {life} and {cycle} have their values; choose another name";
            problems.push(problem(&["configuration", name, key], "this name is reserved", hint));
        }
    }
    problems.extend(commands(spec));
    let is_remade = spec.after_damage == AfterDamage::Prepare
        || spec.configuration.len() > 1
        || spec.cycles_per_life.is_some();
    if is_remade && spec.command.prepare.is_empty() {
        let message = "`prepare` is missing: more than one life, of one configuration or several, needs new file systems";
        problems.push(problem(&["command"], message, ""));
    }
    problems
}

fn numbers(spec: &PowerCycleSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    let [least, most] = spec.cut_after_s;
    if !(least >= 0.0 && least <= most && most <= LONGEST_S) {
        let hint = "write the least and the most seconds, as [2, 60]";
        problems.push(problem(&["cut_after_s"], "it is not two times in ascending order", hint));
    }
    if !(0.0..=LONGEST_S).contains(&spec.off_for_s) {
        problems.push(problem(&["off_for_s"], "it is not between 0 and 30 days", ""));
    }
    let limits = &spec.timeout;
    for (key, limit) in
        [("check_s", limits.check_s), ("boot_s", limits.boot_s), ("command_s", limits.command_s)]
    {
        if !(limit > 0.0 && limit <= LONGEST_S) {
            problems.push(problem(&["timeout", key], "it is not above 0 and at most 30 days", ""));
        }
    }
    for (key, count) in [("cycles", Some(spec.cycles)), ("cycles_per_life", spec.cycles_per_life)] {
        if count == Some(0) {
            problems.push(problem(&[key], "it must be at least 1", ""));
        }
    }
    let undecided = spec.undecided.all().map(|(key, list)| (vec!["undecided", key], list));
    for (path, list) in undecided.into_iter().chain([(vec!["check_repaired"], &*spec.check_repaired)]) {
        if list.contains(&0) {
            problems.push(problem(&path, "status 0 says that nothing is wrong", ""));
        }
    }
    if let Some(both) = spec.check_repaired.iter().find(|status| spec.undecided.check.contains(status)) {
        problems.push(problem(&["undecided", "check"], format!("{both} is in `check_repaired` too"), ""));
    }
    problems
}

fn commands(spec: &PowerCycleSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, argv) in spec.command.all() {
        let is_named = argv.first().is_some_and(|program| !program.is_empty());
        let is_left_out = key == "prepare" && argv.is_empty();
        if !is_named && !is_left_out {
            let hint = "write a list of words, as [\"ssh\", \"board\", \"true\"]";
            problems.push(problem(&["command", key], "it names no program", hint));
        }
        for (index, word) in argv.iter().enumerate() {
            for (configuration, values) in &spec.configuration {
                let mut values = values.clone();
                values.extend(PLACES.map(|place| (place.to_owned(), String::new())));
                let Err(name) = fill(word, &values) else { continue };
                let near = nearest(&name, values.keys().map(String::as_str));
                let near = near.map_or_else(String::new, |near| format!("did you mean {{{near}}}? "));
                let hint = format!("{near}double a brace that is not part of a name");
                let message = format!("[configuration.{configuration}] has no value for {{{name}}}");
                problems.push(problem(&["command", key, &index.to_string()], message, &hint));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_model::problem::Explain as _;

    const BOARD: &str = r#"
name = "panda"
cut_after_s = [2, 60]
[command]
power_off = ["true"]
power_on = ["true"]
boot_id = ["./id.sh"]
prepare = ["true"]
check = ["true"]
mount = ["sh", "-c", "echo {options} {life}.{cycle} {{x}}"]
verify = ["true"]
unmount = ["true"]
load = ["true"]
[configuration.default]
options = "defaults"
[configuration.fast]
options = "nobarrier"
"#;

    fn load(text: &str) -> Result<Plan, PowerCycleError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("board.toml");
        std::fs::write(&path, text).unwrap();
        Plan::load(&path)
    }

    fn turn(life: u64, cycle: u64) -> Turn {
        Turn { configuration: "fast".to_owned(), life, cycle, acknowledged_bytes: 0 }
    }

    #[test]
    fn commands_get_the_values_of_their_configuration() {
        let plan = load(BOARD).unwrap();
        let commands = plan.commands(&turn(2, 7));
        assert_eq!(commands.mount, ["sh", "-c", "echo nobarrier 2.7 {x}"]);
        assert_eq!(commands.boot_id, [plan.folder.join("./id.sh").to_string_lossy()]);
        let missing = plan.find_programs().unwrap_err();
        assert!(matches!(&missing, PowerCycleError::Missing { step: "boot_id", .. }), "{missing}");
        assert_eq!(missing.exit_code(), 3);
    }

    #[test]
    fn a_cut_depends_on_the_seed_and_the_turn_alone_and_fills_its_range() {
        let plan = load(BOARD).unwrap();
        let times: Vec<f64> = (1..=500).map(|cycle| plan.cut_after(&turn(1, cycle)).as_secs_f64()).collect();
        assert_eq!(plan.cut_after(&turn(1, 9)), plan.cut_after(&turn(1, 9)));
        assert_ne!(plan.cut_after(&turn(1, 9)), plan.cut_after(&turn(2, 9)));
        assert!(times.iter().all(|time| (2.0..60.0).contains(time)));
        // The mean of 500 has a standard error of 58 ÷ √12 ÷ √500 = 0.75 s.
        let mean = times.iter().sum::<f64>() / 500.0;
        assert!((mean - 31.0).abs() < 3.0, "{mean}");
    }

    #[test]
    fn more_cycles_and_more_time_are_the_same_board_and_another_command_is_not() {
        let digest = |text: &str| load(text).unwrap().digest();
        let first = digest(BOARD);
        let more = format!("cycles = 7\n{BOARD}[timeout]\ncheck_s = 9\n");
        assert_eq!(digest(&more), first);
        assert_ne!(digest(&BOARD.replace("nobarrier", "barrier")), first);
    }

    #[test]
    fn the_examples_are_valid() {
        for text in [
            include_str!("../../../../docs/examples/power-cycle/board.toml"),
            include_str!("../../../../docs/examples/power-cycle/disk.toml"),
        ] {
            let plan = load(text).unwrap();
            assert_eq!(plan.spec.configuration.len(), 2);
            // What mount(8) and e2fsck(8) say of a destroyed superblock is damage; that e2fsck was cancelled is not.
            let undecided = &plan.spec.undecided;
            assert!(!undecided.says_nothing("mount", 32) && !undecided.says_nothing("check", 8));
            assert!(undecided.says_nothing("check", 32) && undecided.says_nothing("mount", 255));
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (from, to, said) in [
            ("cut_after_s", "cut_aftr_s", "did you mean `cut_after_s`?"),
            ("{options}", "{option}", "did you mean {options}?"),
            ("[2, 60]", "[60, 2]", "in ascending order"),
            ("[2, 60]", "[-1, 2]", "in ascending order"),
            ("\"panda\"", "\"../x\"", "name of a folder"),
            ("prepare = [\"true\"]\n", "", "`prepare` is missing"),
            ("check = [\"true\"]", "check = []", "names no program"),
            ("options = \"nobarrier\"", "", "[configuration.fast] has no value for {options}"),
            ("options = \"nobarrier\"", "options = \"\"\nlife = \"\"", "this name is reserved"),
            ("name =", "undecided.check = [1]\nname =", "is in `check_repaired` too"),
            ("name =", "cycles = 0\nname =", "at least 1"),
        ] {
            let error = load(&BOARD.replacen(from, to, 1)).unwrap_err();
            let text = format!("{error} {}", error.hint().unwrap_or_default());
            assert!(text.contains(said), "{said}: {text}");
            assert_eq!(error.exit_code(), 2, "{text}");
        }
    }
}
