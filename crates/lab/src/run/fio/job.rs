//! The words that fio is given for a point.
//!
//! Everything that fio would choose itself and that matters is said: no layout of its own (files are there, written
//! to their ends, before the first point), no `fallocate`, each trial its own random numbers, threads instead of
//! processes. On files: a job has all of them, chosen at random for each request, unless the pattern is sequential, where each file
//! has a job of its own. On a bare device the same bytes are one stretch, or for sequential patterns one stretch per job.

use fsage_model::fio::{BARE_HEAD_BYTES, FioPattern, FioPoint};

/// Where the load works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run) enum FioTarget {
    /// Files `fsage.N` in this folder.
    Folder(String),
    /// A block device without a file system.
    Device(String),
}

/// The job of one group of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run) struct Place {
    /// Files or device.
    pub(in crate::run) target: FioTarget,
    /// Number of the first file: 0 but where others use some of them.
    pub(in crate::run) first: u32,
    /// Distance between the numbers of two files: 1 but where others use those between them.
    pub(in crate::run) step: u32,
    /// How many files, or stretches.
    pub(in crate::run) files: u32,
    /// Bytes of each.
    pub(in crate::run) each_bytes: u64,
    /// Of a mixed sequential pattern: how many of the files, the last ones, are only written, and the others only read.
    pub(in crate::run) writers: Option<u32>,
}

/// How long a point runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) struct Times {
    /// Milliseconds that count, at most.
    pub(in crate::run) runtime_ms: u64,
    /// Milliseconds before them.
    pub(in crate::run) ramp_ms: u64,
}

impl Place {
    /// Bytes of all files.
    pub(in crate::run) fn bytes(&self) -> u64 {
        self.each_bytes.saturating_mul(u64::from(self.files))
    }

    /// Writes every byte of every file, so that no read finds a hole and no write an unwritten extent.
    pub(in crate::run) fn layout(&self, direct: bool, seed: u64) -> Vec<String> {
        let mut words = vec![
            "fio".to_owned(),
            "--output-format=json+".to_owned(),
            "--name=layout".to_owned(),
            "--rw=write".to_owned(),
            self.largest_block(),
            "--ioengine=psync".to_owned(),
            format!("--direct={}", u8::from(direct)),
            "--end_fsync=1".to_owned(),
            "--refill_buffers=1".to_owned(),
            "--file_service_type=sequential".to_owned(),
        ];
        if matches!(self.target, FioTarget::Device(_)) {
            // Without the device its name would become a file in memory.
            words.push("--allow_file_create=0".to_owned());
        }
        words.extend(self.whole());
        words.extend(common(seed));
        words
    }

    /// Reads every byte of every file through the page cache, which holds as much of them afterwards as its limit allows.
    pub(in crate::run) fn warm(&self, seed: u64) -> Vec<String> {
        let mut words = vec![
            "fio".to_owned(),
            "--output-format=json+".to_owned(),
            "--name=warm".to_owned(),
            "--rw=read".to_owned(),
            self.largest_block(),
            "--ioengine=psync".to_owned(),
            "--invalidate=0".to_owned(),
            "--file_service_type=sequential".to_owned(),
            "--allow_file_create=0".to_owned(),
        ];
        words.extend(self.whole());
        words.extend(common(seed));
        words
    }

    /// Block size of a pass over whole files.
    fn largest_block(&self) -> String {
        format!("--bs={}", if self.each_bytes.is_multiple_of(1 << 20) { "1m" } else { "4k" })
    }

    /// Runs a point.
    pub(in crate::run) fn words(&self, point: &FioPoint, times: Times, seed: u64) -> Vec<String> {
        let mut words = vec!["fio".to_owned(), "--output-format=json+".to_owned()];
        if point.rw.is_random() {
            let mut own = self.whole();
            own.push(format!("--numjobs={}", point.numjobs));
            own.push("--file_service_type=random".to_owned());
            words.extend(self.job(&point.to_string(), own, point, times, seed));
            return words;
        }
        for file in 0..self.files {
            let mut own = self.one(file);
            own.push("--numjobs=1".to_owned());
            words.extend(self.job(&format!("{point}.{file}"), own, &self.stream(point, file), times, seed));
        }
        words
    }

