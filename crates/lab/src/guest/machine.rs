//! What differs between guests by the architecture of their processors.

use fsage_model::study::Architecture;

use super::GuestError;

/// An architecture, and the machine of QEMU that its guests are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub architecture: Architecture,
    /// As the distribution calls it, which also ends the releases of its kernels.
    pub debian: &'static str,
    /// QEMU.
    pub program: &'static str,
    /// The package that has it.
    pub package: &'static str,
    /// Arguments for the board and its firmware.
    pub board: &'static [(&'static str, &'static str)],
    /// The emulated processor: the fastest to emulate that has what kernels need.
    pub processor: &'static str,
    /// The same without random numbers of this host, which would make each run another.
    pub repeatable: &'static str,
    /// The serial line that its kernel writes to.
    pub console: &'static str,
    /// Words of the kernel line with which it boots fast where it is emulated: nothing of it is timed but by the clock of
    /// a modelled device.
    pub emulated_line: &'static str,
    /// The kernel in a built tree, which needs no program to unpack it.
    pub image: &'static str,
    /// What makes it in the tree.
    pub make: &'static str,
}

const MACHINES: [Machine; 2] = [
    Machine {
        architecture: Architecture::X86_64,
        debian: "amd64",
        program: "qemu-system-x86_64",
        package: "qemu-system-x86",
        board: &[("-M", "microvm,x-option-roms=off"), ("-bios", "qboot.rom")],
        // Without "fast" string instructions, which copy a byte at a time where they are emulated.
        processor: "max,-erms,-fsrm",
        repeatable: "max,-rdrand,-rdseed",
        console: "ttyS0",
        emulated_line: "mitigations=off nokaslr tsc=reliable no_timer_check lpj=4000000 cryptomgr.notests \
                        rcupdate.rcu_expedited=1",
        image: "vmlinux",
        make: "vmlinux",
    },
    Machine {
        architecture: Architecture::Aarch64,
        debian: "arm64",
        program: "qemu-system-aarch64",
        package: "qemu-system-arm",
        board: &[("-M", "virt,gic-version=2")],
        // `max` authenticates pointers, which takes four times as long to boot.
        processor: "cortex-a57",
        repeatable: "cortex-a57",
        console: "ttyAMA0",
        emulated_line: "mitigations=off nokaslr cryptomgr.notests rcupdate.rcu_expedited=1 random.trust_bootloader=on",
        image: "arch/arm64/boot/Image",
        make: "Image",
    },
];

impl Machine {
    /// The machine of an architecture.
    pub fn of(architecture: Architecture) -> &'static Self {
        MACHINES.iter().find(|machine| machine.architecture == architecture).unwrap_or(&MACHINES[0])
    }

    /// The machine that a study asks for: this host's if it names none.
    ///
    /// # Errors
    /// Guests on this host are not known.
    pub fn wanted(architecture: Option<Architecture>) -> Result<&'static Self, GuestError> {
        let own = Architecture::named(std::env::consts::ARCH).filter(|own| *own == Architecture::X86_64);
        let own = own.ok_or(GuestError::Processor)?;
        Ok(Self::of(architecture.unwrap_or(own)))
    }

    /// Whether this host has such a processor, so that its own programs run there.
    pub fn is_own(&self) -> bool {
        self.architecture.name() == std::env::consts::ARCH
    }

    /// Whether a kernel of the distribution is for it, by its release.
    pub fn runs(&self, release: &str) -> bool {
        let other = MACHINES.iter().filter(|other| *other != self);
        other.clone().all(|other| !other.ends(release))
    }

    /// Whether it starts a kernel with these contents: ELF, or the header of an image for ARM (Linux,
    /// `Documentation/arch/arm64/booting.rst`).
    pub fn starts(&self, image: &[u8]) -> bool {
        match self.architecture {
            Architecture::X86_64 => image.starts_with(b"\x7fELF"),
            Architecture::Aarch64 => image.get(56..60) == Some(b"ARM\x64"),
        }
    }

    fn ends(&self, release: &str) -> bool {
        release.strip_suffix(self.debian).is_some_and(|rest| rest.ends_with('-'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_by_their_releases() {
        let (x86, arm) = (Machine::of(Architecture::X86_64), Machine::of(Architecture::Aarch64));
        for (release, of_x86, of_arm) in [
            ("6.1.0-56-amd64", true, false),
            ("6.1.0-56-arm64", false, true),
            // Neither: a kernel of one's own.
            ("6.18.0-mine", true, true),
            ("6.1.0-notarm64", true, true),
        ] {
            assert_eq!((x86.runs(release), arm.runs(release)), (of_x86, of_arm), "{release}");
        }
    }

    #[test]
    fn kernels_that_unpack_themselves_are_refused() {
        let (x86, arm) = (Machine::of(Architecture::X86_64), Machine::of(Architecture::Aarch64));
        let image = [&[0; 56][..], b"ARM\x64"].concat();
        assert!(arm.starts(&image) && !x86.starts(&image));
        assert!(x86.starts(b"\x7fELF\x02") && !arm.starts(b"\x7fELF\x02"));
        assert!(!arm.starts(b"MZ") && !x86.starts(b""));
    }

    #[test]
    fn every_architecture_has_a_machine() {
        for architecture in Architecture::ALL {
            assert_eq!(Machine::of(architecture).architecture, architecture);
        }
    }
}
