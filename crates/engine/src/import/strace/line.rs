//! One line of `strace`: process, time, call, arguments, result.

/// A line in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The process; 0 where the log does not say (without `-f`).
    pub pid: u32,
    /// Seconds since the epoch.
    pub time: &'a str,
    /// What happened.
    pub rest: &'a str,
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<'a> {
    pub name: &'a str,
    pub arguments: Vec<&'a str>,
    /// The result; nothing where the kernel gave none (`?`).
    pub result: Option<i64>,
    /// The path of the descriptor that was returned, with `-y`.
    pub path: Option<&'a str>,
    /// With `-T`, else 0.
    pub latency_ns: u64,
}

/// The parts of a line; nothing for what is no event of a process.
pub fn split(line: &str) -> Result<Option<Line<'_>>, String> {
    if line.trim().is_empty() || line.starts_with("strace: ") {
        return Ok(None);
    }
    let (pid, rest) = match line.strip_prefix("[pid ") {
        Some(rest) => {
            let (pid, rest) = rest.split_once(']').ok_or("`[pid` without its end")?;
            (Some(pid.trim()), rest.trim_start())
        }
        None => match line.split_once(' ') {
            Some((pid, rest)) if pid.bytes().all(|byte| byte.is_ascii_digit()) => {
                (Some(pid), rest.trim_start())
            }
            _ => (None, line),
        },
    };
    let pid = match pid {
        Some(pid) => pid.parse().map_err(|_| format!("`{pid}` is not a process id"))?,
        None => 0,
    };
    let (time, rest) = rest.split_once(' ').ok_or("no call behind the time")?;
    Ok(Some(Line { pid, time, rest: rest.trim_start() }))
}

/// Nanoseconds of `1690000000.123456`.
pub fn time_ns(text: &str) -> Result<u64, String> {
    let wrong = || {
        if text.contains(':') {
            "the time is not in seconds since the epoch: strace needs -ttt".to_owned()
        } else {
            format!("`{text}` is not a time (strace needs -ttt)")
        }
    };
    let (seconds, part) = text.split_once('.').ok_or_else(wrong)?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(part) || part.len() > 9 || seconds.len() > 10 {
        return Err(wrong());
    }
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    let part: u64 = format!("{part:0<9}").parse().map_err(|_| wrong())?;
    Ok(seconds * 1_000_000_000 + part)
}

/// Reads a whole call.
pub fn parse(text: &str) -> Result<Call<'_>, String> {
    let open = text.find('(').ok_or("no call")?;
    let name = &text[..open];
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(format!("`{name}` is not the name of a call"));
    }
    let (arguments, end) = arguments(text, open + 1)?;
    let rest = text[end..].trim_start().strip_prefix('=').ok_or("a call without a result")?.trim();
    let (rest, latency_ns) = match rest.rsplit_once(" <") {
        Some((before, time)) if time.ends_with('>') && time.starts_with(|c: char| c.is_ascii_digit()) => {
            (before, time_ns(time.trim_end_matches('>'))?)
        }
        _ => (rest, 0),
    };
    if rest.starts_with('?') {
        return Ok(Call { name, arguments, result: None, path: None, latency_ns });
    }
    let digits = rest.find([' ', '<']).unwrap_or(rest.len());
    let result = match rest[..digits].strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(u64::cast_signed),
        None => rest[..digits].parse().ok(),
    };
    let result = result.ok_or_else(|| format!("`{rest}` is not a result"))?;
    let path = annotation(&rest[digits..]);
    Ok(Call { name, arguments, result: Some(result), path, latency_ns })
}

/// The path that `-y` shows behind a descriptor: `<…>`.
pub fn annotation(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('<')?;
    let end = inner.rfind('>')?;
    // A file that has no name any more is shown behind its path.
    inner[..end].strip_suffix(">(deleted)").or(Some(&inner[..end])).filter(|path| path.starts_with('/'))
}

/// The arguments from `at` on, and where the call's bracket is closed.
fn arguments(text: &str, at: usize) -> Result<(Vec<&str>, usize), String> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut depth, mut start, mut place) = (0_u32, at, at);
    while let Some(byte) = bytes.get(place) {
        match byte {
            b'"' => place = end_of_text(bytes, place)?,
            b'<' if opens_annotation(bytes, place) => place = end_of_annotation(bytes, place)?,
            b'/' if bytes.get(place + 1) == Some(&b'*') => {
                let end = text[place..].find("*/").ok_or("a remark is not closed")?;
                place += end + 1;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[start..place].trim();
                if !last.is_empty() || !found.is_empty() {
                    found.push(last);
                }
                return Ok((found, place + 1));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1).ok_or("brackets do not match")?,
            b',' if depth == 0 => {
                found.push(text[start..place].trim());
                start = place + 1;
            }
            _ => {}
        }
        place += 1;
    }
    Err("the bracket of a call is not closed".to_owned())
}

