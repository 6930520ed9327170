//! The `teamwire` binary: the coordinator, the runner, and the command line for people and agents.
//!
//! Each subcommand has its own file or folder in `command/`. [`context`] resolves the coordinator's address and the
//! caller's identity; [`config`] is the configuration of `serve`; [`failure`] turns errors into messages and exit
//! codes; [`show`] prints replies as tables, lines or JSON; [`trace`] exports spans; [`authority`] issues certificates;
//! `static_names` is for static builds.
//!
//! Architecture invariant: the binary parses, calls the client or the server, and prints. It contains no rule.

mod authority;
mod command;
mod config;
mod context;
mod failure;
mod show;
mod stable_path;
#[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
mod static_names;
mod telemetry;

use std::{
    io::Write as _,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::error::ErrorKind;
use mimalloc::MiMalloc;

/// A coordinator makes a few hundred allocations per call and often frees them on another thread; mimalloc is fast at
/// both.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The exit code for writing to a closed pipe: 128 + SIGPIPE, as a shell reports it.
const BROKEN_PIPE: i32 = 141;

/// The exit code when output cannot be written (`EX_IOERR`).
const IO_ERROR: i32 = 74;

/// The exit code when the system starts no more threads (`EX_OSERR`).
const SYSTEM_ERROR: i32 = 71;

/// Whether the runtime has started.
static RUNS: AtomicBool = AtomicBool::new(false);

/// Exits with words for two failures that libraries report only by panicking: the system starts no thread, and
/// `println!` cannot write. A closed pipe ends the process quietly: `teamwire history | head` is not an error.
/// `outlives_its_output`: go on after a failed write, and once it runs, without another thread.
fn exit_when_the_system_fails(outlives_its_output: bool) {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or_default();
        let fails_to_print = message.starts_with("failed printing to std") && !outlives_its_output;
        let is_running = outlives_its_output && RUNS.load(Ordering::Relaxed);
        let (text, code) = match message.strip_prefix("OS can't spawn worker thread: ").filter(|_| !is_running) {
            Some(why) => {
                (format!("cannot start a thread: {why}. Raise the limit of processes (`ulimit -u`)"), SYSTEM_ERROR)
            }
            None if fails_to_print && message.contains("Broken pipe") => std::process::exit(BROKEN_PIPE),
            None if fails_to_print => (format!("cannot write the output: {message}"), IO_ERROR),
            None => return default_hook(panic),
        };
        let _ = writeln!(std::io::stderr(), "error: {text}");
        std::process::exit(code);
    }));
}

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
    static_names::without_modules();
    command::complete::answer();
    let cli = match command::Cli::from_command_line() {
        Ok(cli) => cli,
        Err(error) => {
            // The error quotes the arguments.
            let text = error.render().to_string();
            let shown = show::plain(&text);
            let _ = if shown == text { error.print() } else { write!(std::io::stderr(), "{shown}") };
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(failure::USAGE),
            };
        }
    };
    if let Some(watchdog) = cli.as_watchdog() {
        watchdog.run();
        return ExitCode::SUCCESS;
    }
    exit_when_the_system_fails(cli.outlives_its_output());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let code = match runtime {
        Ok(runtime) => {
            RUNS.store(true, Ordering::Relaxed);
            let code = runtime.block_on(async {
                let telemetry = match telemetry::Telemetry::from_env() {
                    Ok(telemetry) => telemetry,
                    Err(failure) => {
                        failure.print(false);
                        return failure.code();
                    }
                };
                let code = command::run(cli, &telemetry).await;
                telemetry.flush();
                code
            });
            // A blocking read of the terminal would otherwise keep the process alive.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            eprintln!("error: teamwire cannot start: {error}");
            1
        }
    };
    ExitCode::from(code)
}
