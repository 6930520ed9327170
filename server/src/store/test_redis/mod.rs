//! Redis servers of a test's own: real processes that end with the test.

mod cluster;
mod sentinel;
mod server;

pub(crate) use self::{
    cluster::TestCluster,
    sentinel::TestSentinel,
    server::{Flavour, TestRedis, eventually, free_port},
};
