//! The server of a virtual disk, and what starts and ends it. `fsage disk` is the command for people.

#![forbid(unsafe_code)]

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use fsage_disk::server::client::{self, ClientError};
use fsage_disk::server::{FastDrive, PackAbove, ServerDirectory, Settings, run};
use fsage_model::disk::Ready;
use fsage_model::disk::call::{Answer, Refusal};
use serde_json::Value;

const HELP: &str = r#"fsage-disk serves a virtual disk: a file in a FUSE mount, for a loop device with direct I/O, and optionally a network
block device.

Usage: fsage-disk up --directory DIR --size BYTES|--partition SIZE --medium MEDIUM [OPTION …]
       fsage-disk down|stat|clean --directory DIR
       fsage-disk ask --directory DIR JSON

  up       starts a server in the background and prints where the disk is, as JSON
  stat     prints the state of the disk and its server, as JSON
  down     unmounts the disk and ends the server; refused while the disk is in use
  ask      sends a command to the server, such as {"command":"snapshot"}, and prints its answer
  clean    ends the server, even if the disk is in use, and removes what is left of it

Options of up:
  --size BYTES           size of the disk, up to 16 TiB
  --partition SIZE[@AT]  instead: a partition of the drive; repeated for each. They follow one another in the file, and
                         lie at outer, inner or an offset of the drive, or after the previous one
  --drives N             how many equal drives follow one another in the file, each with its part of --size (default 1)
  --fast-size BYTES, --fast-medium MEDIUM   one more drive at their end, with this part of --size
  --medium MEDIUM        a preset's name, or a medium in JSON
  --block-bytes BYTES    smallest unit of a request: 512 to 4096 (default 4096)
  --time model|real      whether answers take the medium's time (default model)
  --cpu ignored|serial   whether CPU time that a load takes passes on the disk's clock, in model time (default ignored)
  --log on|off           whether every request is logged from the beginning (default off)
  --faults JSON          faults to inject from the beginning
  --export fuse|ublk     a file in a mount (default), or /dev/ublkbN where the kernel has ublk_drv; ublk needs a build
                         with `--features ublk`, which no driver has tried
  --transport automatic|device   of fuse: io_uring where the kernel has it, or always /dev/fuse
  --nbd on|off           whether it is a network block device too, on the socket DIR/nbd (default off)
  --memory BYTES         most memory for contents; beyond it they go to the spill file, or writes fail
  --memory-shares N      without --memory: how many share the memory that the host has to give (default 1)
  --spill DIR            folder for the spill file
  --pack-above BYTES|N%  memory for contents, or percent of the host's, above which what was not used lately is packed
                         (default 48 MiB)
  --watchdog SECONDS     longest time at work on one batch before the connection is ended (default 60)

Exit codes: 0 done, 1 failed, 2 wrong use."#;

const EXPORTS: &str =
    if cfg!(feature = "ublk") { "fuse or ublk" } else { "fuse (ublk needs a build with `--features ublk`)" };

