//! Tar files as listings: their headers are read, their contents passed over.
//!
//! Formats: POSIX ustar and pax (IEEE 1003.1 pax, "ustar Interchange Format" and "pax Extended Header"), that
//! of old tars, and GNU's (long names, sparse files; tar manual, "Basic Tar Format"), plain or compressed
//! with gzip or zstd. What ends before its two empty blocks was cut off and is refused. A member that comes
//! twice counts as the last one, as when it is unpacked.
//!
//! Not read: archives over several volumes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use fsage_sys::input;

use super::listing::{Facts, Listing, plain, shown};
use super::{NAMES_LIMIT, SourceError};

const BLOCK: usize = 512;
/// Most of a long name or of a set of pax records; tar itself writes a few KiB.
const EXTENSION_LIMIT: u64 = 1 << 20;
/// Longest name; Linux has none of more than 4,096 bytes in one system call.
const NAME_LIMIT: usize = 64 << 10;

/// What a tar file holds, by the names that it gives.
///
/// # Errors
/// It cannot be read, is a device or no whole tar file.
pub fn list(path: &Path) -> Result<Listing, SourceError> {
    read(path).map(|(listing, _)| listing)
}

/// What a tar file holds, and how many bytes each of its names begins with for the one directory that all
/// members lie in: none where names begin with `./`, which is that directory. Nothing where there are
/// several.
pub fn read(path: &Path) -> Result<(Listing, Option<usize>), SourceError> {
    let failed = |source| SourceError::Read { path: path.to_owned(), source };
    let file = input::open_or_pipe(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let (mut input, packed) = match file.fill_buf().map_err(failed)? {
        [0x1f, 0x8b, ..] => (Input::Stream(Box::new(flate2::bufread::MultiGzDecoder::new(file))), true),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            (Input::Stream(Box::new(zstd::Decoder::with_buffer(file).map_err(failed)?)), true)
        }
        [0xfd, b'7', b'z', b'X', b'Z', ..] => return Err(unread(path, "it is compressed with xz")),
        [b'B', b'Z', b'h', ..] => return Err(unread(path, "it is compressed with bzip2")),
        _ if facts.is_file() => (Input::Plain { file, length: facts.len() }, false),
        _ => (Input::Stream(Box::new(file)), false),
    };
    let mut archive = Archive { input: &mut input, offset: 0 };
    let read = members(&mut archive).and_then(|found| {
        // Only what is compressed has a checksum at its end.
        if packed {
            archive.finish()?;
        }
        Ok(found)
    });
    read.map_err(|Broken { offset, message }| SourceError::Tar {
        path: path.to_owned(),
        offset,
        packed,
        message,
        hint: "tar --list --file shows how far it can be read; make it again",
    })
}

fn unread(path: &Path, message: &str) -> SourceError {
    SourceError::Tar {
        path: path.to_owned(),
        offset: 0,
        packed: false,
        message: message.to_owned(),
        hint: "unpack it first; plain, .gz and .zst are read",
    }
}

/// What is wrong, and where in the tar file.
struct Broken {
    offset: u64,
    message: String,
}

enum Input {
    Plain { file: BufReader<File>, length: u64 },
    Stream(Box<dyn Read>),
}

struct Archive<'a> {
    input: &'a mut Input,
    offset: u64,
}

