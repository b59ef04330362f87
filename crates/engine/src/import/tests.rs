//! Imports from text to rows, and what an export of them gives again.

use std::path::Path;

use crate::csv::{HEADING, OLD_HEADING};
use fsage_model::operation::{Operation, OperationKind as K};
use proptest::prelude::*;

use super::*;
use crate::export::{Format, export};
use crate::trace;

type Imported = Result<(ImportReport, Vec<Record>), ImportError>;

/// Imports a text; the report and the rows.
fn imported(program: Program, text: &str, options: &ImportOptions) -> Imported {
    imported_with(program, text, options).map(|(report, rows, _)| (report, rows))
}

type WithDirectories = (ImportReport, Vec<Record>, Vec<crate::tree::Directory>);

/// The same with the directories that were there before.
fn imported_with(
    program: Program,
    text: &str,
    options: &ImportOptions,
) -> Result<WithDirectories, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("input"), folder.path().join("trace"));
    std::fs::write(&input, text).unwrap();
    let report = import(program, &input, &output, options)?;
    let reader = trace::read(&output).unwrap();
    assert_eq!(reader.preamble().origin.as_ref(), Some(&report.origin));
    assert_eq!(reader.preamble().prelude, report.prelude);
    assert_eq!(reader.checkpoints().last().unwrap().sequence, report.operations);
    let directories = reader.preamble().directories[0].clone();
    Ok((report, reader.map(Result::unwrap).collect(), directories))
}

fn csv(lines: &str) -> (ImportReport, Vec<Record>) {
    imported(Program::Csv, &format!("{HEADING}\n{lines}"), &ImportOptions::default()).unwrap()
}

fn strace(lines: &str) -> (ImportReport, Vec<Record>) {
    let numbered: String =
        lines.lines().enumerate().map(|(n, line)| format!("1 1700000000.{n:06} {line}\n")).collect();
    imported(Program::Strace, &numbered, &ImportOptions::default()).unwrap()
}

/// Kind, offset, length, size of each row.
fn shapes(rows: &[Record]) -> Vec<(K, u64, u64, u64)> {
    let shape = |o: &Operation| (o.kind(), o.columns().offset, o.length(), o.size);
    rows.iter().map(|row| shape(&row.operation)).collect()
}

#[test]
fn csv_of_older_versions_is_read_as_well() {
    let lines = "0,create,/a,,5000,\n1,read,/a,0,4096,\n";
    let of = |heading: &str| {
        let text = format!("{heading}\n{lines}");
        let (report, rows) = imported(Program::Csv, &text, &ImportOptions::default()).unwrap();
        (report.operations, shapes(&rows))
    };
    assert_eq!(of(OLD_HEADING), of(HEADING));
    assert_ne!(OLD_HEADING, HEADING);
}

#[test]
fn what_was_there_before_is_as_large_as_it_is_needed() {
    let (report, rows) = csv("0,read,/a/old,4096,5000,\n1.5,write,/a/old,20000,100,\n2,append,/a/log,,10,\n");
    assert_eq!((report.prelude, report.prelude_bytes, report.directories), (2, 20_100, 1));
    assert_eq!(
        shapes(&rows),
        [
            (K::Create, 0, 20_100, 0),
            (K::Create, 0, 0, 0),
            (K::RandomRead, 4096, 8192, 20_100),
            (K::RandomWrite, 16_384, 4096, 20_100),
            (K::Append, 0, 10, 0),
        ]
    );
    assert_eq!((rows[2].start_ns, rows[3].start_ns), (0, 1_500_000_000));
    assert_eq!(report.origin.changed["read widened to whole blocks"], 1);
    assert_eq!(report.origin.changed["write widened to whole blocks"], 1);
    assert!(report.origin.left_out.is_empty());
}

