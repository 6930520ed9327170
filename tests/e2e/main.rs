//! End-to-end tests of teamwire as users meet it: the built binary, real processes, real stores, real faults.
//!
//! The tests are written in terms of [`world`]: a [`World`](world::World) is a coordinator with its store, the users at
//! its command line, and the programs that run as members. Dropping a world ends everything it started. A scenario that
//! is about the store runs on both stores ([`store_scenarios`]), others on one of them ([`scenarios`]).
//!
//! Tests await the events they want to see, for up to [`PATIENCE`](world::PATIENCE). A few let time pass because a
//! fault must last, such as a network that is cut in [`machines`].

#![allow(clippy::unwrap_used, missing_debug_implementations)]

mod agents;
mod clients;
mod raw;
mod traffic;
mod world;

/// Declares each function as a test on one store; see [`world::on_one_store`].
macro_rules! scenarios {
    ($($(#[$attribute:meta])* $scenario:ident),+ $(,)?) => {$(
        $(#[$attribute])*
        mod $scenario {
            #[test]
            fn on_one_store() {
                $crate::world::on_one_store(stringify!($scenario), super::$scenario);
            }
        }
    )+};
}

/// Declares each function as a test on the embedded store and as one on Redis: what it shows is also about the store.
macro_rules! store_scenarios {
    ($($(#[$attribute:meta])* $scenario:ident),+ $(,)?) => {$(
        $(#[$attribute])*
        mod $scenario {
            #[test]
            fn on_the_embedded_store() {
                super::$scenario($crate::world::World::embedded());
            }

            #[test]
            fn on_redis() {
                if let Some(world) = $crate::world::World::redis() {
                    super::$scenario(world);
                }
            }
        }
    )+};
}

/// Declares each function as a test on Redis.
macro_rules! redis_scenarios {
    ($($(#[$attribute:meta])* $scenario:ident),+ $(,)?) => {$(
        $(#[$attribute])*
        mod $scenario {
            #[test]
            fn on_redis() {
                if let Some(world) = $crate::world::World::redis() {
                    super::$scenario(world);
                }
            }
        }
    )+};
}

mod access;
#[cfg(target_os = "linux")]
mod approvals;
mod audiences;
mod audit;
mod backups;
mod budgets;
mod cluster;
mod configuration;
mod console;
mod coordinator_killed;
mod deletions;
mod diagnosis;
mod edge;
#[cfg(target_os = "linux")]
mod endings;
mod errors;
mod failover;
mod failures_under_load;
mod frames;
mod hooks;
mod hosts;
mod identities;
mod init;
mod interrupts;
mod joins;
mod kills;
mod lives;
mod logs;
mod machines;
mod mcp;
mod member_crashes;
mod messages;
mod newcomer;
mod notices;
mod notifications;
mod open;
mod operations;
mod overtaking;
mod paste;
mod people;
#[cfg(target_os = "linux")]
mod permission_rules;
mod permissions;
mod quotas;
mod rates;
mod readme;
mod rolling;
#[cfg(target_os = "linux")]
mod secrets;
mod setup;
mod shutdowns;
mod sockets;
mod spawn;
mod stores;
mod story;
mod tags;
mod takers;
mod tasks;
mod text;
mod tls;
mod traces;
mod up;
mod upgrades;
mod watch;
mod web;
#[cfg(target_os = "linux")]
mod without_process_table;
#[cfg(target_os = "linux")]
mod work;
#[cfg(target_os = "linux")]
mod work_hosts;
