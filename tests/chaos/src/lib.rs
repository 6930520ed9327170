//! Proof that teamwire keeps its promises while everything that can break is broken.
//!
//! Members are real processes ([`worker`]) that send, receive, acknowledge and claim at random, and write what they do and
//! what they are told into a [`history`], line by line, so that it outlives them. A supervisor ([`cluster`]) runs them with
//! real coordinators and stores, breaks these ([`faults`]), lets everything heal, and adds what is there in the end. Then
//! the history alone is looked at ([`check`]): each promise has one checker.
//!
//! The checkers are themselves tested, with bugs that are planted into a real coordinator ([`buggy_store`], `tests/planted.rs`).

pub mod buggy_store;
pub mod check;
pub mod cluster;
pub mod damage;
pub mod disk;
pub mod faults;
pub mod flood;
pub mod history;
pub mod lead;
pub mod proxy;
pub mod stock;
pub mod worker;
