//! `fsage image`: save a volume in one file, restore it, inspect such files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use fsage_model::escape;
use fsage_model::image::ImageSummary;
use fsage_model::problem::{EXIT_OK, Problem};
use fsage_model::protocol::{Event, call};
use fsage_model::quantity::{as_f64, share, to_u64};
use serde::Serialize;

use super::progress::Progress;
use super::terminal::Terminal;
use super::{session, text};
use fsage_lab::image::{self, Export, ImageError, Import, Restore, Save, UsedBy, Workplace};
use fsage_lab::target::{Incoming, Session, Target};
use fsage_lab::volume::EraseConsent;

/// Bytes of a block of an image.
const BLOCK_BYTES: u64 = fsage_model::image::BLOCK_BYTES;

/// What to do with an image.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Save every block in use of an unmounted or frozen volume in one file (needs root)
    Save(SaveArgs),
    /// Write an image to a volume, overwriting its contents (needs root for devices)
    Restore(RestoreArgs),
    /// Print what an image contains: file system, size, origin
    Info(InfoArgs),
    /// Check every byte of an image
    Verify(VerifyArgs),
    /// List the images of aged volumes that a store keeps
    List(super::images::ListArgs),
    /// Remove images that a store cannot use any more, or all
    Prune(super::images::PruneArgs),
    /// Convert a metadata image of e2image, xfs_metadump or btrfs-image to an image (needs root)
    Import(ImportArgs),
    /// Convert an image to a metadata image of the file system's own tools
    Export(ExportArgs),
}

/// Arguments of `fsage image import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Such images have no data: files of the imported image read as zeros, or fail on btrfs. `--materialise` writes data
into the blocks that the files have (ext2, ext3, ext4, xfs). A temporary sparse volume of the full size is created beside FILE.

Example:
  sudo fsage image import --format e2image --materialise theirs.qcow2 theirs.fsage")]
pub struct ImportArgs {
    /// Format of SOURCE
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: image::Format,
    /// The metadata image
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// The image to write; one that exists is replaced when the new one is complete
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write self-describing data into the files' blocks
    #[arg(long)]
    pub materialise: bool,
    /// Compression level of zstd
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=19))]
    pub level: i32,
}

/// Arguments of `fsage image export`.
#[derive(Debug, Args)]
#[command(
    after_help = "File data is left out. A temporary sparse volume of the full size is created beside TARGET."
)]
pub struct ExportArgs {
    /// The image
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The metadata image to write; must not exist
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,
    /// Format of TARGET [default: that of the file system]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<image::Format>,
}

/// Arguments of `fsage image save`.
#[derive(Debug, Args)]
#[command(after_help = "\
Data that fsage wrote is saved as block headers, everything else byte for byte: an image has the names and
metadata of all files, and the content of those that fsage did not write. See docs/image.md.

Examples:
  sudo fsage image save /dev/disk/by-id/… aged.fsage
  sudo fsage image save volume.img aged.fsage --level 9
  sudo fsfreeze -f /mnt; sudo fsage image save /dev/sdb1 aged.fsage --frozen /mnt; sudo fsfreeze -u /mnt")]
pub struct SaveArgs {
    /// A block device, or a file that holds a volume; not mounted
    #[arg(value_name = "VOLUME")]
    pub volume: PathBuf,
    /// The image; an existing image is replaced when the new one is complete, any other file is refused
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Save every block, whether in use or not
    #[arg(long)]
    pub all_blocks: bool,
    /// The volume is mounted at POINT and frozen (`fsfreeze -f`)
    #[arg(long, value_name = "POINT")]
    pub frozen: Option<PathBuf>,
    /// Compression level of zstd
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=19))]
    pub level: i32,
    /// Threads; 0: two per CPU, at most eight
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub threads: u32,
    /// Record a fact about the origin of the volume in the image; may be repeated
    #[arg(long = "fact", value_name = "NAME=VALUE")]
    pub facts: Vec<String>,
}

/// Arguments of `fsage image restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
Every used block is written, file data too: nothing reads as a hole. Blocks that are not in the image are not
written. The image is checked first, and the beginning of the volume is written last.

Examples:
  sudo fsage image restore aged.fsage copy.img
  sudo fsage image restore aged.fsage /dev/disk/by-id/… --erase /dev/disk/by-id/…")]
