//! Processes that end with everything they started.
//!
//! - [`process_tree`]: starts a program, waits for it, and ends it with its descendants. [`descendants`]: finds and
//!   reaps them in the [`process_table`].
//! - [`boundary`]: what keeps them together: a [`cgroup`] where one can be created, and a [`watchdog`] for the case
//!   that the runner dies.
//! - [`error_output`]: passes the program's error output on, and keeps its last lines for the report of its exit.
//! - [`before_exec`]: what a new process does before it becomes the program.
//! - [`executable`]: whether there is a program to start, and [`working_directory`]: a directory to start it in.
//! - [`pid`]: identifies a process, even if its id is reused later.

mod before_exec;
mod boundary;
mod cgroup;
mod descendants;
mod error_output;
mod executable;
mod pid;
mod process_table;
mod process_tree;
mod watchdog;
mod working_directory;

pub use before_exec::start_in_new_session;
pub use executable::check_program;
pub use pid::Pid;
pub use watchdog::watch;
pub(crate) use {
    boundary::Boundary,
    cgroup::Cgroup,
    descendants::{Helper, descends_from, end_marked},
    executable::{find_program, with_own_directory},
    process_tree::Process,
    working_directory::check_directory,
};
