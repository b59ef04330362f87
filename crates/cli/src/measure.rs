//! `fsage measure`: one measure on a mounted file system, once.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use fsage_engine::host::mount::{self, MountEntry};
use fsage_model::measure::{Effect, MeasureMetric, MeasureResult, MeasureSpec, registry};
use fsage_model::problem::{EXIT_INTERNAL, EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::protocol::call;
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;
use serde_json::json;

use super::progress::Progress;
use super::terminal::Terminal;
use super::{require_root, text, verify, workload};
use fsage_lab::lease::Journal;
use fsage_lab::measure::{MeasureOrder, measure};
use fsage_lab::target::{Incoming, Session, Target};

/// Arguments of `fsage measure`.
#[derive(Debug, Args)]
#[command(after_help = "\
`fsage measure list` lists the measures. Caches are dropped first; that needs root, as do block requests.
`create`, `large-file` and `fio` work in a folder of their own and remove it; `append` and `delete` change existing
files, and only with --yes-change-files. docs/measures.md explains the numbers.

Examples:
  sudo fsage measure grep /mnt/test --remount
  sudo fsage measure create /mnt/test --set files=2000 --set file_size.kind=fixed --set file_size.size=16KiB
  sudo fsage measure delete /mnt/test --seed 7 --yes-change-files")]
pub struct MeasureArgs {
    /// The measure, or `list`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// A directory of a mounted file system
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Random seed; the same seed chooses the same files
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Change a parameter, such as `reads=500`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Unmount PATH, which must be a mount point, and mount it again with the same options first
    #[arg(long)]
    pub remount: bool,
    /// Do not trace block requests
    #[arg(long)]
    pub no_requests: bool,
    /// Let `append` and `delete` change the files below PATH
    #[arg(long)]
    pub yes_change_files: bool,
}

/// Measures.
pub(crate) fn run(args: &MeasureArgs, terminal: &Terminal) -> Result<u8, Problem> {
    if args.name == "list" {
        return list(terminal);
    }
    let spec = spec(&args.name, &args.set)?;
    let path = args.path.as_deref().ok_or_else(|| {
        Problem::new(EXIT_USAGE, format!("no directory is given for `{}`", args.name))
            .hint(format!("give a directory: `fsage measure {} PATH`", args.name))
    })?;
    let directory = verify::existing(path)?;
    if spec.changes_tree() && !args.yes_change_files {
        let message = format!("`{}` changes the files below `{}`", spec.name(), path.display());
        return Err(Problem::new(EXIT_USAGE, message).hint("add --yes-change-files to allow it"));
    }
    require_root(&format!("`fsage measure {}`", spec.name()))?;
    let mut progress = Progress::new(terminal);
    progress.stage(&format!("measuring {} in {}", spec.name(), path.display()));
    let result = measured(args, spec, (&directory, &verify::existing_as_named(path)?), &mut progress);
    progress.finish();
    let result = result?;
    for warning in &result.warnings {
        terminal.warn(&warning.message);
    }
    if terminal.json {
        terminal.json(&result)?;
    } else {
        terminal.result(&show(&result, path, terminal))?;
    }
    Ok(EXIT_OK)
}

/// The measure that name and `--set` describe.
fn spec(name: &str, set: &[String]) -> Result<MeasureSpec, Problem> {
    let default = MeasureSpec::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = registry().iter().map(|line| line.name).collect();
        Problem::new(EXIT_USAGE, format!("there is no measure `{name}`"))
            .hint(format!("it is one of {}", names.join(", ")))
    })?;
    let tree = serde_json::to_value(&default)
        .map_err(|error| Problem::new(EXIT_INTERNAL, "the measure cannot be changed").because(&error))?;
    let tree = workload::changed(tree, set)?;
    serde_json::from_value(tree).map_err(|error| {
        Problem::new(EXIT_USAGE, format!("--set {} does not fit `{name}`", set.join(" --set ")))
            .because(&error)
            .hint("docs/measures.md lists every parameter; sizes are written as 4096, 64KiB or 1GiB")
    })
}

