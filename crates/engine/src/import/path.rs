//! Paths of a recording: made absolute, without `.` and `..`, as parts.

/// Most parts accepted: a path has at most 4096 bytes.
pub const PARTS: usize = 1000;

/// The parts of an absolute path. `..` goes up by name: symbolic links on the way are not inspected.
pub fn parts(path: &[u8]) -> Vec<&[u8]> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts
}

/// `path` as seen from the directory `from`.
pub fn join(from: &[u8], path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") {
        return path.to_vec();
    }
    [from, b"/", path].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_plain() {
        let plain = |path: &str| {
            let parts = parts(path.as_bytes()).join(&b"/"[..]);
            String::from_utf8(parts).unwrap()
        };
        assert_eq!(plain("/mnt//t/./a"), "mnt/t/a");
        assert_eq!(plain("/mnt/t/../../../x"), "x");
        assert_eq!(plain("/"), "");
        assert_eq!(join(b"/mnt", b"a/b"), b"/mnt/a/b");
        assert_eq!(join(b"/mnt", b"/a"), b"/a");
    }
}
