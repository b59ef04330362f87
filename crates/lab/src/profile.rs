//! Profiles as files: TOML that people can read and change, refused with the line where it is wrong.
//!
//! docs/profiles.md describes the format. What a profile means is in [`fsage_model::profile`].

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fsage_model::profile::{PROFILE_VERSION, Profile, ProfileError};
use fsage_model::workload::DerivedKey;
use fsage_sys::input::{self, TEXT_LIMIT, Unfit};
use fsage_sys::new_file;
use serde::Deserialize;
use serde_json::{Value, json};

/// Profiles shipped within the program: name and text.
const SHIPPED: [(&str, &str); 1] =
    [("profiles/debian-usr.toml", include_str!("../../../studies/profiles/debian-usr.toml"))];

/// Why a profile could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ProfileFileError {
    /// The file is not there or cannot be read.
    #[error("cannot read profile `{}`: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML, or not of a profile's form.
    #[error("{}:{line}: {message}{}{excerpt}", path.display(), if excerpt.is_empty() { "" } else { "\n" })]
    Form {
        /// Which.
        path: PathBuf,
        /// 1-based.
        line: usize,
        /// What is wrong.
        message: String,
        /// The line itself; empty when the file is not known to be a profile.
        excerpt: String,
    },
    /// Numbers that no tree has.
    #[error("profile `{}`: {source}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: ProfileError,
    },
}

impl ProfileFileError {
    /// The next step for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                "write one first: fsage profile /usr -o profile.toml".to_owned()
            }
            Self::Read { source, .. } => Unfit::hint(source).unwrap_or_default().to_owned(),
            Self::Form { .. } => "docs/profiles.md describes the format".to_owned(),
            Self::Content { source, .. } => source.hint().to_owned(),
        }
    }
}

/// Reads a profile from its file.
///
/// # Errors
/// Not there, not of the form, or with numbers that no tree has.
pub fn read(file: &Path) -> Result<Profile, ProfileFileError> {
    let text = input::read_text(file, TEXT_LIMIT);
    parse(file, &text.map_err(|source| ProfileFileError::Read { path: file.to_owned(), source })?)
}

/// The shipped profile that a workload's path names.
fn shipped(path: &Path) -> Option<&'static str> {
    SHIPPED.iter().find(|(name, _)| path == Path::new(name)).map(|(_, text)| *text)
}

/// Where the profile is that a workload names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// In this file.
    File(PathBuf),
    /// This is its text: as it comes with fsage, or of a file that was opened already.
    Text(Cow<'static, str>),
}

/// Where the profile is that a workload's table names, by a path below `base`; nothing where it names none.
/// It comes with fsage where no file is there, or, of the workload of a shipped study, where another user
/// could have put it there for root.
#[must_use]
pub fn named(base: &Path, workload: &Value, of_shipped: bool) -> Option<Named> {
    let path = Path::new(workload.get("like")?.as_str()?);
    let file = base.join(path);
    let Some(text) = shipped(path) else { return Some(Named::File(file)) };
    if !of_shipped {
        return Some(if file.exists() { Named::File(file) } else { Named::Text(text.into()) });
    }
    let own = new_file::open_unnamed(&file).and_then(|opened| input::text_of(opened, TEXT_LIMIT));
    Some(Named::Text(own.map_or(text.into(), Cow::Owned)))
}

/// Puts the content of the profile that is `named` in the place of its path in a workload's table, with the
/// names of the keys that are `given` and do not follow from it. Without one only these names are put beside
/// a profile that is there.
///
/// # Errors
/// As [`read`].
pub fn embed(named: Option<&Named>, workload: &mut Value, given: &[String]) -> Result<(), ProfileFileError> {
    let Some(table) = workload.as_object_mut() else { return Ok(()) };
    let names = DerivedKey::ALL.iter().map(|(_, name)| *name);
    let given: Vec<&str> = names.filter(|name| given.iter().any(|given| given == name)).collect();
    match (table.get_mut("like"), named) {
        (Some(Value::Object(like)), _) => {
            like.insert("given".to_owned(), json!(given));
        }
        (Some(like), Some(named)) => {
            let profile = match named {
                Named::File(file) => read(file)?,
                Named::Text(text) => parse(Path::new(like.as_str().unwrap_or_default()), text)?,
            };
            *like = json!({ "profile": profile, "given": given });
        }
        _ => {}
    }
    Ok(())
}