#[test]
fn writes_are_what_their_place_makes_them() {
    let (report, rows) = csv(
        "0,create,/f,,5000,\n0,write,/f,5000,100,\n0,write,/f,4000,2000,\n0,write,/f,9000,10,\n0,truncate,/f,,100,\n0,truncate,/f,,300,\n0,fallocate,/f,300,9000,\n0,overwrite,/f,,,\n0,read,/f,,,\n0,fsync,/f,,,\n0,delete,/f,,,\n",
    );
    assert_eq!(
        shapes(&rows),
        [
            (K::Create, 0, 5000, 0),
            (K::Append, 4096, 1004, 5000),
            (K::Append, 0, 6000, 5100),
            (K::Append, 4096, 4914, 6000),
            (K::Truncate, 100, 0, 9010),
            (K::Append, 0, 300, 100),
            (K::Fallocate, 300, 9000, 300),
            (K::Overwrite, 0, 300, 300),
            (K::Read, 0, 0, 300),
            (K::Fsync, 0, 0, 300),
            (K::Delete, 0, 0, 300),
        ]
    );
    assert_eq!(report.origin.changed["gap in a file filled with data"], 1);
    assert_eq!(
        rows.iter().map(|row| row.operation.version).collect::<Vec<_>>(),
        [1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6]
    );
}

#[test]
fn names_and_directories_are_followed() {
    let (report, rows) = csv(
        "0,mkdir,/d,,,\n0,create,/d/a,,1,\n0,link,/d/a,,,/b\n0,symlink,/d/a,,,/s\n0,rename,/d/a,,,/d/c\n0,create,/d/a,,2,\n0,rename,/d/a,,,/d/c\n0,rename,/d,,,/e\n0,mkdir,/e/x,,,\n0,rename,/e/x,,,/y\n0,delete,/e/c,,,\n0,rmdir,/e,,,\n0,rmdir,/y,,,\n0,delete,/s,,,\n0,delete,/b,,,\n",
    );
    let kinds: Vec<K> = rows.iter().map(|row| row.operation.kind()).collect();
    assert_eq!(
        kinds,
        [
            K::Mkdir,
            K::Create,
            K::Link,
            K::Symlink,
            K::Rename,
            K::Create,
            K::Rename,
            K::Mkdir,
            K::Delete,
            K::Rmdir,
            K::Delete,
            K::Delete,
        ]
    );
    // The replaced file lost its name to the new one, and kept its hard link.
    assert_eq!(rows[6].operation.columns().target, rows[4].operation.columns().target);
    assert_eq!(rows[11].operation.file, rows[1].operation.file);
    assert_eq!(report.origin.left_out["directory renamed: it keeps its place in our tree"], 2);
    assert_eq!(report.origin.left_out["removed a directory out of which another was moved"], 1);
}

#[test]
fn descriptors_positions_and_children_are_followed() {
    let (report, rows) = strace(
        "openat(AT_FDCWD</w>, \"f\", O_RDWR|O_CREAT|O_EXCL, 0666) = 3</w/f>\n\
         write(3</w/f>, \"abc\"..., 5000) = 5000\n\
         dup(3</w/f>) = 4</w/f>\n\
         clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD) = 2\n\
         lseek(4</w/f>, 0, SEEK_SET) = 0\n\
         pread64(3</w/f>, \"abc\"..., 100, 4096) = 100\n\
         close(3</w/f>) = 0\n\
         read(4</w/f>, \"abc\"..., 8192 <unfinished ...>\n\
         <... read resumed>) = 5000\n\
         unlink(\"/w/f\") = 0\n\
         write(4</w/f>, \"x\", 1) = 1\n\
         ioctl(1, TCGETS, 0x7ffc) = -1 ENOTTY (Inappropriate ioctl for device)\n\
         mmap(NULL, 4096, PROT_READ, MAP_SHARED, 4</w/f>, 0) = 0x7f0000000000\n\
         --- SIGCHLD {si_signo=SIGCHLD} ---\n\
         +++ exited with 0 +++\n",
    );
    assert_eq!(
        shapes(&rows),
        [
            (K::Create, 0, 0, 0),
            (K::Append, 0, 5000, 0),
            (K::RandomRead, 4096, 4096, 5000),
            (K::RandomRead, 0, 8192, 5000),
            (K::Delete, 0, 0, 5000),
        ]
    );
    let left_out = &report.origin.left_out;
    assert_eq!(left_out["file that has no name any more"], 1);
    assert_eq!(left_out["failed when recorded"], 1);
    assert_eq!(left_out["mmap of a file: what is read and written through it is not seen"], 1);
}

