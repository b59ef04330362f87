//! Seeding the kernel's random numbers (`RNDADDENTROPY`, `linux/random.h`), for machines that are to do the same each time.

use std::os::fd::BorrowedFd;

use rustix::ioctl::opcode;

use crate::Result;
use crate::ioctl::Request;

/// Bytes of a seed: two keys of the kernel's generator.
pub const SEED: usize = 64;

/// `struct rand_pool_info` with room for a seed.
#[repr(C)]
struct Pool {
    /// Bits of entropy, and bytes that follow.
    header: [i32; 2],
    seed: [u8; SEED],
}

/// Its number has the size of the header alone.
const RNDADDENTROPY: Request<[i32; 2]> = Request::write("RNDADDENTROPY", b'R', 3);

const RNDRESEEDCRNG: Request<()> = Request::historic("RNDRESEEDCRNG", opcode::none(b'R', 7));

/// Seeds the generator behind `/dev/random`, which `fd` is, with bytes that count as wholly random: nobody waits for random
/// numbers after that.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn seed(fd: BorrowedFd<'_>, seed: [u8; SEED]) -> Result<()> {
    let mut pool = Pool { header: [512, 64], seed };
    // SAFETY: the kernel reads the header and the 64 bytes that it declares, which follow it without a gap.
    unsafe { RNDADDENTROPY.call(fd, (&raw mut pool).cast()) }?;
    Ok(())
}

/// Has the generator behind `/dev/random`, which `fd` is, use what it was seeded with at once: it does so once a minute by itself.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`; `ENODATA` if it was never seeded.
pub fn renew(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: this request has no argument.
    unsafe { RNDRESEEDCRNG.call_value(fd, 0) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_seed_is_taken_from_root_only() {
        let device = File::options().write(true).open("/dev/random").unwrap();
        let taken = seed(device.as_fd(), [7; SEED]);
        assert_eq!(taken.is_ok(), rustix::process::geteuid().is_root(), "{taken:?}");
        let renewed = renew(device.as_fd());
        assert_eq!(renewed.is_ok(), rustix::process::geteuid().is_root(), "{renewed:?}");
    }
}