impl Archive<'_> {
    fn broken(&self, message: impl Into<String>) -> Broken {
        Broken { offset: self.offset, message: message.into() }
    }

    /// The next block; nothing at the end of the file.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Broken> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            let read = match self.input {
                Input::Plain { file, .. } => file.read(&mut block[filled..]),
                Input::Stream(stream) => stream.read(&mut block[filled..]),
            };
            match read {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(self.broken(format!("it ends {filled} bytes into a block of 512"))),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error.to_string())),
            }
        }
        self.offset += as_u64(BLOCK);
        Ok(Some(block))
    }

    /// Passes over `size` bytes and what fills their last block.
    fn skip(&mut self, size: u64) -> Result<(), Broken> {
        let whole = size
            .checked_next_multiple_of(as_u64(BLOCK))
            .filter(|whole| i64::try_from(*whole).is_ok())
            .ok_or_else(|| self.broken(format!("a member of {size} bytes")))?;
        let there = match self.input {
            Input::Plain { file, length } => {
                let rest = length.saturating_sub(self.offset);
                let step = i64::try_from(whole.min(rest)).unwrap_or(i64::MAX);
                file.seek_relative(step).map(|()| whole.min(rest))
            }
            Input::Stream(stream) => io::copy(&mut stream.take(whole), &mut io::sink()),
        };
        match there {
            Ok(there) if there == whole => {
                self.offset += whole;
                Ok(())
            }
            Ok(there) => Err(self.broken(format!("it ends {there} bytes into a member of {size}"))),
            Err(error) => Err(self.broken(error.to_string())),
        }
    }

    /// The content of a member that says something about the next one.
    fn content(&mut self, size: u64) -> Result<Vec<u8>, Broken> {
        if size > EXTENSION_LIMIT {
            return Err(self.broken(format!("a name or pax header of {size} bytes")));
        }
        let mut content = Vec::new();
        while as_u64(content.len()) < size {
            let Some(block) = self.block()? else { return Err(self.broken("it ends within a long name")) };
            content.extend_from_slice(&block);
        }
        content.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        Ok(content)
    }

    /// Reads a compressed stream to its end, so that its checksum is checked.
    fn finish(&mut self) -> Result<(), Broken> {
        let Input::Stream(stream) = self.input else { return Ok(()) };
        io::copy(stream, &mut io::sink()).map(|_| ()).map_err(|error| self.broken(error.to_string()))
    }
}

/// What is said about the next member, or by a global header about all that follow.
#[derive(Debug, Clone, Default)]
struct Extension {
    path: Option<Vec<u8>>,
    /// Name of a sparse file, whose `path` is a made-up one.
    sparse_path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    real_size: Option<u64>,
    time: Option<(i64, u32)>,
}

impl Extension {
    /// Whether it says what only one member can have.
    const fn names_a_member(&self) -> bool {
        self.path.is_some()
            || self.sparse_path.is_some()
            || self.link.is_some()
            || self.size.is_some()
            || self.real_size.is_some()
    }
}

fn bounded(name: Vec<u8>) -> Result<Vec<u8>, String> {
    if name.len() > NAME_LIMIT {
        return Err(format!("a name of {} bytes", name.len()));
    }
    Ok(name)
}

fn members(archive: &mut Archive<'_>) -> Result<(Listing, Option<usize>), Broken> {
    let mut files = Files::default();
    let mut top = Top::default();
    let (mut global, mut next) = (Extension::default(), None);
    loop {
        let begin = archive.offset;
        let at = |message: String| Broken { offset: begin, message };
        let Some(block) = archive.block()? else {
            return Err(at("it ends without the empty blocks at the end of a tar file".to_owned()));
        };
        if block.iter().all(|byte| *byte == 0) {
            break;
        }
        let header = Header::parse(&block).map_err(at)?;
        let extension: &mut Extension = next.get_or_insert_with(|| global.clone());
        let data = header.data_bytes(extension);
        match header.kind {
            b'L' => extension.path = Some(bounded(text(&archive.content(header.size)?)).map_err(at)?),
            b'K' => extension.link = Some(bounded(text(&archive.content(header.size)?)).map_err(at)?),
            b'x' => pax(&archive.content(header.size)?, extension).map_err(at)?,
            b'g' => {
                pax(&archive.content(header.size)?, &mut global).map_err(at)?;
                // A few bytes would give all members the same name or size, and make each cost what it is long.
                if global.names_a_member() {
                    return Err(
                        at("a global pax header with the name or size of a single member".to_owned()),
                    );
                }
                next = None;
            }
            b'M' => return Err(at("it continues from another volume".to_owned())),
            _ => {
                let extension = next.take().unwrap_or_default();
                if header.kind == b'S' {
                    sparse_map(&block, archive)?;
                }
                archive.skip(data)?;
                member(&header, &extension, &mut files, &mut top).map_err(at)?;
            }
        }
    }
    if next.is_some() {
        return Err(archive.broken("a long name or pax header without a member"));
    }
    Ok((files.known.into_iter().collect(), top.prefix()))
}

