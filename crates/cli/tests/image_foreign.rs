//! Images for and from the file systems' own tools.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;
mod image_rig;

use std::os::unix::fs::PermissionsExt;

use cli_support::{Run, root};
use image_rig::Rig;

/// Extents of the files of a volume, as `fsage scan` tells them.
fn layout(rig: &Rig, name: &str) -> serde_json::Value {
    rig.mounted(name, ",ro", |point| {
        let scan = rig.fsage(&["scan", point.to_str().unwrap(), "--json"]).result();
        let layout = &scan["layout"];
        serde_json::json!([layout["files"], layout["extents"], layout["mapped_bytes"]])
    })
}

#[test]
fn a_metadata_image_goes_out_and_comes_back_with_data() {
    if !root() {
        return;
    }
    for (kind, size, mkfs, format, check) in [
        ("ext4", "160M", &["mkfs.ext4", "-q", "-b", "4096"][..], "e2image", &["e2fsck", "-fn"][..]),
        ("xfs", "320M", &["mkfs.xfs", "-q"], "xfs-metadump", &["xfs_repair", "-n"]),
    ] {
        let rig = Rig::new();
        rig.make("volume", size, mkfs);
        rig.age("volume", "1500");
        let saved = rig.save("volume", "image");
        let exported = rig.fsage(&["image", "export", &rig.text("image"), &rig.text("theirs"), "--json"]);
        assert_eq!(exported.result()["digest"], saved["digest"], "{kind}");
        rig.assert_nothing_left();
        let again = rig.fsage(&["image", "export", &rig.text("image"), &rig.text("theirs")]);
        assert!(again.code == 2 && again.stderr.contains("already exists"), "{again:?}");
        let import = ["image", "import", "--format", format, "--materialise", "--json"];
        let paths = [rig.text("theirs"), rig.text("ours")];
        let imported = rig.fsage(&[&import[..], &[paths[0].as_str(), paths[1].as_str()]].concat()).result();
        assert_eq!(imported["header"]["facts"]["data"], "materialised", "{kind}");
        assert_eq!(imported["header"]["file_system"], kind);
        rig.restore("ours", "copy");
        rig.run(&[check, &[rig.text("copy").as_str()]].concat());
        assert_eq!(layout(&rig, "copy"), layout(&rig, "volume"), "{kind}: the layout is another");
        let good = rig.verified("copy", "");
        assert!(good > 1000, "{kind}: {good} good blocks");
        rig.assert_nothing_left();
    }
}

#[test]
fn btrfs_goes_out_and_back_but_its_data_cannot_be_made_up() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "320M", &["mkfs.btrfs", "-q"]);
    rig.age("volume", "800");
    rig.save("volume", "image");
    rig.fsage(&["image", "export", &rig.text("image"), &rig.text("theirs"), "--json"]).result();
    let wrong =
        rig.fsage(&["image", "export", &rig.text("image"), &rig.text("other"), "--format", "xfs-metadump"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("does not support"), "{wrong:?}");
    let import = ["image", "import", "--format", "btrfs-image"];
    let paths = [rig.text("theirs"), rig.text("ours")];
    let words = [&import[..], &[paths[0].as_str(), paths[1].as_str()]].concat();
    let refused = rig.fsage(&[&words[..], &["--materialise"]].concat());
    assert!(refused.code == 2 && refused.stderr.contains("checksum of every block"), "{refused:?}");
    assert!(!rig.path("ours").exists());
    let imported = rig.fsage(&[&words[..], &["--json"]].concat()).result();
    assert_eq!(imported["header"]["facts"]["data"], "missing");
    rig.restore("ours", "copy");
    rig.run(&["btrfs", "check", &rig.text("copy")]);
    rig.assert_nothing_left();
}

/// The program has its files open from before: exchanging their names while it waits gains nothing.
#[test]
fn what_takes_the_place_of_a_volume_meanwhile_is_not_written_to() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "320M", &["mkfs.xfs", "-q"]);
    rig.save("volume", "image");
    rig.fsage(&["image", "export", &rig.text("image"), &rig.text("theirs"), "--json"]).result();
    std::fs::write(rig.path("victim"), "kept").unwrap();
    let real = rig.run(&["sh", "-c", "command -v xfs_mdrestore"]).stdout.trim().to_owned();
    let folder = rig.path("programs");
    std::fs::create_dir(&folder).unwrap();
    // In the place of the program: puts a link where the volume was, works, and puts the volume back.
    let script = format!(
        "#!/bin/sh\nset -e\nplace=$(ls -d '{0}'/.ours.*)\nmv \"$place/volume\" \"$place/moved\"\n\
         ln -s '{1}' \"$place/volume\"\n{real} \"$@\"\nmv \"$place/moved\" \"$place/volume\"\n",
        rig.path("").display(),
        rig.text("victim"),
    );
    std::fs::write(folder.join("xfs_mdrestore"), script).unwrap();
    std::fs::set_permissions(folder.join("xfs_mdrestore"), PermissionsExt::from_mode(0o755)).unwrap();
    let import = ["image", "import", "--format", "xfs-metadump", &rig.text("theirs"), &rig.text("ours")];
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let run = Run::of(rig.command(&import).env("PATH", path));
    assert_eq!(std::fs::read(rig.path("victim")).unwrap(), b"kept", "{run:?}");
    assert_eq!(run.code, 0, "{run:?}");
    rig.restore("ours", "copy");
    rig.run(&["xfs_repair", "-n", &rig.text("copy")]);
    rig.assert_nothing_left();
}
