//! Studies: what is shipped loads, and what is wrong is said with its place.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::Path;

use fsage_lab::study::{Consent, Overrides, Study, StudyError, check, list, load, parse};
use fsage_model::problem::Explain;

const SMALL: &str = r#"name = "small"
title = "t"
question = "q"
seed = 1

[volume]
kind = "loop"
size = "300MiB"

[file_system]
kind = "ext4"

[[stage]]
kind = "age"
stop.operations = 100

[stage.workload]
kind = "drift"
slots = 50
file_size = { kind = "fixed", size = "8KiB" }

[matrix]
"file_system.kind" = ["ext4", "xfs"]

[preset.quick]
stage.age.stop.operations = 10
"#;

fn read(text: &str, set: &[&str]) -> Result<Study, StudyError> {
    let overrides = Overrides { preset: None, set: set.iter().map(|s| (*s).to_owned()).collect() };
    parse(Path::new("small.toml"), text.to_owned(), &overrides, Consent::Given)
}

/// Error text and hint of a study changed by `--set`.
fn refused(text: &str, set: &[&str]) -> (String, String) {
    let error = read(text, set).expect_err("must be refused");
    assert_eq!(error.exit_code(), 2);
    (error.to_string(), error.hint().unwrap_or_default())
}

#[test]
fn shipped_studies_load_with_every_preset() {
    let names: Vec<String> = list(Path::new("/nowhere"))
        .into_iter()
        .map(|e| {
            assert_eq!(e.error, "", "{}", e.name);
            e.name
        })
        .collect();
    let all = [
        "aging",
        "cluster",
        "digest",
        "fullness",
        "fullness-git",
        "like",
        "overhead",
        "power",
        "remedies",
        "scaling",
        "tuning",
        "wear",
    ];
    assert_eq!(names, all);
    let nothing = |_: &Study| std::collections::BTreeMap::new();
    let aging = check(Path::new("aging"), Consent::Below(None), &nothing).unwrap();
    // Those of controls among them: an A/A pair and added requests, on virtual disks a slower disk too.
    assert_eq!(aging.trials["full"], 45 + 12);
    assert_eq!(aging.trials["quick"], 45);
    assert_eq!(aging.trials["hdd"], 45 + 18);
    assert_eq!(aging.trials["media"], 24);
    assert_eq!(aging.trials["demo"], 36 + 12);
    assert!(aging.claims.0 > 40 && aging.claims.0 <= aging.claims.1);
    assert_eq!(
        check(Path::new("studies/digest.toml"), Consent::Below(None), &nothing).unwrap().trials["quick"],
        3
    );
    for (name, full, quick) in [("fullness", 18 + 9, 18 + 9), ("fullness-git", 18 + 6, 6 + 2)] {
        let study = check(Path::new(name), Consent::Below(None), &nothing).unwrap();
        assert_eq!((study.trials["full"], study.trials["quick"]), (full, quick), "{name}");
        assert!(study.claims.0 >= 7, "{name}");
        // The paper's drives have claims of their own, in the place of these.
        assert_eq!(study.trials["paper-drives"], full, "{name}");
        let preset = Overrides { preset: Some("paper-drives".to_owned()), ..Overrides::default() };
        let drives = load(Path::new(name), &preset, Consent::Given).unwrap().spec;
        let named = serde_json::to_string(&drives.claim).unwrap();
        assert!(named.contains("hdd-500gb") && named.contains("ssd-consumer"), "{name}");
        assert!(!named.contains("hdd-7200") && !named.contains("\"ssd\""), "{name}");
    }
    let wear = check(Path::new("wear"), Consent::Below(None), &nothing).unwrap();
    assert_eq!((wear.trials["full"], wear.trials["quick"]), (3 * 5, 3 * 5));
    let tuning = check(Path::new("tuning"), Consent::Below(None), &nothing).unwrap();
    assert_eq!((tuning.trials["full"], tuning.trials["quick"]), (3 * 150, 3 * 24), "at most");
    // The budgets show what is asked for.
    for (preset, searches) in &tuning.searches {
        let powers = searches.iter().filter_map(|search| search.power);
        assert!(powers.into_iter().all(|power| power >= 0.75), "{preset}: {searches:?}");
    }
    // Drives with flash faults are in one preset only, which a host does not run without being asked.
    let power = check(Path::new("power"), Consent::Below(None), &nothing).unwrap();
    assert_eq!(power.trials["flash"], (4 + 2) * 3 * 3 * 5);
    assert_eq!(power.on_host, std::collections::BTreeSet::from(["flash".to_owned()]));
    // The bare device is a cell like the file systems.
    for (name, full) in [("overhead", 12), ("scaling", 6)] {
        let study = check(Path::new(name), Consent::Below(None), &nothing).unwrap();
        assert!(study.trials.values().all(|trials| *trials == full), "{name}: {:?}", study.trials);
    }
}

