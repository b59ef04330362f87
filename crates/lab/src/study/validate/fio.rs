//! Limits of the `fio` stage, and what can run on a bare device.

use fsage_model::cause::in_one_line;
use fsage_model::filesystem::BARE;
use fsage_model::fio::{BARE_HEAD_BYTES, BARE_TAIL_BYTES, FioEngine, FioPattern, FioPoint};
use fsage_model::size::Bytes;
use fsage_model::steady_state::WINDOW;
use fsage_model::study::{FioStage, MOST_COMBINATIONS, StageSpec, StudySpec, VolumeSpec};

use super::Checker;
use super::stage::Limits;
use crate::measure::{Job, preset};
use crate::study::schema::Problem;

/// Largest share of a volume that files may take: file systems need some for themselves.
const MOST_FILL: f64 = 0.95;
/// Rounds of one run, which are all kept.
const MOST_ROUNDS: f64 = 20_000.0;
/// Least limit of memory: fio itself takes some 20 MiB.
const LEAST_MEMORY: u64 = 32 << 20;
/// Largest limit of memory; more is taken for a mistake.
const MOST_MEMORY: u64 = 16 << 40;
/// Seconds of a day.
const DAY: f64 = 86_400.0;
/// Points of one stage, at most; more is taken for a mistake.
const MOST_POINTS: usize = 10_000;

/// Problems of a cell: stages that a bare device cannot have, and points that its volume cannot.
pub(super) fn check(spec: &StudySpec) -> Vec<Problem> {
    let mut check = Checker::new(&["stage"]);
    let bare = spec.file_system.kind == BARE.name;
    for (index, stage) in spec.stage.iter().enumerate().filter(|(_, stage)| stage.runs_in(&spec.state)) {
        match stage {
            StageSpec::Fio(_) if spec.volume.is_model_time() => {
                check.fail(
                    &index.to_string(),
                    "fio times by wall-clock time, which says nothing about a disk in model time",
                );
                hint(&mut check, "give the volume `time = \"real\"`");
            }
            StageSpec::Fio(fio) if bare && fio.job.is_some() => {
                check
                    .fail(&format!("{index}.job"), "a job file works on files, and the bare device has none");
                hint(&mut check, "give typed parameters (`rw`, `bs`, …), or restrict the stage with `when`");
            }
            StageSpec::Fio(fio) => {
                if let Some(bytes) = spec.volume.size() {
                    room(&mut check, index, fio, bytes.0, bare);
                }
            }
            StageSpec::Precondition(_) => {}
            other if bare => {
                let what = format!(
                    "`{}` needs a file system: on the bare device only `fio` and `precondition` stages run",
                    other.kind()
                );
                check.fail(&index.to_string(), what);
                hint(
                    &mut check,
                    "restrict the stage to states with `when`, or leave the combination out with `[[exclude]]`",
                );
            }
            _ => {}
        }
    }
    check.problems
}

fn hint(check: &mut Checker, hint: &str) {
    if let Some(problem) = check.problems.last_mut() {
        problem.hint = Some(hint.to_owned());
    }
}

/// Whether the files of every point fit on a volume of this size, and its blocks into them.
fn room(check: &mut Checker, index: usize, fio: &FioStage, volume_bytes: u64, bare: bool) {
    let ends = if bare { BARE_HEAD_BYTES + BARE_TAIL_BYTES } else { 0 };
    for FioPoint { files, bs, .. } in fio.points() {
        let each = fio.file_bytes(files, volume_bytes);
        let all = each.saturating_mul(u64::from(files));
        let size = Bytes(volume_bytes);
        if all.saturating_add(ends) > volume_bytes {
            let around =
                if bare { format!(" with {} left free at both ends", Bytes(ends)) } else { String::new() };
            let what = format!("{files} files of {} do not fit on a volume of {size}{around}", Bytes(each));
            check.fail(&format!("{index}.size"), what);
            return hint(check, "make `size` or `fill` smaller, or the volume larger");
        }
        if each < bs.0 {
            let what = format!(
                "the volume of {size} is too small: each of {files} files has {}, less than one block of {bs}",
                Bytes(each)
            );
            check.fail(&format!("{index}.files"), what);
            return hint(check, "ask for fewer files or smaller blocks, or make the volume larger");
        }
    }
}