pub struct RestoreArgs {
    /// The image
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A block device, or a file, which is created if it does not exist
    #[arg(value_name = "VOLUME")]
    pub volume: PathBuf,
    /// Allow the contents of PATH to be erased; PATH repeats VOLUME, and `PATH=UUID` also allows erasing the
    /// file system of that UUID on it
    #[arg(long, value_name = "PATH[=UUID]")]
    pub erase: Vec<String>,
    /// Do not discard the volume first
    #[arg(long)]
    pub no_trim: bool,
    /// Threads; 0: two per CPU, at most eight
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub threads: u32,
}

/// Arguments of `fsage image info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// The image
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Arguments of `fsage image verify`.
#[derive(Debug, Args)]
#[command(after_help = "Exits with 5 if a byte differs from what was written, and names the damaged part.")]
pub struct VerifyArgs {
    /// The image
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Threads; 0: two per CPU, at most eight
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub threads: u32,
}

/// Does it.
pub(crate) fn run(command: &ImageCommand, terminal: &Terminal) -> Result<u8, Problem> {
    match command {
        ImageCommand::Save(args) => save(args, terminal),
        ImageCommand::Restore(args) => restore(args, terminal),
        ImageCommand::Info(args) => {
            let summary = session::ask(call::ImageInfo { file: args.file.clone() })?;
            show(terminal, &args.file, "", &summary, "")
        }
        ImageCommand::Verify(args) => verify(args, terminal),
        ImageCommand::List(args) => super::images::list(args, terminal),
        ImageCommand::Prune(args) => super::images::prune(args, terminal),
        ImageCommand::Import(args) => import(args, terminal),
        ImageCommand::Export(args) => export(args, terminal),
    }
}

fn save(args: &SaveArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let facts = facts(&args.facts)?;
    super::require_root("inspecting a volume")?;
    let file = std::path::absolute(&args.file).map_err(ImageError::path(&args.file))?;
    let mut place = Workplace::open(&file)?;
    let wanted = Save {
        volume: args.volume.clone(),
        file,
        all_blocks: args.all_blocks,
        frozen: args.frozen.clone(),
        point: place.point(),
        level: args.level,
        threads: args.threads,
        facts,
    };
    let Workplace { session, journal, .. } = &mut place;
    let stage = format!("saving {}", args.volume.display());
    let saved = watched(session, terminal, &stage, |session, incoming| {
        image::save(session, journal, &wanted, incoming)
    });
    place.close()?;
    let saved = saved??;
    if let UsedBy::Unknown(name) = &saved.used_by {
        let name = if name.is_empty() { "no known file system" } else { name };
        terminal
            .note(&format!("note: {name} does not report which blocks are in use: every block was saved"));
    }
    show(terminal, &args.file, "saved", &saved.summary, "")
}

fn restore(args: &RestoreArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let volume = std::path::absolute(&args.volume).map_err(ImageError::path(&args.volume))?;
    let mut place = Workplace::open(&volume)?;
    let wanted = Restore {
        file: args.file.clone(),
        volume: args.volume.clone(),
        consent: EraseConsent::parse(&args.erase),
        trim: !args.no_trim,
        threads: args.threads,
    };
    let Workplace { session, journal, .. } = &mut place;
    let stage = format!("restoring {}", args.volume.display());
    let restored = watched(session, terminal, &stage, |session, incoming| {
        image::restore(session, journal, &wanted, incoming)
    });
    place.close()?;
    let restored = restored??;
    let to = format!("to {}", args.volume.display());
    show(terminal, &args.file, "restored", &restored.summary, &to)
}

fn import(args: &ImportArgs, terminal: &Terminal) -> Result<u8, Problem> {
    super::require_root("inspecting a volume")?;
    let file = std::path::absolute(&args.file).map_err(ImageError::path(&args.file))?;
    let mut place = Workplace::open(&file)?;
    let wanted = Import {
        format: args.format,
        source: args.source.clone(),
        file,
        materialise: args.materialise,
        point: place.point(),
        level: args.level,
        threads: 0,
    };
    let Workplace { session, journal, .. } = &mut place;
    let stage = format!("importing {}", args.source.display());
    let saved = watched(session, terminal, &stage, |session, incoming| {
        image::import(session, journal, &wanted, incoming)
    });
    place.close()?;
    show(terminal, &args.file, "imported", &saved??.summary, "")
}

fn export(args: &ExportArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let target = std::path::absolute(&args.target).map_err(ImageError::path(&args.target))?;
    let mut place = Workplace::open(&target)?;
    let wanted = Export { file: args.file.clone(), target, format: args.format, threads: 0 };
    let Workplace { session, journal, .. } = &mut place;
    let stage = format!("exporting {}", args.file.display());
    let exported = watched(session, terminal, &stage, |session, incoming| {
        image::export(session, journal, &wanted, incoming)
    });
    place.close()?;
    let to = format!("its metadata to {}", args.target.display());
    show(terminal, &args.file, "exported", &exported??, &to)
}

