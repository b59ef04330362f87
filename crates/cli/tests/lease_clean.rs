//! Leases end to end: what killed processes leave behind, and giving it back.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod support;

use std::path::{Path, PathBuf};

use fsage_engine::host::process::{Identity, is_alive, start_ticks};
use fsage_lab::lease::record::Lease;
use fsage_lab::lease::{CleanReport, CleanSummary, Journal, LeaseError, StoreOutcome, clean, clean_stores};
use fsage_lab::target::{Incoming, Session, Target, TargetError};
use fsage_model::protocol::{Call, call};
use support::Scratch;

const SIZE: u64 = 32 << 20;

fn ask<C: Call>(session: &mut Session, call: C) -> C::Reply {
    session.call(call).unwrap()
}

fn tool(session: &mut Session, argv: &[&str]) {
    let argv = argv.iter().map(|&word| word.to_owned()).collect();
    let output = ask(session, call::RunTool { argv, timeout_ms: 60_000 });
    assert_eq!(output.status, 0, "{output:?}");
}

fn local() -> Session {
    support::agent();
    Target::local().unwrap()
}

/// Takes a file, a loop device with a scheduler, a directory and a mount, each after its lease.
fn take_everything(store: &Path, journal: &mut Journal, session: &mut Session) -> PathBuf {
    journal.attach(session).unwrap();
    let (file, point) = (store.join("volume.img"), store.join("mnt"));
    journal.make(Lease::File { path: file.clone() }).unwrap();
    journal.take(Lease::loop_over(&file)).unwrap();
    let attach =
        call::LoopAttach { file, size_bytes: Some(SIZE), sector_bytes: 4096, direct_io: false, part: None };
    let device = ask(session, attach);
    let name = device.file_name().unwrap().to_string_lossy().into_owned();
    let path = PathBuf::from(format!("/sys/class/block/{name}/queue/max_sectors_kb"));
    let old = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    let new = if old == "64" { "68" } else { "64" }.to_owned();
    journal.take(Lease::Setting { path: path.clone(), old: old.clone(), new: new.clone() }).unwrap();
    let set = ask(session, call::Set { path: path.clone(), value: new });
    assert_eq!(set, old);
    std::fs::write(store.join("setting"), format!("{}\n{old}", path.display())).unwrap();
    tool(session, &["mkfs.ext4", "-q", "-b", "4096", &device.display().to_string()]);
    journal.make(Lease::Directory { path: point.clone() }).unwrap();
    ask(session, call::MakeMountPoint { point: point.clone() });
    journal.take(Lease::Mount { point: point.clone() }).unwrap();
    let options = vec!["noatime".to_owned()];
    ask(
        session,
        call::Mount { device, point: point.clone(), file_system: "ext4".to_owned(), options, afresh: false },
    );
    std::fs::write(point.join("file"), "data").unwrap();
    point
}

fn setting_is_restored(store: &Path) -> bool {
    let text = std::fs::read_to_string(store.join("setting")).unwrap();
    let (path, old) = text.split_once('\n').unwrap();
    std::fs::read_to_string(path).is_ok_and(|now| now.trim() == old)
}

fn only(report: CleanReport) -> CleanSummary {
    let [store] = report.stores.as_slice() else { panic!("{report:?}") };
    match &store.outcome {
        StoreOutcome::Cleaned(summary) => summary.clone(),
        other => panic!("{other:?}"),
    }
}

/// Takes everything and waits to be killed, with the agent in the middle of a tool that would last.
#[test]
fn helper_holds_everything() {
    let Some(store) = support::helper_argument() else { return };
    let mut journal = Journal::open(&store).unwrap();
    let mut session = local();
    take_everything(&store, &mut journal, &mut session);
    let agent = session.identity().clone();
    std::fs::write(store.join("agent"), format!("{} {}", agent.pid, agent.start_ticks)).unwrap();
    std::thread::spawn(move || {
        // It holds the mount busy, as a mkfs that outlives the lab would hold the device.
        let script = format!("cd {} && exec sleep 600", store.join("mnt").display());
        let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let _ = session.call(call::RunTool { argv, timeout_ms: 0 });
    });
    support::ready_to_be_killed();
}

fn agent_of(store: &Path) -> Identity {
    let text = std::fs::read_to_string(store.join("agent")).unwrap();
    let (pid, ticks) = text.split_once(' ').unwrap();
    Identity { pid: pid.parse().unwrap(), start_ticks: ticks.parse().unwrap() }
}

