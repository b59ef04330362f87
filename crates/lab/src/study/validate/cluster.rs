//! Limits of the `cluster` stage, and what guests that share a disk can and cannot do.

use fsage_model::size::Bytes;
use fsage_model::study::{ClusterStage, GuestTime, StageSpec, StudySpec, TargetSpec, VolumeSpec};

use super::Checker;
use super::stage::Limits;
use crate::study::schema::Problem;

/// Guests that can share a disk: more would need a network of more than one cable.
const MOST_HOSTS: u32 = 2;

/// Files of one stage, at most.
const MOST_FILES: u32 = 1024;

/// Requests in flight of one host, at most: as many as QEMU sends (`MAX_NBD_REQUESTS`).
const MOST_DEPTH: u32 = 16;

/// Share of a volume that files may take: file systems need some for themselves.
const MOST_FILL: f64 = 0.9;

/// Problems of a cell.
pub(super) fn check(spec: &StudySpec) -> Vec<Problem> {
    let mut check = Checker::new(&[]);
    let stages = || spec.stage.iter().enumerate().filter(|(_, stage)| stage.runs_in(&spec.state));
    let Some(hosts) = spec.target.hosts() else {
        if let Some((index, _)) = stages().find(|(_, stage)| matches!(stage, StageSpec::Cluster(_))) {
            check.fail(&format!("stage.{index}"), "there is one host, which does not share its volume");
            hint(&mut check, "give the target `kind = \"guest\"` and `hosts = 2` (docs/cluster.md)");
        }
        return check.problems;
    };
    check.require((1..=MOST_HOSTS).contains(&hosts), "target.hosts", || {
        format!("{hosts} guests: 1 to {MOST_HOSTS} can share a disk")
    });
    if let TargetSpec::Guest(guest) = &spec.target {
        check.require(guest.time == GuestTime::Host, "target.time", || {
            "guests that share a disk get it from this host, which no virtual clock waits for".to_owned()
        });
    }
    if let Some((index, other)) = stages().find(|(_, stage)| !matches!(stage, StageSpec::Cluster(_))) {
        let what = format!("`{}` does not run where guests share a disk: only `cluster` does", other.kind());
        check.fail(&format!("stage.{index}"), what);
        hint(&mut check, "restrict it to states with `when`, or put it into a study of its own");
    }
    check.require(!spec.deterministic && spec.controls.is_none(), "target.hosts", || {
        "`deterministic` and `controls` are not for guests that share a disk".to_owned()
    });
    of_volume(&mut check, &spec.volume);
    let kind = &spec.file_system.kind;
    let shared = spec.driver.get(kind).is_some_and(|driver| driver.cluster.is_some());
    check.require(hosts == 1 || shared, "target.hosts", || {
        format!("only one host can mount {kind}: a second one would destroy it")
    });
    if hosts > 1 && !shared {
        hint(
            &mut check,
            "leave the combination out with `[[exclude]]`, or describe its `cluster` in `[driver]`",
        );
    }
    for (index, stage) in stages() {
        if let StageSpec::Cluster(cluster) = stage {
            of_files(&mut check, index, cluster, hosts, spec.volume.size());
        }
    }
    check.problems
}

fn hint(check: &mut Checker, hint: &str) {
    if let Some(problem) = check.problems.last_mut() {
        problem.hint = Some(hint.to_owned());
    }
}

/// A disk that is served by NBD is one block device with one clock.
fn of_volume(check: &mut Checker, volume: &VolumeSpec) {
    let VolumeSpec::Disk(disk) = volume else {
        check.fail("volume", "guests share a virtual disk: give the volume a `medium`");
        return;
    };
    check.require(!disk.is_serial(), "volume.cpu", || {
        "what guests share is timed by the drive's own clock (`cpu = \"ignored\"`)".to_owned()
    });
    let plain = disk.drives <= 1 && disk.fast.is_none() && disk.stack.is_empty() && disk.share.is_none();
    check.require(plain, "volume", || {
        "guests share one drive: no layers, no partitions of a drive that other volumes use".to_owned()
    });
    for (key, is_given) in [
        ("log", disk.log),
        ("faults", disk.faults.is_some()),
        ("scheduler", disk.scheduler.is_some()),
        ("queue", disk.queue != Default::default()),
    ] {
        check.require(!is_given, &format!("volume.{key}"), || "not for a disk that guests share".to_owned());
    }
}

