//! `scripts/recompute.py` computes every interval and verdict again, on the stores that come with the tests and on made-up ones.
//! Where its packages are not installed this is skipped; `make test-full` installs them.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::skip;

/// What the script imports.
const IMPORTS: &str =
    "import sys, numpy, scipy, pandas, duckdb, pyarrow, prometheus_client, jsonschema; print(sys.prefix)";

/// A Python that has the packages, and its folder: the script's own environment, or the host's.
fn python() -> Option<(PathBuf, String)> {
    let own = std::env::var_os("FSAGE_PYTHON_ENV")
        .map_or_else(|| root().join("target/python/recompute"), PathBuf::from);
    [own.join("bin/python3"), PathBuf::from("python3")].into_iter().find_map(|python| {
        let output = Command::new(&python).args(["-c", IMPORTS]).output().ok()?;
        let prefix = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then_some((python, prefix))
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn recompute(python: &(PathBuf, String), words: &[&str]) -> std::process::Output {
    let mut command = Command::new(&python.0);
    command.env("FSAGE_PYTHON_ENV", &python.1).env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(root().join("scripts/recompute.py")).args(["--fsage", env!("CARGO_BIN_EXE_fsage")]);
    command.args(words).output().unwrap()
}

#[test]
fn every_interval_and_verdict_is_computed_again() {
    let Some(python) = python() else {
        skip("no Python with numpy, scipy, pandas, duckdb, pyarrow, prometheus_client and jsonschema");
        return;
    };
    let output = recompute(&python, &[]);
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    assert!(said.trim_end().ends_with("agree"), "{said}");
    // Tables of every kind were among them.
    for what in ["claims", "differences", "lock-step", "remedies", "ageing slowdowns"] {
        let rows = errors.lines().any(|line| {
            line.split(", ").any(|part| {
                part.ends_with(&format!("rows of {what}"))
                    && !part.contains(" 0 rows")
                    && !part.starts_with("0 rows")
            })
        });
        assert!(rows, "no rows of {what}: {errors}");
    }
}
