//! A failing state in a folder, to be seen without fsage: the disk as a file, the log of its requests, what was
//! acknowledged, and the commands of stock tools that show the damage.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use fsage_engine::crash::{check_script, database_programs};
use fsage_model::crash::{CrashOperation, CrashScriptError, Failing, ProgramRun, SCRIPT_BEGINS};
use fsage_model::disk::call as disk_call;
use fsage_model::escape;
use fsage_model::protocol::call;
use fsage_sys::folder::Folder;
use fsage_sys::new_file::{self, NewFile, Readers};

use super::place::DIRECTORY;
use super::work::Done;
use super::{ACKNOWLEDGED, Bench, CrashError, CrashRun, CrashWork};
use crate::tools::quote;

/// The disk as it is in the state.
const IMAGE: &str = "state.img";
/// The log of its requests, with their data, as `fsage disk log` reads it.
const LOG: &str = "requests.log";
/// The operations of fsage's load, as `fsage crash --script` reads them.
const SCRIPT: &str = "load.txt";
/// What it is and how to see it.
const TEXT: &str = "reproduce.txt";

/// What is to be kept, and how it is done again.
#[derive(Debug, Clone)]
pub struct Keep {
    /// A folder that does not exist yet, for the failing state and what it takes to see it without fsage.
    pub folder: PathBuf,
    /// The words of `fsage crash` for the same file system, disk and states, without what is done before the cut.
    pub command: Vec<String>,
}

/// Makes the folder, which must not be there yet, before anything is tried: only its owner may enter it.
pub(super) fn make(folder: &Path) -> Result<(), CrashError> {
    let made = Folder::of(folder)
        .and_then(|(parent, _)| new_file::check_owner(&parent))
        .and_then(|()| DirBuilder::new().mode(0o700).create(folder));
    made.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => CrashError::Exists { path: folder.to_owned() },
        _ => CrashError::Keep { path: folder.to_owned(), source },
    })
}

/// Removes it where nothing was written to it.
pub(super) fn remove_if_empty(folder: &Path) {
    let _ = std::fs::remove_dir(folder);
}

/// Writes a failing state to the folder.
pub(super) fn keep(
    run: &CrashRun,
    place: &mut Bench<'_>,
    failing: &Failing,
    done: &Done,
    Keep { folder, command }: &Keep,
) -> Result<(), CrashError> {
    let keep = |path: &Path| {
        let path = path.to_owned();
        move |source| CrashError::Keep { path, source }
    };
    place.show(disk_call::ShowCrash { state: failing.state.clone() })?;
    let device = place.device.clone();
    place.session.call(call::CrashSave { device, file: folder.join(IMAGE) })?;
    place.ask(disk_call::SaveLog { file: folder.join(LOG), without_data: false })?;
    if let Some(program) = &done.program {
        let path = folder.join(ACKNOWLEDGED);
        write(&path, &acknowledged(program, failing.state.cut)).map_err(keep(&path))?;
    }
    let script = script(run, failing, done);
    if let Ok(script) = &script {
        let path = folder.join(SCRIPT);
        write(&path, script).map_err(keep(&path))?;
    }
    let script = script.map(|_| words(command.iter().map(String::as_str).chain(["--script", SCRIPT])));
    let path = folder.join(TEXT);
    write(&path, &text(run, failing, &script)).map_err(keep(&path))
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = NewFile::create(path, Readers::Owner)?;
    file.write_all(text.as_bytes())?;
    file.commit_new().map(drop)
}

/// The lines before a cut, as the check finds them.
fn acknowledged(program: &ProgramRun, cut: u64) -> String {
    let before = program.acknowledged.iter().take_while(|one| one.position <= cut);
    before.map(|one| format!("{}\n", one.text)).collect()
}

