//! Chores of the repository: man pages and shell completions, from the one definition of the command line;
//! the picture of crates and modules, from the source; the page of study files, from their schema.
//!
//! `cargo run -p xtask -- man DIR`, `completions DIR`, `rooms FILE.svg` and `study FILE`.

#![forbid(unsafe_code)]

#[cfg(test)]
mod evidence;
#[cfg(test)]
mod links;
mod structure;
mod study;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

/// Chores of the repository.
#[derive(Debug, Parser)]
struct Chores {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Write one man page per command
    Man {
        /// Folder
        #[arg(default_value = "target/man")]
        directory: PathBuf,
    },
    /// Write the completions of bash, zsh and fish
    Completions {
        /// Folder
        #[arg(default_value = "target/completions")]
        directory: PathBuf,
    },
    /// Write the page that lists every key of a study file
    Study {
        /// File
        #[arg(default_value = "docs/study.md")]
        file: PathBuf,
    },
    /// Draw crates and modules
    Rooms {
        /// File
        #[arg(default_value = "docs/images/rooms.svg")]
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let (directory, result) = match Chores::parse().chore {
        Chore::Man { directory } => (directory.clone(), man(&directory)),
        Chore::Completions { directory } => (directory.clone(), completions(&directory)),
        Chore::Rooms { file } => (file.clone(), rooms(&file)),
        Chore::Study { file } => (file.clone(), study(&file)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("error: cannot write to {}: {error}\n", directory.display());
            let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn man(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (name, page) in pages()? {
        std::fs::write(directory.join(name), page)?;
    }
    Ok(())
}

fn rooms(file: &Path) -> io::Result<()> {
    let workspace = structure::read(structure::root()).map_err(io::Error::other)?;
    std::fs::write(file, structure::picture(&workspace))
}

fn study(file: &Path) -> io::Result<()> {
    std::fs::write(file, study::page().map_err(io::Error::other)?)
}

fn completions(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut fsage::command(), "fsage", directory)?;
    }
    Ok(())
}

/// File name and roff of every page: `fsage.1`, `fsage-run.1`, …
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    page(built(), "fsage", &mut pages)?;
    Ok(pages)
}

/// The command with global flags spread to every subcommand.
fn built() -> clap::Command {
    let mut command = fsage::command();
    command.build();
    command
}

fn page(command: clap::Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        page(sub.clone(), &format!("{name}-{}", sub.get_name()), pages)?;
    }
    let command = command.name(name.to_owned()).display_name(name.to_owned());
    let mut roff = Vec::new();
    clap_mangen::Man::new(command).title(name.to_uppercase()).render(&mut roff)?;
    pages.push((format!("{name}.1"), roff));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command with the name of its page.
    fn commands() -> Vec<(String, clap::Command)> {
        fn walk(command: &clap::Command, name: &str, found: &mut Vec<(String, clap::Command)>) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                walk(sub, &format!("{name}-{}", sub.get_name()), found);
            }
            found.push((format!("{name}.1"), command.clone()));
        }
        let mut found = Vec::new();
        walk(&built(), "fsage", &mut found);
        found
    }

    /// Roff without its escapes.
    fn plain(roff: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(roff).into_owned();
        for (escape, plain) in
            [("\\*(Aq", "'"), ("\\(aq", "'"), ("\\-", "-"), ("\\fB", ""), ("\\fI", ""), ("\\fR", "")]
        {
            text = text.replace(escape, plain);
        }
        text
    }

    #[test]
    fn every_flag_has_help_and_stands_in_its_man_page() {
        let pages = pages().unwrap();
        let commands = commands();
        assert!(commands.len() >= 13, "{} commands", commands.len());
        for (name, command) in &commands {
            let page = plain(&pages.iter().find(|(page, _)| page == name).unwrap().1);
            assert!(command.get_about().is_some(), "{name} has no description");
            for argument in command.get_arguments() {
                let id = argument.get_id();
                let help =
                    argument.get_help().unwrap_or_else(|| panic!("{name}: {id} has no help")).to_string();
                assert!(!help.is_empty(), "{name}: {id} has empty help");
                let shown = match argument.get_long() {
                    Some(long) => format!("--{long}"),
                    None => argument.get_value_names().unwrap()[0].to_string(),
                };
                assert!(page.contains(&shown), "{name}: {shown} is not in the man page");
            }
        }
    }

    #[test]
    fn man_page_and_help_say_the_same() {
        let pages = pages().unwrap();
        for (name, mut command) in commands() {
            let page = plain(&pages.iter().find(|(page, _)| *page == name).unwrap().1);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
            let page = words(&page.replace("\n.br\n", "\n"));
            let help = words(&command.render_long_help().to_string());
            for argument in command.get_arguments().filter(|argument| argument.get_long() != Some("help")) {
                let text = words(&argument.get_help().map(ToString::to_string).unwrap_or_default());
                assert!(help.contains(&text), "{name}: `{text}` is not in --help");
                assert!(page.contains(&text), "{name}: `{text}` is not in the man page");
            }
        }
    }

    #[test]
    fn completions_know_every_command() {
        let directory = std::env::temp_dir().join(format!("fsage-completions-{}", std::process::id()));
        completions(&directory).unwrap();
        for file in ["fsage.bash", "_fsage", "fsage.fish"] {
            let text = std::fs::read_to_string(directory.join(file)).unwrap();
            for command in ["run", "scan", "doctor", "--json"] {
                assert!(text.contains(command.trim_start_matches("--")), "{file} lacks {command}");
            }
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
