//! The NBD server with the clients that people have: libnbd's tools, QEMU's, fio.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../sys/tests/support/skip.rs"]
mod skip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use fsage_disk::export::nbd::Server;
use fsage_disk::export::{Backend, Gate};
use fsage_disk::request::{Data, Operation, Transfer};
use fsage_model::disk::DiskTime;

use skip::skip;

const SIZE: usize = 48 << 20;

/// A disk in memory, to which the server's bytes can be compared.
struct Memory {
    bytes: Vec<u8>,
    seen: Vec<Operation>,
}

impl Backend for Memory {
    fn size_bytes(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap()
    }

    fn block_bytes(&self) -> u32 {
        4096
    }

    fn submit(&mut self, transfers: &mut [Transfer<'_>]) {
        for transfer in transfers {
            let request = transfer.request;
            self.seen.push(request.operation);
            let range =
                usize::try_from(request.offset_bytes).unwrap()..usize::try_from(request.end_bytes()).unwrap();
            match &mut transfer.data {
                Data::In(data) => data.copy_from_slice(&self.bytes[range]),
                Data::Out(data) => self.bytes[range].copy_from_slice(data),
                Data::None => self.bytes[range].fill(0),
            }
        }
    }
}

struct Rig {
    directory: tempfile::TempDir,
    gate: Arc<Gate<Memory>>,
    server: Server,
}

impl Rig {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let gate = Arc::new(Gate::new(Memory { bytes: vec![0; SIZE], seen: Vec::new() }, DiskTime::Model));
        let server = Server::start(&directory.path().join("nbd"), "disk", Arc::clone(&gate)).unwrap();
        Self { directory, gate, server }
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.server.path().display())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn seen(&self, operation: Operation) -> usize {
        self.gate.with(|memory| memory.seen.iter().filter(|one| **one == operation).count())
    }

    fn bytes(&self) -> Vec<u8> {
        self.gate.with(|memory| memory.bytes.clone())
    }
}

/// Runs a program; `None`, and the test counts as skipped, where it is not installed.
fn run(program: &str, arguments: &[&str], directory: &Path) -> Option<Output> {
    let found =
        Command::new("timeout").arg("60").arg(program).args(arguments).current_dir(directory).output();
    let output = found.unwrap();
    if output.status.code() == Some(127) {
        skip(format_args!("{program} is not installed"));
        return None;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{errors}", output.status);
    Some(output)
}

/// Bytes of which no two blocks are alike, with zeros in between.
fn pattern() -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    for (n, block) in (0..).zip(bytes.chunks_mut(1 << 16)) {
        if n % 3 > 0 {
            fsage_content::fill(block, n, 0, 1);
        }
    }
    bytes
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    let rig = Rig::new();
    let Some(output) = run("nbdinfo", &["--json", &rig.uri()], rig.directory.path()) else { return };
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["protocol"], "newstyle-fixed");
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], SIZE);
    assert_eq!(
        (&export["block_size_minimum"], &export["block_size_maximum"]),
        (&4096.into(), &(32 << 20).into())
    );
    for able in ["can_flush", "can_fua", "can_trim", "can_zero", "can_fast_zero", "can_multi_conn"] {
        assert_eq!(export[able], true, "{able}");
    }
    for unable in ["is_read_only", "is_rotational", "can_cache", "can_df"] {
        assert_eq!(export[unable], false, "{unable}");
    }
    let listed = run("nbdinfo", &["--list", "--json", &rig.uri()], rig.directory.path()).unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["exports"][0]["export-name"], "disk");
    let uri = rig.uri().replace(":///", ":///other");
    let other = Command::new("nbdinfo").arg(uri).output().unwrap();
    assert!(!other.status.success(), "there is no such export");
}

#[test]
fn nbdcopy_brings_every_byte_there_and_back() {
    let rig = Rig::new();
    let source = rig.file("source", &pattern());
    // Four connections at once, as it does by itself.
    let Some(_) = run("nbdcopy", &["--flush", source.to_str().unwrap(), &rig.uri()], rig.directory.path())
    else {
        return;
    };
    assert!(rig.bytes() == pattern());
    assert!(rig.seen(Operation::Flush) > 0);
    run("nbdcopy", &[&rig.uri(), "back"], rig.directory.path()).unwrap();
    assert!(fs::read(rig.directory.path().join("back")).unwrap() == pattern());
}

#[test]
fn qemu_converts_and_compares() {
    let rig = Rig::new();
    let source = rig.file("source", &pattern());
    let (source, uri) = (source.to_str().unwrap(), rig.uri());
    let convert = ["convert", "-n", "-f", "raw", "-O", "raw", source, &uri];
    let Some(_) = run("qemu-img", &convert, rig.directory.path()) else { return };
    assert!(rig.bytes() == pattern());
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", source, &uri], rig.directory.path()).unwrap();
}

#[test]
fn qemu_io_writes_forces_zeroes_discards_and_flushes() {
    let rig = Rig::new();
    let mut arguments = vec!["-f", "raw", "-t", "none", "-d", "unmap"];
    for command in [
        "write -P 1 0 64k",
        "write -f -P 2 64k 64k",
        "write -z 4k 4k",
        "write -z -u 8k 4k",
        "discard 12k 4k",
        // Not whole blocks: QEMU reads, changes and writes.
        "write -P 3 70000 1000",
        "flush",
        "read -P 1 0 4k",
        "read -P 0 4k 12k",
        "read -P 3 70000 1000",
    ] {
        arguments.extend(["-c", command]);
    }
    let uri = rig.uri();
    arguments.push(&uri);
    let Some(output) = run("qemu-io", &arguments, rig.directory.path()) else { return };
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(!output.contains("verification failed"), "{output}");
    let mut expected = [[1; 65_536], [2; 65_536]].concat();
    expected[4096..16_384].fill(0);
    expected[70_000..71_000].fill(3);
    assert!(rig.bytes()[..131_072] == expected);
    for operation in [Operation::Zero, Operation::Discard, Operation::Flush] {
        assert!(rig.seen(operation) > 0, "{operation:?}");
    }
}

#[test]
fn fio_verifies_what_it_wrote_with_several_clients() {
    let rig = Rig::new();
    let uri = format!("--uri={}", rig.uri());
    let arguments = [
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bsrange=4k-64k",
        "--blockalign=4k",
        "--iodepth=32",
        "--numjobs=3",
        "--thread",
        "--size=16m",
        "--offset_increment=16m",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--output-format=json",
    ];
    let Some(output) = run("fio", &arguments, rig.directory.path()) else { return };
    // The engine says hello first.
    let begin = output.stdout.iter().position(|byte| *byte == b'{').unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout[begin..]).unwrap();
    let jobs = report["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 3);
    for job in jobs {
        assert_eq!((&job["error"], &job["write"]["io_kbytes"]), (&0.into(), &16_384.into()), "{job}");
        assert!(job["read"]["io_kbytes"].as_u64() >= Some(16_384), "it reads all of it to verify");
    }
    assert!(rig.gate.counts().largest_batch > 1);
}