fn main() -> ExitCode {
    fsage_sys::process::keep_absolute_path();
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let (command, options) = match arguments.split_first() {
        Some((command, options)) => (command.as_str(), options),
        None => ("--help", &[][..]),
    };
    let done = match command {
        "--help" | "-h" => print(HELP),
        "--version" | "-V" => print(concat!("fsage-disk ", env!("CARGO_PKG_VERSION"))),
        "serve" => return serve(),
        "up" => up(options),
        "ask" => question(options),
        "down" | "stat" | "clean" => place(options).and_then(|place| ask(command, &place)),
        other => Err(Failure::Usage(format!("unknown command {other}"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}

/// Why a command did not do what it should.
enum Failure {
    Usage(String),
    Client(ClientError),
    Output(io::Error),
}

impl Failure {
    fn tell(&self) -> ExitCode {
        let (error, hint, code): (&dyn std::error::Error, _, _) = match self {
            Self::Usage(what) => {
                let _ = writeln!(io::stderr(), "error: {what}\nhint: fsage-disk --help");
                return ExitCode::from(2);
            }
            Self::Client(error) => (error, error.hint(), ExitCode::FAILURE),
            Self::Output(error) => (error, None, ExitCode::FAILURE),
        };
        let mut text = format!("error: {error}\n");
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(&format!("caused by: {cause}\n"));
            source = cause.source();
        }
        if let Some(hint) = hint {
            text.push_str(&format!("hint: {hint}\n"));
        }
        let _ = io::stderr().write_all(text.as_bytes());
        code
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

fn print(text: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{text}").map_err(Failure::Output)
}

fn usage<T: Into<String>>(what: T) -> Failure {
    Failure::Usage(what.into())
}

/// Pairs of a name and its value.
fn pairs(options: &[String]) -> Result<Vec<(&str, &str)>, Failure> {
    let (pairs, rest) = options.as_chunks::<2>();
    if let [single] = rest {
        return Err(usage(format!("{single} needs a value")));
    }
    Ok(pairs.iter().map(|[name, value]| (name.as_str(), value.as_str())).collect())
}

fn absolute(path: &str) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| usage(format!("{path}: {error}")))
}

fn place(options: &[String]) -> Result<ServerDirectory, Failure> {
    match pairs(options)?[..] {
        [("--directory", directory)] => Ok(ServerDirectory::new(&absolute(directory)?)),
        _ => Err(usage("--directory DIR is what this needs")),
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Failure> {
    value.parse().map_err(|_| usage(format!("{name} takes a whole number, not `{value}`")))
}

fn on_or_off(name: &str, value: &str) -> Result<bool, Failure> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(usage(format!("{name} is on or off, not `{value}`"))),
    }
}

fn settings(options: &[String]) -> Result<Settings, Failure> {
    let (mut directory, mut size, mut medium) = (None, None, None);
    let (mut fast_size, mut fast_medium) = (None, None);
    let mut settings = Settings::new(PathBuf::new(), 0, "");
    for (name, value) in pairs(options)? {
        match name {
            "--directory" => directory = Some(absolute(value)?),
            "--size" => size = Some(number(name, value)?),
            "--partition" => settings
                .partitions
                .push(value.parse().map_err(|error| usage(format!("--partition {value}: {error}")))?),
            "--drives" => settings.drives = number(name, value)?,
            "--fast-size" => fast_size = Some(number(name, value)?),
            "--fast-medium" => fast_medium = Some(value.to_owned()),
            "--medium" => medium = Some(value.to_owned()),
            "--block-bytes" => settings.block_bytes = number(name, value)?,
            "--time" => {
                settings.time = serde_json::from_value(Value::from(value))
                    .map_err(|_| usage(format!("--time is model or real, not `{value}`")))?;
            }
            "--cpu" => {
                settings.cpu = serde_json::from_value(Value::from(value))
                    .map_err(|_| usage(format!("--cpu is ignored or serial, not `{value}`")))?;
            }
            "--export" => {
                settings.export = serde_json::from_value(Value::from(value))
                    .map_err(|_| usage(format!("--export is {EXPORTS}, not `{value}`")))?;
            }
            "--transport" => {
                settings.transport = serde_json::from_value(Value::from(value))
                    .map_err(|_| usage(format!("--transport is automatic or device, not `{value}`")))?;
            }
            "--log" => settings.log = on_or_off(name, value)?,
            "--nbd" => settings.nbd = on_or_off(name, value)?,
            "--faults" => {
                let faults = serde_json::from_str(value);
                settings.faults = Some(faults.map_err(|error| usage(format!("--faults: {error}")))?);
            }
            "--memory" => settings.memory_limit_bytes = Some(number(name, value)?),
            "--memory-shares" => settings.memory_shares = number(name, value)?,
            "--pack-above" => {
                let mark: Result<PackAbove, _> = value.parse();
                settings.pack_above =
                    Some(mark.map_err(|error| usage(format!("--pack-above: `{value}` is {error}")))?);
            }
            "--spill" => settings.spill_folder = Some(absolute(value)?),
            "--watchdog" => settings.watchdog_s = number(name, value)?,
            other => return Err(usage(format!("unknown option {other}"))),
        }
    }
    settings.directory = directory.ok_or_else(|| usage("--directory DIR is missing"))?;
    let all = || settings.partitions.iter().fold(0_u64, |sum, part| sum.saturating_add(part.size.0));
    let size = size.or_else(|| (!settings.partitions.is_empty()).then(all));
    settings.size_bytes = size.ok_or_else(|| usage("--size BYTES is missing"))?;
    settings.medium = medium.ok_or_else(|| usage("--medium MEDIUM is missing"))?;
    settings.fast = match (fast_size, fast_medium) {
        (Some(size_bytes), Some(medium)) => Some(FastDrive { size_bytes, medium }),
        (None, None) => None,
        _ => return Err(usage("--fast-size and --fast-medium go together")),
    };
    Ok(settings)
}

fn up(options: &[String]) -> Result<(), Failure> {
    let settings = settings(options)?;
    let program = std::env::current_exe().map_err(Failure::Output)?;
    let ready = client::up(&program, &settings)?;
    print(&serde_json::to_string(&ready).map_err(|error| Failure::Output(error.into()))?)
}

fn ask(command: &str, place: &ServerDirectory) -> Result<(), Failure> {
    match command {
        "stat" => {
            let stat = client::stat(place)?;
            print(&serde_json::to_string_pretty(&stat).map_err(|error| Failure::Output(error.into()))?)
        }
        "down" => Ok(client::down(place)?),
        _ => Ok(client::clean(place)?),
    }
}

fn question(options: &[String]) -> Result<(), Failure> {
    let [rest @ .., text] = options else { return Err(usage("a command in JSON is missing")) };
    let place = place(rest)?;
    let command = serde_json::from_str(text).map_err(|error| usage(format!("`{text}`: {error}")))?;
    let answer: Value = client::ask_any(&place, &command)?;
    print(&answer.to_string())
}

/// The server itself: settings on its standard input, one line about its start on its output.
fn serve() -> ExitCode {
    // A disk has its own limit, of what it holds.
    fsage_sys::memory_limit::lift();
    let mut text = String::new();
    let settings = match io::stdin().read_to_string(&mut text).map(|_| serde_json::from_str(&text)) {
        Ok(Ok(settings)) => settings,
        Ok(Err(error)) => return usage(format!("settings on the standard input: {error}")).tell(),
        Err(error) => return Failure::Output(error).tell(),
    };
    serve_with(&settings)
}

fn serve_with(settings: &Settings) -> ExitCode {
    let say = |answer: Result<Ready, Refusal>| {
        // Anyone who started us may have gone.
        let _ = io::stdout().write_all(Answer::from(answer).line().as_bytes());
    };
    match run(settings, |ready| say(Ok(ready))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let refusal = Refusal::because(&error, error.hint());
            let _ = writeln!(io::stderr(), "{}", refusal.error);
            say(Err(refusal));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use fsage_disk::export::fuse::Choice;
    use fsage_disk::server::Export;
    use fsage_model::disk::{DiskCpu, DiskTime};
    use fsage_model::fault::FaultSpec;

    use super::*;

    fn parsed(words: &str) -> Result<Settings, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        settings(&words).map_err(|failure| match failure {
            Failure::Usage(what) => what,
            _ => panic!("no usage error"),
        })
    }

    #[test]
    fn every_option_reaches_the_settings() {
        #[cfg(feature = "ublk")]
        let (name, export) = ("ublk", Export::Ublk);
        #[cfg(not(feature = "ublk"))]
        let (name, export) = ("fuse", Export::Fuse);
        let settings = parsed(
            &r#"--directory /d --size 8192 --partition 4096 --partition 4096@inner --drives 2 --fast-size 4096 --fast-medium ssd --log on --medium ram --block-bytes 512 --time real --cpu serial --faults {"seed":7} --export EXPORT --transport device --nbd on --memory 9 --memory-shares 2 --pack-above 4% --spill /s --watchdog 3"#.replace("EXPORT", name),
        )
        .unwrap();
        let wanted = Settings {
            directory: "/d".into(),
            size_bytes: 8192,
            partitions: vec!["4096".parse().unwrap(), "4096@inner".parse().unwrap()],
            drives: 2,
            fast: Some(FastDrive { size_bytes: 4096, medium: "ssd".to_owned() }),
            block_bytes: 512,
            medium: "ram".to_owned(),
            time: DiskTime::Real,
            cpu: DiskCpu::Serial,
            log: true,
            faults: Some(FaultSpec { seed: 7, ..FaultSpec::default() }),
            export,
            transport: Choice::Device,
            nbd: true,
            memory_limit_bytes: Some(9),
            memory_shares: 2,
            spill_folder: Some("/s".into()),
            pack_above: Some(PackAbove::Percent(4)),
            watchdog_s: 3,
        };
        assert_eq!(settings, wanted);
    }

    #[test]
    fn wrong_use_is_told() {
        for (words, reported) in [
            ("--size 1 --medium ram", "--directory"),
            ("--directory /d --medium ram", "--size"),
            ("--directory /d --size 1", "--medium"),
            ("--directory", "needs a value"),
            ("--directory /d --size many", "whole number"),
            ("--directory /d --partition 1GiB@middle", "`middle` is not a position"),
            ("--directory /d --size 1 --time later", "model or real"),
            ("--directory /d --size 1 --export nfs", EXPORTS),
            ("--directory /d --size 1 --nbd maybe", "--nbd is on or off"),
            ("--directory /d --pack-above 101%", "--pack-above: `101%` is neither"),
            ("--directory /d --size 1 --cpu twice", "ignored or serial"),
            ("--directory /d --size 1 --medium ram --fast-size 4096", "go together"),
            ("--directory /d --colour red", "unknown option --colour"),
        ] {
            assert!(parsed(words).unwrap_err().contains(reported), "{words}");
        }
        assert!(place(&["--size".to_owned(), "1".to_owned()]).is_err());
        assert_eq!(
            std::path::Path::new("/d"),
            place(&["--directory".to_owned(), "/d".to_owned()]).unwrap_or_else(|_| panic!()).directory()
        );
    }
}