#[test]
fn a_file_opened_to_be_made_may_have_been_there() {
    let open = "openat(AT_FDCWD, \"/w/db\", O_RDWR|O_CREAT, 0666) = 3\n";
    let (report, rows) = strace(&format!("{open}write(3, \"x\", 10) = 10\n"));
    assert_eq!((report.prelude, rows[0].operation.length()), (0, 0), "{rows:?}");
    let (report, rows) = strace(&format!("{open}read(3, \"x\", 100) = 100\nwrite(3, \"x\", 10) = 10\n"));
    assert_eq!((report.prelude, report.prelude_bytes), (1, 110));
    assert_eq!(shapes(&rows)[1..], [(K::RandomRead, 0, 4096, 110), (K::RandomWrite, 0, 4096, 110)]);
    let (report, _) = strace(&format!(
        "{open}newfstatat(3, \"\", {{st_mode=S_IFREG|0644, st_size=7000, ...}}, AT_EMPTY_PATH) = 0\n"
    ));
    assert_eq!(report.prelude_bytes, 7000);
}

#[test]
fn only_what_lies_below_is_taken() {
    let options =
        ImportOptions { below: Some("/w".into()), cwd: Some("/w/sub".into()), ..ImportOptions::default() };
    let text = "1.0 openat(AT_FDCWD, \"f\", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3\n1.0 write(3, \"x\", 1) = 1\n1.0 openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY) = 4\n1.0 read(4, \"x\", 1) = 1\n";
    let (report, rows) = imported(Program::Strace, text, &options).unwrap();
    assert_eq!((rows.len(), report.directories), (2, 1), "{rows:?}");
    assert_eq!(report.origin.left_out["outside the directory that was asked for"], 2);
}

#[test]
fn what_is_malformed_is_refused_by_its_line() {
    let cases: &[(Program, &str, u64, &str)] = &[
        (Program::Csv, "", 1, "time_s,kind"),
        (Program::Csv, "time,op\n", 1, "the first line is not"),
        (Program::Csv, "time_s,kind,path,offset,length,target\n0,read,/a\n", 2, "3 fields"),
        (Program::Csv, "time_s,kind,path,offset,length,target\n0,eat,/a,,,\n", 2, "`eat`"),
        (Program::Csv, "time_s,kind,path,offset,length,target\n0,read,/a,x,1,\n", 2, "offset `x`"),
        (Program::Csv, "time_s,kind,path,offset,length,target\n0,rename,/a,,,\n", 2, "needs a target"),
        (Program::Csv, "time_s,kind,path,offset,length,target\nnow,read,/a,,,\n", 2, "`now`"),
        (Program::Fio, "", 1, "heading"),
        (Program::Fio, "fio version 4 iolog\n", 1, "the first line is not"),
        (Program::Fio, "fio version 2 iolog\n/f add\n/f eat 0 1\n", 3, "`eat`"),
        (Program::Fio, "fio version 3 iolog\nx /f add\n", 2, "`x`"),
        (Program::Strace, "1 1.5 close(3) = 0\nnonsense\n", 2, "no call"),
        (Program::Strace, "1 12:00:01.5 close(3) = 0\n", 1, "-ttt"),
        (Program::Strace, "1 1.5 close(3) = 0\n1 1.6 write(3, \"x\n1 1.7 close(3) = 0\n", 2, "not closed"),
    ];
    for (program, text, line, what) in cases {
        let error = imported(*program, text, &ImportOptions::default()).unwrap_err();
        let ImportError::Malformed { line: found, .. } = &error else { panic!("{text}: {error}") };
        assert_eq!(found, line, "{text}: {error}");
        assert!(error.to_string().contains(what), "{text}: {error}");
    }
}