/// The version alone, whatever else a later format may say.
#[derive(Deserialize)]
struct Head {
    profile_version: Option<toml::Spanned<u32>>,
}

/// A profile from its text; `path` is only named in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Profile, ProfileFileError> {
    let form = |message: &str, span: Option<Range<usize>>| {
        let (line, excerpt) = excerpt(text, span.map_or(0, |span| span.start));
        ProfileFileError::Form { path: path.to_owned(), line, message: message.to_owned(), excerpt }
    };
    let broken = |error: &toml::de::Error| form(error.message().trim(), error.span());
    // A study may point at any file of root's: nothing of it is quoted before it is known to be a profile.
    let head: Head = toml::from_str(text).map_err(|error: toml::de::Error| unquoted(path, text, &error))?;
    match head.profile_version {
        None => {
            let message = "`profile_version` is missing: this is not a profile".to_owned();
            let (path, excerpt) = (path.to_owned(), String::new());
            return Err(ProfileFileError::Form { path, line: 1, message, excerpt });
        }
        Some(version) if *version.get_ref() != PROFILE_VERSION => {
            let error = ProfileError::Version { found: *version.get_ref() };
            return Err(form(&error.to_string(), Some(version.span())));
        }
        Some(_) => {}
    }
    let profile: Profile = toml::from_str(text).map_err(|error| broken(&error))?;
    profile.check().map_err(|source| ProfileFileError::Content { path: path.to_owned(), source })?;
    Ok(profile)
}

/// Where a file is no TOML and why, without the line.
fn unquoted(path: &Path, text: &str, error: &toml::de::Error) -> ProfileFileError {
    let (line, _) = excerpt(text, error.span().map_or(0, |span| span.start));
    let message = error.message().trim().to_owned();
    ProfileFileError::Form { path: path.to_owned(), line, message, excerpt: String::new() }
}

/// The 1-based line that `at` is in, and that line with a margin.
fn excerpt(text: &str, at: usize) -> (usize, String) {
    let before = text.get(..at.min(text.len())).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let content: String = text.lines().nth(line - 1).unwrap_or_default().chars().take(120).collect();
    (line, format!("{line} | {content}"))
}

