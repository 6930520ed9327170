//! The whole of teamwire, as its users meet it: the built binary, real processes, real stores, real faults.
//!
//! [`world`] is the language in which the tests are written: a [`World`](world::World) is a coordinator with its store,
//! the people at its command line, and the programs that run as members. Whatever a world has started ends with it.
//! Every scenario runs against each store that it makes sense for; see [`scenarios`].
//!
//! Nothing here waits for a time to pass but a network that is cut in [`machines`]: a test awaits what it wants to see,
//! for as long as [`PATIENCE`](world::PATIENCE), and none asserts how fast something was.

#![allow(clippy::unwrap_used, missing_debug_implementations)]

mod agents;
mod clients;
mod crowd;
mod raw;
mod world;

/// Declares tests: each function once for every store.
macro_rules! scenarios {
    ($($scenario:ident),+ $(,)?) => {$(
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

/// Declares tests of what only Redis can meet with.
macro_rules! redis_scenarios {
    ($($scenario:ident),+ $(,)?) => {$(
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

mod cluster;
mod configuration;
mod crashes;
mod deletions;
mod diagnosis;
mod edge;
mod errors;
mod failover;
mod joins;
mod lives;
mod load;
mod machines;
mod messages;
mod operations;
mod paste;
mod rates;
mod readme;
mod rolling;
mod shutdowns;
mod takers;
mod tasks;
mod tls;
mod traces;
mod web;