fn verify(args: &VerifyArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let verify = call::ImageVerify { file: args.file.clone(), threads: args.threads };
    let stage = format!("checking {}", args.file.display());
    let summary = watched(&mut Target::local()?, terminal, &stage, |session, incoming| {
        session.call_with(verify, incoming)
    })??;
    show(terminal, &args.file, "every byte verified", &summary, "")
}

/// Does `work` with signals heard and progress shown.
fn watched<T>(
    session: &mut Session,
    terminal: &Terminal,
    stage: &str,
    work: impl FnOnce(&mut Session, &mut dyn FnMut(Incoming)) -> T,
) -> Result<T, Problem> {
    let mut progress = Progress::new(terminal);
    progress.stage(stage);
    let control = session.control();
    let done = session::interruptible(control, terminal, || {
        work(session, &mut |incoming| match incoming {
            Incoming::Event(Event::Progress { operations, elapsed_ns, share, .. }) => {
                progress.amount(operations * BLOCK_BYTES, share, elapsed_ns);
            }
            Incoming::Event(event) => progress.event(&event),
            Incoming::Chunk(_) => {}
        })
    });
    progress.finish();
    done
}

fn facts(given: &[String]) -> Result<BTreeMap<String, String>, Problem> {
    let pair = |fact: &String| match fact.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => {
            Err(Problem::new(fsage_model::problem::EXIT_USAGE, format!("`--fact {fact}` is not NAME=VALUE")))
        }
    };
    given.iter().map(pair).collect()
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct ImageReport<'a> {
    file: &'a std::path::Path,
    #[serde(flatten)]
    summary: &'a ImageSummary,
}

fn show(
    terminal: &Terminal,
    file: &std::path::Path,
    done: &str,
    summary: &ImageSummary,
    tail: &str,
) -> Result<u8, Problem> {
    if terminal.json {
        terminal.json(&ImageReport { file, summary })?;
    } else {
        terminal.result(&words(terminal, file, done, summary, tail))?;
    }
    Ok(EXIT_OK)
}

fn words(
    terminal: &Terminal,
    file: &std::path::Path,
    done: &str,
    summary: &ImageSummary,
    tail: &str,
) -> String {
    let (header, totals) = (&summary.header, &summary.totals);
    let used = totals.used_blocks * BLOCK_BYTES;
    let kind = if header.file_system.is_empty() { "unknown" } else { &header.file_system };
    let name = if header.label.is_empty() { String::new() } else { format!(" `{}`", header.label) };
    let mut text = terminal.bold(&escape::line(&file.display().to_string()));
    if !done.is_empty() {
        let rate = to_u64(as_f64(used) / (as_f64(summary.elapsed_ns) / 1e9).max(1e-6));
        let time = text::duration(as_f64(summary.elapsed_ns));
        let tail = if tail.is_empty() { String::new() } else { format!(" {tail}") };
        text.push_str(&format!(": {done}{tail} in {time} ({}/s)", text::size(rate)));
    }
    text.push_str("\n\n");
    let blocks = |count: u64| text::size(count * BLOCK_BYTES);
    // Label, identity and facts are whatever the image says.
    let mut row = |what: &str, value: String| {
        text.push_str(&format!("  {:<12} {}\n", escape::line(what), escape::line(&value)));
    };
    row("volume", format!("{kind}{name}, {}", text::size(header.volume_bytes)));
    if !header.uuid.is_empty() {
        row("uuid", header.uuid.clone());
    }
    let which = match header.blocks {
        fsage_model::image::Blocks::Used => "in use",
        fsage_model::image::Blocks::All => "every block",
    };
    row("blocks", format!("{} ({which})", blocks(totals.used_blocks)));
    row(
        "our data",
        format!("{} in {}", blocks(totals.described_blocks), text::plural(totals.runs, "run", "runs")),
    );
    row("zeros", blocks(totals.zero_blocks));
    row("as they are", blocks(totals.raw_blocks));
    let part = text::percent(share(summary.image_bytes, used));
    row("image", format!("{}, {part} of what is in use", text::size(summary.image_bytes)));
    row("digest", summary.digest.clone());
    for (name, value) in &header.facts {
        row(name, value.clone());
    }
    text
}
