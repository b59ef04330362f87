//! Text that others wrote cannot command a terminal, begin a line that looks like ours, or leave its place in
//! a page.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;
mod image_rig;
mod sample;

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use cli_support::{FSAGE, Mounted, Run, fsage, root};
use image_rig::Rig;

/// Sets the title, clears the screen, turns the reading around, and begins a line of ours.
const NAME: &str = "x\x1b]0;owned\x07\x1b[2J\u{9b}31m\u{202e}gpj\nerror: trust me\rhint: run it";

/// What must not reach a terminal, wherever it came from.
fn commands(text: &str) -> Vec<char> {
    let harmful = |c: &char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(harmful).collect()
}

fn assert_harmless(what: &str, run: &Run) {
    for text in [&run.stdout, &run.stderr] {
        assert!(commands(text).is_empty(), "{what}: {text:?}");
        assert!(!text.lines().any(|line| line.starts_with("error: trust me")), "{what}: {text}");
    }
}

#[test]
fn file_names_are_shown_and_do_nothing() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("64M");
    let directory = mounted.path().join(NAME);
    std::fs::create_dir(&directory).unwrap();
    // In pieces, so that it is among the worst.
    let file = std::fs::File::create(directory.join(NAME)).unwrap();
    for block in (0..64_u64).rev() {
        std::os::unix::fs::FileExt::write_at(&file, &[1; 4096], block * 8192).unwrap();
        file.sync_all().unwrap();
    }
    let tree = mounted.path();
    let tree = tree.to_str().unwrap();
    let named = directory.to_str().unwrap();
    for arguments in [
        &["scan", tree][..],
        &["scan", named],
        &["explain", tree],
        &["explain", named],
        &["profile", named],
        &["verify", named],
        &["scan", &format!("{named}/none")],
        &["verify", &format!("{named}/none")],
        &["image", "info", &format!("{named}/{NAME}")],
        &["trace", "show", &format!("{named}/{NAME}")],
        &["run", &format!("{named}/{NAME}")],
        &["report", named],
    ] {
        for extra in [&[][..], &["--json"]] {
            assert_harmless(arguments[0], &fsage(&[arguments, extra].concat()));
        }
    }
    let shown = fsage(&["scan", tree]).stdout;
    assert!(
        shown.contains(r"x\x1b]0;owned\x07\x1b[2J\u{9b}31m\u{202e}gpj\nerror: trust me\rhint: run it"),
        "{shown}"
    );
    // In JSON the name is whole.
    let found = fsage(&["scan", tree, "--json"]).result();
    assert!(found.to_string().contains("owned\\u0007"), "{found}");
    assert!(found["layout"]["worst"][0]["path"].as_str().unwrap().contains(NAME), "{found}");
    // With colours, ours come through and theirs do not.
    let colored = Run::of(Command::new(FSAGE).args(["scan", named, "--color", "always"]));
    assert!(colored.stdout.starts_with("\x1b[1m") && colored.stdout.contains("owned\\x07"), "{colored:?}");
    assert!(!colored.stdout.contains("\x1b]") && !colored.stdout.contains("\x1b[2J"), "{colored:?}");
}

#[test]
fn what_an_image_says_of_itself_is_shown_and_does_nothing() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "8M", &["mkfs.ext4", "-q"]);
    // The label is 16 bytes of the superblock, at 1024 + 120.
    let volume = std::fs::File::options().write(true).open(rig.path("volume")).unwrap();
    std::os::unix::fs::FileExt::write_at(&volume, b"\x1b[2J\nerror: trus", 1024 + 120).unwrap();
    drop(volume);
    let run = rig.fsage(&["image", "save", "--all-blocks", &rig.text("volume"), &rig.text("image")]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_harmless("save", &run);
    let info = rig.fsage(&["image", "info", &rig.text("image")]);
    assert_harmless("info", &info);
    assert!(!info.stdout.contains("\nerror: trus"), "{info:?}");
}

/// A shipped study whose title and command hold the name.
fn study(folder: &Path) -> String {
    let name: String = NAME.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
    let shipped = include_str!("../../../studies/digest.toml");
    let title = "The same operations leave the same tree on every file system";
    let kinds = "[\"ext4\", \"xfs\", \"btrfs\"]";
    assert!(shipped.contains(title) && shipped.contains(kinds));
    let text = shipped.replace(title, &name).replace(kinds, "[\"mine\"]");
    let path = folder.join("spoof.toml");
    let driver = format!("[driver.mine]\nmkfs = [\"true\", \"{name}\", \"{{device}}\"]\n");
    std::fs::write(&path, format!("{text}\n{driver}")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_study_is_shown_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = study(folder.path());
    let store = folder.path().join("store");
    let list = fsage(&["study", "list", folder.path().to_str().unwrap()]);
    assert_harmless("list", &list);
    let dry = fsage(&["run", &path, "--dry-run", "--store", store.to_str().unwrap()]);
    assert_harmless("dry-run", &dry);
    assert!(dry.stdout.contains(r"true 'x\x1b]0;owned\x07"), "{dry:?}");
    let wrong = folder.path().join("wrong.toml");
    std::fs::write(&wrong, format!("name = \"a\"\n\"{}\" = 1\n", "\\u001b[2J\\nerror: trust me")).unwrap();
    let run = fsage(&["run", wrong.to_str().unwrap(), "--dry-run"]);
    assert_harmless("fault", &run);
    assert_eq!(run.code, 2, "{run:?}");
    // A name that is no UTF-8 is shown, too.
    let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff\x1b[2J"));
    assert_harmless("odd", &Run::of(Command::new(FSAGE).arg("run").arg(odd).arg("--dry-run")));
}

#[test]
fn no_value_of_a_trial_reaches_beyond_its_place_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let mut trials = sample::trials(sample::Size::QUICK);
    for trial in &mut trials {
        let label = serde_json::Value::from("<!--<script>\u{2028}");
        trial.factors.insert("file_system.kind".to_owned(), label);
    }
    let store = folder.path().join("store");
    sample::write_store(&store, &trials);
    let page = fsage_analysis::report::render(
        &fsage_lab::store::Reader::open(&store).unwrap(),
        &fsage_analysis::report::ReportOptions::default(),
    )
    .unwrap();
    let begin = page.find("id=\"data\"").unwrap();
    let island = &page[begin..begin + page[begin..].find("</script>").unwrap()];
    assert!(!island.contains("<!--") && !island.contains("<script"), "the island holds markup");
    assert!(!island.contains('\u{2028}'));
}
