//! The negotiation: from the greeting to the choice of the export.

use std::io::{self, Read, Write};

use super::message::{
    CAN, OPTION_MAGIC, OPTION_REPLY_MAGIC, PAYLOAD_LIMIT, SERVER_MAGIC, answer, hand, info, option,
};

/// Largest data of an option; the protocol's longest name has 4096 bytes.
const OPTION_LIMIT: u32 = 64 << 10;

/// Options that a client may try before it is let go.
const OPTIONS: usize = 1000;

/// What the protocol prefers to send at once.
const PREFERRED_BLOCK_BYTES: u32 = 4096;

/// What is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its name; the empty name means it too.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// The smallest block.
    pub block_bytes: u32,
}

/// How a negotiation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Requests come next.
    Go,
    /// The client does not want any.
    Gone,
}

/// An option and what was sent with it.
struct Asked {
    option: u32,
    data: Vec<u8>,
}

/// What a client wants to know of an export, or the error to answer with.
struct Wanted<'a> {
    name: &'a [u8],
    infos: Vec<u16>,
}

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn read_u32(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

/// Negotiates.
pub(super) fn negotiate(input: &mut impl Read, output: &mut impl Write, export: &Export) -> io::Result<End> {
    let mut greeting = Vec::with_capacity(18);
    greeting.extend_from_slice(&SERVER_MAGIC.to_be_bytes());
    greeting.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    greeting.extend_from_slice(&(hand::FIXED_NEWSTYLE | hand::NO_ZEROES).to_be_bytes());
    output.write_all(&greeting)?;
    let flags = read_u32(input)?;
    let known = u32::from(hand::FIXED_NEWSTYLE | hand::NO_ZEROES);
    if flags & !known != 0 || flags & u32::from(hand::FIXED_NEWSTYLE) == 0 {
        return Err(broken("the client does not speak fixed newstyle"));
    }
    let with_zeroes = flags & u32::from(hand::NO_ZEROES) == 0;
    for _ in 0..OPTIONS {
        let asked = read_option(input)?;
        if asked.option == option::EXPORT_NAME {
            return name_export(output, export, &asked.data, with_zeroes);
        }
        if let Some(end) = answer_option(output, export, &asked)? {
            return Ok(end);
        }
    }
    Err(broken("the client cannot decide"))
}

fn read_option(input: &mut impl Read) -> io::Result<Asked> {
    let mut magic = [0; 8];
    input.read_exact(&mut magic)?;
    if u64::from_be_bytes(magic) != OPTION_MAGIC {
        return Err(broken("no option begins there"));
    }
    let (option, length) = (read_u32(input)?, read_u32(input)?);
    if length > OPTION_LIMIT {
        return Err(broken("an option is too long"));
    }
    let mut data = Vec::new();
    // Grows with what comes, not with what is promised.
    let got = input.take(u64::from(length)).read_to_end(&mut data)?;
    if u32::try_from(got) != Ok(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Asked { option, data })
}

fn respond(output: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let length = u32::try_from(data.len()).map_err(|_| broken("an answer is too long"))?;
    let mut bytes = Vec::with_capacity(20 + data.len());
    bytes.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    for word in [option, kind, length] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(data);
    output.write_all(&bytes)
}

/// Answers an option other than `EXPORT_NAME`.
fn answer_option(output: &mut impl Write, export: &Export, asked: &Asked) -> io::Result<Option<End>> {
    let Asked { option, data } = asked;
    match *option {
        option::ABORT => {
            // The client may be gone already; that is no error.
            let _ = respond(output, *option, answer::ACK, &[]);
            return Ok(Some(End::Gone));
        }
        option::LIST if data.is_empty() => {
            let mut server = u32::try_from(export.name.len()).unwrap_or(0).to_be_bytes().to_vec();
            server.extend_from_slice(export.name.as_bytes());
            respond(output, *option, answer::SERVER, &server)?;
            respond(output, *option, answer::ACK, &[])?;
        }
        option::INFO | option::GO => return inform(output, export, asked),
        option::LIST => respond(output, *option, answer::INVALID, b"LIST takes no data")?,
        _ => respond(output, *option, answer::UNSUPPORTED, &[])?,
    }
    Ok(None)
}

fn is_named(export: &Export, name: &[u8]) -> bool {
    name.is_empty() || name == export.name.as_bytes()
}

/// The old way to choose: without a way to refuse.
fn name_export(output: &mut impl Write, export: &Export, name: &[u8], with_zeroes: bool) -> io::Result<End> {
    if !is_named(export, name) {
        return Err(broken("there is no such export"));
    }
    let mut bytes = export.size_bytes.to_be_bytes().to_vec();
    bytes.extend_from_slice(&CAN.to_be_bytes());
    if with_zeroes {
        bytes.extend_from_slice(&[0; 124]);
    }
    output.write_all(&bytes)?;
    Ok(End::Go)
}

fn inform(output: &mut impl Write, export: &Export, asked: &Asked) -> io::Result<Option<End>> {
    let option = asked.option;
    let Some(wanted) = wanted(&asked.data) else {
        respond(output, option, answer::INVALID, b"the lengths do not fit")?;
        return Ok(None);
    };
    if !is_named(export, wanted.name) {
        respond(output, option, answer::UNKNOWN, b"there is no such export")?;
        return Ok(None);
    }
    let mut data = info::EXPORT.to_be_bytes().to_vec();
    data.extend_from_slice(&export.size_bytes.to_be_bytes());
    data.extend_from_slice(&CAN.to_be_bytes());
    respond(output, option, answer::INFO, &data)?;
    // Whether it was asked for or not: who does not know it would be refused later.
    let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
    let preferred = export.block_bytes.max(PREFERRED_BLOCK_BYTES);
    for word in [export.block_bytes, preferred, PAYLOAD_LIMIT] {
        data.extend_from_slice(&word.to_be_bytes());
    }
    respond(output, option, answer::INFO, &data)?;
    if wanted.infos.contains(&info::NAME) {
        let mut data = info::NAME.to_be_bytes().to_vec();
        data.extend_from_slice(export.name.as_bytes());
        respond(output, option, answer::INFO, &data)?;
    }
    respond(output, option, answer::ACK, &[])?;
    Ok((option == option::GO).then_some(End::Go))
}

/// Takes the data of `INFO` and `GO` apart.
fn wanted(data: &[u8]) -> Option<Wanted<'_>> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    let (count, rest) = rest.split_first_chunk::<2>()?;
    let (infos, odd) = rest.as_chunks::<2>();
    if !odd.is_empty() || infos.len() != usize::from(u16::from_be_bytes(*count)) {
        return None;
    }
    Some(Wanted { name, infos: infos.iter().map(|info| u16::from_be_bytes(*info)).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: u32 = 3;

    fn export() -> Export {
        Export { name: "disk".to_owned(), size_bytes: 1 << 30, block_bytes: 512 }
    }

    fn ask(option: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&option.to_be_bytes());
        bytes.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn choose(name: &str, infos: &[u16]) -> Vec<u8> {
        let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(&u16::try_from(infos.len()).unwrap().to_be_bytes());
        infos.iter().for_each(|info| data.extend_from_slice(&info.to_be_bytes()));
        data
    }

    /// What the server answers, without its greeting, and how it ended.
    fn talk(flags: u32, options: &[Vec<u8>]) -> (Vec<u8>, io::Result<End>) {
        let mut input = flags.to_be_bytes().to_vec();
        options.iter().for_each(|option| input.extend_from_slice(option));
        let mut output = Vec::new();
        let end = negotiate(&mut &input[..], &mut output, &export());
        assert_eq!(output[..18], *b"NBDMAGICIHAVEOPT\x00\x03");
        (output.split_off(18), end)
    }

    /// Answers as (option, kind, data).
    fn answers(mut bytes: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            assert_eq!(bytes[..8], OPTION_REPLY_MAGIC.to_be_bytes());
            let end = 20 + usize::try_from(word(16)).unwrap();
            found.push((word(8), word(12), bytes[20..end].to_vec()));
            bytes = &bytes[end..];
        }
        found
    }

    #[test]
    fn a_client_is_told_all_and_goes() {
        for name in ["", "disk"] {
            let (output, end) =
                talk(FIXED, &[ask(option::GO, &choose(name, &[info::NAME, info::BLOCK_SIZE]))]);
            assert_eq!(end.unwrap(), End::Go);
            let found = answers(&output);
            let kinds: Vec<_> = found.iter().map(|(_, kind, data)| (*kind, data.get(..2))).collect();
            assert_eq!(
                kinds,
                [
                    (answer::INFO, Some(&[0, 0][..])),
                    (answer::INFO, Some(&[0, 3])),
                    (answer::INFO, Some(&[0, 1])),
                    (answer::ACK, None)
                ]
            );
            assert_eq!(found[0].2[2..10], (1_u64 << 30).to_be_bytes());
            assert_eq!(found[1].2[2..], [0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
            assert_eq!(found[2].2[2..], *b"disk");
        }
    }

    #[test]
    fn options_are_answered_one_by_one() {
        let (output, end) = talk(
            FIXED,
            &[
                ask(5, &[]),
                ask(8, &[]),
                ask(option::LIST, &[1]),
                ask(option::LIST, &[]),
                ask(option::INFO, &choose("other", &[])),
                ask(option::INFO, &choose("", &[])[..5]),
                ask(option::INFO, &[&choose("", &[])[..], &[0, 3]].concat()),
                ask(option::INFO, &choose("", &[])),
                ask(option::ABORT, &[]),
                ask(option::LIST, &[]),
            ],
        );
        assert_eq!(end.unwrap(), End::Gone);
        let found: Vec<_> = answers(&output).into_iter().map(|(option, kind, _)| (option, kind)).collect();
        let expected = [
            (5, answer::UNSUPPORTED),
            (8, answer::UNSUPPORTED),
            (3, answer::INVALID),
            (3, answer::SERVER),
            (3, answer::ACK),
            (6, answer::UNKNOWN),
            (6, answer::INVALID),
            (6, answer::INVALID),
            (6, answer::INFO),
            (6, answer::INFO),
            (6, answer::ACK),
            (2, answer::ACK),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_old_way_to_choose_works_with_and_without_zeros() {
        for (flags, length) in [(1, 134), (3, 10)] {
            let (output, end) = talk(flags, &[ask(option::EXPORT_NAME, b"disk")]);
            assert_eq!((end.unwrap(), output.len()), (End::Go, length));
            assert_eq!(output[..8], (1_u64 << 30).to_be_bytes());
            assert_eq!(output[8..10], CAN.to_be_bytes());
        }
        assert!(talk(FIXED, &[ask(option::EXPORT_NAME, b"other")]).1.is_err());
    }

    #[test]
    fn who_breaks_the_protocol_is_let_go() {
        for flags in [0, 2, 4, 7, u32::MAX] {
            assert!(talk(flags, &[ask(option::GO, &choose("", &[]))]).1.is_err(), "{flags}");
        }
        let mut long = ask(option::LIST, &[]);
        long[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(talk(FIXED, &[long]).1.is_err());
        assert!(talk(FIXED, &[vec![0; 16]]).1.is_err());
        assert!(talk(FIXED, &[ask(option::LIST, &[1; 9])[..20].to_vec()]).1.is_err());
        assert!(talk(FIXED, &vec![ask(99, &[]); OPTIONS + 1]).1.is_err());
    }
}
