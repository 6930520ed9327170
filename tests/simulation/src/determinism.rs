//! What a program takes for chance and time, decided by a seed and by the simulation.
//!
//! Libraries draw random numbers from the system and read its clocks in many places: keys of hash maps, ids, jitter, deadlines.
//! All of them ask the C library. This program has these two functions of it itself, so that its own are called instead: on
//! the thread of a simulation they answer by the seed and by simulated time, on any other as the system would.

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

/// What the clock of the day says when a simulation begins: 2026-01-01.
const BEGINNING: Duration = Duration::from_secs(1_767_225_600);

/// What the other clocks say then. Not zero, so that what is long ago can be reckoned.
const UPTIME: Duration = Duration::from_secs(1_000_000);

thread_local! {
    static CHANCE: RefCell<Option<StdRng>> = const { RefCell::new(None) };
    static TIME: Cell<Option<Time>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Time {
    /// How long the simulation has gone on, as far as whole steps go.
    steps: Duration,
    /// When it began, as a runtime sees it.
    began: Option<Instant>,
    /// What the clock of the day has said last: it never says the same twice, so that everything has its place in time.
    said: Duration,
}

/// Puts this thread under a seed, for good.
pub(crate) fn rule(seed: u64) {
    CHANCE.with_borrow_mut(|chance| *chance = Some(StdRng::seed_from_u64(seed)));
    let time = Time { steps: Duration::ZERO, began: None, said: BEGINNING };
    TIME.set(Some(time));
    TIME.set(Some(Time { began: Some(Instant::now()), ..time }));
}

/// Says how long the simulation has gone on.
pub(crate) fn advance(to: Duration) {
    TIME.set(TIME.get().map(|time| Time { steps: to, ..time }));
}

impl Time {
    /// Returns how long the simulation has gone on; within a step by the clock of the runtime that runs.
    fn elapsed(&self) -> Duration {
        match self.began {
            Some(began) if Handle::try_current().is_ok() => tokio::time::Instant::now().into_std() - began,
            _ => self.steps,
        }
    }
}

/// Returns what a clock says, where it is one of the simulation's.
fn read(clock: libc::clockid_t) -> Option<Duration> {
    let time = TIME.try_with(Cell::get).ok()??;
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => {
            let said = (BEGINNING + time.elapsed()).max(time.said + Duration::from_micros(1));
            TIME.set(Some(Time { said, ..time }));
            Some(said)
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
/// `into` is valid for writes, as for the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, into: *mut libc::timespec) -> libc::c_int {
    let Some(said) = read(clock) else {
        // SAFETY: as the caller promises.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, into) } as libc::c_int;
    };
    let said = libc::timespec { tv_sec: said.as_secs().cast_signed(), tv_nsec: said.subsec_nanos().into() };
    // SAFETY: as the caller promises.
    unsafe { into.write(said) };
    0
}

/// Draws random bytes, as `man 2 getrandom` says.
///
/// # Safety
///
/// `into` is valid for writes of `length` bytes, as for the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(into: *mut c_void, length: libc::size_t, flags: libc::c_uint) -> libc::ssize_t {
    let drawn = CHANCE.try_with(|chance| {
        let mut chance = chance.borrow_mut();
        let chance = chance.as_mut()?;
        if length > 0 {
            // SAFETY: as the caller promises.
            chance.fill_bytes(unsafe { slice::from_raw_parts_mut(into.cast(), length) });
        }
        Some(length.cast_signed())
    });
    match drawn {
        Ok(Some(drawn)) => drawn,
        // SAFETY: as the caller promises.
        _ => unsafe { libc::syscall(libc::SYS_getrandom, into, length, flags) as libc::ssize_t },
    }
}