impl Limits for FioStage {
    fn limits(&self, check: &mut Checker, _own: &VolumeSpec) {
        check.require(self.fill > 0.0 && self.fill <= MOST_FILL, "fill", || {
            format!("{} is not a share above 0 and at most {MOST_FILL}", self.fill)
        });
        self.times(check);
        if self.job.is_some() {
            return self.own_job(check);
        }
        check.require(self.text.is_none(), "text", || {
            "it is the text of a `job`, and there is none".to_owned()
        });
        self.parameters(check);
    }
}

/// What concerns several parameters together.
trait Together {
    fn parameters(&self, check: &mut Checker);
    fn engines(&self, check: &mut Checker);
    fn times(&self, check: &mut Checker);
    fn own_job(&self, check: &mut Checker);
}

impl Together for FioStage {
    /// A job file has its own parameters.
    fn own_job(&self, check: &mut Checker) {
        check.require(self.has_no_points(), "job", || {
            "a job file sets these itself: leave out `rw`, `rwmixread`, `bs`, `ioengine`, `iodepth`, `numjobs`, `direct`, `memory`, `files` and `writers`"
                .to_owned()
        });
        check.require(self.ramp == 0.0, "ramp", || {
            "a job file sets this itself: write `ramp_time` into it".to_owned()
        });
        let job = self.job.as_deref().unwrap_or_default();
        match &self.text {
            // Text that a study brings itself was not read by us.
            Some(text) => {
                if let Err(error) = Job::parse(job, text) {
                    check.fail("job", in_one_line(&error));
                    error.hint().into_iter().for_each(|text| hint(check, &text));
                }
            }
            None => check.require(preset(job).is_some(), "job", || {
                format!("`{job}` is neither a preset nor a job file that was read with the study")
            }),
        }
    }

    fn parameters(&self, check: &mut Checker) {
        let lists = [
            ("rw", self.rw.0.len()),
            ("rwmixread", self.rwmixread.0.len()),
            ("bs", self.bs.0.len()),
            ("ioengine", self.ioengine.0.len()),
            ("iodepth", self.iodepth.0.len()),
            ("numjobs", self.numjobs.0.len()),
            ("direct", self.direct.0.len()),
            ("files", self.files.0.len()),
        ];
        for (key, length) in lists {
            check.require(length > 0, key, || match key {
                "rw" => "the list is empty: give at least one pattern, or a `job`".to_owned(),
                _ => "the list is empty: give at least one value".to_owned(),
            });
        }
        for (key, values, most) in [
            ("rwmixread", &self.rwmixread, 99),
            ("iodepth", &self.iodepth, 4096),
            ("numjobs", &self.numjobs, 256),
            ("files", &self.files, 1024),
        ] {
            values.0.iter().for_each(|value| count(check, key, *value, most));
        }
        self.bs.0.iter().for_each(|bs| block_size(check, *bs));
        self.memory.0.iter().for_each(|limit| memory_limit(check, *limit));
        let combinations = self.combination_count();
        if combinations > MOST_COMBINATIONS {
            check.fail("", format!("{combinations} combinations: at most {MOST_COMBINATIONS}"));
            return hint(check, "name fewer values, or split them over several stages");
        }
        self.engines(check);
        let points = self.points().len();
        check.require(points > 0 || lists.iter().any(|(_, length)| *length == 0), "", || {
            "no point is left: synchronous engines need `iodepth = 1`, sequential patterns `numjobs = 1`"
                .to_owned()
        });
        check.require(points <= MOST_POINTS, "", || format!("{points} points: at most {MOST_POINTS}"));
    }

    fn engines(&self, check: &mut Checker) {
        let points = self.points();
        check.require(
            points.iter().all(|point| point.ioengine != FioEngine::Mmap || !point.direct),
            "direct",
            || {
                "a memory mapping always goes through the page cache: give `direct = false` for `mmap`"
                    .to_owned()
            },
        );
        let is_limited = self.memory.0.is_empty()
            || points.is_empty()
            || points.iter().any(|point| point.memory.is_some());
        check.require(is_limited, "memory", || {
            "it limits the page cache, which no point uses: give `direct = false`, or leave `memory` out"
                .to_owned()
        });
        let pretends =
            |point: &FioPoint| point.ioengine == FioEngine::Libaio && !point.direct && point.iodepth > 1;
        if let Some(writers) = self.writers {
            let fits =
                |point: &FioPoint| point.rw == FioPattern::ReadWrite && (1..point.files).contains(&writers);
            check.require(points.iter().all(fits), "writers", || {
                format!("{writers} of several files can only be written while others are read with `rw = \"rw\"` and more `files`")
            });
        }
        check.require(!points.iter().any(pretends), "direct", || {
            "libaio without direct I/O has one request in flight, whatever its depth: use `io_uring` or `direct = true`"
                .to_owned()
        });
    }

