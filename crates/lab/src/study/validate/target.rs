//! What a study says of the host that its trials run on: these words become arguments of `ssh`.

use fsage_model::study::{Architecture, GuestSpec, GuestTime, SshSpec, StudySpec, TargetSpec};

use super::Checker;
use crate::study::schema::Problem;

/// Memory of a guest, at least, in bytes.
const LEAST_MEMORY: u64 = 256 << 20;

/// Processors of a guest, at most.
const MOST_CPUS: u32 = 64;

/// Processors that the interrupt controller of an emulated ARM machine has room for (GICv2).
const MOST_ARM_CPUS: u32 = 8;

pub(super) fn check(spec: &StudySpec) -> Vec<Problem> {
    let mut check = Checker::new(&["target"]);
    match &spec.target {
        TargetSpec::Local => {}
        TargetSpec::Ssh(ssh) => of_ssh(&mut check, ssh),
        TargetSpec::Guest(guest) => {
            of_guest(&mut check, guest);
            let free = guest.time == GuestTime::Host || spec.controls.is_none();
            check.require(free, "time", || {
                "controls continue from the state that their trial left, and in virtual time each trial has its own guest"
                    .to_owned()
            });
        }
    }
    check.problems
}

fn of_ssh(check: &mut Checker, ssh: &SshSpec) {
    check.require(is_name(&ssh.host, ".-_:%"), "host", || {
        format!("{:?} is not a host name: letters, digits and . - _ : %, not beginning with -", ssh.host)
    });
    if let Some(user) = &ssh.user {
        check.require(is_name(user, ".-_"), "user", || {
            format!("{user:?} is not a user name: letters, digits and . - _, not beginning with -")
        });
    }
    check.require(ssh.port != Some(0), "port", || "0 is not a port".to_owned());
    check.require(ssh.directory.is_absolute(), "directory", || {
        format!("{} is not an absolute path", ssh.directory.display())
    });
    let plain = !ssh.directory.to_string_lossy().chars().any(char::is_control);
    check.require(plain, "directory", || "it contains control characters".to_owned());
    for (key, path) in [("identity", &ssh.identity), ("known_hosts", &ssh.known_hosts)] {
        let Some(path) = path else { continue };
        let text = path.to_string_lossy();
        // The quotes and tokens of ssh_config(5).
        check.require(!text.contains(['"', '%', '\n']) && !text.starts_with('-'), key, || {
            format!("{text:?}: ssh does not accept such a path")
        });
    }
}

fn of_guest(check: &mut Checker, guest: &GuestSpec) {
    let tree = guest.kernel.starts_with('/');
    check.require(tree || is_name(&guest.kernel, ".-+"), "kernel", || {
        format!(
            "{:?} is not a kernel: a version such as 6.1, `debian`, or the absolute path of a built tree",
            guest.kernel
        )
    });
    check.require(guest.memory.0 >= LEAST_MEMORY, "memory", || {
        format!("{} is too little for a kernel and what it unpacks: at least 256MiB", guest.memory)
    });
    check.require((1..=MOST_CPUS).contains(&guest.cpus), "cpus", || {
        format!("{} processors: 1 to {MOST_CPUS}", guest.cpus)
    });
    let arm = guest.architecture == Some(Architecture::Aarch64);
    check.require(!arm || guest.cpus <= MOST_ARM_CPUS, "cpus", || {
        format!("{} processors: at most {MOST_ARM_CPUS} of 64-bit ARM", guest.cpus)
    });
    check.require(guest.time == GuestTime::Host || guest.cpus == 1, "cpus", || {
        "a guest in virtual time has one processor: the order of the instructions of several is not fixed"
            .to_owned()
    });
}

fn is_name(text: &str, more: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_ssh_would_take_for_options_are_refused() {
        let problems = |json: &str| {
            let ssh: SshSpec = serde_json::from_str(json).unwrap();
            let mut check = Checker::new(&["target"]);
            of_ssh(&mut check, &ssh);
            check.problems.len()
        };
        assert_eq!(problems(r#"{"host":"board-1.lan","user":"root","port":22}"#), 0);
        assert_eq!(problems(r#"{"host":"fe80::1%eth0"}"#), 0);
        for bad in ["-oProxyCommand=x", "a b", "a;b", "", "user@host"] {
            assert_eq!(problems(&format!(r#"{{"host":"{bad}"}}"#)), 1, "{bad}");
        }
        assert_eq!(problems(r#"{"host":"a","user":"-x","port":0,"directory":"tmp","identity":"-x"}"#), 4);
    }
}