#[test]
fn everything_a_killed_lab_held_is_released() {
    if !support::can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let store = scratch.path();
    let mut lab = support::helper("helper_holds_everything", store);
    assert_eq!(scratch.left_behind().len(), 2);
    let StoreOutcome::InUse(by) = clean_stores(&[store.to_owned()]).unwrap().stores[0].outcome.clone() else {
        panic!("a store in use was cleaned")
    };
    assert!(by.contains(&format!("process {}", lab.id())), "{by}");
    lab.kill().unwrap();
    lab.wait().unwrap();
    let summary = only(clean_stores(&[store.to_owned()]).unwrap());
    assert_eq!(summary.failed, []);
    assert_eq!(summary.released.len(), 6, "{summary:?}");
    assert!(matches!(summary.released[0], Lease::Process { .. }));
    assert_eq!(scratch.left_behind(), [] as [String; 0]);
    assert!(setting_is_restored(store));
    assert!(!agent_of(store).is_alive());
    assert!(!store.join("volume.img").exists() && !store.join("mnt").exists());
    assert_eq!(only(clean_stores(&[store.to_owned()]).unwrap()), CleanSummary::default());
}

#[test]
fn an_agent_killed_in_a_request_is_told_and_cleaned_up_after() {
    if !support::can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mut journal = Journal::open(scratch.path()).unwrap();
    let mut session = local();
    let point = take_everything(scratch.path(), &mut journal, &mut session);
    let pid = session.identity().pid;
    let marker = point.join("started");
    let script = format!("echo $$ > {}; cd {}; exec sleep 600", marker.display(), point.display());
    let killer = std::thread::spawn(move || {
        support::wait_for("the tool", || {
            std::fs::read_to_string(&marker).is_ok_and(|pid| pid.ends_with('\n'))
        });
        let tool: u32 = std::fs::read_to_string(&marker).unwrap().trim().parse().unwrap();
        assert!(
            std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success()
        );
        tool
    });
    let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let error = session.call(call::RunTool { argv, timeout_ms: 0 }).unwrap_err();
    let tool = killer.join().unwrap();
    let TargetError::Lost { request, status, .. } = &error else { panic!("{error:?}") };
    assert_eq!((request.as_str(), status.as_str()), ("run-tool", "signal: 9 (SIGKILL)"));
    assert!(!is_alive(tool), "the error came before the tool was gone");
    assert!(session.is_lost());
    let again = session.call(call::DropCaches).unwrap_err();
    assert!(matches!(again, TargetError::Lost { .. }), "{again:?}");
    drop(session);
    let mut session = local();
    let own = journal.attach(&session).unwrap();
    let summary = clean(&mut session, &mut journal).unwrap();
    assert_eq!(summary.failed, []);
    assert_eq!(journal.outstanding().len(), 1, "only the new agent itself");
    journal.release(own).unwrap();
    assert_eq!(scratch.left_behind(), [] as [String; 0]);
    assert!(setting_is_restored(scratch.path()));
}

#[test]
fn a_step_that_fails_does_not_keep_others_from_being_tried() {
    if !support::can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let store = scratch.path();
    let mut journal = Journal::open(store).unwrap();
    let mut session = local();
    let own = journal.attach(&session).unwrap();
    let (kept, other) = (store.join("kept"), store.join("other"));
    std::fs::create_dir(&kept).unwrap();
    journal.make(Lease::File { path: other.clone() }).unwrap();
    journal.take(Lease::Mount { point: kept.clone() }).unwrap();
    // Something is mounted there that cannot be unmounted while it is used.
    let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&kept).status();
    assert!(mounted.unwrap().success());
    let user = std::fs::File::create(kept.join("open")).unwrap();
    let summary = clean(&mut session, &mut journal).unwrap();
    assert_eq!(summary.released, [Lease::File { path: other.clone() }]);
    assert_eq!(summary.failed.len(), 1, "{summary:?}");
    assert!(summary.failed[0].1.contains("kept"), "{summary:?}");
    assert!(!other.exists());
    drop(user);
    let summary = clean(&mut session, &mut journal).unwrap();
    assert_eq!(summary.released, [Lease::Mount { point: kept }]);
    drop(session);
    journal.release(own).unwrap();
}

