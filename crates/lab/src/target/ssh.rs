//! fsage on another host, by SSH.
//!
//! One connection: a shell there says what machine it is, takes this program from its input into a folder of its
//! own, and becomes it; frames follow on the same streams. Nothing has to be installed there but `sh`, `uname`,
//! `id`, `mktemp`, `head`, `wc`, `rm` and `chmod`.

use std::ffi::OsString;
use std::io::{BufReader, Write as _};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout};
use std::time::Duration;

use fsage_engine::host::tool::look_up;
use fsage_model::study::SshSpec;

use super::TargetError;
use super::connection::{Greeted, Greeting, Patience, READY, line};
use super::program::for_machine;

/// How long a host may take until it answers; a connection that cannot be made ends before.
const ANSWER: Duration = Duration::from_secs(60);

/// How the line begins in which the shell says what machine it is; what a login prints may come before.
const MARK: &str = "fsage-target ";

/// What the shell does. `$1`: the folder for its folder.
const SCRIPT: &str = r#"set -eu
umask 077
printf "fsage-target %s %s\n" "$(uname -m)" "$(id -u)"
read -r size
place=$(mktemp -d "$1/fsage-target-XXXXXX")
trap 'rm -rf "$place"' EXIT
cd "$place"
head -c "$size" > fsage
[ "$(wc -c < fsage)" -eq "$size" ]
chmod 700 fsage
exec ./fsage serve "$place""#;

/// The program `ssh`.
pub(super) fn program() -> Result<PathBuf, TargetError> {
    look_up("ssh").ok_or(TargetError::NoSsh)
}

/// Waits for the shell, and sends it this program.
pub(super) fn greet(stdin: &mut ChildStdin, stdout: ChildStdout) -> Result<Greeted, Greeting> {
    let input = BufReader::with_capacity(256 << 10, stdout);
    let (words, input) = line(input, MARK, Patience::of(ANSWER))?;
    let (machine, user) = words.split_once(' ').unwrap_or((words.as_str(), ""));
    if user != "0" {
        return Err(Greeting::Refused(NOT_ROOT.to_owned()));
    }
    let bytes = for_machine("fsage", machine).map_err(Greeting::Program)?;
    let sent = writeln!(stdin, "{}", bytes.len())
        .and_then(|()| stdin.write_all(&bytes))
        .and_then(|()| stdin.flush());
    sent.map_err(|error| Greeting::Refused(error.to_string()))?;
    // Not before: some programs called `head` read more than they pass on.
    let (_, input) = line(input, READY, Patience::of(ANSWER))?;
    Ok(Greeted { machine: machine.to_owned(), complete: false, input })
}

/// What is said of a user who is not root.
pub(super) const NOT_ROOT: &str = "the user there is not root";

/// Arguments of `ssh`: no terminal, no questions, hosts that are known.
pub(super) fn arguments(ssh: &SshSpec) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let option = |text: String| ["-o".into(), text.into()];
    arguments.push("-T".into());
    for fixed in [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "ConnectTimeout=15",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "ControlPath=none",
        "ForwardAgent=no",
        "ForwardX11=no",
        "PermitLocalCommand=no",
    ] {
        arguments.extend(option(fixed.to_owned()));
    }
    if let Some(port) = ssh.port {
        arguments.extend(option(format!("Port={port}")));
    }
    if let Some(user) = &ssh.user {
        arguments.extend(["-l".into(), user.into()]);
    }
    if let Some(identity) = &ssh.identity {
        arguments.extend(option("IdentitiesOnly=yes".to_owned()));
        arguments.extend(["-i".into(), identity.into()]);
    }
    if let Some(known) = &ssh.known_hosts {
        arguments.extend(option(format!("UserKnownHostsFile=\"{}\"", known.display())));
        arguments.extend(option("GlobalKnownHostsFile=/dev/null".to_owned()));
    }
    arguments.extend(["--".into(), ssh.host.as_str().into(), command(ssh).into()]);
    arguments
}

/// The command line for the shell of the user there, whichever it is.
fn command(ssh: &SshSpec) -> String {
    let sudo = if ssh.sudo { "sudo -n " } else { "" };
    let place = ssh.directory.to_string_lossy();
    format!("{sudo}sh -c {} fsage {}", quoted(SCRIPT), quoted(&place))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_study_says_is_no_option_and_no_command() {
        let ssh: SshSpec = serde_json::from_str(
            r#"{"host":"board","user":"u","port":2222,"sudo":true,"identity":"k","known_hosts":"/h","directory":"/a 'b'; c"}"#,
        )
        .unwrap();
        let text: Vec<String> =
            arguments(&ssh).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let end = text.iter().position(|word| word == "--").unwrap();
        assert_eq!((text[end + 1].as_str(), text.len()), ("board", end + 3));
        assert!(text[end + 2].starts_with("sudo -n sh -c 'set -eu"));
        assert!(text[end + 2].ends_with(r"fsage '/a '\''b'\''; c'"), "{}", text[end + 2]);
        assert!(text.contains(&"StrictHostKeyChecking=yes".to_owned()));
        assert!(text.contains(&"Port=2222".to_owned()));
    }
}
