//! One colour a file system, everywhere and always: Okabe & Ito 2008, told apart with every common form of
//! colour blindness, with a lighter tone of the same hue for dark pages. Dashes and marker shapes repeat
//! what the colour says.

use serde::Serialize;

/// How a file system is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Ink {
    /// On light pages.
    pub light: &'static str,
    /// On dark pages.
    pub dark: &'static str,
    /// Plotly's name of the marker.
    pub symbol: &'static str,
    /// Plotly's name of the dash.
    pub dash: &'static str,
}

const fn ink(light: &'static str, dark: &'static str, symbol: &'static str, dash: &'static str) -> Ink {
    Ink { light, dark, symbol, dash }
}

const KNOWN: [(&str, Ink); 5] = [
    ("ext4", ink("#0072b2", "#5ab4f0", "circle", "solid")),
    ("xfs", ink("#d55e00", "#ff9b54", "square", "solid")),
    ("btrfs", ink("#009e73", "#3ed6a8", "diamond", "solid")),
    ("ext3", ink("#2f6f8f", "#8fd0ee", "circle-open", "dash")),
    ("ext2", ink("#a8478a", "#e59bcb", "triangle-up", "dot")),
];

const OTHERS: [Ink; 4] = [
    ink("#9a6a00", "#f0b83a", "cross", "dashdot"),
    ink("#6a51a3", "#b7a2ee", "x", "longdash"),
    ink("#7f7f00", "#d8d84a", "star", "longdashdot"),
    ink("#5f6b73", "#aab6bf", "hexagon", "dash"),
];

/// The ink of a file system; names that fsage has no driver for share four inks by a hash of the name, so
/// that they too look alike in every report.
#[must_use]
pub fn of(file_system: &str) -> Ink {
    KNOWN.iter().find(|(name, _)| *name == file_system).map_or_else(
        || {
            let hash = file_system
                .bytes()
                .fold(5381_usize, |hash, byte| hash.wrapping_mul(33).wrapping_add(usize::from(byte)));
            OTHERS[hash % OTHERS.len()]
        },
        |(_, ink)| *ink,
    )
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
