//! `fsage volume split`: a loop device over a file stands in for a disk. What is refused must leave the file as
//! it was, and nothing may be left behind.

#[allow(clippy::duplicate_mod, reason = "both helpers say when a test is skipped")]
mod cli_support;
mod volume_rig;

use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::{FSAGE, Run, fsage};
use fsage_lab::volume::{Acquired, EraseConsent, Refusal, Volume, VolumeError, resolve};
use fsage_model::study::{QueueSpec, VolumeSpec};
use volume_rig::{Disk, Rig, installed, run, skip};

const MIB: u64 = 1 << 20;

/// A disk that can have partitions, in the folder of a rig.
fn disk(rig: &Rig, mebibytes: u64) -> Option<Disk> {
    if !installed("losetup") {
        skip("needs losetup (util-linux)");
        return None;
    }
    let file = rig.store.parent().expect("a folder").join("disk");
    std::fs::File::create(&file).expect("a file").set_len(mebibytes * MIB).expect("its size");
    Some(Disk::over(file, true))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

fn split(disk: &Disk, sizes: &str) -> Run {
    let link = text(&disk.link);
    fsage(&["volume", "split", link, "--sizes", sizes, "--erase", link, "--json"])
}

/// The partitions of a split that worked: their path and `--erase`, as the study is to have them.
fn partitions(run: &Run) -> Vec<(PathBuf, String)> {
    let result = run.result();
    let all = result["partitions"].as_array().expect("a list");
    let path = |one: &serde_json::Value| {
        let field = |name: &str| one[name].as_str().map(str::to_owned);
        let device = field("device").expect("a device");
        let uuid = field("part_uuid").expect("an identifier");
        (PathBuf::from(&device), format!("{device}={uuid}"))
    };
    all.iter().map(path).collect()
}

/// What a program that has nothing to do with fsage reads from the table: number, first sector, sectors,
/// identifier.
fn read_back(disk: &Disk) -> Vec<(u64, u64, u64, String)> {
    let columns = "NR,START,SECTORS,UUID";
    let said = run(&["partx", "--raw", "--noheadings", "--output", columns, text(&disk.file)]);
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse().expect("a number");
        (number(0), number(1), number(2), words[3].to_owned())
    };
    said.lines().map(row).collect()
}

fn acquire(rig: &mut Rig, path: &Path, flag: &str) -> Result<(Volume, Acquired), VolumeError> {
    let spec = VolumeSpec::Device { path: path.to_owned(), scheduler: None, queue: QueueSpec::default() };
    let volume = resolve(&spec, &EraseConsent::parse(&[flag.to_owned()]), &rig.store)?;
    let acquired = volume.acquire(&mut rig.session, &mut rig.journal, "part")?;
    Ok((volume, acquired))
}