#[test]
fn a_last_line_that_is_cut_off_is_refused_unless_that_is_allowed() {
    let whole = "1 1.5 mkdir(\"/d\", 0777) = 0\n1 1.6 mkdir(\"/e\", 0777) = 0\n";
    for cut in [whole.len() - 1, whole.len() - 3, whole.len() - 20] {
        let text = &whole[..cut];
        let error = imported(Program::Strace, text, &ImportOptions::default()).unwrap_err();
        assert!(matches!(error, ImportError::CutOff { line: 2, .. }), "{error}");
        assert!(error.hint().contains("--allow-truncated"));
        let options = ImportOptions { allow_truncated: true, ..ImportOptions::default() };
        let (report, rows) = imported(Program::Strace, text, &options).unwrap();
        let whole_line = usize::from(cut == whole.len() - 1);
        assert_eq!(rows.len(), 1 + whole_line, "{text}");
        assert_eq!(report.origin.left_out.len(), 1 - whole_line, "{report:?}");
    }
}

/// Exports a trace as CSV.
fn exported(rows: &[Record], directories: Vec<crate::tree::Directory>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let preamble = Preamble::of_load(load(), vec![directories]);
    let mut writer = TraceWriter::new(File::create(&path).unwrap(), &preamble).unwrap();
    writer.extend(rows).unwrap();
    writer.finish(&[]).unwrap();
    let mut out = Vec::new();
    export(trace::read(&path).unwrap(), Format::Csv, "/top", &mut out, Path::new("out")).unwrap();
    String::from_utf8(out).unwrap()
}

/// Operations of a load that runs on no file system.
fn generated(seed: u64, number: usize) -> (Vec<Record>, Vec<crate::tree::Directory>) {
    use crate::workload::{Feedback, ResolveContext, Workload as _, resolve};
    let drift = DriftSpec {
        slots: 40,
        weights: K::ALL
            .into_iter()
            .filter(|k| !matches!(k, K::Fsync | K::Fdatasync))
            .map(|k| (k, 3.0))
            .collect(),
        file_size: fsage_model::workload::SizeSpec::Uniform {
            min: fsage_model::size::Bytes(1),
            max: fsage_model::size::Bytes(40_000),
        },
        fsync_probability: 0.1,
        ..DriftSpec::default()
    };
    let context = ResolveContext { volume_bytes: 0, write_mode: WriteMode::Buffered };
    let mut workload = resolve(&WorkloadSpec::Drift(drift), 0, 1, seed, &context).unwrap();
    let directories = workload.initial_directories();
    let mut rows = Vec::new();
    while rows.len() < number {
        let Some(operation) = workload.next(&Feedback::default()) else { continue };
        workload.completed(&operation, &fsage_model::operation::Outcome::default());
        let sequence = u64::try_from(rows.len()).unwrap();
        let outcome = fsage_model::operation::Outcome::default();
        rows.push(Record { thread: 0, sequence, operation, outcome, start_ns: sequence * 1000 });
    }
    (rows, directories)
}

/// What an operation does to the bytes of files: each access with its range, cut at the file's end.
fn effects(rows: &[Record]) -> Vec<(K, u64, u64, u64, u64)> {
    rows.iter()
        .flat_map(|row| {
            let o = row.operation;
            let random = matches!(o.kind(), K::RandomRead | K::RandomWrite);
            let whole = (o.columns().offset, o.length());
            o.accesses().chain((!random).then_some(whole)).filter_map(move |(offset, length)| {
                let offset = if matches!(o.kind(), K::Mkdir | K::Rmdir) { 0 } else { offset };
                let length = if o.kind() == K::Read { 0 } else { length };
                // What a symbolic link that is removed points to is no matter of the link.
                let size = if o.kind() == K::Delete { 0 } else { o.size };
                (!random || length > 0).then_some((o.kind(), offset, length, size, row.start_ns))
            })
        })
        .collect()
}