/// Whether the files fit on the volume, and the operations of each host into its files.
fn of_files(check: &mut Checker, index: usize, cluster: &ClusterStage, hosts: u32, volume: Option<Bytes>) {
    let at = |key: &str| format!("stage.{index}.{key}");
    check.require(hosts == 0 || cluster.files.is_multiple_of(hosts), &at("files"), || {
        format!("{} files cannot be divided among {hosts} guests", cluster.files)
    });
    if let Some(volume) = volume {
        let most = fsage_model::quantity::to_u64(fsage_model::quantity::as_f64(volume.0) * MOST_FILL);
        check.require(cluster.size.0 <= most, &at("size"), || {
            format!("{} do not fit on a volume of {volume}: at most {}", cluster.size, Bytes(most))
        });
    }
    check.require(
        hosts == 0 || cluster.operations.is_multiple_of(u64::from(hosts)),
        &at("operations"),
        || format!("{} operations cannot be divided among {hosts} guests", cluster.operations),
    );
    for (set, point) in cluster.points(hosts.max(1)) {
        let own = cluster.file_bytes().saturating_mul(u64::from(point.files));
        let operations = cluster.operations / u64::from(hosts.max(1));
        let blocks = cluster.file_bytes() / point.bs.0.max(1) * u64::from(point.files);
        if operations > blocks {
            let what = format!(
                "{operations} operations of {} are more than the {} of {set} files that a guest uses: each is on another block",
                point.bs,
                Bytes(own)
            );
            return check.fail(&at("operations"), what);
        }
    }
}

impl Limits for ClusterStage {
    fn limits(&self, check: &mut Checker, _own: &VolumeSpec) {
        let empty = |key: &str| format!("the list `{key}` is empty: give at least one value");
        let lists = [
            ("sets", self.sets.0.len()),
            ("rw", self.rw.0.len()),
            ("bs", self.bs.0.len()),
            ("iodepth", self.iodepth.0.len()),
        ];
        lists.iter().for_each(|(key, length)| check.require(*length > 0, key, || empty(key)));
        for rw in &self.rw {
            check.require(rw.is_random(), "rw", || {
                format!("`{}` is sequential: only `randread`, `randwrite` and `randrw`", rw.name())
            });
        }
        check.require((1..=99).contains(&self.rwmixread), "rwmixread", || {
            format!("{} % is out of range: 1 to 99", self.rwmixread)
        });
        for depth in &self.iodepth {
            check.require((1..=MOST_DEPTH).contains(depth), "iodepth", || {
                format!("{depth} is out of range: 1 to {MOST_DEPTH}")
            });
        }
        check.require((1..=MOST_FILES).contains(&self.files), "files", || {
            format!("{} is out of range: 1 to {MOST_FILES}", self.files)
        });
        check.at_least("operations", self.operations, 1);
        let whole = self.file_bytes() > 0;
        check.require(whole, "size", || format!("{} are less than a block for each file", self.size));
        for bs in &self.bs {
            let fits = bs.0 > 0 && bs.0.is_multiple_of(4096) && (!whole || bs.0 <= self.file_bytes());
            check.require(fits, "bs", || {
                format!("{bs} is not a multiple of 4KiB, or more than a file of {}", Bytes(self.file_bytes()))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::study::{Consent, Overrides, load};

    fn refused(set: &[&str]) -> String {
        let set = set.iter().map(|s| (*s).to_owned()).collect();
        let overrides = Overrides { preset: Some("quick".to_owned()), set };
        match load(Path::new("cluster"), &overrides, Consent::Given) {
            Ok(_) => String::new(),
            Err(error) => fsage_model::cause::in_one_line(&error),
        }
    }

    #[test]
    fn what_guests_that_share_a_disk_cannot_do_is_refused() {
        assert_eq!(refused(&[]), "");
        for (set, why) in [
            ("matrix.\"target.hosts\"=[3]", "1 to 2 can share"),
            ("matrix.\"file_system.kind\"=[\"xfs\"]", "a second one would destroy it"),
            ("target.time=virtual", "no virtual clock waits for"),
            ("volume.cpu=serial", "drive's own clock"),
            ("volume.log=true", "not for a disk that guests share"),
            ("volume.drives=2", "one drive"),
            ("volume={ kind = \"loop\", size = \"1GiB\" }", "give the volume a `medium`"),
            ("deterministic=true", "not for guests that share a disk"),
            ("stage.cluster.files=15", "cannot be divided among 2"),
            ("stage.cluster.size=2GiB", "do not fit"),
            ("stage.cluster.operations=1000000", "each is on another block"),
            ("stage.cluster.rw=read", "is sequential"),
            ("stage.cluster.iodepth=32", "1 to 16"),
            ("stage.cluster.operations=1001", "cannot be divided among 2"),
            ("stage.cluster.bs=1000", "not a multiple of 4KiB"),
            ("stage.cluster.sets=[]", "is empty"),
        ] {
            let said = refused(&[set]);
            assert!(said.contains(why), "{set}: {said}");
        }
        let mut spec: fsage_model::study::StudySpec = serde_json::from_value(serde_json::json!({
            "name": "a", "title": "b", "question": "c",
            "volume": {"kind": "disk", "medium": "ssd", "size": "1GiB"},
            "file_system": {"kind": "ext4"},
            "stage": [{"kind": "cluster", "rw": "randread", "size": "64MiB", "operations": 100}],
        }))
        .unwrap();
        let said = super::check(&spec);
        assert!(said[0].message.contains("does not share its volume"), "{said:?}");
        spec.target = serde_json::from_value(serde_json::json!({"kind": "guest", "hosts": 1})).unwrap();
        assert_eq!(super::check(&spec).len(), 0);
    }
}
