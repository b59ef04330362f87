//! The command line as a user meets it: help, mistakes of every kind, exit codes, what goes where.
//!
//! Every test drives the built binary and snapshots exit code, standard output and standard error.

mod cli_support;

use cli_support::{Run, fsage};

#[test]
fn help_fits_a_screen_and_goes_to_standard_output() {
    insta::assert_snapshot!(fsage(&["--help"]).text());
}

#[test]
fn every_command_has_help() {
    for command in [
        "run",
        "study",
        "age",
        "scan",
        "explain",
        "profile",
        "verify",
        "image",
        "replay",
        "volume",
        "power-cycle",
        "price",
        "report",
        "compare",
        "export",
        "clean",
        "doctor",
        "completions",
    ] {
        let run = fsage(&[command, "--help"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{command}");
        assert!(run.stdout.contains(&format!("Usage: fsage {command}")), "{command}: {}", run.stdout);
        assert!(run.stdout.contains("--json"), "{command}");
        assert!(run.stdout.lines().all(|line| line.chars().count() <= 115), "{command}: a line is too long");
    }
}

#[test]
fn the_longest_help_is_as_it_was() {
    insta::assert_snapshot!(fsage(&["age", "--help"]).text());
}

#[test]
fn version_is_one_line() {
    let run = fsage(&["--version"]);
    assert_eq!((run.code, run.stdout), (0, format!("fsage {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn mistakes_are_usage_errors_with_a_way_out() {
    let cases: &[(&str, &[&str])] = &[
        ("no_command", &[]),
        ("wrong_command", &["scam", "/tmp"]),
        ("wrong_flag", &["scan", "/tmp", "--thread", "1"]),
        ("missing_argument", &["scan"]),
        ("wrong_number", &["scan", "/tmp", "--threads", "many"]),
        ("number_out_of_range", &["age", "/tmp", "--operations", "1", "--threads", "65"]),
        ("zero_operations", &["age", "/tmp", "--operations", "0"]),
        ("no_stop", &["age", "/tmp"]),
        ("wrong_choice", &["age", "/tmp", "--operations", "1", "--write-mode", "quick"]),
        ("wrong_size", &["age", "/tmp", "--bytes", "ten"]),
        ("negative_seconds", &["age", "/tmp", "--seconds=-1"]),
        ("wrong_workload", &["age", "/tmp", "--operations", "1", "--workload", "drfit"]),
        ("wrong_workload_key", &["age", "/tmp", "--operations", "1", "--set", "slotz=5"]),
        ("wrong_workload_value", &["age", "/tmp", "--operations", "1", "--set", "slots=many"]),
        ("not_an_assignment", &["age", "/tmp", "--operations", "1", "--set", "slots"]),
        ("wrong_age", &["age", "/tmp", "--until", "extents=2"]),
        ("age_never_looked_at", &["age", "/tmp", "--until", "extents_per_file=2", "--probe-every", "0"]),
        ("age_nowhere", &["age", "/nonexistent", "--operations", "1"]),
        ("scan_nowhere", &["scan", "/nonexistent"]),
        ("scan_of_a_file", &["scan", "/etc/passwd"]),
        ("verify_nowhere", &["verify", "/nonexistent"]),
        ("replay_nothing", &["replay", "/nonexistent", "/tmp"]),
        ("report_of_nothing", &["report", "/nonexistent"]),
        ("study_nowhere", &["study", "check", "/nonexistent.toml"]),
        ("quick_and_preset", &["run", "x.toml", "--quick", "--preset", "y"]),
        ("the_old_name_of_preset", &["run", "x.toml", "--profile", "y"]),
        ("wrong_shell", &["completions", "csh"]),
    ];
    for (name, arguments) in cases {
        let run = fsage(arguments);
        assert_eq!(run.code, 2, "{name}: {run:?}");
        assert_eq!(run.stdout, "", "{name}");
        insta::assert_snapshot!(*name, run.text());
    }
}

#[test]
fn old_names_of_options_are_refused_with_the_new_one() {
    for (old, new, arguments) in [
        ("--queue", "--iodepth", &["disk", "replay", "x.log", "--model", "ssd", "--queue", "4"][..]),
        ("--every", "--interval", &["disk", "stat", "x", "--every", "1"]),
        ("--below", "--root", &["trace", "import", "--from", "csv", "x", "-o", "y", "--below", "/z"]),
    ] {
        let run = fsage(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        assert!(run.stderr.contains(&format!("unexpected argument '{old}'")), "{}", run.stderr);
        assert!(run.stderr.contains(&format!("is given with '{new}'")), "{}", run.stderr);
        let json = fsage(&[arguments, &["--json"]].concat()).error_object();
        assert!(json["hint"].as_str().unwrap().contains(new), "{json}");
        let help = fsage(&[&arguments[..2], &["--help"]].concat()).stdout;
        assert!(help.contains(new) && !help.contains(&format!("{old} ")), "{help}");
    }
}

#[test]
fn an_export_of_nothing_or_in_no_format_is_a_usage_error() {
    let format = fsage(&["export", "/nonexistent", "--format", "xlsx"]);
    assert_eq!((format.code, format.stdout.as_str()), (2, ""), "{format:?}");
    assert!(format.stderr.contains("csv, parquet, json, openmetrics"), "{}", format.stderr);
    let store = fsage(&["export", "/nonexistent", "--format", "csv"]);
    assert_eq!((store.code, store.stdout.as_str()), (2, ""), "{store:?}");
    assert!(store.stderr.contains("is not a store") && store.stderr.contains("hint:"), "{}", store.stderr);
    assert_eq!(fsage(&["export"]).code, 2);
}

#[test]
fn with_json_an_error_is_one_object_on_standard_error() {
    for arguments in [
        &["--json", "scan", "/nonexistent"][..],
        &["scan", "--json"],
        &["scam", "--json"],
        &["age", "/tmp", "--json"],
    ] {
        let run = fsage(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        let error = run.error_object();
        assert_eq!(error["exit_code"], 2, "{arguments:?}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{arguments:?}");
    }
}

#[test]
fn colours_follow_the_flag_and_the_environment() {
    let plain = fsage(&["scan", "/nonexistent"]);
    assert!(!plain.stderr.contains('\u{1b}'));
    let colored = fsage(&["scan", "/nonexistent", "--color", "always"]);
    assert!(colored.stderr.contains("\u{1b}[1;31merror:"));
    let never = fsage(&["scan", "/nonexistent", "--color", "never"]);
    assert_eq!(never.stderr, plain.stderr);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let line = format!("{} study schema | head -c 1", cli_support::FSAGE);
    let run = Run::of(std::process::Command::new("bash").args(["-o", "pipefail", "-c", &line]));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
}

#[test]
fn completions_are_for_the_shell() {
    for (shell, mark) in [("bash", "complete -F"), ("zsh", "#compdef fsage"), ("fish", "complete -c fsage")] {
        let run = fsage(&["completions", shell]);
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains(mark), "{shell}");
    }
}

#[test]
fn the_schema_is_json() {
    let run = fsage(&["study", "schema"]);
    assert_eq!(run.code, 0);
    let schema: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(schema["properties"]["file_system"].is_object());
}