/// Sizes of the files that are there at the end, in order.
fn sizes_left(rows: &[Record], directories: &[crate::tree::Directory]) -> Vec<u64> {
    let mut model = Model::new(0, directories);
    rows.iter().for_each(|row| model.apply(&row.operation));
    let mut sizes: Vec<u64> = model.live_files().map(|file| file.size).collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn what_strace_wrote_ends_in_the_tree_that_was_there() {
    // A perl script with two children, once with -y, -T and %process, once without. It left files of these
    // sizes.
    let left = [14, 300, 1286, 5100, 14_000];
    let full = include_str!("../../tests/data/import/strace-full.txt");
    let plain = include_str!("../../tests/data/import/strace-plain.txt");
    let options = ImportOptions {
        below: Some("/mnt/t".into()),
        cwd: Some("/mnt/t".into()),
        ..ImportOptions::default()
    };
    let mut found = Vec::new();
    for text in [full, plain] {
        let (report, rows, directories) = imported_with(Program::Strace, text, &options).unwrap();
        assert_eq!(sizes_left(&rows, &directories), left, "{report:?}");
        assert_eq!((report.prelude, report.directories), (3, 1), "{report:?}");
        assert_eq!(report.prelude_bytes, 20_000 + 4 + 1286);
        assert!(report.span_ns > 1_000_000);
        assert_eq!(report.origin.left_out["directory renamed: it keeps its place in our tree"], 1);
        let mut of_kinds: Vec<_> = shapes(&rows);
        of_kinds.sort_unstable();
        found.push(of_kinds);
    }
    assert_eq!(found[0], found[1], "the same script, recorded in two ways");
    let latencies = imported(Program::Strace, full, &options).unwrap().1;
    assert!(latencies.iter().any(|row| row.outcome.latency_ns > 0), "-T");
}

#[test]
fn what_fio_wrote_is_followed() {
    let text = include_str!("../../tests/data/import/fio-3.log");
    let count = |action: &str| text.lines().filter(|line| line.contains(action)).count();
    let (report, rows) = imported(Program::Fio, text, &ImportOptions::default()).unwrap();
    let of = |kind: K| rows.iter().filter(|row| row.operation.kind() == kind).count();
    assert_eq!(
        (of(K::RandomRead), of(K::RandomWrite), of(K::Fsync)),
        (count(" read "), count(" write "), count(" sync "))
    );
    assert!(of(K::RandomRead) > 3 && of(K::RandomWrite) > 3 && of(K::Fsync) > 0);
    assert_eq!((report.prelude, of(K::Create), of(K::Append)), (1, 1, 0), "the file was laid out before");
    assert!(rows.windows(2).all(|two| two[0].start_ns <= two[1].start_ns) && report.span_ns > 1_000_000);
    assert!(report.origin.left_out.is_empty() && report.origin.changed.is_empty(), "{:?}", report.origin);
    // Version 2 is the same without times.
    let older: String = text
        .lines()
        .map(|line| match line.split_once(' ') {
            Some((time, rest)) if time.bytes().all(|byte| byte.is_ascii_digit()) => format!("{rest}\n"),
            _ => "fio version 2 iolog\n".to_owned(),
        })
        .collect();
    let (_, untimed) = imported(Program::Fio, &older, &ImportOptions::default()).unwrap();
    assert_eq!(shapes(&untimed), shapes(&rows));
    assert!(untimed.iter().all(|row| row.start_ns == 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn an_export_is_imported_as_the_same_operations(seed in any::<u64>()) {
        let (rows, directories) = generated(seed, 400);
        // The thread's own directory is the top of the tree again.
        let options = ImportOptions { below: Some("/top/t00".into()), ..ImportOptions::default() };
        let text = exported(&rows, directories);
        let (report, found, directories) =
            imported_with(Program::Csv, &text, &options).unwrap();
        prop_assert!(report.origin.left_out.is_empty(), "{:?}", report.origin);
        prop_assert_eq!(report.prelude, 0);
        prop_assert!(effects(&found) == effects(&rows));
        // Once more it is the very same: numbers too.
        let text = exported(&found, directories);
        let (_, again, _) = imported_with(Program::Csv, &text, &options).unwrap();
        prop_assert!(again == found);
    }

    #[test]
    fn no_text_makes_an_import_panic(text in "(1 1\\.5 |[0-9]+ )?[a-z]{0,8}\\(?[\"</>,\\\\\\[\\]{}()0-9a-z =.-]{0,60}\n") {
        for program in [Program::Strace, Program::Csv, Program::Fio] {
            let heading = match program {
                Program::Strace => "",
                Program::Fio => "fio version 2 iolog\n",
                Program::Csv => "time_s,kind,path,offset,length,target\n",
            };
            // A panic would fail the test; what comes of it is reported as a line.
            if let Err(error) = imported(program, &format!("{heading}{text}"), &ImportOptions::default()) {
                prop_assert!(error.to_string().contains("line"), "{}", error);
            }
        }
    }
}
