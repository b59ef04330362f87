//! Whose word the owners of files are.
//!
//! On most file systems the kernel says who owns a file, and nobody but that user and root changes it. On a
//! FUSE or network mount a server says so, and may say something else at the next look; on a removable medium
//! it is what somebody wrote elsewhere.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{self, AtFlags, StatVfsMountFlags, StatxFlags};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::mount::descriptor_path;

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

/// Who decides what is on a file system, and who owns it there, where that is not this host's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// The server of a FUSE or network mount: it may show something else at the next look.
    Server,
    /// The user who brought the medium and may exchange it for another.
    Medium,
}

/// Who, not trusted, decides what is on the file system of an open file: any network server, the FUSE server of
/// a user who is not trusted ([`is_trusted`]), the user who had a medium mounted.
///
/// # Errors
/// The kernel does not say.
pub fn keeper(file: BorrowedFd<'_>) -> io::Result<Option<Keeper>> {
    let (kind, device) = (kind_of(file)?, fs::fstat(file)?.st_dev);
    let served = OF_OTHERS.contains(&kind);
    let nosuid = fs::fstatvfs(file)?.f_flag.contains(StatVfsMountFlags::NOSUID);
    if !served && !nosuid || OF_THE_KERNEL.contains(&kind) || is_on_root(device)? {
        return Ok(None);
    }
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    if served && (kind != FUSE || !server_of(&table, device).is_some_and(is_trusted)) {
        return Ok(Some(Keeper::Server));
    }
    let mount = fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    if mount.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        // Linux before 5.8 has no number.
        return Ok(None);
    }
    let by_users = std::fs::read_to_string("/run/mount/utab").unwrap_or_default();
    Ok(is_mounted_by_user(&table, &by_users, mount.stx_mnt_id).then_some(Keeper::Medium))
}

/// Whether the mount with the number `id` in mountinfo (`table`) was made for a user other than root: it is where
/// udisks puts media, or `user=` or `uhelper=` is written down for it in libmount's table `by_users` (mount(8)).
fn is_mounted_by_user(table: &str, by_users: &str, id: u64) -> bool {
    let number = id.to_string();
    let mut lines = table.lines().map(|line| line.split(' '));
    let Some(mut words) = lines.find(|words| words.clone().next() == Some(&number)) else { return true };
    let point = words.nth(4).unwrap_or_default();
    let of_point = |line: &&str| line.split(' ').any(|word| word.strip_prefix("TARGET=") == Some(point));
    let names_user = |line: &str| {
        let options =
            line.split(' ').filter_map(|word| word.strip_prefix("OPTS=")).flat_map(|it| it.split(','));
        options.into_iter().any(|option| option.starts_with("user=") || option.starts_with("uhelper="))
    };
    ["/media/", "/run/media/"].iter().any(|folder| point.starts_with(folder))
        || by_users.lines().filter(of_point).any(names_user)
}

/// Whether the access control list of an open file or folder, where it has one, lets anyone write who is not
/// trusted. Its mask is what the mode shows as the group's bits: without write permission there nobody on the list
/// has it.
///
/// # Errors
/// The list cannot be read.
pub(crate) fn has_listed_writers(file: BorrowedFd<'_>) -> io::Result<bool> {
    // More than the kernel lets a list of ext4 or xfs have.
    let mut list = vec![0; 64 << 10];
    // By its path, because descriptors that only name a file have no attributes.
    match fs::getxattr(descriptor_path(file), "system.posix_acl_access", &mut list) {
        Ok(length) => Ok(lists_writer(&list[..length])),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// `struct posix_acl_xattr_header` and entries (linux/posix_acl_xattr.h).
fn lists_writer(list: &[u8]) -> bool {
    const USER: u16 = 2;
    const GROUP: u16 = 8;
    const WRITE: u16 = 2;
    let entries = list.get(4..).unwrap_or_default().as_chunks::<8>().0;
    entries.iter().any(|&[a, b, c, d, e, f, g, h]| {
        let (tag, permissions) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let id = u32::from_le_bytes([e, f, g, h]);
        let trusted = match tag {
            USER => is_trusted(id),
            GROUP => is_trusted_group(id),
            _ => true,
        };
        permissions & WRITE != 0 && !trusted
    })
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
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::path::Path;

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
    fn file_systems_of_this_host_are_kept_by_its_kernel() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/proc/self"), Path::new("/dev")] {
            assert_eq!(keeper(File::open(path).unwrap().as_fd()).unwrap(), None, "{}", path.display());
        }
    }

    #[test]
    fn a_medium_that_a_user_had_mounted_is_that_users() {
        let table = "30 1 8:1 / /media/ann/A\\040B rw,nosuid - ext4 /dev/sdb1 rw\n\
                     31 1 8:2 / /run/media/ann/C rw,nosuid - ext4 /dev/sdb2 rw\n\
                     32 1 8:3 / /stick rw,nosuid - ext4 /dev/sdb3 rw\n\
                     33 1 8:4 / /home rw,nosuid - ext4 /dev/sda3 rw\n\
                     34 1 8:5 / /other rw,nosuid - ext4 /dev/sdb5 rw\n";
        let by_users = "SRC=/dev/sdb3 TARGET=/stick ROOT=/ OPTS=user=ann\n\
                        SRC=/dev/sda3 TARGET=/home ROOT=/ OPTS=_netdev\n\
                        SRC=/dev/sdb5 TARGET=/other ROOT=/ OPTS=x,uhelper=udisks2\n";
        let by_user = |id| is_mounted_by_user(table, by_users, id);
        // The last is in no table that we see.
        assert_eq!([30, 31, 32, 33, 34, 35].map(by_user), [true, true, true, false, true, true]);
    }

    #[test]
    fn who_may_write_by_a_list_is_found() {
        let entry = |tag: u16, permissions: u16, id: u32| {
            [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let list = |named: &[u8]| [&[2, 0, 0, 0][..], &entry(1, 7, !0), named, &entry(16, 7, !0)].concat();
        for (tag, permissions, id, expected) in [
            (2, 7, 65_534, true),
            (8, 2, 65_534, true),
            (2, 5, 65_534, false),
            (2, 7, 0, false),
            (8, 7, 0, false),
            (4, 7, !0, false),
        ] {
            assert_eq!(
                lists_writer(&list(&entry(tag, permissions, id))),
                expected,
                "{tag} {permissions} {id}"
            );
        }
        assert!(!lists_writer(&[]) && !lists_writer(&[2, 0, 0, 0, 2, 0]));
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_listed_writers(File::open(folder.path()).unwrap().as_fd()).unwrap());
    }
}