/// Takes in a member that is a file, or that says something of the top.
fn member(header: &Header, extension: &Extension, files: &mut Files, top: &mut Top) -> Result<(), String> {
    let given = extension.sparse_path.as_ref().or(extension.path.as_ref()).unwrap_or(&header.name);
    let name = plain(given);
    let (seconds, nanoseconds) = match extension.time {
        Some((seconds, nanoseconds)) => (seconds, Some(nanoseconds)),
        None => (header.seconds, None),
    };
    let facts = |size| Facts { size, seconds, nanoseconds };
    let link = || extension.link.as_ref().unwrap_or(&header.link);
    let facts = match header.kind {
        // Tars older than ustar have no kind for directories.
        b'0' | 0 if given.ends_with(b"/") => None,
        b'0' | 0 | b'7' => Some(facts(extension.real_size.unwrap_or(extension.size.unwrap_or(header.size)))),
        b'S' => Some(facts(header.real_size)),
        b'1' => {
            let target = plain(link());
            let missing = || {
                format!("`{}` is a hard link to `{}`, which is not before it", shown(&name), shown(&target))
            };
            Some(*files.known.get(&target).ok_or_else(missing)?)
        }
        b'2' => Some(facts(as_u64(link().len()))),
        b'5' | b'D' => None,
        _ => return Ok(()),
    };
    top.see(given, &name, facts.is_some());
    match facts {
        Some(_) if name.is_empty() => Err("a file without a name".to_owned()),
        Some(facts) => files.put(name, facts, NAMES_LIMIT),
        None => {
            files.known.remove(&name);
            files.hold(name.len(), NAMES_LIMIT)
        }
    }
}

/// The files so far.
#[derive(Debug, Default)]
struct Files {
    known: HashMap<Vec<u8>, Facts>,
    /// Bytes of all names and facts, also of those that are gone since.
    held_bytes: u64,
}

impl Files {
    /// A few bytes of a compressed file may unpack to any number of members.
    fn put(&mut self, name: Vec<u8>, facts: Facts, limit: u64) -> Result<(), String> {
        let length = name.len();
        if self.known.insert(name, facts).is_none() { self.hold(length, limit) } else { Ok(()) }
    }

    /// Counts a name, also that of a directory, which is not kept.
    fn hold(&mut self, name_bytes: usize, limit: u64) -> Result<(), String> {
        self.held_bytes = self.held_bytes.saturating_add(as_u64(name_bytes + size_of::<Facts>()));
        if self.held_bytes > limit {
            return Err(format!(
                "the names of its members and what is known of them have more than {limit} bytes"
            ));
        }
        Ok(())
    }
}

/// Whether all members lie in one directory.
#[derive(Debug, Default)]
struct Top {
    /// The directory of the first member, `.` for the one that it was made in.
    name: Option<Vec<u8>>,
    several: bool,
}

impl Top {
    fn see(&mut self, given: &[u8], name: &[u8], is_file: bool) {
        let dotted = given == b"." || given.starts_with(b"./");
        let first = name.split(|byte| *byte == b'/').next().unwrap_or_default();
        let lies_in_it = dotted || name.len() > first.len() || !is_file;
        let first = if dotted { b"." } else { first };
        let known = self.name.get_or_insert_with(|| first.to_owned());
        self.several |= !lies_in_it || known != first || first.is_empty();
    }

    /// Bytes that every name begins with and that say nothing.
    fn prefix(&self) -> Option<usize> {
        let inner = |name: &Vec<u8>| if name == b"." { 0 } else { name.len() + 1 };
        (!self.several).then(|| self.name.as_ref().map_or(0, inner))
    }
}

/// Passes over the blocks that continue with the map of a sparse file.
fn sparse_map(header: &[u8; BLOCK], archive: &mut Archive<'_>) -> Result<(), Broken> {
    let mut more = header[482] != 0;
    while more {
        let Some(block) = archive.block()? else {
            return Err(archive.broken("it ends within the map of a sparse file"));
        };
        more = block[504] != 0;
    }
    Ok(())
}

/// A member's header.
#[derive(Debug)]
struct Header {
    kind: u8,
    name: Vec<u8>,
    link: Vec<u8>,
    /// Bytes in the archive.
    size: u64,
    /// Bytes of a sparse file.
    real_size: u64,
    seconds: i64,
}

