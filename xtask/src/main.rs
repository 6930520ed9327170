//! The commands for developers and CI; `cargo xtask help` explains them.
//!
//! Each command is a list of steps: other programs, run one after the other in the root of the repository until one
//! fails. A failing step says what to do next.
//!
//! Architecture invariant: this depends on nothing but the standard library, so the first command in a fresh clone
//! starts at once.

mod agents;
mod bench;
mod buf;
mod build;
mod charts;
mod ci;
mod clients;
mod console;
mod containers;
mod dist;
mod docs;
mod faketime;
mod faults;
mod fixture;
mod fuzz;
mod generate;
mod install;
mod kubernetes;
mod lint;
mod macos;
mod network;
mod nightly;
mod parts;
mod programs;
mod prose;
mod redis;
mod ship;
mod site;
mod step;
mod test;
mod tools;

use std::{env, process::ExitCode};

use step::Failure;

const HELP: &str = include_str!("help.txt");

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args_os().skip(1).map(|argument| argument.to_string_lossy().into()).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["lint"] => lint::run(),
        ["prose"] => lint::prose(),
        ["test"] => test::run(),
        ["clients"] => test::clients(),
        ["agents", ref names @ ..] => agents::test(names),
        ["charts"] => charts::check(),
        ["console"] => console::build(),
        ["ci"] => ci::run(),
        ["nightly", ref names @ ..] => nightly::run(names),
        ["generate"] => generate::run().and_then(|()| docs::generate()),
        ["manifests"] => charts::write(),
        ["released"] => buf::keep_as_released(),
        ["programs"] => programs::renew(),
        ["fixture"] => fixture::make(),
        ["faults", ref options @ ..] => faults::inject(options),
        ["simulate", ref options @ ..] => faults::simulate(options),
        ["fuzz", ref options @ ..] => fuzz::run(options),
        ["dist", ref options @ ..] => dist::make(options),
        ["ship", ref arguments @ ..] => ship::run(arguments),
        ["site"] => site::build(),
        ["tools"] => tools::install(),
        ["containers"] => containers::test(),
        ["kubernetes"] => kubernetes::test(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(Failure::new(
            format!("there is no command `{}`", arguments.join(" ")),
            "`cargo xtask help` lists the commands",
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
