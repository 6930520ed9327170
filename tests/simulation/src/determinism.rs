//! Deterministic randomness and time, from a seed and the simulated clock.
//!
//! Libraries draw random numbers and read clocks in many places: hash map keys, ids, jitter, deadlines. All of them
//! call the C library. This program defines two of its functions, `getrandom` and `clock_gettime`, which the linker
//! prefers: on a simulation's thread they answer from the seed and the simulated clock, on any other thread from the
//! kernel.
//!
//! Architecture invariant: this is the only test code with `unsafe`. Interposing a C function needs it: the exported
//! symbol (`no_mangle`), writing through the caller's pointers, and the system calls of the other threads.

#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
    slice,
    time::{Duration, Instant},
};

use nix::libc;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::runtime::Handle;

/// The wall clock at the start of a simulation: 2026-01-01.
const BEGINNING: Duration = Duration::from_secs(1_767_225_600);

/// The monotonic clocks at the start. Not zero, so that programs can subtract from it.
const UPTIME: Duration = Duration::from_secs(1_000_000);

thread_local! {
    static RANDOM: RefCell<Option<StdRng>> = const { RefCell::new(None) };
    static TIME: Cell<Option<Time>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Time {
    /// The simulated time at the last whole step.
    steps: Duration,
    /// The start of the simulation on the runtime's clock.
    began: Option<Instant>,
    /// The last reading of the wall clock. No two readings are equal, so that events have a total order.
    last_reading: Duration,
}

/// Makes this thread deterministic for good.
pub(crate) fn install(seed: u64) {
    RANDOM.with_borrow_mut(|random| *random = Some(StdRng::seed_from_u64(seed)));
    let time = Time { steps: Duration::ZERO, began: None, last_reading: BEGINNING };
    TIME.set(Some(time));
    TIME.set(Some(Time { began: Some(Instant::now()), ..time }));
}

/// Sets the simulated time.
pub(crate) fn advance(to: Duration) {
    TIME.set(TIME.get().map(|time| Time { steps: to, ..time }));
}

impl Time {
    /// Returns the simulated time; within a step, by the clock of the current runtime.
    fn elapsed(&self) -> Duration {
        match self.began {
            Some(began) if Handle::try_current().is_ok() => tokio::time::Instant::now().into_std() - began,
            _ => self.steps,
        }
    }
}

/// Reads a simulated clock. `None` if the simulation does not control this clock or thread.
fn read(clock: libc::clockid_t) -> Option<Duration> {
    let time = TIME.try_with(Cell::get).ok()??;
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => {
            let now = (BEGINNING + time.elapsed()).max(time.last_reading + Duration::from_micros(1));
            TIME.set(Some(Time { last_reading: now, ..time }));
            Some(now)
        }
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_BOOTTIME => {
            Some(UPTIME + time.elapsed())
        }
        _ => None,
    }
}

/// Reads a clock, as `man 3 clock_gettime` says.
///
/// # Safety
///
/// `into` must be valid for writes, as for the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, into: *mut libc::timespec) -> libc::c_int {
    let Some(now) = read(clock) else {
        // SAFETY: the caller's contract.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, into) } as libc::c_int;
    };
    let now = libc::timespec { tv_sec: now.as_secs().cast_signed(), tv_nsec: now.subsec_nanos().into() };
    // SAFETY: the caller's contract.
    unsafe { into.write(now) };
    0
}

/// Draws random bytes, as `man 2 getrandom` says.
///
/// # Safety
///
/// `into` must be valid for writes of `length` bytes, as for the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(into: *mut c_void, length: libc::size_t, flags: libc::c_uint) -> libc::ssize_t {
    let drawn = RANDOM.try_with(|random| {
        let mut random = random.borrow_mut();
        let random = random.as_mut()?;
        if length > 0 {
            // SAFETY: the caller's contract.
            random.fill_bytes(unsafe { slice::from_raw_parts_mut(into.cast(), length) });
        }
        Some(length.cast_signed())
    });
    match drawn {
        Ok(Some(drawn)) => drawn,
        // SAFETY: the caller's contract.
        _ => unsafe { libc::syscall(libc::SYS_getrandom, into, length, flags) as libc::ssize_t },
    }
}