/// What is taken is leased in a store of its own, which `fsage clean` finds should this be killed. The
/// directory is given without links, for the mount table, and as it was named.
fn measured(
    args: &MeasureArgs,
    measure_spec: MeasureSpec,
    (directory, named): (&Path, &Path),
    progress: &mut Progress,
) -> Result<MeasureResult, Problem> {
    let folder = tempfile::Builder::new()
        .prefix("fsage-measure-")
        .tempdir()
        .map_err(|error| Problem::new(EXIT_INTERNAL, "cannot make a folder for leases").because(&error))?;
    let mut journal = Journal::open(folder.path())?;
    let mut session = Target::local()?;
    let own = journal.attach(&session)?;
    let holder = holder(directory);
    let at = (directory, named, holder.as_ref());
    let result = taken(args, measure_spec, at, (&mut session, &mut journal), progress);
    let keep = result.as_ref().is_err_and(|_| journal.outstanding().len() > 1);
    drop(session);
    journal.release(own)?;
    if keep {
        // `fsage clean` needs it.
        let _ = folder.keep();
    }
    let mut result = result?;
    result.warnings.extend(holder.as_ref().and_then(|entry| cached_loop(&entry.source)));
    Ok(result)
}

/// Measures; what is taken is in the journal.
fn taken(
    args: &MeasureArgs,
    measure_spec: MeasureSpec,
    (directory, named, holder): (&Path, &Path, Option<&MountEntry>),
    (session, journal): (&mut Session, &mut Journal),
    progress: &mut Progress,
) -> Result<MeasureResult, Problem> {
    if args.remount {
        remount(directory, holder, session)?;
    }
    let order = MeasureOrder {
        measure: measure_spec,
        directory: named.into(),
        device: None,
        seed: args.seed,
        requests: !args.no_requests,
        mark: None,
        extra: None,
    };
    let result = measure(session, journal, &order, &mut |incoming| {
        if let Incoming::Event(event) = incoming {
            progress.event(&event);
        }
    });
    Ok(result?)
}

/// The mount that holds a directory.
fn holder(directory: &Path) -> Option<MountEntry> {
    let holders = mount::table().into_iter().filter(|entry| directory.starts_with(&entry.point));
    // Of several mounts at the same point the last covers the others, and the last maximum is taken.
    holders.max_by_key(|entry| entry.point.components().count())
}

/// Why a mount cannot be made again as it is; `here`: mounts at its point.
fn objection(entry: &MountEntry, here: usize) -> Option<&'static str> {
    let has = |word: &str| entry.options.iter().any(|option| option == word);
    // Of btrfs the subvolume is mounted, which `subvol=` names also where only a directory of it is bound.
    let subvolume = entry.options.iter().find_map(|word| word.strip_prefix("subvol="));
    let root = subvolume.unwrap_or("/");
    match () {
        () if here > 1 => Some("several file systems are mounted there, one on top of the other"),
        () if entry.root != Path::new(root) || !entry.source.is_absolute() => {
            Some("it is not a whole file system of a device")
        }
        () if has("ro") && has("rw") => Some("the mount is read-only and its file system is not"),
        () if entry.file_system.starts_with("fuse") => Some("a program serves it"),
        () if has("nosymfollow") || has("idmapped") => Some("it has options that mount(2) does not take"),
        () => None,
    }
}

fn remount(directory: &Path, holder: Option<&MountEntry>, session: &mut Session) -> Result<(), Problem> {
    let refused = |why: &str| {
        Problem::new(EXIT_USAGE, format!("cannot mount `{}` again: {why}", directory.display()))
            .hint("leave --remount out: caches are dropped anyway")
    };
    let entry =
        holder.filter(|entry| entry.point == directory).ok_or_else(|| refused("it is not a mount point"))?;
    if entry.point == Path::new("/") {
        return Err(refused("it is the root file system"));
    }
    let here = mount::table().iter().filter(|other| other.point == directory).count();
    if let Some(why) = objection(entry, here) {
        return Err(refused(why));
    }
    // `mount -o loop` makes loop devices that go when nobody has them open any more: it must not go in
    // between. The agent holds it too, so that what is mounted is what was unmounted.
    let held = std::fs::File::open(&entry.source);
    let held = held.map_err(|error| refused("its device cannot be opened").because(&error))?;
    let identity = fsage_engine::host::block::identity(&held, &entry.source)
        .map_err(|error| refused("it is not on a block device").because(&error))?;
    let device = entry.source.clone();
    session.call(call::HoldDevice { device: device.clone(), identity })?;
    let remount = call::Remount {
        device: entry.source.clone(),
        point: entry.point.clone(),
        file_system: entry.file_system.clone(),
        options: entry.options.clone(),
    };
    let mounted = session.call(remount);
    let let_go = session.call(call::LetDeviceGo { device });
    drop(held);
    mounted?;
    let_go?;
    Ok(())
}