#[test]
fn wrong_toml_shows_line_and_column() {
    let (message, _) = refused("name = \"x\"\ntitle = = 1\n", &[]);
    assert!(message.starts_with("small.toml:2:9: not TOML: "), "{message}");
    assert!(message.contains("2 | title = = 1\n  |         ^"), "{message}");
}

#[test]
fn an_unknown_key_names_the_nearest_and_its_line() {
    let text = SMALL.replace("slots = 50", "slotz = 50");
    let (message, hint) = refused(&text, &[]);
    assert!(
        message.starts_with("small.toml:19:1: `stage.age.workload.slotz`: there is no such key"),
        "{message}"
    );
    assert!(message.contains("19 | slotz = 50\n   | ^^^^^"), "{message}");
    assert_eq!(hint, "did you mean `slots`?");
}

#[test]
fn an_unknown_operation_is_an_unknown_key() {
    let text = SMALL.replace("slots = 50", "slots = 50\nweights = { create = 1, apend = 1 }");
    let (message, hint) = refused(&text, &[]);
    assert!(message.contains("`stage.age.workload.weights.apend`"), "{message}");
    assert_eq!(hint, "did you mean `append`?");
}

#[test]
fn a_wrong_kind_names_the_right_ones() {
    let (message, hint) = refused(&SMALL.replace("kind = \"loop\"", "kind = \"lop\""), &[]);
    assert!(
        message.starts_with("small.toml:7:1: `volume.kind`: `lop` is not one of `loop`, `device`, `disk`"),
        "{message}"
    );
    assert_eq!(hint, "did you mean `loop`?");
}

#[test]
fn a_volume_with_a_medium_is_a_disk() {
    let text = SMALL.replace("kind = \"loop\"", "medium = \"hdd-7200\"");
    let volume =
        |text: &str, set: &[&str]| serde_json::to_value(&read(text, set).unwrap().spec.volume).unwrap();
    let plain = volume(&text, &[]);
    assert_eq!(
        (&plain["kind"], &plain["medium"], &plain["time"]),
        (&"disk".into(), &"hdd-7200".into(), &"model".into())
    );
    assert_eq!(plain["log"], false);
    let changed = volume(&text, &["volume.medium={ preset = \"hdd-7200\", rpm = 5400 }", "volume.time=real"]);
    assert_eq!((&changed["medium"]["rpm"], &changed["time"]), (&5400.into(), &"real".into()));
    // The kind may be written as well, and a copy may go to another medium.
    volume(&text.replace("medium = ", "kind = \"disk\"\nmedium = "), &[]);
}