/// Place of the quotation mark that ends the text which begins at `place`.
fn end_of_text(bytes: &[u8], place: usize) -> Result<usize, String> {
    let mut at = place + 1;
    loop {
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return Ok(at),
            Some(_) => at += 1,
            None => return Err("a text is not closed".to_owned()),
        }
    }
}

/// A path behind a descriptor, not an operator.
fn opens_annotation(bytes: &[u8], place: usize) -> bool {
    place > 0
        && bytes[place - 1].is_ascii_alphanumeric()
        && bytes.get(place + 1).is_some_and(|next| *next != b'<' && !next.is_ascii_digit() && *next != b' ')
}

/// Place of the `>` that ends an annotation; `->` between two addresses does not.
fn end_of_annotation(bytes: &[u8], place: usize) -> Result<usize, String> {
    let mut at = place + 1;
    loop {
        match bytes.get(at) {
            Some(b'>') if bytes[at - 1] != b'-' => return Ok(at),
            Some(_) => at += 1,
            None => return Err("the path of a descriptor is not closed".to_owned()),
        }
    }
}

/// The bytes of a quoted argument; nothing for what is no text, or was cut by strace.
pub fn text(argument: &str) -> Option<Vec<u8>> {
    let inner = argument.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'v' => bytes.push(0x0b),
            b'f' => bytes.push(0x0c),
            b'x' => {
                let mut value = 0_u32;
                for _ in 0..2 {
                    value = value * 16 + char::from(rest.next()?).to_digit(16)?;
                }
                bytes.push(u8::try_from(value).ok()?);
            }
            digit @ b'0'..=b'7' => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(next) = rest.next_if(|next| (b'0'..=b'7').contains(next)) else { break };
                    value = value * 8 + u32::from(next - b'0');
                }
                bytes.push(u8::try_from(value).ok()?);
            }
            other => bytes.push(other),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_parts() {
        let of = |line| split(line).unwrap().map(|line| (line.pid, line.time, line.rest));
        assert_eq!(of("12 1.5 close(3) = 0"), Some((12, "1.5", "close(3) = 0")));
        assert_eq!(of("[pid  12] 1.5 close(3) = 0"), Some((12, "1.5", "close(3) = 0")));
        assert_eq!(of("1.5 close(3) = 0"), Some((0, "1.5", "close(3) = 0")));
        assert_eq!(of("strace: Process 5 attached"), None);
        assert!(split("nonsense").is_err());
        assert_eq!(time_ns("1795305446.197275"), Ok(1_795_305_446_197_275_000));
        assert!(time_ns("12:00:01.5").unwrap_err().contains("-ttt"));
        for wrong in ["", "1", "x.y", "1.", "-1.0"] {
            assert!(time_ns(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn calls_are_taken_apart() {
        let call = parse(
            "openat(AT_FDCWD</mnt/a (b), c>, \"x\\\",)\\303\\244\", O_RDONLY|O_CLOEXEC) = 3</mnt/x> <0.000011>",
        )
        .unwrap();
        assert_eq!((call.name, call.arguments.len(), call.result), ("openat", 3, Some(3)));
        assert_eq!((call.path, call.latency_ns), (Some("/mnt/x"), 11_000));
        assert_eq!(text(call.arguments[1]).unwrap(), "x\",)ä".as_bytes());
        assert_eq!(annotation("</mnt/t (x)>(deleted)"), Some("/mnt/t (x)"));
        assert_eq!(annotation("<socket:[123]>"), None);
        let call = parse("read(3, \"ab\"..., 832) = -1 EAGAIN (Resource temporarily unavailable)").unwrap();
        assert_eq!((call.arguments[1], call.result), ("\"ab\"...", Some(-1)));
        assert_eq!(text(call.arguments[1]), None);
        assert_eq!(parse("fork() = 7").unwrap().arguments.len(), 0);
        assert_eq!(parse("exit_group(0) = ?").unwrap().result, None);
        assert_eq!(parse("mmap(NULL, 8) = 0x7f0000000000").unwrap().result, Some(0x7f00_0000_0000));
        let call = parse("write(4<TCP:[1.2.3.4:5->6.7.8.9:10]>, \"x\", 1) = 1").unwrap();
        assert_eq!(call.arguments.len(), 3);
        for wrong in [
            "",
            "close(3",
            "close(3) 0",
            "close(3) = x",
            "(3) = 0",
            "cl ose(3) = 0",
            "f(\"a) = 0",
            "f(]) = 0",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
