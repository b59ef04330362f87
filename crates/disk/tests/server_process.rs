//! The server as a process of its own: its life and what it answers.

#![expect(clippy::unwrap_used, reason = "tests panic")]

mod export_rig;
mod server_rig;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

#[cfg(feature = "ublk")]
use fsage_disk::export::ublk::Device;
use fsage_disk::log::file::Reader;
use fsage_disk::log::stream::{Item, Source as _};
use fsage_disk::request::Operation;
use fsage_disk::server::ServerDirectory;
use fsage_disk::server::client::{self, ClientError};
use fsage_model::disk::Ready;

#[cfg(feature = "ublk")]
use export_rig::skip;
use export_rig::{Chance, Client as _};
use server_rig::{Disk, MIB, fsage_disk, is_root, text, within};

#[test]
fn a_disk_goes_up_serves_and_goes_down() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    let directory = directory.to_str().unwrap();
    let up = fsage_disk(&["up", "--directory", directory, "--size", "67108864", "--medium", "ram"]);
    assert!(up.status.success(), "{}", text(&up.stderr));
    let ready: Ready = serde_json::from_slice(&up.stdout).unwrap();
    let place = ServerDirectory::new(Path::new(directory));
    let mut disk = Disk { ready, place, mounted: None, device: None, folder };
    assert_eq!(fs::metadata(&disk.ready.file).unwrap().len(), 64 * MIB);
    let recorded = disk.place.process().unwrap().unwrap();
    assert_eq!((recorded.pid, recorded.start_ticks), (disk.ready.pid, disk.ready.start_ticks));

    let again = fsage_disk(&["up", "--directory", directory, "--size", "67108864", "--medium", "ram"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is up in"), "{}", text(&again.stderr));

    let device = disk.attach();
    let mut data = vec![0; 1 << 20];
    Chance::new(3).fill(&mut data);
    let file = File::options().read(true).write(true).open(&device).unwrap();
    file.write_all_at(&data, 5 * MIB).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let stat = fsage_disk(&["stat", "--directory", directory]);
    let stat: serde_json::Value = serde_json::from_slice(&stat.stdout).unwrap();
    assert_eq!(stat["disk"]["size_bytes"], 64 * MIB);
    assert_eq!(stat["disk"]["requests"]["write"]["bytes"], MIB);
    assert_eq!(stat["process"]["pid"], disk.ready.pid);

    let refused = fsage_disk(&["down", "--directory", directory]);
    assert_eq!(refused.status.code(), Some(1));
    let reported = text(&refused.stderr);
    assert!(reported.contains("in use") && reported.contains("hint: "), "{reported}");
    drop(disk.device.take());
    let down = fsage_disk(&["down", "--directory", directory]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    disk.assert_gone();
    let not_up = fsage_disk(&["stat", "--directory", directory]);
    assert!(text(&not_up.stderr).contains("no disk is up"), "{}", text(&not_up.stderr));
}

#[cfg(not(feature = "ublk"))]
#[test]
fn a_build_without_ublk_says_so() {
    let up =
        fsage_disk(&["up", "--directory", "/d", "--size", "67108864", "--medium", "ram", "--export", "ublk"]);
    assert_eq!(up.status.code(), Some(2));
    assert!(text(&up.stderr).contains("--features ublk"), "{}", text(&up.stderr));
}

#[cfg(feature = "ublk")]
#[test]
fn a_kernel_without_ublk_says_what_to_do() {
    if Device::available() {
        skip::skip("this kernel has ublk");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    let words = ["--size", "67108864", "--medium", "hdd-7200", "--export", "ublk"];
    let up = fsage_disk(&[&["up", "--directory", directory.to_str().unwrap()], &words[..]].concat());
    assert_eq!(up.status.code(), Some(1));
    let reported = text(&up.stderr);
    assert!(
        reported.contains("error: ublk: this kernel has no ublk: there is no /dev/ublk-control\n"),
        "{reported}"
    );
    for needed in ["hint: ", "modprobe ublk_drv", "6.0", "CONFIG_BLK_DEV_UBLK", "export fuse"] {
        assert!(reported.contains(needed), "{reported}");
    }
    assert!(up.stdout.is_empty());
    assert!(!directory.exists());
}

#[test]
fn a_disk_is_a_network_block_device_too() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    let words = ["--size", "67108864", "--medium", "ram", "--nbd", "on"];
    let up = fsage_disk(&[&["up", "--directory", directory.to_str().unwrap()], &words[..]].concat());
    assert!(up.status.success(), "{}", text(&up.stderr));
    let ready: Ready = serde_json::from_slice(&up.stdout).unwrap();
    let socket = ready.nbd.clone().unwrap();
    let disk = Disk { ready, place: ServerDirectory::new(&directory), mounted: None, device: None, folder };
    assert_eq!(socket, disk.place.nbd());
    let mut client = UnixStream::connect(&socket).unwrap();
    // The empty name, and a write of a block of ones at 8192.
    client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    let mut request = b"\x25\x60\x95\x13\0\0\0\x01COOKIES!\0\0\0\0\0\0\x20\0\0\0\x10\0".to_vec();
    request.resize(28 + 4096, 1);
    client.write_all(&request).unwrap();
    let mut answers = [0; 28 + 16];
    client.read_exact(&mut answers).unwrap();
    assert_eq!(answers[28..], *b"\x67\x44\x66\x98\0\0\0\0COOKIES!");
    // What one way wrote, the other reads.
    let mut data = [0; 4096];
    File::open(&disk.ready.file).unwrap().read_exact_at(&mut data, 8192).unwrap();
    assert_eq!(data, [1; 4096]);
    let stat = client::stat(&disk.place).unwrap();
    assert_eq!((stat.nbd_clients, stat.disk.requests.write.bytes), (Some(1), 4096));
    match client::down(&disk.place) {
        Err(ClientError::Refused { error, hint }) => {
            assert!(error.contains("in use") && hint.unwrap().contains("NBD"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    drop(client);
    within("the server notices", || client::stat(&disk.place).unwrap().nbd_clients == Some(0));
    client::down(&disk.place).unwrap();
    disk.assert_gone();
}

#[test]
fn a_disk_that_cannot_be_made_is_told_and_leaves_nothing() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    for (size, medium, reported) in [
        ("67108864", "cheese", "medium"),
        ("67108864", "{", "medium"),
        ("5000", "ram", "not a multiple"),
        ("0", "ram", "cannot make the disk"),
        ("36893488147419103232", "ram", "whole number"),
    ] {
        let up = fsage_disk(&[
            "up",
            "--directory",
            directory.to_str().unwrap(),
            "--size",
            size,
            "--medium",
            medium,
        ]);
        assert!(!up.status.success());
        assert!(text(&up.stderr).contains(reported), "{size} {medium}: {}", text(&up.stderr));
        assert!(!directory.exists(), "{size} {medium}");
    }
}

#[test]
fn questions_that_are_none_are_answered_with_an_error() {
    if !is_root() {
        return;
    }
    let disk = Disk::up(4 * MIB);
    for question in ["", "stat", r#"{"command":"fly"}"#, "\u{0}\u{0}"] {
        let mut stream = UnixStream::connect(&disk.ready.control).unwrap();
        stream.write_all(format!("{question}\n").as_bytes()).unwrap();
        let answer = std::io::read_to_string(stream).unwrap();
        assert!(answer.contains("\"error\""), "{question}: {answer}");
    }
    // Nor does one who says nothing and goes away.
    drop(UnixStream::connect(&disk.ready.control).unwrap());
    assert_eq!(client::stat(&disk.place).unwrap().disk.size_bytes, 4 * MIB);
}

/// Asks by the command line.
fn asked(disk: &Disk, question: &str) -> Result<serde_json::Value, String> {
    let output = fsage_disk(&["ask", "--directory", disk.place.directory().to_str().unwrap(), question]);
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).unwrap())
    } else {
        Err(text(&output.stderr))
    }
}

#[test]
fn snapshots_release_what_they_keep() {
    if !is_root() {
        return;
    }
    let mut disk = Disk::up(4 * MIB);
    let device = disk.attach();
    let direct = disk.device.as_ref().unwrap();
    direct.write(0, &[1; 4096]);
    let kept = asked(&disk, r#"{"command":"snapshot"}"#).unwrap()["snapshot"].clone();
    direct.write(0, &[2; 4096]);
    asked(&disk, &format!(r#"{{"command":"revert","snapshot":{kept}}}"#)).unwrap();
    let mut data = [0; 4096];
    direct.read(0, &mut data);
    assert_eq!(data, [1; 4096], "{}", device.display());
    asked(&disk, &format!(r#"{{"command":"delete-snapshot","snapshot":{kept}}}"#)).unwrap();
    let gone = asked(&disk, &format!(r#"{{"command":"revert","snapshot":{kept}}}"#)).unwrap_err();
    assert!(gone.contains("error: "), "{gone}");
}

#[test]
fn a_log_is_saved_while_requests_go_on() {
    if !is_root() {
        return;
    }
    let mut disk = Disk::up(8 * MIB);
    disk.attach();
    let file = disk.folder.path().join("log");
    let save = format!(r#"{{"command":"save-log","file":"{}"}}"#, file.display());
    let refused = asked(&disk, &save).unwrap_err();
    assert!(refused.contains("keeps no log") && !file.exists(), "{refused}");
    asked(&disk, r#"{"command":"start-log"}"#).unwrap();
    let direct = disk.device.as_ref().unwrap();
    let mut data = vec![0; 8192];
    for round in 0..200_u64 {
        Chance::new(round).fill(&mut data);
        direct.write(round * 8192, &data);
    }
    direct.flush();
    asked(&disk, r#"{"command":"mark","name":"half"}"#).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..200_u64 {
                direct.write(round * 8192, &[9; 8192]);
            }
        });
        let saved = asked(&disk, &save).unwrap();
        // The user's, and the one that names the medium.
        assert_eq!(saved["marks"], 2);
        writer.join().unwrap();
    });
    let mut reader = Reader::new(File::open(&file).unwrap()).unwrap();
    let (mut bytes, mut writes) = (Vec::new(), 0);
    while let Some(item) = reader.next_item(&mut bytes).unwrap() {
        let entry = match item {
            Item::Entry(entry) => entry,
            Item::Mark(mark) if mark.name == "half" => break,
            Item::Mark(mark) => {
                assert_eq!((mark.name.as_str(), mark.position), ("fsage:medium ram", 0));
                continue;
            }
        };
        if entry.request.operation == Operation::Write {
            Chance::new(writes).fill(&mut data);
            assert_eq!(entry.request.offset_bytes, writes * 8192);
            assert!(bytes == data, "write {writes}");
            writes += 1;
        }
    }
    assert_eq!(writes, 200);
    asked(&disk, r#"{"command":"end-log"}"#).unwrap();
    assert!(asked(&disk, r#"{"command":"end-log"}"#).unwrap_err().contains("keeps no log"));
}

#[test]
fn faults_strike_and_are_taken_out_again() {
    if !is_root() {
        return;
    }
    let mut disk = Disk::up(4 * MIB);
    disk.attach();
    let direct = disk.device.as_ref().unwrap();
    direct.write(0, &[7; 8192]);
    let faults =
        r#"{"command":"set-faults","faults":{"read_error":[{"offset_bytes":4096,"length_bytes":4096}]}}"#;
    asked(&disk, faults).unwrap();
    let file = File::options().read(true).open(&direct.path).unwrap();
    let mut data = [0; 4096];
    assert!(file.read_exact_at(&mut data, 4096).is_err());
    asked(&disk, r#"{"command":"clear-faults"}"#).unwrap();
    file.read_exact_at(&mut data, 4096).unwrap();
    assert_eq!(data, [7; 4096]);
    let wrong = r#"{"command":"set-faults","faults":{"read_error":[{"rate":7.0}]}}"#;
    assert!(asked(&disk, wrong).unwrap_err().contains("hint: "));
}