#[test]
fn a_medium_is_a_factor() {
    let text = SMALL.replace("kind = \"loop\"", "medium = \"ram\"").replace(
        "[matrix]",
        "[matrix]\n\"volume.medium\" = [\"hdd-7200\", { preset = \"hdd-7200\", rpm = 5400 }]",
    );
    let study = read(&text, &[]).unwrap();
    assert_eq!(study.cells.len(), 4);
    let rpm = |n: usize| study.cells[n].factors["volume.medium"]["rpm"].clone();
    assert!((0..4).any(|n| rpm(n) == 5400));
    let (message, hint) = refused(&text.replace("[\"hdd-7200\",", "[\"hdd-720\","), &[]);
    assert!(message.contains("`volume.medium`: there is no medium `hdd-720`"), "{message}");
    assert!(message.contains("\"volume.medium\" = "), "{message}");
    assert_eq!(hint, "did you mean `hdd-7200`?");
}

#[test]
fn a_wrong_medium_is_said_at_its_line() {
    let disk = |medium: &str| SMALL.replace("kind = \"loop\"", &format!("medium = {medium}"));
    for (medium, wanted, hint) in [
        ("\"hdd-720\"", "`volume.medium`: there is no medium `hdd-720`", "did you mean `hdd-7200`?"),
        ("7200", "the name of a medium or a table is expected, not 7200", "write \"hdd-7200\""),
        ("{ rpm = 5400 }", "`preset` is missing", "write it as"),
        ("{ preset = \"hdd-7200\", rmp = 5400 }", "has no parameter `rmp`", "did you mean `rpm`?"),
        ("{ preset = \"hdd-7200\", rpm = 1 }", "rpm = 1 is not between", ""),
    ] {
        let (message, said) = refused(&disk(medium), &[]);
        assert!(
            message.starts_with("small.toml:7:1: `volume.medium`") && message.contains(wanted),
            "{message}"
        );
        assert!(said.starts_with(hint), "{medium}: {said}");
    }
    for (set, wanted) in [
        ("volume.size=100", "`volume.size`: 100B is too small: at least 1MiB"),
        ("volume.size=17TiB", "`volume.size`: 17TiB is too large: at most 16 TiB"),
        ("volume.block_bytes=1024", "`volume.block_bytes`: 1024 is not a block size: 512 or 4096"),
        ("volume.time=slow", "`slow` is not one of `model`, `real`"),
        ("volume.spill=there", "`volume.spill`: there is not a full path"),
        ("volume.sise=1GiB", "`volume.sise`: there is no such key"),
    ] {
        let (message, _) = refused(&disk("\"hdd-7200\""), &[set]);
        assert!(message.contains(wanted), "{set}: {message}");
    }
}

#[test]
fn a_preset_may_begin_with_another() {
    let text = format!(
        "{SMALL}\n[preset.tiny]\ninherits = \"quick\"\nvolume.size = \"500MiB\"\n\n[preset.tinier]\ninherits = \"tiny\"\nvolume.size = \"400MiB\"\n"
    );
    let with = |text: &str, preset: &str| {
        let overrides = Overrides { preset: Some(preset.to_owned()), set: Vec::new() };
        parse(Path::new("small.toml"), text.to_owned(), &overrides, Consent::Given)
    };
    let study = serde_json::to_value(&with(&text, "tinier").unwrap().spec).unwrap();
    assert_eq!(study["stage"][0]["stop"]["operations"], 10);
    assert_eq!(study["volume"]["size"], 400 << 20);
    let circle = text.replace("[preset.quick]", "[preset.quick]\ninherits = \"tinier\"");
    let error = with(&circle, "tiny").unwrap_err().to_string();
    assert!(error.contains("`tiny` inherits from this preset"), "{error}");
    let error = with(&text.replace("= \"quick\"", "= [\"quick\"]"), "tiny").unwrap_err().to_string();
    assert!(error.contains("the name of one preset is expected"), "{error}");
    let error = with(&text.replace("\"quick\"", "\"quack\""), "tiny").unwrap_err();
    assert!(error.to_string().contains("there is no preset `quack`"), "{error}");
    assert_eq!(error.hint().unwrap(), "it has `quick`, `tinier`, `tiny`");
}

#[test]
fn the_old_key_of_presets_is_refused_with_the_new_one() {
    let (message, hint) = refused(&SMALL.replace("[preset.quick]", "[profile.quick]"), &[]);
    assert!(message.contains("`profile`: there is no such key"), "{message}");
    assert_eq!(hint, "presets of a study are written `[preset.NAME]`");
}

