//! Fits the bounds of the configuration to what the system gives this process: a bound above the real resource protects
//! no one.

use std::{fs, io};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use teamwire_server::budget::Shares;

/// The maximum number of open files besides connections: the store, the listeners, certificates during a reload.
const OTHER_FILES: u64 = 128;

/// What macOS allows a process at most, also if the hard limit says that there is none: `OPEN_MAX`.
const OPEN_MAX: u64 = 10_240;

/// The least total size of replies and of requests, as the configuration has it.
const REPLY_BYTES_MIN: usize = 8 << 20;
const REQUEST_BYTES_MIN: usize = 1 << 20;

/// Raises the open-file limit to fit `connections_max`, and as many more that the coordinator is about to close: in a
/// flood, it accepts connections faster than it can close those that make way. Many systems default to a soft limit of
/// 1,024 files. If the hard limit is too low for that, lowers the number of connections.
pub(super) fn fit_connections(connections_max: &mut usize) {
    let wanted = *connections_max as u64 + OTHER_FILES;
    match raise_limit(wanted + *connections_max as u64) {
        Ok(allowed) if allowed >= wanted => {}
        Ok(allowed) => {
            *connections_max = connections_within(allowed).min(*connections_max);
            tracing::warn!(
                allowed,
                wanted,
                connections_max = *connections_max,
                "the open-file limit is too low for network.connections_max, so fewer connections are allowed: raise its hard limit \
                 (ulimit -Hn, LimitNOFILE=) or lower network.connections_max"
            );
        }
        Err(error) => tracing::warn!(%error, "cannot determine the open-file limit"),
    }
}

/// Raises the soft limit of open files to what is wanted, or as far as the system permits. Returns the limit.
fn raise_limit(wanted: u64) -> io::Result<u64> {
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let set = |raised: u64| setrlimit(Resource::RLIMIT_NOFILE, raised, most).map(|()| raised);
    let raised = now.max(wanted.min(most));
    Ok(set(raised).or_else(|refused| if raised > OPEN_MAX { set(now.max(OPEN_MAX)) } else { Err(refused) })?)
}

/// Returns how many connections an open-file limit is enough for, with a few more that are about to be closed.
fn connections_within(files: u64) -> usize {
    let connections = (files.saturating_sub(OTHER_FILES) * 4 / 5).max(files / 4).max(1);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// Lowers what unread replies and unfinished requests may take to half of the memory of the control group, if this
/// process is in one with a limit.
pub(super) fn fit_memory(shares: &mut Shares) {
    let Some(limit) = memory_limit() else { return };
    if lower(shares, limit) {
        tracing::info!(
            limit,
            reply_bytes_max = shares.reply_bytes_max,
            request_bytes_max = shares.request_bytes_max,
            "the memory limit of this control group is too low for shares.reply_bytes_max and shares.request_bytes_max, so both are \
             lower"
        );
    }
}

/// Lowers the shares to half of a limit. Returns whether they were above it.
fn lower(shares: &mut Shares, limit: u64) -> bool {
    let allowed = usize::try_from(limit / 2).unwrap_or(usize::MAX);
    // Requests of strangers have a quarter more.
    let wanted = shares.reply_bytes_max + shares.request_bytes_max / 4 * 5;
    if wanted <= allowed {
        return false;
    }
    let part = |bytes: usize, min: usize| (bytes as u128 * allowed as u128 / wanted as u128).max(min as u128) as usize;
    shares.reply_bytes_max = part(shares.reply_bytes_max, REPLY_BYTES_MIN);
    shares.request_bytes_max = part(shares.request_bytes_max, REQUEST_BYTES_MIN);
    shares.reply_bytes_per_credential_max = shares.reply_bytes_per_credential_max.min(shares.reply_bytes_max);
    shares.request_bytes_per_credential_max = shares.request_bytes_per_credential_max.min(shares.request_bytes_max);
    true
}

/// Returns the lowest memory limit of this process's control group and of those above it, in bytes.
fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (mount, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        // Within a container, the path may be one outside of it, and its limit is at the root.
        let groups = path.match_indices('/').map(|(at, _)| &path[..at]).chain([path]);
        groups.filter_map(|group| fs::read_to_string(format!("{mount}{group}/{file}")).ok()?.trim().parse().ok()).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest_and_for_those_that_make_way() {
        assert_eq!(connections_within(2_048), 1_536);
        assert_eq!(connections_within(256), 102);
        assert_eq!(connections_within(64), 16);
        assert_eq!(connections_within(1), 1);
    }

    #[test]
    fn shares_take_at_most_half_of_the_memory() {
        let given = Shares::default();
        let mut shares = given;
        assert!(!lower(&mut shares, 4 << 30) && shares == given);
        assert!(lower(&mut shares, 256 << 20));
        assert!(shares.reply_bytes_max + shares.request_bytes_max / 4 * 5 <= 128 << 20, "{shares:?}");
        assert_eq!(shares.reply_bytes_per_credential_max, given.reply_bytes_per_credential_max);
        assert!(lower(&mut shares, 1 << 20));
        assert_eq!((shares.reply_bytes_max, shares.request_bytes_max), (REPLY_BYTES_MIN, REQUEST_BYTES_MIN));
        assert!(shares.request_bytes_per_credential_max <= shares.request_bytes_max);
    }
}
