//! `fsage explain` on real file systems.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use std::io::Write as _;

use cli_support::{Mounted, fsage, root};

/// A directory of whole files, and one whose files grew side by side.
fn fragment(mounted: &Mounted) {
    for name in ["tree/good", "tree/bad"] {
        std::fs::create_dir_all(mounted.join(name)).unwrap();
    }
    for n in 0..4 {
        std::fs::write(mounted.join(&format!("tree/good/{n}")), vec![7; 1 << 20]).unwrap();
    }
    let open = |n| std::fs::File::create(mounted.join(&format!("tree/bad/{n}"))).unwrap();
    let mut files: Vec<std::fs::File> = (0..4).map(open).collect();
    for _ in 0..16 {
        for file in &mut files {
            file.write_all(&[1; 65_536]).unwrap();
            file.sync_all().unwrap();
        }
    }
}

#[test]
fn the_worst_directory_is_named_mapped_and_what_would_mend_it_is_told() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("128M");
    fragment(&mounted);
    let tree = mounted.join("tree");
    let found = fsage(&["explain", "--json", &tree]).result();
    assert_eq!((&found["tree"]["files"], &found["medium"]), (&8.into(), &"hdd-7200".into()), "{found}");
    let worst = &found["directories"][0];
    assert_eq!(worst["path"], "bad", "{found}");
    assert!(worst["now_ns"].as_u64() > worst["copied_ns"].as_u64(), "{worst}");
    assert!(found["files"][0]["path"].as_str().unwrap().starts_with("bad/"), "{found}");
    assert_eq!(found["used"].as_array().unwrap().len(), 1024, "{found}");
    assert_eq!(found["notes"].as_array().unwrap().len(), 0, "{found}");
    let page = mounted.join("../why.html");
    let run = fsage(&["explain", &tree, "-o", &page]);
    assert_eq!(run.code, 0, "{run:?}");
    for part in [
        "What would mend it",
        "copy it to a fresh volume",
        "Worst directories",
        "Where bad lies",
        "█ its data",
    ] {
        assert!(run.stdout.contains(part), "{part} is not in\n{}", run.stdout);
    }
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    for part in ["<svg", "class=\"own\"", "bad", "in one piece each"] {
        assert!(html.contains(part), "{part}");
    }
    // Memory does not seek: there is nothing to mend.
    let ram = fsage(&["explain", &tree, "--medium", "ram"]);
    assert!(ram.stdout.contains("nothing that would save"), "{}", ram.stdout);
}

#[test]
fn wrong_input_is_told_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (arguments, code, words) in [
        (vec!["explain", "/nowhere/at/all"], 2, "cannot look at `/nowhere/at/all`"),
        (vec!["explain", path, "--medium", "drum"], 2, "`fsage disk media` lists them"),
        (vec!["explain", path], 4, "no file there has data on the volume"),
        (vec!["explain", path, "--worst", "x"], 2, "--worst"),
    ] {
        let run = fsage(&arguments);
        assert_eq!(run.code, code, "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(words), "{arguments:?}: {}", run.stderr);
    }
}
