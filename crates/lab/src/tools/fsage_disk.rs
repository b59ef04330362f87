//! `fsage-disk`: the server of the virtual disk, our own. It lies beside the agent and is of its version.

use std::path::Path;
use std::time::Duration;

use fsage_model::disk::call::Command;
use fsage_model::disk::{DiskCpu, DiskTime, Ready};
use fsage_model::medium::PartitionSpec;

use super::{Invocation, Output, Program};

/// The program.
pub static PROGRAM: Program = Program::new("fsage-disk", Duration::from_secs(120));

/// What a disk is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Up<'a> {
    /// Its folder, which is made.
    pub directory: &'a Path,
    /// Size.
    pub size_bytes: u64,
    /// Its partitions, which give the size; none: it is one volume.
    pub partitions: &'a [PartitionSpec],
    /// Equal drives that follow one another, each with its part of the size.
    pub drives: u32,
    /// One more drive at their end: its size, in bytes, and its medium.
    pub fast: Option<(u64, &'a str)>,
    /// Medium, as a flag says it (`hdd-7200,rpm=5400`).
    pub medium: &'a str,
    /// Logical block size.
    pub block_bytes: u32,
    /// How it keeps time.
    pub time: DiskTime,
    /// Whether CPU time passes on its clock.
    pub cpu: DiskCpu,
    /// Keep every request.
    pub log: bool,
    /// Most memory for what is not self-describing data.
    pub memory_bytes: Option<u64>,
    /// Without `memory_bytes`: how many share the memory that the host has to give.
    pub memory_shares: u32,
    /// Folder for the file that takes what goes beyond.
    pub spill: Option<&'a Path>,
    /// Percent of the host's memory above which contents that were not used lately are packed; `None`: the
    /// server's own mark.
    pub pack_above_percent: Option<u8>,
    /// Serve NBD as well.
    pub nbd: bool,
    /// Faults, as JSON.
    pub faults: Option<&'a str>,
}

/// Starts a disk in the background.
#[must_use]
pub fn up(disk: &Up<'_>) -> Invocation {
    let mut words = vec!["up".to_owned(), "--directory".to_owned(), disk.directory.display().to_string()];
    if disk.partitions.is_empty() {
        words.extend(["--size".to_owned(), disk.size_bytes.to_string()]);
    }
    for partition in disk.partitions {
        words.extend(["--partition".to_owned(), partition.to_string()]);
    }
    if disk.drives > 1 {
        words.extend(["--drives".to_owned(), disk.drives.to_string()]);
    }
    if let Some((size_bytes, medium)) = disk.fast {
        words.extend(["--fast-size".to_owned(), size_bytes.to_string()]);
        words.extend(["--fast-medium".to_owned(), medium.to_owned()]);
    }
    words.extend(
        [
            "--medium",
            disk.medium,
            "--block-bytes",
            &disk.block_bytes.to_string(),
            "--time",
            time_word(disk.time),
        ]
        .map(str::to_owned),
    );
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([name.to_owned(), value]);
        }
    };
    option("--cpu", (disk.cpu == DiskCpu::Serial).then(|| "serial".to_owned()));
    option("--memory", disk.memory_bytes.map(|bytes| bytes.to_string()));
    let shared = disk.memory_bytes.is_none() && disk.memory_shares > 1;
    option("--memory-shares", shared.then(|| disk.memory_shares.to_string()));
    option("--spill", disk.spill.map(|path| path.display().to_string()));
    option("--pack-above", disk.pack_above_percent.map(|percent| format!("{percent}%")));
    option("--faults", disk.faults.map(str::to_owned));
    option("--log", disk.log.then(|| "on".to_owned()));
    option("--nbd", disk.nbd.then(|| "on".to_owned()));
    PROGRAM.invoke(words)
}

/// Asks the disk served from `directory` one thing.
#[must_use]
pub fn ask(directory: &Path, command: &Command) -> Invocation {
    // Plain data: it can always be written.
    let command = serde_json::to_string(command).unwrap_or_default();
    let words = ["ask".to_owned(), "--directory".to_owned(), directory.display().to_string(), command];
    PROGRAM.invoke(words.to_vec())
}

/// As the flag and the study spell it.
#[must_use]
pub const fn time_word(time: DiskTime) -> &'static str {
    match time {
        DiskTime::Model => "model",
        DiskTime::Real => "real",
    }
}

/// Reads what it printed when the disk was up: one JSON object.
///
/// # Errors
/// It is something else.
pub fn served(output: &Output) -> Result<Ready, serde_json::Error> {
    serde_json::from_str(output.stdout.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Up<'static> {
        Up {
            directory: Path::new("/run/fsage/disks/a"),
            size_bytes: 1 << 30,
            partitions: &[],
            drives: 1,
            fast: None,
            medium: "hdd-7200",
            block_bytes: 4096,
            time: DiskTime::Model,
            cpu: DiskCpu::Ignored,
            log: false,
            memory_bytes: None,
            memory_shares: 1,
            spill: None,
            pack_above_percent: None,
            nbd: false,
            faults: None,
        }
    }

    #[test]
    fn arguments_say_what_is_wanted() {
        let common = "fsage-disk up --directory /run/fsage/disks/a --size 1073741824";
        assert_eq!(
            up(&plain()).to_string(),
            format!("{common} --medium hdd-7200 --block-bytes 4096 --time model")
        );
        let shared = Up { memory_shares: 2, ..plain() };
        assert!(up(&shared).to_string().ends_with(" --memory-shares 2"));
        assert_eq!(up(&Up { memory_bytes: Some(9), ..shared }), up(&Up { memory_bytes: Some(9), ..plain() }));
        let partitions = ["1073741824@outer", "2097152"].map(|text| text.parse().unwrap());
        let drive = up(&Up { partitions: &partitions, ..plain() }).to_string();
        assert!(drive.contains("/a --partition 1073741824@outer --partition 2097152 --medium"), "{drive}");
        let all = Up {
            medium: "hdd-7200,rpm=5400",
            block_bytes: 512,
            time: DiskTime::Real,
            log: true,
            memory_bytes: Some(9),
            spill: Some(Path::new("/var/tmp")),
            pack_above_percent: Some(4),
            nbd: true,
            faults: Some("{}"),
            ..plain()
        };
        assert_eq!(
            up(&all).to_string(),
            format!(
                "{common} --medium hdd-7200,rpm=5400 --block-bytes 512 --time real --memory 9 --spill /var/tmp --pack-above 4% --faults '{{}}' --log on --nbd on"
            )
        );
    }

    #[test]
    fn a_question_is_one_word() {
        let mark = fsage_model::disk::call::Mark { name: "age 'n' grep".to_owned() };
        let asked = ask(Path::new("/run/d"), &mark.into());
        let wanted =
            ["fsage-disk", "ask", "--directory", "/run/d", r#"{"command":"mark","name":"age 'n' grep"}"#];
        assert_eq!(asked.argv(), wanted);
    }

    #[test]
    fn what_it_prints_is_read() {
        let stdout = r#"{"pid":7,"start_ticks":99,"file":"/a/mount/disk","control":"/a/control","more":1}"#;
        let output = Output {
            status: 0,
            stdout: format!("{stdout}\n"),
            stderr: String::new(),
            elapsed: Duration::ZERO,
        };
        let found = served(&output).unwrap();
        assert_eq!((found.pid, found.start_ticks, found.file.as_path()), (7, 99, Path::new("/a/mount/disk")));
        assert!(served(&Output { stdout: "up\n".to_owned(), ..output }).is_err());
    }
}