impl Header {
    fn parse(block: &[u8; BLOCK]) -> Result<Self, String> {
        let sum = number(&block[148..156]);
        let bytes =
            || block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { b' ' } else { *byte });
        let unsigned: i64 = bytes().map(i64::from).sum();
        // Some old tars added the bytes as signed numbers.
        let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
        if sum.is_none_or(|sum| sum != unsigned && sum != signed) {
            return Err("this is not the header of a member: its checksum is wrong".to_owned());
        }
        let size = |range: std::ops::Range<usize>| {
            let size = number(&block[range.clone()]).and_then(|size| u64::try_from(size).ok());
            size.ok_or_else(|| format!("`{}` is not a size", String::from_utf8_lossy(&block[range])))
        };
        let kind = block[156];
        let mut name = text(&block[..100]);
        if &block[257..263] == b"ustar\0" && block[345] != 0 {
            name = [&text(&block[345..500])[..], b"/", &name].concat();
        }
        Ok(Self {
            kind,
            name,
            link: text(&block[157..257]),
            size: size(124..136)?,
            real_size: if kind == b'S' { size(483..495)? } else { 0 },
            seconds: number(&block[136..148]).ok_or("its time is not a number")?,
        })
    }

    /// Bytes that follow in the archive.
    fn data_bytes(&self, extension: &Extension) -> u64 {
        match self.kind {
            // Links, devices, directories and pipes have none, whatever their size says.
            b'1'..=b'6' => 0,
            _ => extension.size.unwrap_or(self.size),
        }
    }
}

/// What is before the first zero byte.
fn text(field: &[u8]) -> Vec<u8> {
    field.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

/// An octal number with blanks around it, or GNU's binary one, whose first bit is set. An empty field is 0.
fn number(field: &[u8]) -> Option<i64> {
    if let [first @ (0x80..), rest @ ..] = field {
        let negative = first & 0x40 != 0;
        let begin = if negative { -1 } else { i64::from(first & 0x3f) };
        return rest
            .iter()
            .try_fold(begin, |value, byte| value.checked_mul(256)?.checked_add(i64::from(*byte)));
    }
    let digits = text(field);
    let digits = digits.trim_ascii();
    if digits.is_empty() {
        return Some(0);
    }
    let octal = |value: i64, digit: &u8| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(digit - b'0')),
        _ => None,
    };
    digits.iter().try_fold(0, octal)
}

/// Reads pax records: `LENGTH KEY=VALUE<newline>`, where the length is that of the whole record.
fn pax(mut records: &[u8], extension: &mut Extension) -> Result<(), String> {
    while !records.is_empty() {
        let (key, value, rest) = record(records).ok_or("a pax record that is not as long as it says")?;
        records = rest;
        let digits = || std::str::from_utf8(value).ok();
        let number = || digits().and_then(|text| text.parse::<i64>().ok());
        let size =
            || number().and_then(|size| u64::try_from(size).ok()).ok_or("a pax size that is not a number");
        match key {
            b"path" => extension.path = Some(bounded(value.to_owned())?),
            b"GNU.sparse.name" => extension.sparse_path = Some(bounded(value.to_owned())?),
            b"linkpath" => extension.link = Some(bounded(value.to_owned())?),
            b"size" => extension.size = Some(size()?),
            b"GNU.sparse.realsize" | b"GNU.sparse.size" => extension.real_size = Some(size()?),
            b"mtime" => {
                extension.time = Some(digits().and_then(time).ok_or("a pax time that is not a number")?);
            }
            _ => {}
        }
    }
    Ok(())
}

fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = records.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&records[..blank]).ok()?.parse().ok()?;
    let (whole, rest) = records.split_at_checked(length)?;
    let content = whole.get(blank + 1..)?.strip_suffix(b"\n")?;
    let sign = content.iter().position(|byte| *byte == b'=')?;
    Some((&content[..sign], &content[sign + 1..], rest))
}

/// Whole seconds and the nanoseconds after them, as the kernel has them; digits beyond are cut off.
fn time(text: &str) -> Option<(i64, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let (seconds, nanoseconds): (i64, u32) = (whole.parse().ok()?, digits.parse().ok()?);
    if text.starts_with('-') && nanoseconds > 0 {
        return Some((seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds));
    }
    Some((seconds, nanoseconds))
}