    /// Runs a random point for so many operations, each on another block.
    pub(in crate::run) fn counted(&self, point: &FioPoint, operations: u64, seed: u64) -> Vec<String> {
        let mut words = vec!["fio".to_owned(), "--output-format=json+".to_owned()];
        words.extend(load(&point.to_string(), point));
        words.extend(self.whole());
        words.extend(["--numjobs=1".to_owned(), "--file_service_type=random".to_owned()]);
        words.push(format!("--number_ios={operations}"));
        words.extend(["--allow_file_create=0".to_owned(), "--lat_percentiles=1".to_owned()]);
        words.extend(common(seed));
        words
    }

    /// What the stream of one file does.
    fn stream(&self, point: &FioPoint, file: u32) -> FioPoint {
        let Some(writers) = self.writers.filter(|_| point.rw == FioPattern::ReadWrite) else {
            return point.clone();
        };
        let is_read = file < self.files.saturating_sub(writers);
        let rw = if is_read { FioPattern::Read } else { FioPattern::Write };
        FioPoint { rw, rwmixread: None, ..point.clone() }
    }

    fn job(&self, name: &str, own: Vec<String>, point: &FioPoint, times: Times, seed: u64) -> Vec<String> {
        let mut words = load(name, point);
        if point.is_buffered() {
            // fio would drop what the page cache has of its files whenever it starts over; it was dropped before the point.
            words.push("--invalidate=0".to_owned());
        }
        if point.memory.is_some() && point.rw.is_random() {
            // No block would be visited twice in a pass over the files, so that the cache would have what is not asked for.
            words.push("--norandommap=1".to_owned());
        }
        words.extend(own);
        words.extend(["--time_based=1".to_owned(), format!("--runtime={}ms", times.runtime_ms)]);
        if times.ramp_ms > 0 {
            words.push(format!("--ramp_time={}ms", times.ramp_ms));
        }
        words.push("--allow_file_create=0".to_owned());
        // Latency from submission on, not of completion alone.
        words.push("--lat_percentiles=1".to_owned());
        words.extend(common(seed));
        words
    }

    /// All files as one job has them.
    fn whole(&self) -> Vec<String> {
        match &self.target {
            FioTarget::Folder(folder) => {
                let names: Vec<String> =
                    (0..self.files).map(|file| name(folder, self.first + file * self.step)).collect();
                vec![format!("--filename={}", names.join(":")), format!("--size={}", self.bytes())]
            }
            FioTarget::Device(device) => vec![
                format!("--filename={}", escaped(device)),
                format!("--offset={BARE_HEAD_BYTES}"),
                format!("--size={}", self.bytes()),
            ],
        }
    }

    /// One file alone.
    fn one(&self, file: u32) -> Vec<String> {
        match &self.target {
            FioTarget::Folder(folder) => {
                let name = name(folder, self.first + file * self.step);
                vec![format!("--filename={name}"), format!("--size={}", self.each_bytes)]
            }
            FioTarget::Device(device) => vec![
                format!("--filename={}", escaped(device)),
                format!("--offset={}", BARE_HEAD_BYTES + u64::from(file) * self.each_bytes),
                format!("--size={}", self.each_bytes),
            ],
        }
    }
}

/// What a job does, and how.
fn load(name: &str, point: &FioPoint) -> Vec<String> {
    let mut words = vec![
        format!("--name={name}"),
        format!("--rw={}", point.rw.name()),
        format!("--bs={}", point.bs.0),
        format!("--ioengine={}", point.ioengine.name()),
        format!("--iodepth={}", point.iodepth),
        format!("--direct={}", u8::from(point.direct)),
    ];
    words.extend(point.rwmixread.map(|percent| format!("--rwmixread={percent}")));
    words
}

