//! Virtual disks with a name: up, down, and requests replayed onto one.

use std::path::Path;

use serde_json::Value;

use super::{Phase, Recovery};
use crate::dice::Dice;
use crate::storm::place::Place;

const UP: [&str; 6] = ["--size", "64MiB", "--medium", "ssd", "--log", "--json"];

fn up(place: &Place, name: &str) -> Value {
    let said = place.must(&[&["disk", "up", name][..], &UP].concat());
    serde_json::from_str(&said).unwrap()
}

/// How a disk is: `up`, `dead`, or not there.
fn state(place: &Place, name: &str) -> Option<String> {
    let disks: Value = serde_json::from_str(&place.must(&["disk", "ls", "--json"])).unwrap();
    let disk = disks.as_array().unwrap().iter().find(|disk| disk["name"] == name)?;
    disk["state"].as_str().map(str::to_owned)
}

/// Takes a disk down that is up; one that is dead was not cleaned.
fn take_down(place: &Place, name: &str, recovery: Recovery) -> Result<(), String> {
    match state(place, name).as_deref() {
        None => Ok(()),
        // Its owner is told to take it down.
        Some("dead") if recovery == Recovery::Clean => {
            Err(format!("the disk {name} is dead, and still there"))
        }
        Some(_) => match place.run(&["disk", "down", name]) {
            (Some(0), _) => Ok(()),
            (code, said) => Err(format!("disk down ended with {code:?}: {said}")),
        },
    }
}

/// `fsage disk up` and `fsage disk down`.
#[derive(Default)]
pub struct UpDown {
    down: bool,
}

impl Phase for UpDown {
    fn name(&self) -> &'static str {
        if self.down { "disk down" } else { "disk up" }
    }

    fn prepare(&mut self, place: &Place, dice: &mut Dice) {
        self.down = dice.below(2) == 0;
        if self.down {
            up(place, "named");
        }
    }

    fn words(&self, _place: &Place) -> Vec<String> {
        let words = if self.down {
            vec!["disk", "down", "named"]
        } else {
            [&["disk", "up", "named"][..], &UP].concat()
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// Done already is refused.
    fn again(&mut self, place: &Place) -> Result<(), String> {
        let words = self.words(place);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let done = if self.down { "there is no disk" } else { "the disk `named` already exists" };
        match place.run(&words) {
            (Some(0), _) => Ok(()),
            (Some(2), said) if said.contains(done) => Ok(()),
            (code, said) => Err(format!("{} again ended with {code:?}: {said}", self.name())),
        }
    }

    fn check(&mut self, place: &Place, recovery: Recovery) -> Result<(), String> {
        let found = state(place, "named");
        if recovery == Recovery::Again && found.as_deref() != (if self.down { None } else { Some("up") }) {
            return Err(format!("after {} again the disk is {found:?}", self.name()));
        }
        take_down(place, "named", recovery)
    }

    fn keeps(&self, _file: &Path) -> bool {
        false
    }
}

/// `fsage disk replay --onto`.
pub struct Replay;

impl Replay {
    pub fn new(place: &Place) -> Self {
        let device = up(place, "first")["device"].as_str().unwrap().to_owned();
        let work = "dd if=/dev/zero of=\"$1\" bs=4k count=4000 seek=9 oflag=direct conv=fsync status=none && \
                    dd if=\"$1\" of=/dev/null bs=16k count=1000 skip=700 iflag=direct status=none";
        place.shell(work, Path::new(&device));
        place.must(&["disk", "log", "save", "first", "requests.log", "--without-data"]);
        place.must(&["disk", "down", "first"]);
        Self
    }
}

impl Phase for Replay {
    fn name(&self) -> &'static str {
        "disk replay --onto"
    }

    fn prepare(&mut self, place: &Place, _dice: &mut Dice) {
        up(place, "onto");
    }

    fn words(&self, _place: &Place) -> Vec<String> {
        "disk replay requests.log --onto onto --json".split(' ').map(str::to_owned).collect()
    }

    /// One whose server was killed is no place for requests.
    fn again(&mut self, place: &Place) -> Result<(), String> {
        let alive = state(place, "onto").as_deref() == Some("up");
        let words = self.words(place);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match place.run(&words) {
            (Some(0), _) if alive => Ok(()),
            (Some(code), _) if !alive && code > 1 => Ok(()),
            (code, said) => Err(format!("a replay onto a disk (alive: {alive}) ended with {code:?}: {said}")),
        }
    }

    fn check(&mut self, place: &Place, recovery: Recovery) -> Result<(), String> {
        take_down(place, "onto", recovery)
    }

    fn keeps(&self, _file: &Path) -> bool {
        false
    }
}