#[test]
fn a_claim_may_be_about_a_factor_of_a_preset() {
    let claim = "\n[preset.media]\n\"matrix.volume.size\" = [\"300MiB\", \"400MiB\"]\n\n[[claim]]\nid = \"c\"\nsource = \"s\"\nstatement = \"s\"\n[claim.check]\nkind = \"ratio\"\nmetric = \"grep\"\nnumerator = { \"volume.size\" = \"300MiB\" }\ndenominator = { \"volume.size\" = \"400MiB\" }\nabove = 1.0\n";
    let text = format!("{SMALL}{claim}");
    assert_eq!(read(&text, &[]).unwrap().spec.claim.len(), 1);
    let (message, _) = refused(&text.replace("= \"400MiB\" }", "= \"500MiB\" }"), &[]);
    assert!(message.contains("\"500MiB\" is not a value of the factor `volume.size`"), "{message}");
    let each = |path: &str| text.replace("[claim.check]", &format!("each = \"{path}\"\n[claim.check]"));
    assert_eq!(read(&each("file_system.kind"), &[]).unwrap().spec.claim.len(), 1);
    let (message, _) = refused(&each("volume.size"), &[]);
    assert!(message.contains("`claim.0.each`: the check names a value of `volume.size` itself"), "{message}");
    let (message, hint) = refused(&each("file_system.kin"), &[]);
    assert!(message.contains("`claim.0.each`: this factor is not in the matrix"), "{message}");
    assert_eq!(hint, "did you mean `file_system.kind`?");
    let untested = each("file_system.kind").split("[claim.check]").next().unwrap().to_owned();
    let (message, _) = refused(&format!("{untested}not_tested = \"no\"\n"), &[]);
    assert!(message.contains("claim `c` has no `check` to judge each value by"), "{message}");
}

#[test]
fn wrong_sizes_and_types_are_said_at_their_line() {
    let (message, _) = refused(&SMALL.replace("300MiB", "300 MeB"), &[]);
    assert!(message.contains("small.toml:8:1: `volume.size`: `300 MeB` is not a size"), "{message}");
    let (message, _) = refused(&SMALL.replace("slots = 50", "slots = \"many\""), &[]);
    assert!(message.contains("a whole number, 0 or more, is expected, not the text \"many\""), "{message}");
}

#[test]
fn impossible_values_name_path_and_limit() {
    for (set, wanted) in [
        ("repeats=0", "`repeats`: 0 is too small: at least 1"),
        ("stage.age.workload.slots=0", "`stage.age.workload.slots`: 0 file slots are too few"),
        ("stage.age.workload.weights={create=0}", "`stage.age.workload.weights`: every weight is 0"),
        ("stage.age.workload.weights.create=-1", "-1 is not a weight"),
        ("stage.age.workload.file_size.size=1GiB", "1GiB is larger than the volume (300MiB)"),
        ("stage.age.threads=65", "`stage.age.threads`: 65 threads: 1 to 64"),
        ("stage.age.stop={}", "nothing ends this stage"),
        ("stage.age.stop.operations=0", "`stage.age.stop.operations`: 0 is too small"),
        ("volume.sector_bytes=1000", "1000 is not a sector size"),
        ("matrix={\"file_system.kind\"=[]}", "`matrix.file_system.kind`: the list is empty"),
        ("matrix.file_system.kind=[\"ext4\", \"ext4\"]", "is given twice"),
        ("matrix={title=[\"a\", \"b\"]}", "`matrix.title`: its values change nothing in any trial"),
        ("matrix={\"stage.old.threads\"=[1]}", "there is no stage `old` (there is `age`)"),
        ("matrix={\"stage.age.treads\"=[1, 2]}", "`stage.age.treads`: there is no such key"),
        ("volume.size.x=1", "`volume.size` is a plain value"),
        ("file_system.kind=zfs", "`file_system.kind`: no file system `zfs`"),
        ("volume.size=20MiB", "`volume.size`: xfs needs a volume of at least"),
        ("file_system.options.ext4.mkfs.lazy_inti=true", "`file_system.options.ext4.mkfs.lazy_inti`"),
    ] {
        let set = if set.starts_with("file_system") { vec![set, "matrix={}"] } else { vec![set] };
        let (message, _) = refused(SMALL, &set);
        assert!(message.contains(wanted), "{set:?}: {message}");
    }
    let (message, _) = refused(SMALL, &["repeats"]);
    assert_eq!(message, "`--set repeats` is not path=value");
}