fn name(folder: &str, file: u32) -> String {
    format!("{}/fsage.{file}", escaped(folder))
}

/// A colon would separate several files.
fn escaped(path: &str) -> String {
    path.replace(':', "\\:")
}

fn common(seed: u64) -> Vec<String> {
    vec![
        "--fallocate=none".to_owned(),
        format!("--randseed={seed}"),
        // Otherwise offsets are those of another seed, which is always the same: a point would read in the order in which another wrote.
        "--randrepeat=0".to_owned(),
        "--group_reporting=1".to_owned(),
        // Processes leave fio's process group and would continue working when it is killed.
        "--thread=1".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use fsage_model::fio::FioEngine;
    use fsage_model::size::Bytes;

    use super::*;

    fn point(rw: FioPattern) -> FioPoint {
        FioPoint {
            rw,
            rwmixread: rw.is_mixed().then_some(70),
            bs: Bytes(4096),
            ioengine: FioEngine::Libaio,
            iodepth: 32,
            numjobs: 4,
            files: 3,
            direct: true,
            memory: None,
        }
    }

    const TIMES: Times = Times { runtime_ms: 1500, ramp_ms: 0 };

    fn place(target: FioTarget) -> Place {
        Place { target, first: 0, step: 1, files: 3, each_bytes: 1 << 20, writers: None }
    }

    fn values<'a>(words: &'a [String], key: &str) -> Vec<&'a str> {
        words.iter().filter_map(|word| word.strip_prefix(&format!("--{key}="))).collect()
    }

    /// What fio itself reads, not what it is called with.
    #[test]
    fn random_offsets_are_those_of_the_seed() {
        let folder = tempfile::tempdir().unwrap();
        let own = Place { files: 1, ..place(FioTarget::Folder(folder.path().display().to_string())) };
        std::fs::write(folder.path().join("fsage.0"), vec![0; 1 << 20]).unwrap();
        let load = FioPoint {
            ioengine: FioEngine::Sync,
            iodepth: 1,
            numjobs: 1,
            files: 1,
            direct: false,
            ..point(FioPattern::RandRead)
        };
        let offsets = |seed: u64| -> Vec<String> {
            let log = folder.path().join("offsets");
            let _ = std::fs::remove_file(&log);
            let mut words = own.words(&load, Times { runtime_ms: 100, ramp_ms: 0 }, seed);
            words.push(format!("--write_iolog={}", log.display()));
            let run = std::process::Command::new(&words[0]).args(&words[1..]).output().unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
            let text = std::fs::read_to_string(&log).unwrap();
            let lines = text.lines().filter(|line| line.contains(" read "));
            let offset = |line: &str| line.split(' ').rev().nth(1).unwrap().to_owned();
            lines.take(32).map(offset).collect()
        };
        let (one, again, other) = (offsets(7), offsets(7), offsets(8));
        assert_eq!((one.len(), &one), (32, &again));
        let same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
        assert!(same < 8, "{one:?} {other:?}");
    }

    #[test]
    fn random_jobs_have_all_files_and_the_same_stretch_of_a_device() {
        let files = place(FioTarget::Folder("/m/a:b".to_owned()));
        let words = files.words(&point(FioPattern::RandReadWrite), TIMES, 7);
        assert_eq!(values(&words, "filename"), ["/m/a\\:b/fsage.0:/m/a\\:b/fsage.1:/m/a\\:b/fsage.2"]);
        assert_eq!((values(&words, "numjobs"), values(&words, "rwmixread")), (vec!["4"], vec!["70"]));
        assert_eq!((values(&words, "size"), values(&words, "runtime")), (vec!["3145728"], vec!["1500ms"]));
        assert!(values(&words, "ramp_time").is_empty() && values(&words, "invalidate").is_empty());
        let buffered = FioPoint { direct: false, ..point(FioPattern::RandReadWrite) };
        assert_eq!(values(&files.words(&buffered, TIMES, 7), "invalidate"), ["0"]);
        assert!(values(&files.words(&buffered, TIMES, 7), "norandommap").is_empty());
        let limited = FioPoint { memory: Some(Bytes(64 << 20)), ..buffered };
        assert_eq!(values(&files.words(&limited, TIMES, 7), "norandommap"), ["1"]);
        let linear = FioPoint { rw: FioPattern::Read, numjobs: 1, ..limited };
        assert!(values(&files.words(&linear, TIMES, 7), "norandommap").is_empty());
        let warm = files.warm(7);
        assert_eq!(
            (values(&warm, "rw"), values(&warm, "size"), values(&warm, "invalidate")),
            (vec!["read"], vec!["3145728"], vec!["0"])
        );
        let bare = place(FioTarget::Device("/dev/loop3".to_owned()));
        let words = bare.words(&point(FioPattern::RandRead), TIMES, 7);
        assert_eq!(
            (values(&words, "filename"), values(&words, "offset")),
            (vec!["/dev/loop3"], vec!["4194304"])
        );
        assert_eq!(values(&words, "size"), ["3145728"]);
    }

    #[test]
    fn each_file_of_a_sequential_pattern_has_a_job_that_stays_within_it() {
        let files = place(FioTarget::Folder("/m".to_owned()));
        let words = files.words(&point(FioPattern::Write), TIMES, 7);
        assert_eq!(values(&words, "filename"), ["/m/fsage.0", "/m/fsage.1", "/m/fsage.2"]);
        assert_eq!(values(&words, "size"), ["1048576"; 3]);
        let bare = place(FioTarget::Device("/dev/loop3".to_owned()));
        let words = bare.words(&point(FioPattern::Read), TIMES, 7);
        let ends: Vec<u64> = values(&words, "offset").iter().map(|at| at.parse::<u64>().unwrap()).collect();
        assert_eq!(ends, [4 << 20, 5 << 20, 6 << 20], "stretches follow each other and do not overlap");
        assert_eq!(values(&words, "group_reporting").len(), 3, "one group, one result");
    }

    #[test]
    fn of_a_mixed_sequential_pattern_some_files_are_read_and_others_written() {
        let both = place(FioTarget::Folder("/m".to_owned()));
        let words = both.words(&point(FioPattern::ReadWrite), TIMES, 7);
        assert_eq!((values(&words, "rw"), values(&words, "rwmixread")), (vec!["rw"; 3], vec!["70"; 3]));
        let build = Place { writers: Some(2), ..both };
        let words = build.words(&point(FioPattern::ReadWrite), TIMES, 7);
        assert_eq!(values(&words, "rw"), ["read", "write", "write"]);
        assert!(values(&words, "rwmixread").is_empty() && values(&words, "group_reporting").len() == 3);
        assert_eq!(values(&build.words(&point(FioPattern::Read), TIMES, 7), "rw"), ["read"; 3]);
    }

    #[test]
    fn files_are_written_to_their_ends_beforehand() {
        let words = place(FioTarget::Folder("/m".to_owned())).layout(true, 7);
        assert_eq!((values(&words, "rw"), values(&words, "bs")), (vec!["write"], vec!["1m"]));
        assert_eq!(values(&words, "fallocate"), ["none"]);
        assert!(values(&words, "allow_file_create").is_empty());
        let device = place(FioTarget::Device("/dev/x".to_owned())).layout(true, 7);
        assert_eq!(values(&device, "allow_file_create"), ["0"]);
        let odd = Place { each_bytes: 12_288, ..place(FioTarget::Folder("/m".to_owned())) };
        assert_eq!(values(&odd.layout(false, 7), "bs"), ["4k"]);
    }
}
