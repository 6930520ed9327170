//! The one binary of teamwire: the coordinator, the runner, and the command line of people and agents.
//!
//! Each subcommand is a file in `command/`. [`context`] finds out where the coordinator is and who calls; [`config`] is the
//! configuration of `serve`; [`failure`] turns errors into texts and exit codes; [`show`] turns replies into tables, lines
//! and JSON; [`trace`] sends spans.

mod authority;
mod command;
mod config;
mod context;
mod failure;
mod show;
mod trace;

use std::{io::Write as _, process::ExitCode};

use clap::{Parser, error::ErrorKind};
use mimalloc::MiMalloc;

/// A coordinator allocates some hundred times a call, on one thread what it frees on another.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The exit code of a program that wrote into a pipe which nobody reads, as a shell shows it.
const BROKEN_PIPE: i32 = 141;

/// The exit code for output that could not be written.
const IO_ERROR: i32 = 74;

/// Ends the process without a fuss when its output cannot be written: `teamwire history | head` is no fault.
fn end_when_output_fails() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload_as_str().filter(|said| said.starts_with("failed printing to std"));
        match said {
            Some(said) if said.contains("Broken pipe") => std::process::exit(BROKEN_PIPE),
            Some(said) => {
                let _ = writeln!(std::io::stderr(), "error: the output could not be written: {said}");
                std::process::exit(IO_ERROR);
            }
            None => usual(panic),
        }
    }));
}

fn main() -> ExitCode {
    #[cfg(feature = "failpoints")]
    let _points = fail::FailScenario::setup();
    let cli = match command::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(failure::USAGE),
            };
        }
    };
    if !cli.goes_on_without_output() {
        end_when_output_fails();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let code = match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(async {
                let traces = match trace::Traces::from_env() {
                    Ok(traces) => traces,
                    Err(failure) => {
                        failure.print(false);
                        return failure.code();
                    }
                };
                let code = command::run(cli, &traces).await;
                traces.flush();
                code
            });
            // A thread that still reads a terminal would keep the process from ending.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            eprintln!("teamwire cannot start: {error}");
            1
        }
    };
    ExitCode::from(code)
}