fn as_u64(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A header as ustar has it.
    fn header(name: &str, kind: u8, size: u64, time: u64) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
        block[136..147].copy_from_slice(format!("{time:011o}").as_bytes());
        block[156] = kind;
        block[257..263].copy_from_slice(b"ustar\0");
        sealed(block)
    }

    fn sealed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    }

    fn put(archive: &mut Vec<u8>, header: [u8; BLOCK], content: &[u8]) {
        archive.extend(header);
        archive.extend(content);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }

    fn read(bytes: &[u8]) -> Result<Listing, SourceError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        list(file.path())
    }

    fn sizes(listing: &Listing) -> Vec<(String, u64)> {
        listing.iter().map(|(name, facts)| (shown(name), facts.size)).collect()
    }

    fn sample() -> Vec<u8> {
        let mut archive = Vec::new();
        put(&mut archive, header("d/", b'5', 0, 1), b"");
        put(&mut archive, header("d/file", b'0', 700, 2), &[1; 700]);
        put(&mut archive, header("d/empty", b'0', 0, 3), b"");
        let mut link = header("d/link", b'2', 0, 4);
        link[157..166].copy_from_slice(b"elsewhere");
        put(&mut archive, sealed(link), b"");
        let mut hard = header("d/hard", b'1', 0, 5);
        hard[157..163].copy_from_slice(b"d/file");
        put(&mut archive, sealed(hard), b"");
        put(&mut archive, header("d/device", b'3', 0, 6), b"");
        put(&mut archive, header("d/pipe", b'6', 0, 6), b"");
        let long = format!("d/{}\0", "n".repeat(200));
        put(&mut archive, header("././@LongLink", b'L', 203, 0), long.as_bytes());
        put(&mut archive, header("d/nnn", b'0', 3, 7), b"abc");
        let name = "path=d/line\nend\n";
        let records = format!("{} {name}22 mtime=-1.250000000\n", name.len() + 3);
        put(&mut archive, header("PaxHeaders", b'x', as_u64(records.len()), 0), records.as_bytes());
        put(&mut archive, header("d/line", b'0', 1, 8), b"x");
        archive.resize(archive.len() + 2 * BLOCK, 0);
        archive
    }

    #[test]
    fn every_kind_of_member_is_taken_for_what_it_is() {
        let listing = read(&sample()).unwrap();
        let long = "n".repeat(200);
        let wanted = [("empty", 0), ("file", 700), ("hard", 700), ("line\nend", 1), ("link", 9), (&long, 3)];
        assert_eq!(sizes(&listing), wanted.map(|(name, size)| (format!("d/{name}"), size)));
        let pax = listing[&b"d/line\nend"[..]];
        assert_eq!((pax.seconds, pax.nanoseconds), (-2, Some(750_000_000)));
        let plain = listing[&b"d/file"[..]];
        assert_eq!((plain.seconds, plain.nanoseconds), (2, None));
    }

    #[test]
    fn what_is_cut_off_is_refused_wherever_it_ends() {
        let archive = sample();
        let whole = archive.len() - BLOCK;
        for end in (0..whole).step_by(13).chain([BLOCK, 2 * BLOCK, whole - 1]) {
            let error = read(&archive[..end]).expect_err("cut off");
            let SourceError::Tar { offset, .. } = error else { panic!("{error}") };
            assert!(offset <= as_u64(end), "{offset} of {end}");
        }
        assert!(read(&archive[..whole]).is_ok(), "one empty block will do");
        assert!(read(&archive[..whole + 7]).is_ok(), "what comes after the end is not inspected");
    }

    #[test]
    fn a_few_bytes_do_not_make_every_member_costly() {
        let bomb = |key: &str, length: usize| {
            let record = format!("{key}={}\n", "a/".repeat(length / 2));
            // The length counts its own digits.
            let whole = (1..8)
                .map(|digits| record.len() + 1 + digits)
                .find(|whole| whole.to_string().len() + 1 + record.len() == *whole)
                .unwrap();
            format!("{whole} {record}")
        };
        let mut archive = Vec::new();
        let records = bomb("path", 1000);
        put(&mut archive, header("global", b'g', as_u64(records.len()), 0), records.as_bytes());
        archive.extend(sample());
        let error = read(&archive).unwrap_err();
        assert!(error.to_string().contains("global pax header"), "{error}");
        let mut archive = Vec::new();
        let records = bomb("path", NAME_LIMIT + 2);
        put(&mut archive, header("own", b'x', as_u64(records.len()), 0), records.as_bytes());
        archive.extend(sample());
        let error = read(&archive).unwrap_err();
        assert!(error.to_string().contains("a name of"), "{error}");
        // A comment, as `git archive` writes it, or a time is fine.
        let mut archive = Vec::new();
        let records = bomb("comment", 40);
        put(&mut archive, header("global", b'g', as_u64(records.len()), 0), records.as_bytes());
        archive.extend(sample());
        assert_eq!(sizes(&read(&archive).unwrap()), sizes(&read(&sample()).unwrap()));
    }

    #[test]
    fn directories_count_towards_the_limit_of_names() {
        let mut files = Files::default();
        assert!((0..100).try_for_each(|_| files.hold(1000, 50_000)).is_err());
    }

    #[test]
    fn damage_is_named_with_its_place() {
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut archive = sample();
            change(&mut archive);
            read(&archive).expect_err("damaged").to_string()
        };
        let error = refused(&|archive| archive[512] ^= 1);
        assert!(
            error.ends_with("at byte 512: this is not the header of a member: its checksum is wrong"),
            "{error}"
        );
        let mut archive = Vec::new();
        let mut hard = header("b", b'1', 0, 5);
        hard[157] = b'a';
        put(&mut archive, sealed(hard), b"");
        let error = read(&archive).expect_err("no target").to_string();
        assert!(error.ends_with("at byte 0: `b` is a hard link to `a`, which is not before it"), "{error}");
        for (kind, content, what) in [
            (b'x', &b"9 path=a"[..], "a pax record that is not as long as it says"),
            (b'x', b"10 size=x\n", "at byte 0: a pax size that is not a number"),
            (b'x', b"28 size=9223372036854775808\n", "at byte 0: a pax size that is not a number"),
            (
                b'x',
                b"43 GNU.sparse.realsize=9223372036854775808\n",
                "at byte 0: a pax size that is not a number",
            ),
            (b'M', b"", "it continues from another volume"),
        ] {
            let mut archive = Vec::new();
            put(&mut archive, header("a", kind, as_u64(content.len()), 0), content);
            let error = read(&archive).expect_err(what).to_string();
            assert!(error.ends_with(what), "{error}");
        }
        let mut archive = header("a", b'L', 1 << 30, 0).to_vec();
        archive.resize(1 << 16, 0);
        assert!(read(&archive).expect_err("long").to_string().contains("1073741824 bytes"));
    }

    #[test]
    fn numbers_are_octal_or_binary() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"  644 \0  "), Some(0o644));
        assert_eq!(number(b"\0\0\0"), Some(0));
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Some(2 << 32));
        assert_eq!(number(&[0xff; 12]), Some(-1));
        assert_eq!(number(b"\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None, "too large");
        assert_eq!(number(b"0000648\0"), None);
    }

    #[test]
    fn the_one_directory_of_all_members_is_the_top() {
        let top = |names: &[&str]| {
            let mut archive = Vec::new();
            for name in names {
                let kind = if name.ends_with('/') { b'5' } else { b'0' };
                put(&mut archive, header(name, kind, 0, 0), b"");
            }
            archive.resize(archive.len() + 2 * BLOCK, 0);
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&archive).unwrap();
            super::read(file.path()).unwrap().1
        };
        assert_eq!(top(&["day1/", "day1/a", "day1/d/b"]), Some(5));
        assert_eq!(top(&["day1/a"]), Some(5));
        assert_eq!(top(&["./", "./day1/", "./day1/a"]), Some(0));
        assert_eq!(top(&["./day1/a", "./b"]), Some(0));
        assert_eq!(top(&[]), Some(0));
        for several in [&["a", "d/b"][..], &["d/a", "e/"], &["a", "a"], &["./a", "b/c"]] {
            assert_eq!(top(several), None, "{several:?}");
        }
    }

    #[test]
    fn only_so_many_names_are_held() {
        let facts = Facts { size: 0, seconds: 0, nanoseconds: None };
        let each = as_u64(size_of::<Facts>()) + 1;
        let mut files = Files::default();
        for name in [b"a", b"b", b"a"] {
            files.put(name.to_vec(), facts, 2 * each).unwrap();
        }
        assert!(files.put(b"c".to_vec(), facts, 2 * each).is_err());
    }

    #[test]
    fn devices_are_refused() {
        let error = list(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("it is a device"), "{error}");
    }

    #[test]
    fn compressed_ones_are_read_to_their_checksum() {
        let archive = sample();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&archive).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = zstd::encode_all(&archive[..], 1).unwrap();
        for packed in [gzip, zstd] {
            assert_eq!(read(&packed).unwrap(), read(&archive).unwrap());
            for end in [packed.len() / 2, packed.len() - 1] {
                assert!(read(&packed[..end]).is_err(), "{end} of {}", packed.len());
            }
        }
        let error = read(b"\xfd7zXZ\0").unwrap_err();
        assert!(error.hint().is_some_and(|hint| hint.contains(".zst")), "{error}");
    }
}