/// A profile as TOML with a word on every list.
#[must_use]
pub fn to_toml(profile: &Profile) -> String {
    let Profile { profile_version, source, files, directories, used_extents, free_space } = profile;
    let mut text = format!(
        "# What a tree of files looks like, written by `fsage profile`: no names, no paths, no data.\n\
         profile_version = {profile_version}\n\n\
         # The file system that held the tree, all of it.\n[source]\n\
         file_system = {}\nvolume_bytes = {}\nused_bytes = {}\n\n[files]\n",
        toml::Value::from(source.file_system.as_str()),
        source.volume_bytes,
        source.used_bytes
    );
    let mut put = |line: std::fmt::Arguments<'_>| {
        let _ = text.write_fmt(line);
    };
    put(format_args!("count = {}\nbytes = {}\n", files.count, files.bytes));
    put(format_args!("# With at least one extent on the volume; the three figures below are about these.\n"));
    put(format_args!("mapped = {}\n", files.mapped));
    put(format_args!("# Could not be inspected.\nunseen = {}\n", files.unseen));
    put(format_args!("one_extent_share = {:?}\n", files.one_extent_share));
    put(format_args!("extents_per_file = {:?}\n", files.extents_per_file));
    put(format_args!("layout_score = {:?}\n", files.layout_score));
    put(format_args!(
        "# [size in bytes, at most; files; sum of their sizes]\nsizes = {}\n",
        triples(&files.sizes)
    ));
    put(format_args!("# [extents, at most; files]\nextents = {}\n", pairs(&files.extents)));
    put(format_args!("\n[directories]\ncount = {}\n", directories.count));
    put(format_args!("# [files in it, at most; directories]\nfiles = {}\n", pairs(&directories.files)));
    put(format_args!(
        "# [directories in it, at most; directories]\nsubdirectories = {}\n",
        pairs(&directories.subdirectories)
    ));
    put(format_args!("# [levels below the top; directories]\ndepths = {}\n", pairs(&directories.depths)));
    put(format_args!("\n[used_extents]\ncount = {}\nbytes = {}\n", used_extents.count, used_extents.bytes));
    let sizes = "# [size in bytes, at least and less than the double; extents; sum of their sizes]";
    put(format_args!("{sizes}\nsizes = {}\n", triples(&used_extents.sizes)));
    if let Some(free) = free_space {
        let method = toml::Value::try_from(free.method).unwrap_or_else(|_| toml::Value::from(""));
        put(format_args!("\n# Of the whole file system.\n[free_space]\nmethod = {method}\n"));
        put(format_args!("extents = {}\nbytes = {}\n", free.extents, free.bytes));
        put(format_args!("largest_bytes = {}\nmedian_bytes = {}\n", free.largest_bytes, free.median_bytes));
        put(format_args!("{sizes}\nsizes = {}\n", triples(&free.sizes)));
    }
    text
}

fn list(rows: impl Iterator<Item = String>) -> String {
    let rows: Vec<String> = rows.collect();
    let lines: Vec<String> = rows.chunks(4).map(|rows| format!("  {},\n", rows.join(", "))).collect();
    format!("[\n{}]", lines.concat())
}

fn pairs(rows: &[(u64, u64)]) -> String {
    list(rows.iter().map(|(bound, count)| format!("[{bound}, {count}]")))
}

fn triples(rows: &[(u64, u64, u64)]) -> String {
    list(rows.iter().map(|(bound, count, bytes)| format!("[{bound}, {count}, {bytes}]")))
}

#[cfg(test)]
mod tests {
    use fsage_model::layout::FreeSpaceMethod;
    use fsage_model::profile::{Directories, Extents, Files, Free, Source};

    use super::*;

    fn profile() -> Profile {
        Profile {
            profile_version: PROFILE_VERSION,
            source: Source { file_system: "ext\"4".to_owned(), volume_bytes: 1 << 30, used_bytes: 1 << 29 },
            files: Files {
                count: 3,
                bytes: 12_288,
                mapped: 3,
                unseen: 1,
                one_extent_share: 2.0 / 3.0,
                extents_per_file: 4.0 / 3.0,
                layout_score: 1.0,
                sizes: vec![(4096, 2, 8192), (5120, 1, 4096)],
                extents: vec![(1, 2), (2, 1)],
            },
            directories: Directories {
                count: 1,
                files: vec![(3, 1)],
                subdirectories: vec![(0, 1)],
                depths: vec![(0, 1)],
            },
            used_extents: Extents { count: 1, bytes: 4096, sizes: vec![(4096, 1, 4096)] },
            free_space: Some(Free {
                method: FreeSpaceMethod::Getfsmap,
                extents: 1,
                bytes: 5000,
                largest_bytes: 5000,
                median_bytes: 5000,
                sizes: vec![(4096, 1, 5000)],
            }),
        }
    }

