//! One colour a file system, everywhere and always: Okabe & Ito 2008, distinguished with every common form of
//! colour blindness, with a lighter tone of the same hue for dark pages. Dashes and marker shapes repeat
//! what the colour says.

pub use fsage_model::filesystem::Ink;
use fsage_model::filesystem::by_name;

const OTHERS: [Ink; 4] = [
    Ink::new("#9a6a00", "#f0b83a", "cross", "dashdot"),
    Ink::new("#6a51a3", "#b7a2ee", "x", "longdash"),
    Ink::new("#7f7f00", "#d8d84a", "star", "longdashdot"),
    Ink::new("#5f6b73", "#aab6bf", "hexagon", "dash"),
];

/// The ink of a file system; those without one of their own share four by a hash of the name, so that they
/// too look alike in every report.
#[must_use]
pub fn of(file_system: &str) -> Ink {
    by_name(file_system).and_then(|row| row.ink).unwrap_or_else(|| {
        let hash = file_system
            .bytes()
            .fold(5381_usize, |hash, byte| hash.wrapping_mul(33).wrapping_add(usize::from(byte)));
        OTHERS[hash % OTHERS.len()]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_keeps_its_ink() {
        assert_eq!(of("ext4").light, "#0072b2");
        assert_eq!(of("nilfs2"), of("nilfs2"));
        assert_ne!(of("xfs"), of("btrfs"));
    }
}
