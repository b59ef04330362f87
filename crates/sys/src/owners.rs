//! Whose word the owners of files are.
//!
//! On most file systems the kernel says who owns a file, and nobody but that user and root changes it. On a
//! FUSE or network mount a server says so, and may say something else at the next look; on a removable medium
//! it is what somebody wrote elsewhere.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{self, StatVfsMountFlags};
use rustix::process::{getegid, geteuid};

/// Users whose files root takes for its own: root, and who called `sudo`.
#[must_use]
pub fn is_trusted(user: u32) -> bool {
    let caller = || std::env::var("SUDO_UID").ok().and_then(|id| id.parse::<u32>().ok());
    user == 0 || user == geteuid().as_raw() || caller() == Some(user)
}

/// Groups whose members root trusts to write where it writes.
pub(crate) fn is_trusted_group(group: u32) -> bool {
    let caller = || std::env::var("SUDO_GID").ok().and_then(|id| id.parse::<u32>().ok());
    group == 0 || group == getegid().as_raw() || caller() == Some(group)
}

/// `FUSE_SUPER_MAGIC` (linux/magic.h), also of virtiofs and of fuseblk.
const FUSE: u64 = 0x6573_5546;

/// File systems whose contents a server decides. linux/magic.h, where it has them: FUSE, NFS, CIFS, SMB2, 9P,
/// AFS (two clients), Ceph, Coda, vboxsf; Lustre.
const OF_OTHERS: [u64; 11] = [
    FUSE,
    0x6969,
    0xff53_4d42,
    0xfe53_4d42,
    0x0102_1997,
    0x5346_414f,
    0x6b41_4653,
    0x00c3_6400,
    0x7375_7245,
    0x786f_4256,
    0x0bd0_0bd0,
];

/// File systems whose contents the kernel itself makes or keeps in memory. linux/magic.h: ramfs and devtmpfs,
/// tmpfs, proc, sysfs, devpts, cgroup, cgroup2, configfs, securityfs.
const OF_THE_KERNEL: [u64; 9] = [
    0x8584_58f6,
    0x0102_1994,
    0x9fa0,
    0x6265_6572,
    0x1cd1,
    0x0027_e0eb,
    0x6367_7270,
    0x6265_6570,
    0x7363_6673,
];

/// The kind of the file system of an open file.
fn kind_of(file: BorrowedFd<'_>) -> io::Result<u64> {
    // Signed 32 bits on some architectures, filled up with ones.
    Ok(fs::fstatfs(file)?.f_type.cast_unsigned() & 0xffff_ffff)
}

/// Whether a file is on the file system of `/`: whatever that is on, nothing works without believing it.
fn is_on_root(device: u64) -> io::Result<bool> {
    Ok(fs::stat("/")?.st_dev == device)
}

/// Whether links on the file system of an open file are those of the owners it names. On a removable medium, a
/// FUSE or a network mount they are what somebody else wrote. Such mounts are made `nosuid`, as
/// `udisksctl mount` does; so are those whose contents the kernel itself makes, and these are trusted.
///
/// # Errors
/// The kernel does not say.
pub(crate) fn has_trusted_owners(file: BorrowedFd<'_>) -> io::Result<bool> {
    if is_on_root(fs::fstat(file)?.st_dev)? {
        return Ok(true);
    }
    let kind = kind_of(file)?;
    let nosuid = fs::fstatvfs(file)?.f_flag.contains(StatVfsMountFlags::NOSUID);
    Ok(OF_THE_KERNEL.contains(&kind) || !nosuid && !OF_OTHERS.contains(&kind))
}

/// Whether what is on the file system of an open file is decided by a server that is not trusted: any network
/// server, and the FUSE server of a user who is not trusted ([`is_trusted`]).
///
/// # Errors
/// The kernel does not say.
pub fn is_served_by_others(file: BorrowedFd<'_>) -> io::Result<bool> {
    let kind = kind_of(file)?;
    if !OF_OTHERS.contains(&kind) {
        return Ok(false);
    }
    let device = fs::fstat(file)?.st_dev;
    if is_on_root(device)? {
        return Ok(false);
    }
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    Ok(kind != FUSE || !server_of(&table, device).is_some_and(is_trusted))
}

/// The user whose program serves the FUSE file system with the number `device`, as mountinfo has it
/// (proc_pid_mountinfo(5)): root for virtiofs, which the virtual machine's own host serves. Nothing when no
/// mount of it is in sight.
fn server_of(table: &str, device: u64) -> Option<u32> {
    let number = format!("{}:{}", fs::major(device), fs::minor(device));
    let line = table.lines().find(|line| line.split(' ').nth(2) == Some(&number))?;
    let mut words = line.split(' ').skip_while(|word| *word != "-").skip(1);
    let (kind, options) = (words.next()?, words.nth(1)?);
    if kind == "virtiofs" {
        return Some(0);
    }
    options.split(',').find_map(|option| option.strip_prefix("user_id="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_a_fuse_mount_is_its_user() {
        let table = "22 1 0:20 / / rw - 9p root rw,user_id=7\n\
                     36 22 0:40 / /a\\040- rw,nosuid shared:3 - fuse.sshfs user_id=0,\\040x rw,user_id=1000,group_id=0\n\
                     37 22 0:41 / /b rw - fuse x rw,user_id=0,group_id=0,allow_other\n\
                     38 22 0:42 / /c rw - virtiofs share rw\n\
                     39 22 0:43 / /d rw - fuse x rw\n";
        let server = |minor| server_of(table, fs::makedev(0, minor));
        assert_eq!([40, 41, 42, 43, 44].map(server), [Some(1000), Some(0), Some(0), None, None]);
    }

    #[test]
    fn file_systems_of_this_host_are_not_served_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let open = std::fs::File::open(folder.path()).unwrap();
        assert!(!is_served_by_others(std::os::fd::AsFd::as_fd(&open)).unwrap());
        let proc = std::fs::File::open("/proc/self").unwrap();
        assert!(!is_served_by_others(std::os::fd::AsFd::as_fd(&proc)).unwrap());
    }
}
