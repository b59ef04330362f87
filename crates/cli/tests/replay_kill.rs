//! `kill -9` of a replay at random moments, of the program or of its agent: the same command with `--resume`
//! continues, and the end is the recorded one, byte for byte.
//!
//! `FSAGE_KILLS` sets how many kills (20), `FSAGE_SEED` where they fall (printed).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod cli_support;
mod dice;
#[path = "storm/victim.rs"]
mod victim;

use std::path::Path;
use std::process::{Command, Stdio};

use cli_support::{FSAGE, fsage};
use dice::{Dice, number};

/// Operations done by both threads, as the state file has them.
fn done(directory: &Path) -> u64 {
    let Ok(bytes) = std::fs::read(directory.join(".fsage-replay")) else { return 0 };
    let slot = |at: usize| bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()));
    slot(4096) + slot(4096 + 64)
}

#[test]
fn killed_replays_go_on_and_end_as_recorded() {
    let kills = number("FSAGE_KILLS", 20);
    let seed = number("FSAGE_SEED", u64::from(std::process::id()));
    println!("FSAGE_KILLS={kills} FSAGE_SEED={seed}");
    let mut dice = Dice(seed);
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, recorded, again) = (path("trace.parquet"), path("recorded"), path("again"));
    std::fs::create_dir(&recorded).unwrap();
    std::fs::create_dir(&again).unwrap();
    let operations = (kills * 10_000 + 10_000).to_string();
    let mut age = vec!["age", &recorded, "--json", "--threads", "2", "--operations", &operations];
    age.extend(["--trace", &trace, "--set", "slots=400", "--set", "file_size.kind=uniform"]);
    age.extend(["--set", "file_size.min=1", "--set", "file_size.max=16KiB", "--set", "directories.count=20"]);
    let recorded = fsage(&age).result();

    let replay = ["replay", &trace, &again, "--resume", "--verify", "--json"];
    let again = Path::new(&again);
    for kill in 0..kills {
        let until = done(again) + dice.below(2500);
        let mut program =
            Command::new(FSAGE).args(replay).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while done(again) <= until {
            assert!(program.try_wait().unwrap().is_none(), "kill {kill}: it ended by itself");
            std::thread::yield_now();
        }
        let agent = victim::agent_of(program.id()).filter(|_| dice.below(2) == 0);
        victim::kill(agent.unwrap_or_else(|| program.id()));
        program.wait().unwrap();
        assert!(again.join(".fsage-replay").exists(), "kill {kill}");
    }
    let last = fsage(&replay).result();
    assert_eq!(last["digest"], recorded["digest"], "{last}");
    assert_eq!(last["replay"]["recorded_digest"], recorded["digest"]);
    assert_eq!(last["replay"]["started_over"], serde_json::Value::Null, "{last}");
    assert!(last["replay"]["resumed_after"].as_u64().unwrap() > 0, "{last}");
    assert_eq!(last["replay"]["verified"]["bad_blocks"], serde_json::json!({}));
    assert_eq!((&last["files"], &last["live_bytes"]), (&recorded["files"], &recorded["live_bytes"]));
    assert!(!again.join(".fsage-replay").exists());
}
