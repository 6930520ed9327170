//! Redis servers of a test's own: real processes that end with the test. What fails here fails the test.

mod cluster;
mod sentinel;
mod server;

pub use self::{
    cluster::TestCluster,
    sentinel::TestSentinel,
    server::{Flavor, TestRedis, eventually, free_port},
};
