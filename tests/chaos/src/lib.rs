//! Fault injection: proves that teamwire keeps its promises while everything that can break breaks.
//!
//! Members are real processes ([`member`]) that send, receive, acknowledge and claim at random. Each records what it
//! does and what it is answered in a [`history`], line by line, so that the record survives a kill. A supervisor runs
//! them on a [`cluster`] of real coordinators and stores, injects [`faults`], heals everything, and adds the final
//! state ([`final_state`]). Then one checker per promise examines the history alone ([`check`]).
//!
//! Planted bugs ([`buggy_store`], `tests/planted.rs`) test the checkers.

pub mod buggy_store;
pub mod check;
pub mod cluster;
pub mod damage;
pub mod disk;
pub mod faults;
pub mod final_state;
pub mod flood;
mod growth;
mod harm;
pub mod history;
pub mod hostile;
pub mod hosts;
pub mod lead;
pub mod member;
pub mod ordered;
pub mod orders;
pub mod proxy;