#[test]
fn two_stages_of_one_name_are_refused() {
    let text = SMALL.replace(
        "[matrix]",
        "[[stage]]\nkind = \"age\"\nstop.operations = 1\nworkload = { kind = \"drift\" }\n[matrix]",
    );
    assert!(refused(&text, &[]).0.contains("there are two stages `age`"));
}

#[test]
fn preset_then_set_then_matrix() {
    let overrides = Overrides {
        preset: Some("quick".into()),
        set: vec!["stage.age.workload.slots=7".into(), "title=changed = yes".into()],
    };
    let study = parse(Path::new("small.toml"), SMALL.to_owned(), &overrides, Consent::Given).unwrap();
    assert_eq!(study.spec.title, "changed = yes");
    assert_eq!(study.cells.len(), 2);
    let cell = serde_json::to_value(&study.cells[1].spec).unwrap();
    assert_eq!(cell["file_system"]["kind"], "xfs");
    assert_eq!(cell["stage"][0]["stop"]["operations"], 10);
    assert_eq!(cell["stage"][0]["workload"]["slots"], 7);
    assert_eq!(study.cells[1].factors["file_system.kind"], "xfs");
}

#[test]
fn a_wrong_preset_value_is_shown_at_the_preset() {
    let text = SMALL.replace("stage.age.stop.operations = 10", "stage.age.stop.operation = 10");
    let overrides = Overrides { preset: Some("quick".into()), set: Vec::new() };
    let error = parse(Path::new("small.toml"), text, &overrides, Consent::Given).unwrap_err();
    assert!(error.to_string().starts_with("small.toml:26:"), "{error}");
    assert_eq!(error.hint().as_deref(), Some("did you mean `operations`?"));
    let overrides = Overrides { preset: Some("quik".into()), set: Vec::new() };
    let error = parse(Path::new("small.toml"), SMALL.to_owned(), &overrides, Consent::Given).unwrap_err();
    assert_eq!(error.hint().as_deref(), Some("it has `quick`"));
}

#[test]
fn a_claim_that_nothing_can_meet_is_refused() {
    let claim =
        |check: &str| format!("{SMALL}\n[[claim]]\nid = \"c\"\nsource = \"s\"\nstatement = \"x\"\n{check}\n");
    let value = |bounds: &str| format!("{{ kind = \"value\", metric = \"grep\"{bounds} }}");
    for bounds in ["", ", margin = 0.0", ", margin = 0.1, above = 1.0", ", above = 2.0, below = 1.0"] {
        let (message, _) = refused(&claim(&format!("check = {}", value(bounds))), &[]);
        assert!(message.contains("`claim.0.check`: it needs a bound that can be met"), "{bounds}: {message}");
    }
    let all = format!("all = [{}, {}]", value(", margin = 0.05"), value(", above = 0.5"));
    assert_eq!(read(&claim(&all), &[]).unwrap().spec.claim[0].clauses().count(), 2);
    let (message, _) = refused(&claim(&format!("{all}\ncheck = {}", value(", above = 1.0"))), &[]);
    assert!(message.contains("put every clause into `all`"), "{message}");
}

