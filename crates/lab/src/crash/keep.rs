//! A failing state in a folder, to be seen without fsage: the disk as a file, the log of its requests, what was
//! acknowledged, and the commands of stock tools that show the damage.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use fsage_engine::crash::database_programs;
use fsage_model::crash::{CrashOperation, Failing, ProgramRun, SCRIPT_BEGINS};
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
    folder: &Path,
) -> Result<(), CrashError> {
    let keep = |path: &Path| {
        let path = path.to_owned();
        move |source| CrashError::Keep { path, source }
    };
    place.ask(disk_call::ShowCrash { state: failing.state.clone() })?;
    let device = place.device.clone();
    place.session.call(call::CrashSave { device, file: folder.join(IMAGE) })?;
    place.ask(disk_call::SaveLog { file: folder.join(LOG), without_data: false })?;
    if let Some(program) = &done.program {
        let path = folder.join(ACKNOWLEDGED);
        write(&path, &acknowledged(program, failing.state.cut)).map_err(keep(&path))?;
    }
    if is_scripted(run, done) {
        let path = folder.join(SCRIPT);
        write(&path, &script(done, failing)).map_err(keep(&path))?;
    }
    let path = folder.join(TEXT);
    write(&path, &text(run, failing, done)).map_err(keep(&path))
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

/// Whether the operations are fsage's, of one thread: those of several are in no order that could be done again.
const fn is_scripted(run: &CrashRun, done: &Done) -> bool {
    done.program.is_none() && !run.work.has_threads()
}

/// The operations that had begun at the cut, as `fsage crash --script` reads them; it syncs what comes before the line by itself.
fn script(done: &Done, failing: &Failing) -> String {
    let base = done.base.strip_suffix(&[CrashOperation::Sync]).unwrap_or(&done.base);
    let returned = done.steps.partition_point(|step| step.position <= failing.state.cut);
    let begun = done.steps.iter().take(returned + 1).map(|step| &step.operation);
    let lines = |operation: &CrashOperation| format!("{}\n", escape::line(&operation.to_string()));
    base.iter().map(lines).chain([format!("{SCRIPT_BEGINS}\n")]).chain(begun.map(lines)).collect()
}

/// What the folder holds and how to see the damage.
fn text(run: &CrashRun, failing: &Failing, done: &Done) -> String {
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
    if matches!(run.work, CrashWork::Program(_)) {
        text += &format!("{ACKNOWLEDGED}: what the load had acknowledged before the cut\n");
    }
    if is_scripted(run, done) {
        text += &format!(
            "{SCRIPT}: the operations up to the cut (fsage crash --script {SCRIPT} does them again)\n"
        );
    }
    text += "\nDamage:\n";
    for damage in failing.damage.iter().take(8) {
        let path = if damage.path.is_empty() { String::new() } else { format!("{} ", damage.path) };
        text += &format!("  {}: {}\n", damage.kind.name(), escape::line(&(path + &damage.what)));
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
            let check: Vec<String> = program.check.iter().map(|word| quote(word)).collect();
            lines += &format!(
                "export FSAGE_DIRECTORY=\"$PWD/mnt/{DIRECTORY}\" FSAGE_ACKNOWLEDGED=\"$PWD/{ACKNOWLEDGED}\"\n\
                 (cd \"$FSAGE_DIRECTORY\" && {} < \"$FSAGE_ACKNOWLEDGED\"); echo \"exit status $?\"\n",
                check.join(" ")
            );
        }
        CrashWork::Database(_) => {
            let check: Vec<String> = database_programs().check.iter().map(|word| quote(word)).collect();
            lines += &format!("(cd mnt/{DIRECTORY} && {})\ntail -n 1 {ACKNOWLEDGED}\n", check.join(" "));
        }
        CrashWork::Load(_) | CrashWork::Script(_) => lines += &format!("ls -lR mnt/{DIRECTORY}\n"),
    }
    lines += "umount mnt\n";
    if let Some(check) = run.file_system.fsck_argv(Path::new("work.img")) {
        let words: Vec<String> = check.iter().map(|word| quote(word)).collect();
        lines += &format!("{}\n", words.join(" "));
    }
    lines
}
