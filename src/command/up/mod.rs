//! `teamwire up`: makes a team as its file describes it.
#![allow(dead_code)]
mod check;
mod file;
mod plan;
