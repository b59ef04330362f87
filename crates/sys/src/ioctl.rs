//! Ioctl numbers bound to the type of their argument, so that size and direction cannot disagree with it
//! (`asm-generic/ioctl.h`).

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};

use crate::{Error, Result};

/// An ioctl whose argument points to a `T`, possibly followed by what the `T` declares.
pub(crate) struct Request<T> {
    /// Name in the kernel's headers.
    pub name: &'static str,
    number: Opcode,
    argument: PhantomData<fn(T)>,
}

impl<T> Request<T> {
    /// `_IOWR(group, number, T)`.
    pub const fn read_write(name: &'static str, group: u8, number: u8) -> Self {
        Self { name, number: opcode::read_write::<T>(group, number), argument: PhantomData }
    }

    /// `_IOR(group, number, T)`.
    pub const fn read(name: &'static str, group: u8, number: u8) -> Self {
        Self { name, number: opcode::read::<T>(group, number), argument: PhantomData }
    }

    /// `_IOW(group, number, T)`.
    pub const fn write(name: &'static str, group: u8, number: u8) -> Self {
        Self { name, number: opcode::write::<T>(group, number), argument: PhantomData }
    }

    /// A number from before numbers carried sizes.
    pub const fn historic(name: &'static str, number: Opcode) -> Self {
        Self { name, number, argument: PhantomData }
    }

    /// The call itself.
    ///
    /// # Safety
    /// `argument` must be aligned for and point to a valid `T`, followed by all the room that this `T` tells
    /// the kernel it may use; and the kernel's argument type for this number must be `T`.
    pub unsafe fn call(&self, fd: BorrowedFd<'_>, argument: *mut T) -> Result<c_int> {
        let call = Call { number: self.number, pointer: argument.cast() };
        // SAFETY: the caller vouches for the pointer and for the number's argument type.
        unsafe { rustix::ioctl::ioctl(fd, call) }.map_err(Error::call(self.name))
    }

    /// The call without an argument to point to, or with a plain number in its place.
    ///
    /// # Safety
    /// The kernel must not take the argument of this number for a pointer.
    pub unsafe fn call_value(&self, fd: BorrowedFd<'_>, value: usize) -> Result<c_int> {
        let call = Call { number: self.number, pointer: std::ptr::without_provenance_mut(value) };
        // SAFETY: the caller vouches that the kernel does not follow the value.
        unsafe { rustix::ioctl::ioctl(fd, call) }.map_err(Error::call(self.name))
    }
}

struct Call {
    number: Opcode,
    pointer: *mut c_void,
}

// SAFETY: the opcode and pointer are handed through; who makes a `Call` vouches for both (see
// `Request::call`).
unsafe impl Ioctl for Call {
    type Output = c_int;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.number
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.pointer
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<c_int> {
        Ok(out)
    }
}
