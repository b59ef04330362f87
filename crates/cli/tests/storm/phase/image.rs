//! Images: what looks complete is.

use std::path::Path;

use fsage_engine::host::signature;
use serde_json::Value;

use super::{Phase, Recovery};
use crate::dice::Dice;
use crate::storm::place::Place;

const VOLUME: &str = "volume";
const IMAGE: &str = "volume.fsage";

/// An aged file system in a file, and its image.
fn make(place: &Place) {
    if place.path(VOLUME).exists() {
        return;
    }
    let tree = place.text("tree");
    std::fs::create_dir(&tree).unwrap();
    let size =
        ["--set", "file_size.kind=uniform", "--set", "file_size.min=1", "--set", "file_size.max=256KiB"];
    place.must(&[&["age", &tree, "--operations", "600", "--set", "slots=120"][..], &size].concat());
    let volume = "truncate -s 48M volume && mkfs.ext4 -q -b 4096 -d \"$1\" volume && rm -r \"$1\"";
    place.shell(volume, Path::new(&tree));
    place.must(&["image", "save", &place.text(VOLUME), &place.text(IMAGE)]);
}

fn digest(place: &Place, image: &str) -> Result<String, String> {
    let (code, said) = place.run(&["image", "verify", &place.text(image), "--json"]);
    let found: Value = serde_json::from_str(&said).unwrap_or_default();
    let digest = found["digest"].as_str().filter(|_| code == Some(0));
    digest.map(str::to_owned).ok_or(format!("{image} is no image: {said}"))
}

/// `fsage image save`.
pub struct Save {
    digest: String,
}

impl Save {
    pub fn new(place: &Place) -> Self {
        make(place);
        Self { digest: digest(place, IMAGE).unwrap() }
    }
}

impl Phase for Save {
    fn name(&self) -> &'static str {
        "image save"
    }

    fn prepare(&mut self, place: &Place, _dice: &mut Dice) {
        let _ = std::fs::remove_file(place.path("saved"));
    }

    fn words(&self, place: &Place) -> Vec<String> {
        let (volume, image) = (place.text(VOLUME), place.text("saved"));
        ["image", "save", &volume, &image, "--json"].map(str::to_owned).to_vec()
    }

    fn check(&mut self, place: &Place, recovery: Recovery) -> Result<(), String> {
        if recovery == Recovery::Clean && !place.path("saved").exists() {
            return Ok(());
        }
        let found = digest(place, "saved")?;
        if found == self.digest {
            Ok(())
        } else {
            Err(format!("another image: {found}, not {}", self.digest))
        }
    }

    fn keeps(&self, file: &Path) -> bool {
        file == Path::new("saved")
    }
}

/// `fsage image restore`, to a new file or onto a file system that is lost.
pub struct Restore {
    whole: Vec<u8>,
    volume: Vec<u8>,
    onto: bool,
}

impl Restore {
    pub fn new(place: &Place) -> Self {
        make(place);
        place.must(&["image", "restore", &place.text(IMAGE), &place.text("restored")]);
        let whole = std::fs::read(place.path("restored")).unwrap();
        Self { whole, volume: std::fs::read(place.path(VOLUME)).unwrap(), onto: false }
    }
}

impl Phase for Restore {
    fn name(&self) -> &'static str {
        "image restore"
    }

    fn prepare(&mut self, place: &Place, dice: &mut Dice) {
        let _ = std::fs::remove_file(place.path("restored"));
        self.onto = dice.below(2) == 0;
        if self.onto {
            std::fs::copy(place.path(VOLUME), place.path("restored")).unwrap();
        }
    }

    fn words(&self, place: &Place) -> Vec<String> {
        let (image, target) = (place.text(IMAGE), place.text("restored"));
        let erase: &[&str] = if self.onto { &["--erase", &target] } else { &[] };
        ["image", "restore", &image, &target].iter().chain(erase).map(ToString::to_string).collect()
    }

    /// What is whole already is not overwritten.
    fn again(&mut self, place: &Place) -> Result<(), String> {
        let words = self.words(place);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match place.run(&words) {
            (Some(0), _) => Ok(()),
            (Some(2), said) if !self.onto && said.contains("already exists") => Ok(()),
            (code, said) => Err(format!("image restore again ended with {code:?}: {said}")),
        }
    }

    /// Untouched, unfinished or whole.
    fn check(&mut self, place: &Place, recovery: Recovery) -> Result<(), String> {
        let Ok(bytes) = std::fs::read(place.path("restored")) else {
            let lost = self.onto || recovery == Recovery::Again;
            return if lost { Err("the volume is gone".to_owned()) } else { Ok(()) };
        };
        // With the mark in its first block until everything else is there; before that nothing is written.
        let unfinished =
            bytes.starts_with(&signature::unfinished_mark()) || bytes.iter().all(|byte| *byte == 0);
        // Blocks that the image does not have keep what the target had, where it could not be discarded.
        let right = bytes == self.whole
            || (recovery == Recovery::Clean && (unfinished || (self.onto && bytes == self.volume)));
        if right { Ok(()) } else { Err("the volume is neither untouched, unfinished nor whole".to_owned()) }
    }

    fn keeps(&self, file: &Path) -> bool {
        file == Path::new("restored")
    }
}
