//! Whether logical trees agree, as `fsage run` and `fsage fleet collect` say it.

use std::fmt::Write as _;

use fsage_lab::run::DigestGroup;
use fsage_model::escape;

use super::terminal::Terminal;

/// Groups that agree are listed one by one up to this number.
const LISTED: usize = 3;

/// Whether the same seed left the same logical tree on every file system.
pub(crate) fn digests(groups: &[DigestGroup], terminal: &Terminal) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let agreeing = groups.iter().filter(|g| g.agree).count();
    let mut text =
        format!("\n  Same operations, same logical tree: {agreeing} of {} groups agree.\n", groups.len());
    for group in groups.iter().filter(|group| !group.agree || groups.len() <= LISTED) {
        let mark =
            if group.agree { terminal.paint("32", "same") } else { terminal.paint("1;31", "DIFFERENT") };
        let cell = if group.cell.is_empty() { String::new() } else { format!("{}, ", group.cell) };
        let names: Vec<&str> = group.digests.keys().map(String::as_str).collect();
        let line = format!("{cell}{}: {}", group.stage, names.join(", "));
        let _ = writeln!(text, "    {mark}  {}", escape::line(&line));
        if group.agree {
            continue;
        }
        for (file_system, digest) in &group.digests {
            let _ = writeln!(text, "          {:<8} {}", escape::line(file_system), escape::line(digest));
        }
    }
    text
}
