//! Proof that teamwire keeps its promises while everything that can break is broken.
//!
//! Members are real processes ([`worker`]) that send, receive, acknowledge and claim at random, and write what they do and
//! what they are told into a [`history`], line by line, so that it outlives them. A supervisor ([`stage`]) runs them with
//! real coordinators and stores, breaks these ([`faults`]), lets everything heal, and adds what is there in the end. Then
//! the history alone is looked at ([`check`]): each promise has one checker.
//!
//! The checkers are themselves tested, with bugs that are planted into a real coordinator ([`liar`], `tests/planted.rs`).

pub mod check;
pub mod damage;
pub mod disk;
pub mod faults;
pub mod flood;
pub mod history;
pub mod lead;
pub mod liar;
pub mod proxy;
pub mod stage;
pub mod stock;
pub mod worker;
