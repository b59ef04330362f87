//! Names of the kernel's error numbers (`asm-generic/errno.h`; the same on x86-64, aarch64 and riscv64).

/// "ENOSPC" for 28; "EUNKNOWN" for numbers that the kernel does not return to user space, 0 among them.
#[must_use]
pub fn name(number: i32) -> &'static str {
    usize::try_from(number).ok().and_then(|number| NAMES.get(number)).copied().unwrap_or(UNKNOWN)
}

/// A volume is full.
pub const ENOSPC: i32 = 28;

/// What a system call answers that finds no room: the volume is full, or a quota is used up (`EDQUOT`).
pub const OUT_OF_SPACE: [i32; 2] = [ENOSPC, 122];

/// Whether a system call found no room.
#[must_use]
pub const fn is_out_of_space(number: i32) -> bool {
    number == OUT_OF_SPACE[0] || number == OUT_OF_SPACE[1]
}

const UNKNOWN: &str = "EUNKNOWN";

/// Indexed by number.
#[rustfmt::skip]
const NAMES: [&str; 134] = [
    UNKNOWN, "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "ENOEXEC", "EBADF", "ECHILD",
    "EAGAIN", "ENOMEM", "EACCES", "EFAULT", "ENOTBLK", "EBUSY", "EEXIST", "EXDEV", "ENODEV", "ENOTDIR",
    "EISDIR", "EINVAL", "ENFILE", "EMFILE", "ENOTTY", "ETXTBSY", "EFBIG", "ENOSPC", "ESPIPE", "EROFS",
    "EMLINK", "EPIPE", "EDOM", "ERANGE", "EDEADLK", "ENAMETOOLONG", "ENOLCK", "ENOSYS", "ENOTEMPTY",
    "ELOOP", UNKNOWN, "ENOMSG", "EIDRM", "ECHRNG", "EL2NSYNC", "EL3HLT", "EL3RST", "ELNRNG", "EUNATCH",
    "ENOCSI", "EL2HLT", "EBADE", "EBADR", "EXFULL", "ENOANO", "EBADRQC", "EBADSLT", UNKNOWN, "EBFONT",
    "ENOSTR", "ENODATA", "ETIME", "ENOSR", "ENONET", "ENOPKG", "EREMOTE", "ENOLINK", "EADV", "ESRMNT",
    "ECOMM", "EPROTO", "EMULTIHOP", "EDOTDOT", "EBADMSG", "EOVERFLOW", "ENOTUNIQ", "EBADFD", "EREMCHG",
    "ELIBACC", "ELIBBAD", "ELIBSCN", "ELIBMAX", "ELIBEXEC", "EILSEQ", "ERESTART", "ESTRPIPE", "EUSERS",
    "ENOTSOCK", "EDESTADDRREQ", "EMSGSIZE", "EPROTOTYPE", "ENOPROTOOPT", "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT", "EOPNOTSUPP", "EPFNOSUPPORT", "EAFNOSUPPORT", "EADDRINUSE", "EADDRNOTAVAIL",
    "ENETDOWN", "ENETUNREACH", "ENETRESET", "ECONNABORTED", "ECONNRESET", "ENOBUFS", "EISCONN",
    "ENOTCONN", "ESHUTDOWN", "ETOOMANYREFS", "ETIMEDOUT", "ECONNREFUSED", "EHOSTDOWN", "EHOSTUNREACH",
    "EALREADY", "EINPROGRESS", "ESTALE", "EUCLEAN", "ENOTNAM", "ENAVAIL", "EISNAM", "EREMOTEIO",
    "EDQUOT", "ENOMEDIUM", "EMEDIUMTYPE", "ECANCELED", "ENOKEY", "EKEYEXPIRED", "EKEYREVOKED",
    "EKEYREJECTED", "EOWNERDEAD", "ENOTRECOVERABLE", "ERFKILL", "EHWPOISON",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_the_c_library() {
        let known = [
            (libc::EPERM, "EPERM"),
            (libc::EAGAIN, "EAGAIN"),
            (libc::ENOSPC, "ENOSPC"),
            (libc::ENAMETOOLONG, "ENAMETOOLONG"),
            (libc::EOPNOTSUPP, "EOPNOTSUPP"),
            (libc::ESTALE, "ESTALE"),
            (libc::EUCLEAN, "EUCLEAN"),
            (libc::EDQUOT, "EDQUOT"),
            (libc::EHWPOISON, "EHWPOISON"),
        ];
        for (number, expected) in known {
            assert_eq!(name(number), expected);
        }
        assert_eq!(OUT_OF_SPACE, [libc::ENOSPC, libc::EDQUOT]);
        assert!(OUT_OF_SPACE.into_iter().all(is_out_of_space) && !is_out_of_space(0));
        assert_eq!([name(0), name(-1), name(41), name(134), name(i32::MIN)], [UNKNOWN; 5]);
    }
}
