//! The agent as a process: what it says to people, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

#[path = "../../sys/tests/support/skip.rs"]
mod skip;

use std::io::{BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use fsage_engine::frame;
use fsage_engine::frame::FrameKind;
use fsage_engine::host::process::{Identity, end, is_alive};
use fsage_model::protocol::{Call, PROTOCOL_VERSION, Request, call};

const AGENT: &str = env!("CARGO_BIN_EXE_fsage-agent");

struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: frame::Reader<BufReader<ChildStdout>>,
    identity: Identity,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = end(self.identity, Duration::from_secs(5));
    }
}

impl Agent {
    fn start() -> Self {
        let mut child = Command::new(AGENT).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = frame::Reader::new(BufReader::new(child.stdout.take().unwrap()));
        let identity = Identity { pid: child.id(), start_ticks: 0 };
        let mut agent = Self { child, input, output, identity };
        let greeting = agent.call(1, call::Hello { protocol: PROTOCOL_VERSION });
        assert_eq!((greeting.protocol, greeting.pid), (PROTOCOL_VERSION, agent.child.id()));
        agent.identity.start_ticks = greeting.start_ticks;
        agent
    }

    fn ask(&mut self, id: u64, call: impl Call) {
        let request: Request = call.into();
        frame::write_json(self.input.as_mut().unwrap(), FrameKind::Request, id, &request).unwrap();
    }

    fn call<C: Call>(&mut self, id: u64, call: C) -> C::Reply {
        self.ask(id, call);
        let frame = self.output.next_frame().unwrap().expect("the agent ended");
        assert_eq!(
            (frame.kind, frame.id),
            (FrameKind::Reply, id),
            "{}",
            String::from_utf8_lossy(&frame.payload)
        );
        frame.json().unwrap()
    }

    /// Runs a shell script that first says its pid into a file, and waits for that.
    fn run_script(&mut self, id: u64, script: &str) -> u32 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("echo $$ > {0}.new && mv {0}.new {0}; {script}", file.display());
        let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
        self.ask(id, call::RunTool { argv, timeout_ms: 0 });
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Ok(text) = std::fs::read_to_string(&file) {
                return text.trim().parse().unwrap();
            }
            assert!(Instant::now() < deadline, "the script did not start");
            std::thread::yield_now();
        }
    }
}

fn wait_until_gone(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while is_alive(pid) {
        assert!(Instant::now() < deadline, "process {pid} is still there");
        std::thread::yield_now();
    }
}

#[test]
fn it_tells_its_version_and_use() {
    let version = Command::new(AGENT).arg("--version").output().unwrap();
    let expected = format!("fsage-agent {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(version.stdout).unwrap(), expected);
    let help = Command::new(AGENT).arg("--help").output().unwrap();
    assert!(help.status.success() && String::from_utf8(help.stdout).unwrap().contains("Usage:"));
    let wrong = Command::new(AGENT).arg("--make-coffee").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("hint:"));
}

#[test]
fn it_refuses_a_terminal() {
    // script(1) gives its command a terminal.
    let Ok(output) = Command::new("script").args(["-qec", AGENT, "/dev/null"]).output() else {
        skip::skip("script(1) is not installed");
        return;
    };
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).contains("not started by hand"));
}

#[test]
fn garbage_ends_it_with_a_reason() {
    let mut child = Command::new(AGENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"GET / HTTP/1.1\r\nHost: agent\r\n\r\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("caused by: a frame of 542393671 bytes is longer than the limit"), "{said}");
}

#[test]
fn the_end_of_its_input_ends_it_and_its_tool_within_a_second() {
    let mut agent = Agent::start();
    let tool = agent.run_script(2, "sleep 600 & sleep 600");
    let started = Instant::now();
    drop(agent.input.take());
    assert!(agent.child.wait().unwrap().success());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    wait_until_gone(tool);
}

#[test]
fn the_end_of_its_input_ends_it_when_nothing_else_can() {
    let mut agent = Agent::start();
    // A tool that left its group with the output open and cannot be ended: the agent must not wait for it.
    let tool = agent.run_script(2, "setsid sleep 5 & sleep 600");
    let started = Instant::now();
    drop(agent.input.take());
    agent.child.wait().unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    wait_until_gone(tool);
}

#[test]
fn a_killed_agent_takes_its_tools_along() {
    let mut agent = Agent::start();
    let tool = agent.run_script(2, "exec sleep 600");
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    wait_until_gone(tool);
}

#[test]
fn what_a_tool_started_is_found_after_the_agent_was_killed() {
    let mut agent = Agent::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("setsid sh -c 'echo $$ > {}; exec sleep 600' & sleep 600", file.display());
    agent.run_script(2, &script);
    let deadline = Instant::now() + Duration::from_secs(10);
    let grandchild: u32 = loop {
        if let Ok(pid) = std::fs::read_to_string(&file).unwrap_or_default().trim().parse() {
            break pid;
        }
        assert!(Instant::now() < deadline);
    };
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    assert!(is_alive(grandchild), "it left the group, nothing kills it but ending the agent's identity");
    end(agent.identity, Duration::from_secs(5)).unwrap();
    wait_until_gone(grandchild);
}

#[test]
fn a_pinned_agent_starts_everything_on_one_processor() {
    let mut agent = Agent::start();
    let cpu = agent.call(2, call::Pin { to: None });
    let argv = ["grep", "Cpus_allowed_list", "/proc/self/status"].map(str::to_owned).to_vec();
    let stdout = agent.call(3, call::RunTool { argv, timeout_ms: 10_000 }).stdout;
    assert_eq!(stdout.split_whitespace().last(), Some(cpu.to_string().as_str()), "{stdout}");
}

#[test]
fn tools_and_facts_come_back() {
    let mut agent = Agent::start();
    let argv = ["sh", "-c", "echo hello; exit 7"].map(str::to_owned).to_vec();
    let output = agent.call(2, call::RunTool { argv, timeout_ms: 10_000 });
    assert_eq!((output.status, output.stdout.as_str()), (7, "hello\n"));
    assert!(agent.call(3, call::HostFacts).cpus > 0);
    agent.call(4, call::Goodbye);
    assert!(agent.child.wait().unwrap().success());
}