    fn refused(text: &str) -> String {
        parse(Path::new("p.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = to_toml(&profile());
        assert_eq!(parse(Path::new("p.toml"), &text).unwrap(), profile(), "{text}");
        let without = Profile { free_space: None, ..profile() };
        assert_eq!(parse(Path::new("p.toml"), &to_toml(&without)).unwrap(), without);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let text = to_toml(&profile());
        let cases = [
            (
                text.replace("profile_version = 1", "profile_version = 2\nnew = 3"),
                "p.toml:2: profile_version = 2",
            ),
            (text.replace("profile_version = 1\n", ""), "p.toml:1: `profile_version` is missing"),
            (text.replace("used_bytes", "use_bytes"), "p.toml:8: unknown field `use_bytes`"),
            (text.replace("mapped = 3", "mapped = -3"), "p.toml:14: invalid value: integer `-3`"),
            (
                text.replace("layout_score = 1.0", "layout_score = nan"),
                "profile `p.toml`: files.layout_score = NaN",
            ),
            (text.replace("[5120, 1, 4096]", "[5120, 1]"), "p.toml:22: invalid length 2"),
            (text.replace("[5120, 1, 4096]", ""), "p.toml:22: extra comma"),
            (text.replace(", [5120, 1, 4096]", ""), "profile `p.toml`: files.sizes add up to 2"),
            ("slots = 3\n".to_owned(), "p.toml:1: `profile_version` is missing"),
        ];
        for (text, message) in cases {
            let error = refused(&text);
            assert!(error.starts_with(message), "{error}\n--- wanted {message}");
        }
    }

    #[test]
    fn nothing_of_a_file_that_is_no_profile_is_quoted() {
        for text in
            ["root:$6$secret:19000:0:99999:7:::\n", "secret = 3\n", "[secret]\npassword = \"secret\"\n"]
        {
            let error = refused(text);
            assert!(error.starts_with("p.toml:1: ") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_is_refused_wherever_it_ends() {
        let text = to_toml(&Profile { free_space: None, ..profile() });
        let last = text.trim_end().len();
        for end in 0..last {
            if text.is_char_boundary(end) {
                assert!(parse(Path::new("p.toml"), &text[..end]).is_err(), "{}", &text[..end]);
            }
        }
        assert!(parse(Path::new("p.toml"), &text[..last]).is_ok());
    }

    #[test]
    fn a_shipped_study_reads_no_profile_that_another_user_could_have_put_there() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        use rustix::process::geteuid;

        let folder = tempfile::tempdir().unwrap();
        let (name, text) = SHIPPED[0];
        let (workload, path) = (json!({ "like": name }), folder.path().join(name));
        let named = |of_shipped| named(folder.path(), &workload, of_shipped).unwrap();
        let (as_it_came, own) = (Named::Text(text.into()), Named::Text("own".into()));
        std::fs::create_dir(folder.path().join("profiles")).unwrap();
        assert_eq!(named(true), as_it_came);
        std::fs::write(&path, "own").unwrap();
        assert_eq!((named(true), named(false)), (own.clone(), Named::File(path.clone())));
        if geteuid().is_root() {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
            assert_eq!((named(true), named(false)), (as_it_came.clone(), Named::File(path.clone())));
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            assert_eq!(named(true), own);
            std::os::unix::fs::chown(path.parent().unwrap(), Some(65_534), None).unwrap();
            assert_eq!(named(true), as_it_came, "in a folder of another user's");
            std::os::unix::fs::chown(path.parent().unwrap(), Some(0), None).unwrap();
            std::fs::rename(&path, folder.path().join("other")).unwrap();
            symlink("../other", &path).unwrap();
            assert_eq!(named(true), as_it_came);
        }
        let mut embedded = workload.clone();
        embed(Some(&as_it_came), &mut embedded, &[]).unwrap();
        assert_eq!(embedded["like"]["profile"]["profile_version"], PROFILE_VERSION);
    }

    #[test]
    fn a_profile_that_is_not_there_is_a_hint_on_how_to_make_one() {
        let error = read(Path::new("/nonexistent/profile.toml")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/profile.toml"), "{error}");
        assert!(error.hint().contains("fsage profile"));
    }
}