/// The operations that had begun at the cut, as `fsage crash --script` reads them, which syncs what comes before the line by
/// itself; or why there are none.
fn script(run: &CrashRun, failing: &Failing, done: &Done) -> Result<String, String> {
    if done.program.is_some() {
        return Err("the load is a program".to_owned());
    }
    if run.work.has_threads() {
        return Err("operations of several threads have no reproducible order".to_owned());
    }
    let base = done.base.strip_suffix(&[CrashOperation::Sync]).unwrap_or(&done.base);
    let returned = done.steps.partition_point(|step| step.position <= failing.state.cut);
    let begun = done.steps.iter().take(returned + 1).map(|step| &step.operation);
    // Not escaped: names are what they were in the script, which has none with control characters.
    let lines = |operation: &CrashOperation| format!("{operation}\n");
    let script: String =
        base.iter().map(lines).chain([format!("{SCRIPT_BEGINS}\n")]).chain(begun.map(lines)).collect();
    let read = script.parse().map_err(|error: CrashScriptError| error.what);
    read.and_then(|script| check_script(&script)).map(|()| script)
}

/// What the folder holds and how to see the damage.
fn text(run: &CrashRun, failing: &Failing, again: &Result<String, String>) -> String {
    let kind = run.file_system.mount_type();
    let state = &failing.state;
    let mut text = format!(
        "File system {kind} after a power cut, with damage.\n\n\
         {IMAGE}: the disk after {} requests, {} of {} pending changes missing\n\
         {LOG}: every request from the start of the load (fsage disk log show {LOG})\n",
        state.cut,
        state.lost.len(),
        state.pending
    );
    for loss in state.flash.iter().take(8) {
        text += &format!("lost by the flash: {}\n", loss.words());
    }
    if matches!(run.work, CrashWork::Program(_)) {
        text += &format!("{ACKNOWLEDGED}: what the load had acknowledged before the cut\n");
    }
    match (again, &run.work) {
        (Ok(command), _) => {
            text += &format!("{SCRIPT}: the operations up to the cut, to be done again:\n  {command}\n")
        }
        (Err(_), CrashWork::Program(_) | CrashWork::Database(_)) => {}
        (Err(why), _) => {
            text += &format!("The operations cannot be run again from a script: {}\n", escape::line(why))
        }
    }
    text += "\nDamage:\n";
    for damage in failing.damage.iter().take(8) {
        let path = if damage.path.is_empty() { String::new() } else { format!("{} ", damage.path) };
        text += &format!("  {}: {}\n", damage.kind.name(), escape::line(&(path + &damage.what)));
    }
    if run.states.drive.fabricates() {
        text += "\nNo kernel wrote what this image holds: mounting it may crash the machine or damage its memory. Do it in a\n\
                 virtual machine; `fsage crash` does the same states only with --on-host.\n";
    }
    text + "\nTo see it, as root, in this folder (mounting changes the image, hence the copy):\n\n"
        + &commands(run)
}

fn commands(run: &CrashRun) -> String {
    let options: Vec<&str> =
        std::iter::once("loop").chain(run.file_system.mount_options().iter().map(String::as_str)).collect();
    let mut lines = format!(
        "cp --sparse=always {IMAGE} work.img\nmkdir mnt\nmount -t {} -o {} work.img mnt\n",
        quote(run.file_system.mount_type()),
        quote(&options.join(","))
    );
    match &run.work {
        CrashWork::Program(program) => {
            lines += &format!(
                "export FSAGE_DIRECTORY=\"$PWD/mnt/{DIRECTORY}\" FSAGE_ACKNOWLEDGED=\"$PWD/{ACKNOWLEDGED}\"\n\
                 (cd \"$FSAGE_DIRECTORY\" && {} < \"$FSAGE_ACKNOWLEDGED\"); echo \"exit status $?\"\n",
                words(program.check.iter().map(String::as_str))
            );
        }
        CrashWork::Database(_) => {
            let check = words(database_programs().check.iter().map(String::as_str));
            lines += &format!("(cd mnt/{DIRECTORY} && {check})\ntail -n 1 {ACKNOWLEDGED}\n");
        }
        CrashWork::Load(_) | CrashWork::Script(_) => lines += &format!("ls -lR mnt/{DIRECTORY}\n"),
    }
    lines += "umount mnt\n";
    if let Some(check) = run.file_system.fsck_argv(Path::new("work.img")) {
        lines += &format!("{}\n", words(check.iter().map(String::as_str)));
    }
    lines
}

/// Words as a shell would have to be given them.
fn words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(quote).collect::<Vec<String>>().join(" ")
}
