//! `--dry-run`: every command and write that a run would make, in order; nothing is taken or written.
//!
//! Devices are inspected, and the safety rule that refuses one now is said. That changes nothing of the exit
//! code: what is mounted now may be unmounted when the run begins.

use std::collections::BTreeSet;
use std::path::Path;

use fsage_model::problem::Explain as _;
use fsage_model::study::StudySpec;

use super::error::TrialError;
use super::trial::{mount_point, resolve};
use super::{
    RunError, RunEvent, RunObserver, RunSummary, TrialState, deterministic, device, drives, label, stage,
};
use crate::filesystem::FileSystem;
use crate::plan::Plan;
use crate::store::Store;
use crate::study::Study;
use crate::volume::{Drive, EraseConsent};

pub(super) fn run(
    study: &Study,
    plan: &Plan,
    root: &Path,
    consent: &EraseConsent,
    (foreign, outside): (&BTreeSet<String>, &[String]),
    observer: &mut dyn RunObserver,
) -> Result<RunSummary, RunError> {
    let mut summary = RunSummary::new(study, plan, root);
    if root.join("plan.json").exists() {
        let (trials, damaged) = Store::open(root)?.read_trials();
        summary.keep(&trials);
        summary.damaged = damaged;
    }
    let mut say = |line: String| observer.event(RunEvent::DryRun { line });
    say(format!("# store: {}", root.display()));
    for name in ["lock", "study.toml", "plan.json"] {
        say(format!("write {}", root.join(name).display()));
    }
    say("write /var/lib/fsage".to_owned());
    for command in foreign {
        say(format!("# a command of the study itself, run as root only with --allow-commands: {command}"));
    }
    for path in outside {
        say(format!("# a path outside the study's folder, used only with --allow-commands: {path}"));
    }
    for drive in study.drives_cut().into_iter().filter(|drive| drive.fabricates()) {
        say(format!("# crash states that no kernel wrote, mounted only with --on-host: {}", drive.name()));
    }
    for line in refusals(study, consent, root)? {
        say(line);
    }
    let pending = plan.trials.iter().zip(&summary.trials).filter(|(_, t)| t.state == TrialState::Pending);
    for (planned, _) in pending {
        let cell = &study.cells[planned.cell];
        let spec = &cell.spec;
        let mut resolved = resolve(cell, planned.seed, consent, root)?;
        resolved.volume.of_trial(&planned.id);
        let drives = Drive::of(&drives::volumes(cell), &planned.id, root)?;
        let on = spec.target.name().map(|host| format!(", on {host}")).unwrap_or_default();
        say(format!("# trial {}: {}{on}", planned.id, label(planned, study.spec.repeats)));
        let point = mount_point(root, &planned.id);
        let named = resolved.volume.device_in_words();
        let device = if named.starts_with('/') { named } else { format!("/dev/{named}") };
        let device = Path::new(&device);
        deterministic::describe(spec).into_iter().for_each(&mut say);
        drives.iter().map(Drive::describe).for_each(&mut say);
        resolved.volume.describe(&planned.id).into_iter().for_each(&mut say);
        on_volume(&resolved.file_system, spec, (device, &point, planned.seed), &mut say);
        let requests = root.join("trials").join(&planned.id).join("requests.log");
        let save = resolved.volume.save_log(&planned.id, &requests);
        save.map(|save| save.to_string()).into_iter().for_each(&mut say);
        undo(resolved.volume.describe(&planned.id)).into_iter().for_each(&mut say);
        for drive in drives.iter().rev() {
            let name = format!("requests-drive-{}.log", drive.name());
            let save = drive.save_log(&root.join("trials").join(&planned.id).join(name));
            save.map(|save| save.to_string()).into_iter().for_each(&mut say);
            undo(vec![drive.describe()]).into_iter().for_each(&mut say);
        }
        for name in ["log.txt", "latency.hlog", "probes.parquet", "explain.json", "trial.json"] {
            say(format!("write {}", root.join("trials").join(&planned.id).join(name).display()));
        }
    }
    Ok(summary)
}

/// The file system and the stages, or on a bare device the stages alone.
fn on_volume(
    file_system: &FileSystem,
    spec: &StudySpec,
    (device, point, seed): (&Path, &Path, u64),
    say: &mut dyn FnMut(String),
) {
    if file_system.is_bare() {
        let lines = spec.stages().flat_map(|stage| stage::of(stage).describe(device, seed));
        return lines.for_each(&mut *say);
    }
    let before = stage::before_mkfs(spec);
    for stage in spec.stages().take(before) {
        stage::of(stage).describe(device, seed).into_iter().for_each(&mut *say);
    }
    say(file_system.mkfs(device).to_string());
    say(format!("mkdir -p {}", point.display()));
    file_system.before_mount_lines(device, point).into_iter().for_each(&mut *say);
    say(file_system.mount_line(device, point));
    file_system.restrict_line(point).into_iter().for_each(&mut *say);
    for stage in spec.stages().skip(before) {
        stage::of(stage).describe(point, seed).into_iter().for_each(&mut *say);
    }
    say(format!("umount {}", point.display()));
    say(format!("rmdir {}", point.display()));
    file_system.fsck(device).map(|fsck| fsck.to_string()).into_iter().for_each(&mut *say);
}

/// Each device of the study that would be refused, with the reason and the way out.
fn refusals(study: &Study, consent: &EraseConsent, root: &Path) -> Result<BTreeSet<String>, RunError> {
    let mut lines = BTreeSet::new();
    for cell in &study.cells {
        if let Err(error) = resolve(cell, cell.spec.seed, consent, root)?.volume.look() {
            lines.insert(format!("# refused: {}", TrialError::from(error).cause()));
        }
    }
    let look = |path: &Path| fsage_engine::host::block::facts(path).ok();
    if let Err(error) = device::check(&device::named(study), look) {
        lines.insert(format!("# refused: {error} ({})", error.hint().unwrap_or_default()));
    }
    Ok(lines)
}

/// The undoing of a loop file's or a virtual disk's lines, in reverse order.
fn undo(lines: Vec<String>) -> Vec<String> {
    lines
        .iter()
        .rev()
        .filter_map(|line| {
            let file = line.rsplit(' ').next()?;
            if line.starts_with("losetup ") {
                Some(format!("losetup --detach /dev/loopN # {file}"))
            } else if line.starts_with("fsage-disk up ") {
                let directory = line.split(' ').nth(3)?;
                Some(format!("fsage-disk down --directory {directory}"))
            } else if line.starts_with("truncate ") {
                Some(format!("rm {file}"))
            } else {
                None
            }
        })
        .collect()
}
