//! Text from elsewhere, made harmless to show: names of files, facts of images, titles of studies, words of
//! programs.
//!
//! A terminal takes some characters for commands (it may change its title, hide or overwrite lines, or be
//! asked to type), and others let text read in another order than it is written. Such characters are shown as
//! what they are (`\x1b`, `\u{202e}`). The command line's terminal does it to all that it writes, so no
//! command can forget it. Its own colours pass because [`styled`] marks them with a number that nobody
//! outside this process knows.
//!
//! A line break inside a name could still begin a line that looks like ours. [`line()`] shows it too; where a
//! text is one line of several, the code that puts the lines together uses it.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::OnceLock;

/// Whether a character does something to a terminal or to the order of reading, rather than being seen. Line
/// breaks and tabs too.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn escape<'a>(
    text: &'a str,
    passes: impl Fn(char) -> bool,
    write: impl Fn(&mut String, char),
) -> Cow<'a, str> {
    if !text.chars().any(|c| is_hidden(c) && !passes(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) && !passes(c) { write(&mut shown, c) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

fn visible(shown: &mut String, c: char) {
    let _ = match c {
        '\n' => write!(shown, "\\n"),
        '\r' => write!(shown, "\\r"),
        '\t' => write!(shown, "\\t"),
        c if c.is_ascii() => write!(shown, "\\x{:02x}", u32::from(c)),
        c => write!(shown, "\\u{{{:x}}}", u32::from(c)),
    };
}

/// A text that must stay in one line.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false, visible)
}

/// A text of several lines; tabs stay too.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'), visible)
}

/// A text of several lines behind a label: those after the first are indented, so that none looks like a
/// label of ours.
#[must_use]
pub fn indented(text: &str) -> String {
    lines(text.trim_end_matches('\n')).replace('\n', "\n    ")
}

/// JSON, which then means the same: what a terminal would take for more than text is written as `\uXXXX`.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    escape(
        text,
        |c| matches!(c, '\n' | '\t'),
        |shown, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        },
    )
}

/// What stands before a style of ours, until it is shown.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    // Keyed with random bytes of the kernel: no file name holds it but by a chance of one in 2^64.
    MARK.get_or_init(|| format!("\x1b{:016x}", RandomState::new().build_hasher().finish()))
}

/// `text` in an ANSI style, to be shown by [`shown`].
#[must_use]
pub fn styled(code: &str, text: &str) -> String {
    format!("{mark}[{code}m{text}{mark}[0m", mark = mark())
}

/// What goes to the terminal: our styles, and nothing else that it would take for a command.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(mark());
    let first = lines(parts.next().unwrap_or_default());
    let mut whole = first.into_owned();
    for part in parts {
        // The style ends at the first `m`; `styled` put it there.
        let (style, rest) = part.split_once('m').unwrap_or(("[0", part));
        whole.push('\x1b');
        whole.push_str(style);
        whole.push('m');
        whole.push_str(&lines(rest));
    }
    Cow::Owned(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b]0;x\x07\u{9b}2J\u{202e}gpj.\n\thint: b\r\x7f";

    #[test]
    fn what_is_not_seen_is_shown() {
        let reported = "a\\x1b]0;x\\x07\\u{9b}2J\\u{202e}gpj.\\n\\thint: b\\r\\x7f";
        assert_eq!(line(HOSTILE), reported);
        assert_eq!(lines(HOSTILE), reported.replace("\\n\\t", "\n\t"));
        assert_eq!(indented("a\nerror: b\n"), "a\n    error: b");
        for plain in ["", "naïve – 日本語 🙂 ░▒▓█ │", "a b\\x1b"] {
            assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain));
        }
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({ "name": HOSTILE, "tag": "\u{e0041}" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let safe = json(&text);
        assert!(!safe.chars().any(|c| is_hidden(c) && c != '\n'), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }

    #[test]
    fn only_our_styles_reach_the_terminal() {
        let text = format!("{} and \x1b[8mhidden\n", styled("1;31", "bad \x1b[2J"));
        assert_eq!(shown(&text), "\x1b[1;31mbad \\x1b[2J\x1b[0m and \\x1b[8mhidden\n");
        assert_eq!(shown("plain\n"), "plain\n");
    }
}
