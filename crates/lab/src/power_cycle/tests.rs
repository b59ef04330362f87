//! The loop with a scripted board and a clock that only the script moves.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;

use fsage_model::power_cycle::{CutDamage, PowerCycleSpec};

use super::*;

const FILE: &str = r#"
name = "b"
cut_after_s = [2, 60]
off_for_s = 3
after_damage = "prepare"
cycles = 3
[command]
power_off = ["true"]
power_on = ["true"]
boot_id = ["true"]
prepare = ["true", "{options}"]
check = ["true"]
mount = ["true"]
verify = ["true"]
unmount = ["true"]
load = ["true"]
[timeout]
boot_s = 10
[configuration.a]
options = "x"
"#;

/// What a command does: its key, and how often it has been run before.
type Script<'a> = Box<dyn Fn(&str, u64) -> Option<Ran> + 'a>;

struct Fake<'a> {
    script: Script<'a>,
    runs: BTreeMap<&'static str, u64>,
    /// Keys in the order in which they ran.
    ran: Vec<&'static str>,
    now: Duration,
    boots: u64,
    /// What `verify` got each time.
    verified: Vec<String>,
    load: Option<Working>,
    loads: u64,
    over_at: Option<Duration>,
}

impl<'a> Fake<'a> {
    fn new(script: impl Fn(&str, u64) -> Option<Ran> + 'a) -> Self {
        Self {
            script: Box::new(script),
            runs: BTreeMap::new(),
            ran: Vec::new(),
            now: Duration::ZERO,
            boots: 0,
            verified: Vec::new(),
            load: None,
            loads: 0,
            over_at: None,
        }
    }

    fn ran(&self, key: &str) -> u64 {
        self.runs.get(key).copied().unwrap_or(0)
    }

