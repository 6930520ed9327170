//! The table of processes on macOS, which has no files for it.
//!
//! Architecture invariant: the calls of the C library here are unsafe code, of which the product has little; see
//! `before_exec`. Each call fills a buffer of a size that it also gets, and keeps no pointer to it.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_int, c_void},
    mem::{MaybeUninit, size_of},
    ptr,
};

use nix::libc;

use super::{ProcessEntry, environment_in};

/// How many more processes than at the first count a list has room for.
const MORE_PIDS: usize = 64;

/// The most that a process can be started with, arguments and environment together: the value of `kern.argmax`.
const ARGUMENT_BYTES_MAX: usize = 1 << 20;

/// What names the boot.
const BOOT: &CStr = c"kern.bootsessionuuid";

pub(super) fn entry(pid: i32) -> Option<ProcessEntry> {
    let mut found = MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    let bytes = c_int::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    // Also finds a process that has ended and has not been waited for.
    let with_zombies = 1;
    // SAFETY: the kernel writes at most `bytes` into `found`, which has that size.
    let written =
        unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, with_zombies, found.as_mut_ptr().cast(), bytes) };
    if written != bytes {
        return None;
    }
    // SAFETY: the structure consists of numbers, for which all bits are valid; it was zeroed, and then written.
    let found = unsafe { found.assume_init() };
    Some(ProcessEntry {
        pid: found.pbi_pid.cast_signed(),
        parent: found.pbi_ppid.cast_signed(),
        group: found.pbi_pgid.cast_signed(),
        started: found.pbi_start_tvsec * 1_000_000 + found.pbi_start_tvusec,
        is_zombie: found.pbi_status == libc::SZOMB,
    })
}

pub(super) fn pids() -> Vec<i32> {
    // SAFETY: the kernel writes at most `bytes` at `list`.
    listed(|list, bytes| unsafe { libc::proc_listallpids(list, bytes) })
}

pub(super) fn children(parent: i32) -> Option<Vec<i32>> {
    // SAFETY: the kernel writes at most `bytes` at `list`.
    Some(listed(|list, bytes| unsafe { libc::proc_listchildpids(parent, list, bytes) }))
}

/// Returns a list of process ids. `fill` writes them into a buffer of a number of bytes, and returns how many it wrote;
/// without a buffer, how many there could be.
fn listed(fill: impl Fn(*mut c_void, c_int) -> c_int) -> Vec<i32> {
    let room = usize::try_from(fill(ptr::null_mut(), 0)).unwrap_or_default() + MORE_PIDS;
    let mut pids: Vec<i32> = vec![0; room];
    let bytes = c_int::try_from(room * size_of::<i32>()).unwrap_or(c_int::MAX);
    let written = usize::try_from(fill(pids.as_mut_ptr().cast(), bytes)).unwrap_or_default();
    pids.truncate(written);
    pids
}

/// The kernel keeps the environment of a program of the system, such as `/bin/sh`, to itself.
pub(super) fn environment(pid: i32) -> Option<Vec<u8>> {
    let mut name = [libc::CTL_KERN, libc::KERN_PROCARGS2, pid];
    let mut started_with = vec![0_u8; ARGUMENT_BYTES_MAX];
    let mut bytes = started_with.len();
    // SAFETY: the kernel reads the three numbers of `name`, and writes at most `bytes` into `started_with`, and how many
    // it wrote into `bytes`.
    let result = unsafe {
        libc::sysctl(name.as_mut_ptr(), 3, started_with.as_mut_ptr().cast(), &raw mut bytes, ptr::null_mut(), 0)
    };
    if result != 0 {
        return None;
    }
    environment_in(started_with.get(..bytes)?).map(<[u8]>::to_vec)
}

pub(super) fn boot() -> Option<String> {
    // A UUID has 36 characters.
    let mut text = [0_u8; 64];
    let mut bytes = text.len();
    // SAFETY: `BOOT` ends with a NUL byte. The kernel writes at most `bytes` into `text`, and how many it wrote into
    // `bytes`.
    let result =
        unsafe { libc::sysctlbyname(BOOT.as_ptr(), text.as_mut_ptr().cast(), &raw mut bytes, ptr::null_mut(), 0) };
    if result != 0 {
        return None;
    }
    Some(CStr::from_bytes_until_nul(&text).ok()?.to_str().ok()?.to_owned())
}
