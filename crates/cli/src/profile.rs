//! `fsage profile`: what a real tree looks like, written down without its names; read-only.

use std::path::{Path, PathBuf};

use clap::Args;
use fsage_model::problem::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::profile::{Profile, Source};
use fsage_model::protocol::{Usage, call};
use fsage_sys::new_file::{self, Readers};

use super::progress::Progress;
use super::report::unwritten;
use super::terminal::Terminal;
use super::{text, verify};
use fsage_lab::profile;
use fsage_lab::target::{Session, Target, TargetError};

/// Arguments of `fsage profile`.
#[derive(Debug, Args)]
#[command(after_help = "\
A profile has sizes, shape and layout of the tree, but no names, paths or data. Nothing is changed.
Used and free space are those of the whole file system that holds PATH. Root sees all files and the
free space; what cannot be inspected is counted. docs/profiles.md describes the file.

Examples:
  sudo fsage profile /usr -o profile.toml
  sudo fsage run like --set 'stage.age.workload.like=\"profile.toml\"'
  sudo fsage age /mnt/test --set like=profile.toml --operations 500000")]
pub struct ProfileArgs {
    /// A directory, or a mount point
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// File to write; `-` is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Also profile other file systems mounted below PATH
    #[arg(long, alias = "all-file-systems")]
    pub cross_mounts: bool,
    /// Threads that walk the tree; 0: one per CPU
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=256))]
    pub threads: u32,
}

/// Profiles.
pub(crate) fn run(args: &ProfileArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let directory = verify::existing(&args.path)?;
    let mut session = Target::local()?;
    let mut progress = Progress::new(terminal);
    if terminal.live {
        progress.stage(&format!("inspecting {}", args.path.display()));
    }
    let found = look(&mut session, &directory, args);
    progress.finish();
    let (found, unknown) = found?;
    if !unknown.is_empty() {
        terminal.note(&format!("note: the free space is not in the profile: {unknown}"));
    }
    if found.files.unseen > 0 {
        let unseen = text::plural(found.files.unseen, "file or directory", "files and directories");
        terminal.warn(&format!("{unseen} could not be inspected and are not in the profile"));
    }
    let to_output = args.output == Path::new("-");
    if !to_output {
        write(&args.output, &found)?;
        terminal.note(&in_words(&found, &args.output));
    }
    if terminal.json {
        terminal.json(&found)?;
    } else if to_output {
        terminal.content(&profile::to_toml(&found))?;
    }
    Ok(EXIT_OK)
}

/// The profile, and why the free space is not in it.
fn look(session: &mut Session, directory: &Path, args: &ProfileArgs) -> Result<(Profile, String), Problem> {
    let Usage { used_bytes, total_bytes, file_system, .. } =
        session.call(call::Usage { directory: directory.to_owned() })?;
    let layout = session
        .call(call::Scan {
            directory: directory.into(),
            threads: args.threads,
            one_file_system: !args.cross_mounts,
            detail: true,
        })?
        .layout;
    let (free, unknown) = match session.call(call::FreeSpace { directory: directory.into() }) {
        Ok(free_space) => (Some(free_space), String::new()),
        Err(TargetError::Failed { failure, .. }) => (None, failure.message),
        Err(error) => return Err(error.into()),
    };
    let source = Source { file_system, volume_bytes: total_bytes, used_bytes };
    let found = Profile::new(source, &layout, free.as_ref()).map_err(|error| {
        Problem::new(EXIT_FAILED, format!("cannot make a profile of `{}`", args.path.display()))
            .because(&error)
            .hint(error.hint())
    })?;
    Ok((found, unknown))
}

/// Whole or not at all.
fn write(path: &Path, found: &Profile) -> Result<(), Problem> {
    new_file::write(path, profile::to_toml(found).as_bytes(), Readers::All)
        .map_err(|error| unwritten(EXIT_USAGE, "profile", path, &error))
}

fn in_words(found: &Profile, path: &Path) -> String {
    format!(
        "{}: {} in {}, {}; {} of the files in one extent, {} of the volume in use",
        path.display(),
        text::plural(found.files.count, "file", "files"),
        text::plural(found.directories.count, "directory", "directories"),
        text::size(found.files.bytes),
        text::percent(found.files.one_extent_share),
        text::percent(found.used_share())
    )
}