    fn times(&self, check: &mut Checker) {
        run_time(check, self.runtime, DAY);
        check.require((0.0..=DAY).contains(&self.ramp), "ramp", || {
            format!("{} is not in 0 to {DAY} seconds", self.ramp)
        });
        rounds(check, self.round, self.round_s(), self.runtime, self.steady);
    }
}

/// How long a run of fio may take, at most `most` seconds.
pub(super) fn run_time(check: &mut Checker, runtime: f64, most: f64) {
    check.require((0.5..=most).contains(&runtime), "runtime", || {
        format!("{runtime} is not in 0.5 to {most} seconds")
    });
}

/// Rounds of a run: `asked` in the study, `round_s` as they are, in seconds. A run that is to become steady needs as many
/// as SNIA's criterion uses.
pub(super) fn rounds(
    check: &mut Checker,
    asked: Option<f64>,
    round_s: f64,
    runtime: f64,
    is_to_be_steady: bool,
) {
    check.require(runtime / round_s <= MOST_ROUNDS, "round", || {
        format!("{:.0} rounds of {round_s} s: at most {MOST_ROUNDS}", runtime / round_s)
    });
    let Some(round) = asked else { return };
    check
        .require((0.1..=DAY).contains(&round), "round", || format!("{round} is not in 0.1 to {DAY} seconds"));
    let window = f64::from(u32::try_from(WINDOW).unwrap_or(u32::MAX));
    check.require(!is_to_be_steady || runtime / round_s >= window, "round", || {
        format!("in {runtime} s there are fewer than {WINDOW} rounds, so that it could not be steady")
    });
}

/// Limits of memory within which fio itself can run.
fn memory_limit(check: &mut Checker, limit: Bytes) {
    let right = (LEAST_MEMORY..=MOST_MEMORY).contains(&limit.0);
    check.require(right, "memory", || {
        format!("{limit} is not in {} to {}", Bytes(LEAST_MEMORY), Bytes(MOST_MEMORY))
    });
}

/// Block sizes that direct I/O takes.
pub(super) fn block_size(check: &mut Checker, Bytes(bs): Bytes) {
    let right = bs > 0 && bs.is_multiple_of(512) && bs <= 64 << 20;
    check.require(right, "bs", || format!("{bs} is not a multiple of 512 up to 64MiB"));
}

/// A count that has to be from 1 to `most`.
pub(super) fn count(check: &mut Checker, key: &str, value: u32, most: u32) {
    check.require((1..=most).contains(&value), key, || format!("{value} is not in 1 to {most}"));
}

#[cfg(test)]
mod tests {
    use crate::study::{Consent, Overrides, parse};

    const STUDY: &str = r#"name = "points"
title = "t"
question = "q"
volume = { kind = "loop", size = "256MiB" }
[file_system]
kind = "bare"
[[stage]]
kind = "fio"
rw = ["randread", "read"]
bs = ["4KiB", "1MiB"]
ioengine = ["sync", "libaio"]
iodepth = [1, 32]
files = 16
"#;

    fn said(text: &str) -> Result<crate::study::Study, String> {
        let read = parse("points.toml".as_ref(), text.to_owned(), &Overrides::default(), Consent::Given);
        read.map_err(|error| fsage_model::problem::Problem::from(error).render(false))
    }