#[test]
fn leases_of_an_earlier_boot_touch_nothing_but_files() {
    let scratch = Scratch::new();
    let store = scratch.path();
    let mut bystander = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let (pid, ticks) = (bystander.id(), start_ticks(bystander.id()).unwrap());
    let (file, point) = (store.join("volume.img"), store.join("mnt"));
    let mut journal = Journal::open(store).unwrap();
    journal.take(Lease::Process { pid, start_ticks: ticks }).unwrap();
    journal.make(Lease::File { path: file.clone() }).unwrap();
    journal.take(Lease::loop_over(&file)).unwrap();
    journal.make(Lease::Directory { path: point.clone() }).unwrap();
    let path = journal.path().to_owned();
    drop(journal);
    let this = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let earlier = "00000000-0000-4000-8000-000000000000";
    let text = std::fs::read_to_string(&path).unwrap().replace(this.trim(), earlier);
    let mount = r#"{"number":9,"boot_id":"EARLIER","state":"taken","lease":"mount","point":"/proc"}"#;
    std::fs::write(&path, format!("{text}{}\n", mount.replace("EARLIER", earlier))).unwrap();
    support::agent();
    let summary = only(clean_stores(&[store.to_owned()]).unwrap());
    assert_eq!(summary.failed, []);
    assert_eq!((summary.expired.len(), summary.released.len()), (3, 2), "{summary:?}");
    assert!(Path::new("/proc/self").exists() && !file.exists() && !point.exists());
    assert!(bystander.try_wait().unwrap().is_none(), "a process of this boot was killed");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn a_line_torn_by_a_full_disk_is_not_glued_to_the_next() {
    if !support::can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let state = scratch.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=32k,mode=700", "tmpfs"]);
    assert!(mount.arg(&state).status().unwrap().success());
    // In a process of its own, whose journals lie there.
    let mut filler = std::process::Command::new(std::env::current_exe().unwrap());
    filler.args(["--exact", "helper_fills_the_disk_of_its_journal", "--nocapture"]);
    filler.env("FSAGE_TEST_HELPER", scratch.path()).env("FSAGE_STATE_DIR", &state);
    assert!(filler.status().unwrap().success());
}

#[test]
fn helper_fills_the_disk_of_its_journal() {
    let Some(scratch) = support::helper_argument() else { return };
    let (store, state) = (scratch.join("store"), scratch.join("state"));
    std::fs::create_dir(&store).unwrap();
    // One page is left for the journal; a line takes about a quarter of it.
    std::fs::write(state.join("ballast"), vec![1; 28 << 10]).unwrap();
    let mut journal = Journal::open(&store).unwrap();
    assert!(journal.path().starts_with(state.canonicalize().unwrap()));
    let lease = |number| Lease::loop_over(Path::new(&format!("/nowhere/{number}{}", "x".repeat(900))));
    let mut taken = Vec::new();
    let error = loop {
        match journal.take(lease(taken.len())) {
            Ok(id) => taken.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LeaseError::Journal { what: "write", .. }), "{error:?}");
    assert!((1..8).contains(&taken.len()), "{} lines fitted", taken.len());
    std::fs::remove_file(state.join("ballast")).unwrap();
    taken.push(journal.take(lease(100)).unwrap());
    let leases: Vec<Lease> = journal.outstanding().iter().map(|record| record.lease.clone()).collect();
    drop(journal);
    let mut journal = Journal::open(&store).unwrap();
    let read: Vec<Lease> = journal.outstanding().iter().map(|record| record.lease.clone()).collect();
    assert_eq!((read, journal.damaged_lines()), (leases, 0));
    for id in taken {
        journal.release(id).unwrap();
    }
}

#[test]
fn what_is_not_ours_cannot_be_leased() {
    let scratch = Scratch::new();
    let mut journal = Journal::open(scratch.path()).unwrap();
    let file = scratch.path().join("users.data");
    std::fs::write(&file, "precious").unwrap();
    let present = journal.make(Lease::File { path: file.clone() });
    assert!(matches!(present, Err(LeaseError::Present { .. })), "{present:?}");
    let mounted = journal.take(Lease::Mount { point: "/proc".into() });
    assert!(matches!(mounted, Err(LeaseError::Present { what: "mounted", .. })), "{mounted:?}");
    let unmade = journal.take(Lease::File { path: scratch.path().join("other") });
    assert!(matches!(unmade, Err(LeaseError::NotOurs { .. })), "{unmade:?}");
    let relative = journal.make(Lease::Directory { path: "mnt".into() });
    assert!(matches!(relative, Err(LeaseError::NotOurs { .. })), "{relative:?}");
    assert!(journal.outstanding().is_empty());
    assert!(matches!(Journal::open(&file), Err(LeaseError::NoStore { .. })));
    assert!(matches!(Journal::open(scratch.path()), Err(LeaseError::Locked { .. })));
}

#[test]
fn an_agent_that_is_told_to_end_is_gone_when_the_session_is() {
    let session = local();
    let agent = session.identity().clone();
    let identity = Identity { pid: agent.pid, start_ticks: agent.start_ticks };
    assert!(identity.is_alive());
    let control = session.control();
    drop(session);
    assert!(!identity.is_alive());
    control.stop();
}

#[test]
fn a_control_works_from_another_thread_while_a_tool_runs() {
    let mut session = local();
    let control = session.control();
    let hand = std::thread::spawn(move || {
        for _ in 0..50 {
            control.pause();
            control.resume();
        }
    });
    let mut incoming = Vec::new();
    let argv = ["sh", "-c", "echo done"].map(str::to_owned).to_vec();
    let run = call::RunTool { argv, timeout_ms: 20_000 };
    let output = session.call_with(run, &mut |one: Incoming| incoming.push(one)).unwrap();
    hand.join().unwrap();
    assert!(output.status == 0 && incoming.is_empty());
    // Answers to the controls that come late do not confuse the next call.
    assert!(ask(&mut session, call::Usage { directory: "/".into() }).total_bytes > 0);
    let error = session.call(call::BlockFacts { device: "/dev/null".into() }).unwrap_err();
    assert!(matches!(error, TargetError::Failed { .. }) && !session.is_lost());
}