#[test]
fn a_claim_about_an_unknown_factor_is_refused() {
    let claim = "\n[[claim]]\nid = \"c\"\nsource = \"s\"\nstatement = \"x\"\ncheck = { kind = \"value\", metric = \"m\", above = 1.0, where = { \"file_system.kin\" = \"ext4\" } }\n";
    let (message, hint) = refused(&format!("{SMALL}{claim}"), &[]);
    assert!(message.contains("this factor is not in the matrix"), "{message}");
    assert_eq!(hint, "did you mean `file_system.kind`?");
}

#[test]
fn a_missing_study_is_named() {
    let error = load(Path::new("agin"), &Overrides::default(), Consent::Given).unwrap_err();
    assert!(error.hint().unwrap().contains("did you mean `aging`?"), "{error}");
}

#[test]
fn the_schema_lists_operations_as_weights() {
    let schema = fsage_lab::study::schema().to_string();
    assert!(schema.contains("\"propertyNames\""));
    assert!(schema.contains("random_write"));
}

#[test]
fn a_folder_does_not_hide_a_shipped_study() {
    // Tests run in the package's folder, which has `tests` but no study of that name.
    let error = load(Path::new("tests"), &Overrides::default(), Consent::Given).unwrap_err();
    assert!(matches!(error, StudyError::NotFound { .. }), "{error}");
}

/// A study of `git` in a folder with a repository of three commits, `repo`, whose path it gives relative to
/// its own.
fn historical(history: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("repo");
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.arg("-C").arg(&top).args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
        // Within a hook git's own variables name the developer's repository.
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.as_encoded_bytes().starts_with(b"GIT_")) {
            command.env_remove(key);
        }
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(command.args(words).status().unwrap().success(), "git {words:?}");
    };
    std::fs::create_dir(&top).unwrap();
    git(&["init", "--quiet"]);
    for size in 1..=3 {
        std::fs::write(top.join("file"), "x".repeat(size)).unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "m"]);
    }
    let drift = "kind = \"drift\"\nslots = 50\nfile_size = { kind = \"fixed\", size = \"8KiB\" }";
    (folder, SMALL.replace(drift, &format!("kind = \"git\"\nhistory = {history}")))
}

fn read_in(folder: &Path, text: &str, set: &[&str]) -> Result<Study, StudyError> {
    let overrides = Overrides { preset: None, set: set.iter().map(|s| (*s).to_owned()).collect() };
    parse(&folder.join("small.toml"), text.to_owned(), &overrides, Consent::Below(None))
}

#[test]
fn a_history_named_by_its_path_becomes_part_of_the_study() {
    let (folder, text) = historical("{ kind = \"repository\", path = \"repo\" }");
    let commits = |study: &Study| -> Vec<usize> {
        let count = |cell: &fsage_lab::study::Cell| {
            let spec = serde_json::to_value(&cell.spec).unwrap();
            assert_eq!(spec["stage"][0]["workload"]["history"]["kind"], "recorded");
            spec["stage"][0]["workload"]["history"]["commits"].as_array().unwrap().len()
        };
        study.cells.iter().map(count).collect()
    };
    let study = read_in(folder.path(), &text, &[]).unwrap();
    assert_eq!(commits(&study), [3, 3]);
    // What names it may still be changed, by the command line and in a matrix.
    let fewer = read_in(folder.path(), &text, &["stage.age.workload.history.commits=2"]).unwrap();
    assert_eq!(commits(&fewer), [2, 2]);
    let varied = text.replace(
        "\"file_system.kind\" = [\"ext4\", \"xfs\"]",
        "\"stage.age.workload.history.commits\" = [2, 3]",
    );
    assert_eq!(commits(&read_in(folder.path(), &varied, &[]).unwrap()), [2, 3]);
    let trees = "{ kind = \"listings\", paths = [\"repo\", \"repo/.git\", \"repo\"] }";
    let (folder, text) = historical(trees);
    assert_eq!(commits(&read_in(folder.path(), &text, &[]).unwrap()), [3, 3]);
}