    #[test]
    fn points_that_cannot_be_are_refused_with_the_reason() {
        assert!(said(STUDY).is_ok(), "{:?}", said(STUDY).err());
        for (old, new, wanted) in [
            ("files = 16", "files = 0", "0 is not in 1 to 1024"),
            ("files = 16", "files = 16\nwriters = 8", "8 of several files can only be written"),
            ("rw = [\"randread\", \"read\"]", "rw = \"rw\"\nwriters = 16", "16 of several files can only be"),
            ("files = 16", "files = 256", "less than one block of 1MiB"),
            ("files = 16", "size = \"252MiB\"", "left free at both ends"),
            ("files = 16", "fill = 0.99", "not a share above 0"),
            ("files = 16", "direct = false", "one request in flight"),
            ("files = 16", "runtime = 1\nround = 0.5", "fewer than 5 rounds"),
            ("[1, 32]", "[32, 5000]", "5000 is not in 1 to 4096"),
            ("[\"sync\", \"libaio\"]\niodepth = [1, 32]", "\"sync\"\niodepth = [8, 32]", "no point is left"),
            ("[\"sync\", \"libaio\"]", "\"mmap\"", "always goes through the page cache"),
            ("[\"sync\", \"libaio\"]", "\"libbaio\"", "did you mean `libaio`?"),
            ("rw = [\"randread\", \"read\"]", "rw = []", "the list is empty"),
            ("4KiB", "1000", "1000 is not a multiple of 512"),
            ("kind = \"loop\"", "medium = \"hdd-7200\"", "disk in model time"),
            ("iodepth", "iodeth", "did you mean `iodepth`?"),
        ] {
            assert!(STUDY.contains(old), "{old}");
            let error = said(&STUDY.replacen(old, new, 1)).err().unwrap_or_default();
            assert!(error.contains(wanted), "{new}: {error}");
        }
    }

    #[test]
    fn a_job_file_stands_instead_of_parameters() {
        let at = STUDY.find("rw = ").unwrap();
        let own = |keys: &str, kind: &str| {
            said(&format!("{}{keys}\n", &STUDY[..at].replace("bare", kind))).err().unwrap_or_default()
        };
        assert_eq!(own("job = \"many-small-files\"\nruntime = 1.0", "ext4"), "");
        for (keys, kind, wanted) in [
            ("job = \"many-small-files\"", "bare", "a job file works on files"),
            ("job = \"many-small-files\"\nrw = \"read\"", "ext4", "a job file sets these itself"),
            ("job = \"many-small-files\"\nbs = \"8KiB\"", "ext4", "a job file sets these itself"),
            ("job = \"many-small-files\"\nramp = 1.0", "ext4", "write `ramp_time` into it"),
            ("job = \"no-such.fio\"", "ext4", "cannot read fio job"),
            ("job = \"own.fio\"\ntext = \"[a]\\nfilename=/dev/sda\"", "ext4", "filename"),
            ("text = \"[a]\"\nrw = \"read\"", "ext4", "and there is none"),
            ("runtime = 1.0", "ext4", "give at least one pattern, or a `job`"),
        ] {
            let error = own(keys, kind);
            assert!(error.contains(wanted), "{keys}: {error}");
        }
    }

    #[test]
    fn only_fio_runs_on_a_bare_device() {
        let age = "[[stage]]\nkind = \"age\"\nstop.operations = 10\nworkload = { kind = \"drift\", slots = 50, file_size = { kind = \"fixed\", size = \"8KiB\" } }\n";
        let error = said(&format!("{STUDY}{age}")).err().unwrap_or_default();
        assert!(error.contains("`age` needs a file system") && error.contains("[[exclude]]"), "{error}");
        let error = said(&format!("{STUDY}[file_system.options.bare]\nmount = [\"noatime\"]\n"))
            .err()
            .unwrap_or_default();
        assert!(error.contains("`bare` is not a file system"), "{error}");
    }

    #[test]
    fn every_parameter_is_a_factor() {
        let text = format!(
            "{STUDY}[matrix]\n\"stage.fio.bs\" = [\"8KiB\", \"64KiB\"]\n\"stage.fio.iodepth\" = [1, 16]\n\"file_system.kind\" = [\"bare\", \"ext4\"]\n"
        );
        let study = said(&text).unwrap();
        assert_eq!(study.cells.len(), 8);
        for cell in &study.cells {
            let fsage_model::study::StageSpec::Fio(fio) = &cell.spec.stage[0] else { unreachable!() };
            assert!(fio.points().iter().all(|point| point.bs == fio.bs.0[0]));
        }
    }
}
