//! Programs that work on a mounted file system as a whole: e4defrag, xfs_fsr, `btrfs filesystem defragment` and
//! `btrfs balance`. Which of them suits what, and its arguments, is a fact about the file system
//! ([`fsage_model::filesystem`]).
//!
//! They are given the mount point and nothing else: xfs_fsr(8) keeps its state in /var/tmp only when it is given no file
//! system. It makes the folder `.fsr` in the root of the volume and works in one that is there, link or not, which is
//! why the volume must have nothing of that name ([`fsage_model::filesystem::MountedProgram::own_folder`]). Exit status: 0 when they are
//! through. e4defrag(8) ends with 0 also when there was no room for some of the files; what it says at its end
//! tells how many it did.

use std::path::Path;
use std::time::Duration;

use fsage_engine::host::program;
use fsage_model::filesystem::MountedProgram;

use super::{Invocation, Output};

/// Longest that one may run where nothing else is said.
pub const TIME_LIMIT: Duration = Duration::from_secs(12 * 3600);

/// The program on what is mounted at `point`, for `limit` at most.
#[must_use]
pub fn invoke(program: MountedProgram, point: &Path, limit: Duration) -> Invocation {
    let package = program::named(program.name).package;
    let mut argv = vec![program.name.to_owned()];
    argv.extend(program.arguments.iter().map(|argument| (*argument).to_owned()));
    argv.push(point.display().to_string());
    Invocation::new(argv, package.to_owned(), limit)
}

/// Whether it ended because the volume had no room.
#[must_use]
pub fn lacked_room(output: &Output) -> bool {
    const NO_ROOM: &str = "No space left on device";
    output.status != 0 && (output.stderr.contains(NO_ROOM) || output.stdout.contains(NO_ROOM))
}

#[cfg(test)]
mod tests {
    use fsage_model::filesystem::ALL;

    use super::*;

    #[test]
    fn each_is_a_program_with_a_package_and_gets_the_mount_point_last() {
        let programs: Vec<_> =
            ALL.iter().flat_map(|facts| facts.defragment.iter().chain(&facts.balance)).collect();
        assert_eq!(programs.len(), 4);
        for program in programs {
            let invocation = invoke(*program, Path::new("/mnt/x"), TIME_LIMIT);
            assert_eq!(invocation.to_string(), format!("{program} /mnt/x"));
            assert!(!invocation.package().is_empty(), "{program}");
        }
    }

    #[test]
    fn only_a_failure_for_lack_of_space_is_one() {
        let output = |status, stderr: &str| Output {
            status,
            stdout: String::new(),
            stderr: stderr.to_owned(),
            elapsed: Duration::ZERO,
        };
        let full = "ERROR: error during balancing '/mnt': No space left on device";
        assert!(lacked_room(&output(1, full)));
        assert!(!lacked_room(&output(0, full)) && !lacked_room(&output(1, "ERROR: not a btrfs filesystem")));
    }
}
