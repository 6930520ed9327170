//! The one binary of teamwire: the coordinator, the runner, and the command line of people and agents.
//!
//! Each subcommand is a file in `command/`. [`context`] finds out where the coordinator is and who calls; [`failure`]
//! turns errors into texts and exit codes; [`show`] turns replies into tables, lines and JSON.

mod authority;
mod command;
mod context;
mod failure;
mod show;

use std::process::ExitCode;

use clap::{Parser, error::ErrorKind};

fn main() -> ExitCode {
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let code = match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(command::run(cli));
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