fn refusal(rig: &mut Rig, disk: &Disk) -> Refusal {
    let (path, flag) = (disk.link.clone(), disk.link.display().to_string());
    match acquire(rig, &path, &flag) {
        Err(VolumeError::Refused { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn partitions_lie_in_order_and_are_volumes() {
    let Some(mut rig) = Rig::new() else { return };
    let Some(disk) = disk(&rig, 128) else { return };
    // Left over from an earlier life, where partitions will begin: beyond what is inspected of the disk.
    let file = std::fs::File::options().write(true).open(&disk.file).expect("opened");
    std::os::unix::fs::FileExt::write_all_at(&file, b"XFSB", 49 * MIB).expect("written");
    let made = split(&disk, "8MiB,40MiB,64MiB");
    let parts = partitions(&made);
    let result = made.result();
    let rows = read_back(&disk);
    let places: Vec<(u64, u64, u64)> = rows.iter().map(|row| (row.0, row.1 * 512, row.2 * 512)).collect();
    assert_eq!(places, [(1, MIB, 8 * MIB), (2, 9 * MIB, 40 * MIB), (3, 49 * MIB, 64 * MIB)]);
    for ((_, start, sectors, uuid), one) in rows.iter().zip(result["partitions"].as_array().expect("a list"))
    {
        assert_eq!(one["start_bytes"], start * 512);
        assert_eq!(one["size_bytes"], sectors * 512);
        assert_eq!(one["part_uuid"].as_str(), Some(uuid.as_str()));
    }
    for (device, flag) in &parts {
        let taken = acquire(&mut rig, device, flag).expect("a fresh partition is taken");
        taken.0.release(taken.1, &mut rig.session, &mut rig.journal).expect("released");
        let error = acquire(&mut rig, device, text(device)).expect_err("a name of the kernel's alone");
        let named = flag.split_once('=').map(|(_, uuid)| uuid.to_owned());
        let VolumeError::Refused { refusal: Refusal::Unstable { identifier }, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(identifier, named);
    }
    assert!(matches!(refusal(&mut rig, &disk), Refusal::Partitioned { partitions } if partitions.len() == 3));
    run(&["mkfs.ext4", "-q", "-F", text(&parts[1].0)]);
    // The rig unmounts what is there when a test panics.
    let point = rig.point.clone();
    std::fs::create_dir(&point).expect("a folder");
    run(&["mount", text(&parts[1].0), text(&point)]);
    let refused = refusal(&mut rig, &disk);
    let again = split(&disk, "8MiB");
    let listed = fsage(&["volume", "list", text(&disk.link), "--json"]);
    let shown = fsage(&["volume", "list", text(&disk.device)]);
    run(&["umount", text(&point)]);
    std::fs::remove_dir(&point).expect("removed");
    let listed = listed.result();
    let kinds: Vec<&str> = (0..3).filter_map(|at| listed[at]["signature"].as_str()).collect();
    assert_eq!(kinds, ["", "ext4", ""]);
    assert_eq!(listed[1]["mounted_at"][0].as_str(), Some(text(&point)));
    assert!((0..3).all(|at| listed[at]["part_uuid"].as_str() == Some(&rows[at].3)), "{listed}");
    assert!(shown.stdout.contains(&format!("mounted at {}", point.display())), "{shown:?}");
    assert_eq!(refused, Refusal::Mounted { points: vec![point.clone()] });
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains("it is mounted at"), "{again:?}");
    rig.assert_nothing_left();
}

#[test]
fn what_it_prints_can_be_pasted_into_a_study() {
    let Some(rig) = Rig::new() else { return };
    let Some(disk) = disk(&rig, 64) else { return };
    let link = text(&disk.link);
    let made = fsage(&["volume", "split", link, "--sizes", "8MiB, 16MiB", "--erase", link]);
    assert_eq!(made.code, 0, "{made:?}");
    let lines: Vec<&str> = made.stdout.lines().map(str::trim).collect();
    let volumes: Vec<VolumeSpec> = lines
        .iter()
        .filter(|line| line.starts_with("volume = "))
        .map(|line| {
            let value = fsage_lab::study::parse_value(line.trim_start_matches("volume = "));
            serde_json::from_value(value).unwrap_or_else(|error| panic!("{line}: {error}"))
        })
        .collect();
    assert_eq!(volumes.len(), 2, "{}", made.stdout);
    for volume in &volumes {
        let VolumeSpec::Device { path, .. } = volume else { panic!("{volume:?}") };
        let erase = format!("--erase {}", path.display());
        assert!(path.exists() && lines.iter().any(|line| line.starts_with(&erase)), "{}", made.stdout);
    }
    let wanted = format!("{}: 2 partitions, partition table ", disk.device.display());
    assert!(made.stdout.starts_with(&wanted), "{}", made.stdout);
}

#[test]
fn a_study_runs_on_a_partition() {
    let Some(rig) = Rig::new() else { return };
    let Some(disk) = disk(&rig, 192) else { return };
    let parts = partitions(&split(&disk, "16MiB,160MiB"));
    let (device, flag) = &parts[1];
    let folder = rig.store.parent().expect("a folder");
    let study = folder.join("part.toml");
    let tiny = include_str!("data/tiny.toml").replace("kind = \"loop\"\nsize = \"320MiB\"", "PLACE");
    let (tiny, _) = tiny.split_once("[matrix]").expect("a matrix");
    let place = format!("kind = \"device\"\npath = \"{}\"", device.display());
    std::fs::write(&study, tiny.replace("PLACE", &place)).expect("written");
    let run = Run::of(
        Command::new(FSAGE)
            .arg("run")
            .arg(&study)
            .args(["--erase", flag, "--json", "--store"])
            .arg(folder.join("s")),
    );
    assert_eq!(run.code, 0, "{run:?}");
    let trial =
        std::fs::read_dir(folder.join("s/trials")).expect("trials").flatten().next().expect("a trial");
    let record = std::fs::read_to_string(trial.path().join("trial.json")).expect("a record");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["device"]["size_bytes"], 160 * MIB);
    assert_eq!(record["device"]["start_bytes"], 17 * MIB);
    assert_eq!(read_back(&disk).len(), 2, "the table is as it was");
}

#[test]
fn what_is_refused_leaves_the_disk_as_it_was() {
    let Some(rig) = Rig::new() else { return };
    let Some(disk) = disk(&rig, 64) else { return };
    let before = disk.digest();
    let (link, device) = (text(&disk.link), text(&disk.device));
    let many = ["1MiB"; 129].join(",");
    let cases: [(&[&str], &str); 9] = [
        (&[link, "--sizes", "8MiB"], "the command line does not allow it to be erased"),
        (&[link, "--sizes", "8MiB,0", "--erase", link], "partition 2 would have no bytes"),
        (&[link, "--sizes", "1500KiB", "--erase", link], "is not a multiple of 1 MiB"),
        (
            &[link, "--sizes", "60MiB,8MiB", "--erase", link],
            "68MiB together, and the disk has room for 62MiB",
        ),
        (&[link, "--sizes", &many, "--erase", link], "129 partitions are too many"),
        (&[link, "--sizes", "", "--erase", link], "size"),
        (&[device, "--sizes", "8MiB", "--erase", device], "a kernel name, which may change at every boot"),
        (&[text(&disk.file), "--sizes", "8MiB", "--erase", text(&disk.file)], "must be a path under /dev"),
        (&[link, "--sizes", "8MiB", "--erase", &format!("{link}=64")], "identifies neither this device"),
    ];
    for (arguments, said) in cases {
        for more in [&["--dry-run"][..], &[]] {
            let run = fsage(&[&["volume", "split"], arguments, more].concat());
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}: {run:?}");
            assert!(run.stderr.contains(said), "{arguments:?}: {run:?}");
        }
    }
    let held = fsage_sys::block::open_exclusive(&disk.device).expect("opened");
    let run = split(&disk, "8MiB");
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("cannot be opened exclusively"), "{run:?}");
    drop(held);
    let dry = fsage(&["volume", "split", link, "--sizes", "8MiB,16MiB", "--erase", link, "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(dry.stdout.contains("partition 2: 16MiB from 9MiB on"), "{dry:?}");
    assert_eq!(disk.digest(), before, "something was written");
}

#[test]
fn what_somebody_has_there_needs_its_identifier() {
    const UUID: &str = "0123abcd-1111-4222-8333-0123456789ab";
    let Some(rig) = Rig::new() else { return };
    let Some(disk) = disk(&rig, 64) else { return };
    run(&["mkfs.ext4", "-q", "-F", "-U", UUID, "-L", "family", text(&disk.device)]);
    let before = disk.digest();
    let refused = split(&disk, "8MiB");
    assert_eq!(refused.code, 2, "{refused:?}");
    let error = refused.error_object().to_string();
    assert!(error.contains("ext4 labelled `family`") && error.contains(&format!("={UUID}")), "{error}");
    assert_eq!(disk.digest(), before, "something was written");
    let link = text(&disk.link);
    let named =
        fsage(&["volume", "split", link, "--sizes", "8MiB", "--erase", &format!("{link}={UUID}"), "--json"]);
    let parts = partitions(&named);
    // Its partitions are no disks, and it has partitions now.
    let part = text(&parts[0].0);
    let run = fsage(&["volume", "split", part, "--sizes", "1MiB", "--erase", &parts[0].1]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("it is a partition of the disk loop"), "{run:?}");
    let again = split(&disk, "8MiB");
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains(&format!("`wipefs -a {link}`")), "{again:?}");
}

#[test]
fn a_table_that_the_kernel_does_not_show_is_found() {
    let Some(rig) = Rig::new() else { return };
    let Some(disk) = disk(&rig, 64) else { return };
    let made = split(&disk, "8MiB,8MiB");
    let uuid = made.result()["uuid"].as_str().expect("the table's").to_owned();
    run(&["partx", "--delete", text(&disk.device)]);
    let before = disk.digest();
    let link = text(&disk.link);
    let consent = format!("{link}={uuid}");
    let again = fsage(&["volume", "split", link, "--sizes", "8MiB", "--erase", &consent]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains("2 partitions, which the kernel does not show"), "{again:?}");
    assert!(again.stderr.contains("wipefs -a"), "{again:?}");
    assert_eq!(disk.digest(), before, "something was written");
}

#[test]
fn a_loop_device_without_partitions_is_told_how_to_have_them() {
    let Some(rig) = Rig::new() else { return };
    let disk = Disk::new(rig.store.parent().expect("a folder"), "plain", 64);
    let before = disk.digest();
    let run = split(&disk, "8MiB");
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("losetup --partscan"), "{run:?}");
    assert_eq!(disk.digest(), before, "something was written");
}

/// A study of two cells, one on each device.
fn two(folder: &Path, devices: [&str; 2]) -> PathBuf {
    let study = folder.join("two.toml");
    let tiny = include_str!("data/tiny.toml")
        .replace("kind = \"loop\"\nsize = \"320MiB\"", "kind = \"device\"\npath = \"/dev/x\"");
    let (tiny, _) = tiny.split_once("[matrix]").expect("a matrix");
    let [one, other] = devices;
    std::fs::write(&study, format!("{tiny}[matrix]\n\"volume.path\" = [\"{one}\", \"{other}\"]\n"))
        .expect("written");
    study
}

#[test]
fn a_study_names_a_disk_or_its_partitions() {
    let folder = tempfile::tempdir().expect("a folder");
    for (whole, part) in [
        ("/dev/disk/by-id/ata-X", "/dev/disk/by-id/ata-X-part2"),
        ("/dev/nvme0n1", "/dev/nvme0n1p1"),
        ("/dev/sdb", "/dev/sdb3"),
    ] {
        let study = two(folder.path(), [part, whole]);
        let run = fsage(&["study", "check", text(&study)]);
        assert_eq!(run.code, 2, "{run:?}");
        let said = format!("`{part}` is a partition of `{whole}`, which the study also uses whole");
        assert!(run.stderr.contains(&said) && run.stderr.contains("hint"), "{run:?}");
    }
    let study = two(folder.path(), ["/dev/sdb1", "/dev/sdb2"]);
    assert_eq!(fsage(&["study", "check", text(&study)]).code, 0);
}

#[test]
fn volumes_of_one_trial_need_devices_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let volume = |name: &str| format!("{{ kind = \"device\", path = \"/dev/disk/by-partuuid/{name}\" }}");
    let check = |follower: &str, unaged: &str| {
        let text = include_str!("data/lockstep.toml")
            .replace("[volume]\nmedium = \"hdd-7200\"\nsize = \"320MiB\"\n", "")
            .replace("seed = 11", &format!("seed = 11\nvolume = {}", volume("a")))
            .replace(
                "{ empty = { size = \"640MiB\" } }",
                &format!("{{ empty = {{ volume = {} }} }}", volume(follower)),
            )
            .replace(
                "unaged = { size = \"640MiB\" }",
                &format!("unaged = {{ volume = {} }}", volume(unaged)),
            );
        let study = folder.path().join("lockstep.toml");
        std::fs::write(&study, text).expect("written");
        fsage(&["study", "check", study.to_str().expect("plain")])
    };
    let fine = check("b", "c");
    assert_eq!(fine.code, 0, "{fine:?}");
    for (follower, unaged, said) in [
        ("a", "c", "`/dev/disk/by-partuuid/a` is the device of `volume.path` already"),
        (
            "b",
            "b",
            "`/dev/disk/by-partuuid/b` is the device of `stage.0.followers.empty.volume.path` already",
        ),
    ] {
        let run = check(follower, unaged);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains(said) && run.stderr.contains("hint"), "{run:?}");
    }
}

#[test]
fn a_run_asks_the_devices_whether_they_overlap() {
    let Some(rig) = Rig::new() else { return };
    let Some(disk) = disk(&rig, 64) else { return };
    let parts = partitions(&split(&disk, "8MiB,16MiB"));
    let folder = rig.store.parent().expect("a folder");
    let (link, part) = (text(&disk.link), text(&parts[0].0));
    // By a link that nobody would take for the disk's.
    let study = two(folder, [link, part]);
    let before = disk.digest();
    let ask = |more: &[&str]| {
        let store = folder.join("store-of-two");
        let mut command = Command::new(FSAGE);
        command.arg("run").arg(&study).args(["--erase", link, "--erase", &parts[0].1, "--store"]).arg(store);
        Run::of(command.args(more))
    };
    let said = "cannot both be volumes of one study: one is a partition of the other";
    let dry = ask(&["--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(dry.stdout.contains(said), "{dry:?}");
    let run = ask(&[]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains(said) && run.stderr.contains("fsage volume split"), "{run:?}");
    assert_eq!(disk.digest(), before, "something was written");
}