#[test]
fn a_history_that_cannot_be_taken_is_named_with_its_line() {
    let refused = |history: &str| {
        let (folder, text) = historical(history);
        let error = read_in(folder.path(), &text, &[]).expect_err("must be refused");
        assert_eq!(error.exit_code(), 2);
        let message = error.to_string().replace(folder.path().to_str().unwrap(), "DIR");
        (message, error.hint().unwrap_or_default())
    };
    let (message, hint) = refused("{ kind = \"repository\", path = \"nowhere\" }");
    let place = "DIR/small.toml:19:34: `stage.age.workload.history.path`: ";
    let wanted = format!("{place}`DIR/nowhere` is not a repository: there is no such folder");
    assert!(message.starts_with(&wanted), "{message}");
    assert!(hint.contains("relative to its file"), "{hint}");
    let (message, hint) = refused("{ kind = \"repository\", path = \"repo\", comits = 3 }");
    assert!(message.contains("`stage.age.workload.history.comits`: there is no such key"), "{message}");
    assert_eq!(hint, "did you mean `commits`?");
    let (message, hint) = refused("{ kind = \"repositry\", path = \"repo\" }");
    assert!(message.contains("`synthetic`, `recorded`, `repository`, `listings`"), "{message}");
    assert_eq!(hint, "did you mean `repository`?");
    assert!(refused("{ kind = \"repository\" }").0.contains("`path` is missing"));
    let (message, _) = refused("{ kind = \"repository\", path = \"repo\", commits = 1 }");
    assert!(message.contains("`stage.age.workload.history.commits`: 1 is too few"), "{message}");
    let (message, _) = refused("{ kind = \"listings\", paths = [\"repo\"] }");
    assert!(message.contains("`stage.age.workload.history.paths`: 1 is too few"), "{message}");
    let (message, _) = refused("{ kind = \"listings\", paths = [\"repo\", \"small.tar\"] }");
    assert!(message.contains("cannot read `DIR/small.tar`"), "{message}");
}

/// Root would open any file of the host for the author of the study.
#[test]
fn what_a_study_names_outside_its_folder_is_opened_only_with_consent() {
    let (elsewhere, text) = historical("{ kind = \"repository\", path = \"PATH\" }");
    let folder = tempfile::tempdir().unwrap();
    let text = text.replace("PATH", elsewhere.path().join("repo").to_str().unwrap());
    let refused = |text: &str| {
        let error = read_in(folder.path(), text, &[]).expect_err("must be refused");
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("neither below the study's own folder"), "{error}");
        assert!(error.hint().unwrap().contains("--allow-commands"), "{error:?}");
    };
    refused(&text);
    let file = folder.path().join("small.toml");
    parse(&file, text.clone(), &Overrides::default(), Consent::Given).unwrap();
    parse(&file, text.clone(), &Overrides::default(), Consent::Below(Some(elsewhere.path()))).unwrap();
    let set = format!("stage.age.workload.history.path=\"{}/repo\"", elsewhere.path().display());
    read_in(folder.path(), &text, &[&set]).unwrap();
    // It is not even asked what is there.
    refused(&text.replace("/repo\"", "/nowhere\""));
    let like = |path: &str| SMALL.replace("slots = 50\n", &format!("slots = 50\nlike = \"{path}\"\n"));
    refused(&like("../nowhere.toml"));
    refused(&like("/etc/shadow"));
    let own = read_in(folder.path(), &like("nowhere.toml"), &[]).unwrap_err().to_string();
    assert!(own.contains("cannot read profile"), "{own}");
    // The command line has the last word, over what the study says as well.
    let shipped = read_in(folder.path(), &like("/etc/shadow"), &["stage.age.workload.like=nowhere.toml"]);
    assert!(shipped.unwrap_err().to_string().contains("cannot read profile"));
}