    fn text(input: Option<File>) -> String {
        let mut text = String::new();
        input.unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

fn ended(status: i32, last_line: &str) -> Option<Ran> {
    let elapsed = Duration::from_secs(1);
    Some(Ran { status: Some(status), last_line: last_line.to_owned(), elapsed, ..Ran::default() })
}

impl Board for Fake<'_> {
    fn run(&mut self, step: Step<'_>) -> Result<Ran, PowerCycleError> {
        let before = self.ran(step.key);
        self.runs.insert(step.key, before + 1);
        self.ran.push(step.key);
        self.now += Duration::from_secs(1);
        if step.stoppable && self.is_over() {
            return Err(PowerCycleError::Interrupted);
        }
        self.boots += u64::from(step.key == "power_off");
        if step.key == "verify" {
            self.verified.push(Self::text(step.input));
        }
        let usual = Ran { first_line: format!("boot {}", self.boots), ..ended(0, "").unwrap() };
        Ok((self.script)(step.key, before).unwrap_or(usual))
    }

    fn work(
        &mut self,
        _: &[String],
        time: Duration,
        line: &mut dyn FnMut(&[u8]) -> Result<(), PowerCycleError>,
    ) -> Result<Working, PowerCycleError> {
        self.ran.push("load");
        self.loads += 1;
        line(format!("ack {}", self.loads).as_bytes())?;
        line(b"not one")?;
        if let Some(ended) = &self.load {
            return Ok(ended.clone());
        }
        self.now += time;
        if self.is_over() { Err(PowerCycleError::Interrupted) } else { Ok(Working::Runs) }
    }

    fn end_load(&mut self) -> Option<u32> {
        None
    }

    fn pause(&mut self, time: Duration) {
        self.now += time;
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn is_over(&self) -> bool {
        self.over_at.is_some_and(|at| self.now >= at)
    }
}

struct Quiet;

impl Watch for Quiet {
    fn prepared(&mut self, _: &Turn) {}
    fn recorded(&mut self, _: &CycleRecord) {}
    fn left(&mut self, _: u32) {}
}

struct Rig {
    folder: tempfile::TempDir,
    plan: Plan,
}

impl Rig {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.toml");
        std::fs::write(&path, text).unwrap();
        let plan = Plan::load(&path).unwrap();
        Self { folder, plan }
    }

    fn run(&self, board: &mut Fake<'_>) -> Result<Ending, PowerCycleError> {
        run(&self.plan, self.folder.path(), board, &mut Quiet)
    }

    fn cycles(&self) -> Vec<CycleRecord> {
        read(&self.plan, self.folder.path()).unwrap()
    }
}

const ALL_WELL: fn(&str, u64) -> Option<Ran> = |_, _| None;

#[test]
fn the_loop_is_that_of_the_paper() {
    let rig = Rig::new(FILE);
    let mut board = Fake::new(ALL_WELL);
    assert_eq!(rig.run(&mut board).unwrap(), Ending::Complete);
    let cut = ["power_off", "power_on", "boot_id"];
    let inspect = ["check", "mount", "verify", "unmount"];
    let begin = [&["boot_id"][..], &cut, &["unmount", "prepare"], &inspect].concat();
    let cycle = [&["mount", "load"][..], &cut, &["unmount"], &inspect].concat();
    assert_eq!(board.ran, [begin, cycle.clone(), cycle.clone(), cycle].concat());
    let cycles = rig.cycles();
    assert!(cycles.iter().all(|cycle| cycle.outcome == CycleOutcome::Survived && !cycle.idle));
    assert_eq!(cycles.iter().map(|cycle| cycle.cycle).collect::<Vec<_>>(), [1, 2, 3]);
    let times = &cycles[2].times;
    assert_eq!((times.check_ns, times.boot_ns), (Some(1_000_000_000), Some(2_000_000_000)));
    // A load goes on where it was cut: its lines of all cycles have to be there.
    assert_eq!(board.verified, ["", "1\n", "1\n2\n", "1\n2\n3\n"]);
    assert_eq!(rig.run(&mut Fake::new(|_, _| panic!("nothing is left to do"))).unwrap(), Ending::Complete);
}

#[test]
fn a_command_that_does_not_cut_ends_the_run_before_anything_is_prepared() {
    let rig = Rig::new(FILE);
    let same = |key: &str, _| {
        (key == "boot_id").then(|| Ran { first_line: "same".to_owned(), ..ended(0, "").unwrap() })
    };
    let mut board = Fake::new(same);
    let error = rig.run(&mut board).unwrap_err();
    assert!(matches!(&error, PowerCycleError::NotCut { boot_id } if boot_id == "same"), "{error}");
    assert_eq!((board.ran("prepare"), rig.cycles().len()), (0, 0));
}

#[test]
fn a_board_that_boots_slowly_is_waited_for_and_one_that_does_not_is_an_error() {
    let rig = Rig::new(FILE);
    let slow = |key: &str, before| ended(255, "no route").filter(|_| key == "boot_id" && before < 4);
    let mut board = Fake::new(slow);
    assert_eq!(rig.run(&mut board).unwrap(), Ending::Complete);
    let never = |key: &str, _| ended(255, "no route").filter(|_| key == "boot_id");
    let rig = Rig::new(FILE);
    let error = rig.run(&mut Fake::new(never)).unwrap_err();
    assert!(matches!(&error, PowerCycleError::NoBoot { said, .. } if said == "no route"), "{error}");
}

#[test]
fn damage_ends_a_life_and_its_kind_is_told() {
    for (key, kind, status) in
        [("check", CutDamage::Check, 4), ("mount", CutDamage::Mount, 32), ("verify", CutDamage::Verify, 9)]
    {
        let rig = Rig::new(FILE);
        // `mount` is run twice per cycle.
        let at = if key == "mount" { 4 } else { 2 };
        let second = |asked: &str, before| ended(status, "bad").filter(|_| asked == key && before == at);
        let mut board = Fake::new(second);
        assert_eq!(rig.run(&mut board).unwrap(), Ending::Complete);
        let cycles = rig.cycles();
        let places: Vec<_> = cycles.iter().map(|cycle| (cycle.life, cycle.cycle)).collect();
        assert_eq!(places, [(1, 1), (1, 2), (2, 1)], "{key}");
        let damage = CycleOutcome::Damage { found_by: kind, status, reason: "bad".to_owned() };
        assert_eq!(cycles[1].outcome, damage);
        assert_eq!(board.ran("prepare"), 2);
    }
}

#[test]
fn a_repair_is_survival_and_a_hanging_check_is_neither() {
    let rig = Rig::new(FILE);
    let script = |key: &str, before| match (key, before) {
        ("check", 1) => ended(1, "fixed"),
        ("check", 2) => Some(Ran { status: None, ..Ran::default() }),
        _ => None,
    };
    let mut board = Fake::new(script);
    assert_eq!(rig.run(&mut board).unwrap(), Ending::Complete);
    let cycles = rig.cycles();
    assert!(cycles[0].repaired && cycles[0].outcome == CycleOutcome::Survived);
    assert!(matches!(&cycles[1].outcome, CycleOutcome::Undecided { step, .. } if step == "check"));
    // Inspected again, and good.
    assert_eq!((cycles[1].times.check_ns, cycles[2].life, cycles[2].cycle), (None, 1, 3));
    // What hangs on the board is cut, too: first, three cycles, and once between.
    assert_eq!(board.ran("power_off"), 5);
}

#[test]
fn a_load_that_ends_early_is_told_and_one_that_fails_is_an_error() {
    let rig = Rig::new(FILE);
    let mut board = Fake::new(ALL_WELL);
    board.load = Some(Working::Ended { status: 0, said: String::new() });
    assert_eq!(rig.run(&mut board).unwrap(), Ending::Complete);
    assert!(rig.cycles().iter().all(|cycle| cycle.idle));
    let rig = Rig::new(FILE);
    let mut board = Fake::new(ALL_WELL);
    board.load = Some(Working::Ended { status: 2, said: "no space".to_owned() });
    let error = rig.run(&mut board).unwrap_err().to_string();
    assert_eq!(error, "`load` failed with status 2: no space");
}

#[test]
fn however_a_run_ends_the_power_is_on() {
    for failing in ["power_off", "power_on"] {
        let rig = Rig::new(FILE);
        let mut board =
            Fake::new(|key: &str, before| ended(1, "relay").filter(|_| key == failing && before == 1));
        let error = rig.run(&mut board).unwrap_err();
        assert!(matches!(error, PowerCycleError::Failed { .. }), "{error}");
        assert_eq!(board.ran.last(), Some(&"power_on"), "{failing}");
    }
    for at in 0..120 {
        let rig = Rig::new(FILE);
        let mut board = Fake::new(ALL_WELL);
        board.over_at = Some(Duration::from_secs(at));
        let ending = rig.run(&mut board).unwrap();
        let power = board.ran.iter().rev().find(|key| key.starts_with("power"));
        assert!(power.is_none_or(|key| *key == "power_on"), "{at}: {:?}", board.ran);
        let mut rest = Fake::new(ALL_WELL);
        rest.loads = board.loads;
        assert_eq!(rig.run(&mut rest).unwrap(), Ending::Complete, "{ending:?}");
        let times: Vec<u64> = rig.cycles().iter().map(|cycle| cycle.cut_after_ns).collect();
        let undisturbed = Rig::new(FILE);
        undisturbed.run(&mut Fake::new(ALL_WELL)).unwrap();
        let wanted: Vec<u64> = undisturbed.cycles().iter().map(|cycle| cycle.cut_after_ns).collect();
        assert_eq!(times, wanted, "{at}");
    }
}

#[test]
fn what_a_resumed_run_finds_is_damage_of_the_life_and_no_cycle() {
    let rig = Rig::new(FILE);
    let mut board = Fake::new(ALL_WELL);
    board.load = None;
    board.over_at = None;
    let failed = |key: &str, before| ended(1, "gone").filter(|_| key == "mount" && before == 3);
    board.script = Box::new(failed);
    assert!(rig.run(&mut board).is_err());
    let damaged = |key: &str, before| ended(4, "bad").filter(|_| key == "check" && before == 0);
    rig.run(&mut Fake::new(damaged)).unwrap();
    let cycles = rig.cycles();
    assert_eq!((cycles.len(), cycles[1].resumed, cycles[1].cycle), (4, true, 2));
    assert!(cycles[2..].iter().all(|cycle| cycle.life == 2 && !cycle.resumed));
}

#[test]
fn a_torn_line_does_not_count_and_a_changed_file_or_a_second_run_is_refused() {
    let rig = Rig::new(FILE);
    rig.run(&mut Fake::new(ALL_WELL)).unwrap();
    let path = rig.folder.path().join("b/record.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines = rig.folder.path().join("b/acknowledged-a-1");
    // Within the last cycle, within the first, and within the header.
    for length in [whole.len() - 1, whole.find("boot_id").unwrap(), 5] {
        std::fs::write(&path, &whole[..length]).unwrap();
        std::fs::write(&lines, "1\n2\n3\n4\nbeyond").unwrap();
        assert_eq!(rig.run(&mut Fake::new(ALL_WELL)).unwrap(), Ending::Complete);
        let cut = |cycle: &CycleRecord| (cycle.cycle, cycle.cut_after_ns);
        let again: Vec<_> = rig.cycles().iter().map(cut).collect();
        assert_eq!(again.len(), 3, "{length}");
        assert!(!std::fs::read_to_string(&lines).unwrap().contains("beyond"));
    }
    let other = PowerCycleSpec { off_for_s: 4.0, ..rig.plan.spec.clone() };
    let other = Plan { spec: other, ..rig.plan.clone() };
    let error = run(&other, rig.folder.path(), &mut Fake::new(ALL_WELL), &mut Quiet).unwrap_err();
    assert!(matches!(error, PowerCycleError::Changed { .. }), "{error}");
    let held = Record::open(&rig.plan, rig.folder.path()).unwrap();
    let error = rig.run(&mut Fake::new(ALL_WELL)).unwrap_err().to_string();
    assert!(error.contains("locked by pid"), "{error}");
    drop(held);
    std::fs::write(&path, whole.replace("\"life\":1", "\"life\":x")).unwrap();
    let error = rig.run(&mut Fake::new(ALL_WELL)).unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn of_many_lines_the_newest_whole_ones_are_verified() {
    let rig = Rig::new(FILE);
    let record = Record::open(&rig.plan, rig.folder.path()).unwrap();
    let turn = Turn { configuration: "a".to_owned(), life: 1, cycle: 1, acknowledged_bytes: 0 };
    let mut worked = Worked::default();
    for number in 0..900_000 {
        worked.line(format!("ack {number}").as_bytes()).unwrap();
    }
    let kept: Vec<String> = worked.lines.into();
    assert_eq!(kept.iter().map(|line| line.len() + 1).sum::<usize>(), worked.bytes);
    assert!(worked.count == 900_000 && worked.bytes <= MOST_ACKNOWLEDGED_BYTES);
    record.begin(&turn).unwrap();
    let first = record.acknowledge(&turn, &kept).unwrap();
    let turn = Turn { acknowledged_bytes: first, cycle: 2, ..turn };
    let length = record.acknowledge(&turn, &["x".to_owned()]).unwrap();
    let text = Fake::text(Some(record.acknowledged(&turn, length).unwrap()));
    assert!(text.len() <= MOST_ACKNOWLEDGED_BYTES && text.len() > MOST_ACKNOWLEDGED_BYTES - 10);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[lines.len() - 2..], ["899999", "x"]);
    assert!(lines[0].len() == 6 && kept.iter().any(|line| line == lines[0]), "{}", lines[0]);
    let long = format!("ack {}", "x".repeat(LONGEST_ACKNOWLEDGEMENT + 1));
    assert!(matches!(Worked::default().line(long.as_bytes()), Err(PowerCycleError::LongLine { .. })));
}

#[test]
fn a_line_is_taken_as_it_is_or_refused() {
    let mut worked = Worked::default();
    worked.line(b"ack x\r").unwrap();
    assert_eq!(worked.lines, ["x\r"]);
    assert!(matches!(worked.line(b"ack \xff"), Err(PowerCycleError::NotText)));
}

#[test]
fn what_mount_and_check_say_of_a_destroyed_superblock_is_damage() {
    for (key, status, at) in [("check", 8, 1), ("mount", 32, 2)] {
        let rig = Rig::new(&format!("{FILE}[undecided]\ncheck = [32, 126, 127, 255]\n"));
        let bad = |asked: &str, before| ended(status, "bad magic").filter(|_| asked == key && before == at);
        rig.run(&mut Fake::new(bad)).unwrap();
        assert!(matches!(rig.cycles()[0].outcome, CycleOutcome::Damage { .. }), "{key}");
    }
}

/// A run that a failing `mount` of the second cycle ends, when one cycle is recorded.
fn interrupted() -> Rig {
    let rig = Rig::new(FILE);
    let failed = |key: &str, before| ended(1, "gone").filter(|_| key == "mount" && before == 3);
    assert!(rig.run(&mut Fake::new(failed)).is_err());
    assert_eq!(rig.cycles().len(), 1);
    rig
}

#[test]
fn acknowledged_lines_that_are_gone_are_damage_of_the_record() {
    let rig = interrupted();
    let lines = rig.folder.path().join("b/acknowledged-a-1");
    assert_eq!(std::fs::read_to_string(&lines).unwrap(), "1\n");
    std::fs::write(&lines, "1").unwrap();
    let error = rig.run(&mut Fake::new(ALL_WELL)).unwrap_err();
    assert!(matches!(error, PowerCycleError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("it has 1 bytes where the record says 2"), "{error}");
    std::fs::remove_file(&lines).unwrap();
    let error = rig.run(&mut Fake::new(ALL_WELL)).unwrap_err().to_string();
    assert!(error.contains("it is missing") && !lines.exists(), "{error}");
}

#[test]
fn what_a_cycle_acknowledged_that_was_cut_and_not_recorded_has_to_be_there() {
    let rig = interrupted();
    let lines = rig.folder.path().join("b/acknowledged-a-1");
    std::fs::write(&lines, "1\n2\n3\nto").unwrap();
    let mut board = Fake::new(ALL_WELL);
    board.loads = 1;
    assert_eq!(rig.run(&mut board).unwrap(), Ending::Complete);
    assert_eq!(board.verified, ["1\n2\n3\n", "1\n2\n", "1\n2\n3\n"]);
}

#[test]
fn damage_is_recorded_before_the_run_ends_for_another_reason() {
    let rig = Rig::new(FILE);
    let bad = |key: &str, before| ended(9, "gone").filter(|_| key == "verify" && before == 1);
    // The user wants the run to end when `verify` has said so: `unmount` is ended.
    let mut board = Fake::new(bad);
    let at = (0..200).map(Duration::from_secs).find(|at| {
        let rig = Rig::new(FILE);
        let mut board = Fake::new(bad);
        board.over_at = Some(*at);
        rig.run(&mut board).unwrap();
        board.ran("verify") == 2 && board.ran.last() == Some(&"unmount")
    });
    board.over_at = at;
    assert_eq!(rig.run(&mut board).unwrap(), Ending::Interrupted);
    assert_eq!((board.ran.last(), board.ran("verify")), (Some(&"unmount"), 2));
    let cycles = rig.cycles();
    assert!(cycles.len() == 1 && matches!(cycles[0].outcome, CycleOutcome::Damage { .. }), "{cycles:?}");
}

#[test]
fn lines_of_a_record_that_are_out_of_order_are_refused() {
    let rig = Rig::new(FILE);
    rig.run(&mut Fake::new(ALL_WELL)).unwrap();
    let path = rig.folder.path().join("b/record.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let text = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    for (wrong, said) in [
        (text(&[lines[0], lines[1], lines[3]]), "line 3: it is out of place"),
        (text(&[lines[0], lines[1], lines[1]]), "line 3: it is out of place"),
        (whole.replacen("\"configuration\":\"a\"", "\"configuration\":\"z\"", 1), "not in the file"),
    ] {
        std::fs::write(&path, wrong).unwrap();
        let error = rig.run(&mut Fake::new(ALL_WELL)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_life_does_not_go_on_where_the_device_was_prepared_for_another() {
    let both = format!("{FILE}[configuration.b]\noptions = \"y\"\n");
    let rig = Rig::new(&both.replace("cycles = 3", "cycles = 1"));
    // Ended while the second configuration was prepared.
    let mut board =
        Fake::new(|key, before| if key == "prepare" && before == 1 { ended(1, "") } else { None });
    assert!(rig.run(&mut board).is_err());
    assert_eq!(rig.cycles().len(), 1);
    std::fs::write(rig.folder.path().join("b.toml"), &both).unwrap();
    let plan = Plan::load(&rig.folder.path().join("b.toml")).unwrap();
    let more = Rig { plan, ..rig };
    let mut board = Fake::new(ALL_WELL);
    let error = more.run(&mut board).unwrap_err();
    assert!(matches!(&error, PowerCycleError::Prepared { configuration } if configuration == "b"), "{error}");
    assert_eq!((more.cycles().len(), board.ran("power_off")), (1, 0), "nothing was cut");
}