/// A warning when the device is a loop device that works through the page cache of the host.
fn cached_loop(device: &Path) -> Option<Warning> {
    let name = device.file_name()?.to_str().filter(|name| name.starts_with("loop"))?;
    let direct = std::fs::read_to_string(format!("/sys/block/{name}/loop/dio")).ok()?;
    (direct.trim() == "0").then(|| Warning {
        kind: WarningKind::CacheTooLarge,
        message: format!(
            "{name} works through the page cache of the host, which may have answered in place of the device: its \
             pages were dropped before, but not kept from coming back; attach it with `losetup --direct-io=on`"
        ),
    })
}

fn list(terminal: &Terminal) -> Result<u8, Problem> {
    let lines = registry();
    if terminal.json {
        let lines: Vec<_> = lines
            .iter()
            .map(|line| json!({"name": line.name, "purpose": line.purpose, "effect": line.effect, "default": line.default}))
            .collect();
        terminal.json(&lines)?;
        return Ok(EXIT_OK);
    }
    let mut text = String::new();
    for line in lines {
        let effect = match line.effect {
            Effect::Nothing => "changes nothing",
            Effect::FreeSpace => "takes free space and releases it",
            Effect::Tree => "changes the tree",
        };
        let _ =
            writeln!(text, "  {:<17} {}; {}", terminal.bold(line.name), line.purpose, terminal.dim(effect));
    }
    terminal.result(&text)?;
    Ok(EXIT_OK)
}

fn show(result: &MeasureResult, path: &Path, terminal: &Terminal) -> String {
    let mut head = vec![text::duration(as_f64(result.elapsed_ns))];
    if result.files > 0 {
        head.push(text::plural(result.files, "file", "files"));
    }
    if result.bytes > 0 {
        head.push(text::size(result.bytes));
    }
    let title = format!("{} in {}:", result.name, path.display());
    let mut shown = format!("{} {}\n\n", terminal.bold(&title), head.join(", "));
    for metric in &result.metrics {
        let better = if metric.larger_is_worse { "less is better" } else { "more is better" };
        let name = metric.name.replace('_', " ");
        let _ = writeln!(shown, "  {name:<24} {:<16} {}", value(metric), terminal.dim(better));
    }
    shown
}

/// A value with its unit, as people read it.
fn value(metric: &MeasureMetric) -> String {
    let value = metric.value;
    match metric.unit.as_str() {
        "s" => text::duration(value * 1e9),
        "s/GiB" => format!("{} per GiB", text::duration(value * 1e9)),
        "ns" => text::duration(value),
        "B" => text::size(to_u64(value)),
        "B/s" => format!("{}/s", text::size(to_u64(value))),
        "1/s" => format!("{value:.1}/s"),
        _ if value.fract() == 0.0 && value > 1.0 => text::count(to_u64(value)),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_and_wrong_ones_refused() {
        let set = |name: &str, set: &[&str]| {
            spec(name, &set.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        let MeasureSpec::ColdRandomRead(reads) = set("cold-random-read", &["reads=5"]).unwrap() else {
            panic!()
        };
        assert_eq!(reads.reads, 5);
        let sizes = set("create", &["file_size.kind=fixed", "file_size.size=16KiB", "files=3"]).unwrap();
        let MeasureSpec::Create(create) = sizes else { panic!() };
        assert_eq!(create.files, Some(3));
        for (name, wrong) in
            [("grep", "reads=5"), ("create", "files=many"), ("grab", "x=1"), ("walk", "novalue")]
        {
            assert_eq!(set(name, &[wrong]).unwrap_err().exit_code, EXIT_USAGE, "{name} {wrong}");
        }
    }

    #[test]
    fn values_have_their_units() {
        let shown = |unit: &str, number| value(&MeasureMetric::cost("x", unit, number));
        assert_eq!(shown("s/GiB", 2.5), "2.50 s per GiB");
        assert_eq!(shown("1", 1234.0), "1,234");
        assert_eq!(shown("1", 0.5), "0.5000");
        assert!(shown("B/s", 1_048_576.0).ends_with("MiB/s"));
    }
}
