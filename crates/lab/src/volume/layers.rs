//! Layers of a stack that are taken down and put together again on what the drives hold then: for each state that a
//! power cut may leave.

use std::path::{Path, PathBuf};

use fsage_model::layer::LayerDevice;
use fsage_model::protocol::call;

use super::VolumeError;
use crate::target::Session;
use crate::tools::{Invocation, ToolError, mdadm};

/// A layer that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layer {
    /// As the study names its kind.
    pub kind: &'static str,
    pub name: String,
    pub device: LayerDevice,
    pub again: Again,
    /// The node that it was made as.
    pub node: PathBuf,
    /// The same, canonical.
    pub path: PathBuf,
}

/// What puts a layer together again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Again {
    /// This command.
    Command(Invocation),
    /// An array.
    Array {
        /// Its devices, in the order of the drives.
        devices: Vec<PathBuf>,
        /// Whether it may be forced. Forcing makes md skip a log of its own.
        by_force: bool,
    },
}

impl Layer {
    /// The commands that are tried one after the other until one does it. An array leaves out the device on the drive of the
    /// number `failed`, and is forced where the kernel will not have it so: md starts no array that was in use and
    /// lacks a drive, unless a log of its own says what was being written (Documentation/admin-guide/md.rst).
    fn commands(&self, failed: Option<u32>) -> Vec<Invocation> {
        match &self.again {
            Again::Command(command) => vec![command.clone()],
            Again::Array { devices, by_force } => {
                let left = (0_u32..).zip(devices).filter(|(number, _)| Some(*number) != failed);
                let left: Vec<&Path> = left.map(|(_, path)| path.as_path()).collect();
                let forced = failed.filter(|_| *by_force).map(|_| mdadm::assemble(&self.name, &left, true));
                [mdadm::assemble(&self.name, &left, false)].into_iter().chain(forced).collect()
            }
        }
    }

    /// Puts it together.
    fn start(&self, session: &mut Session, failed: Option<u32>) -> Result<Start, VolumeError> {
        let mut start = Start::default();
        for (tried, command) in self.commands(failed).into_iter().enumerate() {
            match command.run_checked(session) {
                Ok(_) => return Ok(Start { refusal: None, forced: tried > 0 }),
                // Somebody else has a drive, which says nothing of what it holds.
                Err(error @ ToolError::Status { .. }) if !error.to_string().contains("busy") => {
                    start.refusal = Some(format!("the layer `{}` does not start: {error}", self.kind));
                    self.stop(session)?;
                }
                Err(error) => return Err(VolumeError::Layer { layer: self.kind, source: Box::new(error) }),
            }
        }
        Ok(start)
    }

    fn stop(&self, session: &mut Session) -> Result<(), VolumeError> {
        Ok(session.call(call::StopLayer { name: self.name.clone(), device: self.device })?)
    }
}

/// How layers were put together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// What one says that refuses.
    pub refusal: Option<String>,
    /// An array started by force only.
    pub forced: bool,
}

/// The layers of a volume, the lowest first, and the drives below them.
#[derive(Debug, Clone)]
pub struct Layers {
    layers: Vec<Layer>,
    drives: Vec<PathBuf>,
}

impl Layers {
    pub(super) const fn new(layers: Vec<Layer>, drives: Vec<PathBuf>) -> Self {
        Self { layers, drives }
    }

    /// Takes all of them down, so that the drives may be given other contents; a second time does nothing.
    ///
    /// # Errors
    /// One is in use, a program is missing.
    pub fn stop(&self, session: &mut Session) -> Result<(), VolumeError> {
        self.layers.iter().rev().try_for_each(|layer| layer.stop(session))
    }

    /// Puts all of them together on what the drives hold now, up to one that refuses. `failed` is the number of the
    /// drive, from 0, which the array of all drives is to be without.
    ///
    /// # Errors
    /// A program is missing or does not end; a layer is there as another device than before.
    pub fn start(&self, session: &mut Session, failed: Option<u32>) -> Result<Start, VolumeError> {
        let mut forced = false;
        for drive in &self.drives {
            // Programs read the labels of layers through it.
            session.call(call::ForgetCache { device: drive.clone() })?;
        }
        for layer in &self.layers {
            let start = layer.start(session, failed)?;
            forced |= start.forced;
            if start.refusal.is_some() {
                return Ok(Start { forced, ..start });
            }
            let facts = session.call(call::BlockFacts { device: layer.node.clone() })?;
            if facts.path != layer.path {
                return Err(VolumeError::Moved { was: layer.path.clone(), path: facts.path });
            }
            session.call(call::HoldDevice { device: facts.path, identity: facts.identity })?;
        }
        Ok(Start { refusal: None, forced })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_leaves_out_the_drive_that_failed() {
        let layer = Layer {
            kind: "raid",
            name: "fsage-0123456789abcdef-0".to_owned(),
            device: LayerDevice::Array,
            again: Again::Array {
                devices: (0..3).map(|number| format!("/dev/loop{number}").into()).collect(),
                by_force: true,
            },
            node: PathBuf::new(),
            path: PathBuf::new(),
        };
        let lines =
            |failed| -> Vec<String> { layer.commands(failed).iter().map(Invocation::to_string).collect() };
        let [whole] = &lines(None)[..] else { panic!("one command") };
        assert!(whole.ends_with("--run --homehost=any /dev/loop0 /dev/loop1 /dev/loop2"), "{whole}");
        let [asked, forced] = &lines(Some(1))[..] else { panic!("two commands") };
        assert!(asked.ends_with("--run --homehost=any /dev/loop0 /dev/loop2"), "{asked}");
        assert!(forced.ends_with("--run --homehost=any --force /dev/loop0 /dev/loop2"), "{forced}");
    }
}
