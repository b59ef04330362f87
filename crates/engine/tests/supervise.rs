//! A program of the user's and what it starts. One test, in a process of its own: whatever this process starts
//! meanwhile would be ended with the program.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::time::{Duration, Instant};

use fsage_engine::host::HostError;
use fsage_engine::host::process::is_alive;
use fsage_engine::host::supervise::{Ended, Supervised, Watch, run};
use fsage_engine::host::tool::Children;

#[derive(Default)]
struct Lines(Vec<String>);

impl Watch for Lines {
    fn line(&mut self, line: &[u8]) -> Result<(), HostError> {
        self.0.push(String::from_utf8_lossy(line).into_owned());
        if self.0.last().is_some_and(|line| line == "refused") {
            return Err(HostError::Senseless { what: "refused".to_owned() });
        }
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        self.0.iter().any(|line| line == "enough")
    }
}

fn start(argv: &[&str], limit_ms: u64) -> Result<(Ended, Vec<String>), HostError> {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let what = Supervised {
        argv: &argv,
        directory: Path::new("/"),
        environment: &[("FSAGE_TEST", Path::new("/x"))],
        input: None,
        limit: Duration::from_millis(limit_ms),
    };
    let mut lines = Lines::default();
    let ended = run(&Children::default(), what, &mut lines)?;
    Ok((ended, lines.0))
}

fn shell(script: &str, limit_ms: u64) -> (Ended, Vec<String>) {
    start(&["sh", "-c", script], limit_ms).unwrap()
}

#[test]
fn a_program_is_followed_and_nothing_is_left_of_it() {
    let (ended, lines) = shell("pwd; echo $FSAGE_TEST; echo bad >&2; printf 'no end'; exit 3", 60_000);
    assert_eq!(lines, ["/", "/x", "no end"]);
    assert_eq!((ended.status, ended.left, ended.last_line.as_str()), (Some(3), 0, "no end"));
    assert_eq!(ended.error, "bad");
    let (ended, _) = shell("kill -9 $$", 60_000);
    assert_eq!(ended.status, Some(137));
    let (ended, lines) = shell("seq 100000", 60_000);
    assert_eq!((ended.status, lines.len(), ended.last_line.as_str()), (Some(0), 100_000, "100000"));

    let started = Instant::now();
    let (ended, lines) = shell("echo a; sleep 600; echo b", 3000);
    assert_eq!((ended.status, lines.as_slice()), (None, ["a".to_owned()].as_slice()));
    let (ended, _) = shell("echo enough; sleep 600", 60_000);
    assert_eq!(ended.status, None);
    // One that writes without end.
    let (ended, _) = shell("yes", 300);
    assert_eq!(ended.status, None);
    let error = start(&["sh", "-c", "echo refused; sleep 600"], 60_000).unwrap_err();
    assert_eq!(error.to_string(), "refused");

    // Two that forked away: in the background, and in a session of its own.
    let (ended, lines) = shell("sleep 600 & echo $!; setsid sleep 600 & echo $!; sleep 0.2", 60_000);
    assert_eq!((ended.status, ended.left), (Some(0), 2));
    for line in lines {
        assert!(!is_alive(line.parse().unwrap()));
    }
    // A daemon whose parents are gone, and which holds the output open.
    let (ended, _) = shell("(setsid sh -c 'sleep 600 & sleep 600' &) ; sleep 2", 60_000);
    assert!(ended.status == Some(0) && ended.left >= 2, "{ended:?}");
    assert!(started.elapsed() < Duration::from_secs(60));

    let error = start(&["no-such-program"], 1000).unwrap_err();
    assert!(matches!(error, HostError::NoProgram { .. }), "{error}");
    let error = start(&[], 1000).unwrap_err();
    assert!(matches!(error, HostError::Senseless { .. }), "{error}");
}