/// Each cell holds the whole study.
#[test]
fn cells_of_a_long_study_are_bounded_by_what_they_take() {
    let long = SMALL.replace("question = \"q\"", &format!("question = \"{}\"", "q".repeat(300_000)));
    let numbers = (1..=100).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let varied = long.replace(
        "\"file_system.kind\" = [\"ext4\", \"xfs\"]",
        &format!("\"stage.age.workload.slots\" = [{numbers}]\n\"stage.age.stop.operations\" = [{numbers}]"),
    );
    let (message, _) = refused(&varied, &[]);
    assert!(message.contains("10,000 cells of this study") && message.contains("1 GiB"), "{message}");
}

#[test]
fn a_file_of_geriatrix_is_taken_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ages.txt"), "2\n10 0.5\n100 0.5\n").unwrap();
    let histogram = |ages: &str| {
        let drift = "kind = \"drift\"\nslots = 50\nfile_size = { kind = \"fixed\", size = \"8KiB\" }";
        let text = SMALL.replace(drift, &format!("kind = \"histogram\"\nages = {ages}"));
        read_in(folder.path(), &text, &[])
    };
    let study = histogram("{ kind = \"geriatrix\", path = \"ages.txt\" }").unwrap();
    let spec = serde_json::to_value(&study.cells[0].spec).unwrap();
    let ages = &spec["stage"][0]["workload"]["ages"];
    assert_eq!((&ages["text"], ages.get("path")), (&"2\n10 0.5\n100 0.5\n".into(), None));
    let message = histogram("{ kind = \"geriatrix\", path = \"age.txt\" }").expect_err("no file").to_string();
    assert!(message.contains("small.toml:19:1: `stage.age.workload.ages`: cannot read"), "{message}");
    let message = histogram("{ kind = \"geriatrix\" }").expect_err("no path").to_string();
    assert!(message.contains("missing field `path`"), "{message}");
    let both = "{ kind = \"geriatrix\", path = \"ages.txt\", text = \"1\" }";
    assert!(histogram(both).expect_err("both").to_string().contains("both given"));
}

#[test]
fn controls_name_cells_that_there_are_and_a_size_that_can_be() {
    let with = |volume: &str, controls: &str| {
        let text = SMALL.replace("kind = \"loop\"", volume);
        format!(
            "{text}\n[[stage]]\nkind = \"measure\"\nmeasures = [{{ kind = \"grep\" }}]\n[controls]\n{controls}\n"
        )
    };
    let disk = "medium = \"hdd-7200\"";
    let of = |text: &str| -> Vec<String> {
        let cells = read(text, &[]).unwrap().cells;
        let ext4 = cells.iter().filter(|cell| cell.factors["file_system.kind"] == "ext4");
        let kinds = ext4.filter_map(|cell| cell.factors.get("control")?.as_str());
        kinds.map(str::to_owned).collect()
    };
    assert_eq!(of(&with(disk, "slow = 1.5")), ["same", "slow"]);
    assert_eq!(of(&with("kind = \"loop\"", "slow = 1.5")), ["same"]);
    assert_eq!(of(&with(disk, "same = false")), ["slow"]);
    assert_eq!(of(&with(disk, "same = false\nslow = 0")), [""; 0]);
    for (controls, wanted) in [
        ("slow = 1.0", "1 is not a slowdown"),
        ("slow = 101", "101 is not a slowdown"),
        ("of = { nothing = 1 }", "this factor is not in the matrix"),
        ("sloow = 2", "there is no such key"),
    ] {
        let (message, _) = refused(&with(disk, controls), &[]);
        assert!(message.contains("controls") && message.contains(wanted), "{controls}: {message}");
    }
    // A matrix that has no such cell any more has no controls.
    let text = with(disk, "of = { \"file_system.kind\" = \"xfs\" }");
    let only = read(&text, &["matrix.\"file_system.kind\"=[\"ext4\"]"]).unwrap();
    assert_eq!((of(&text).len(), only.cells.len()), (0, 1));
    let (message, _) = refused(&SMALL.replace("name = ", "control = \"same\"\nname = "), &[]);
    assert!(message.contains("there is no such key"), "{message}");
}
