//! `teamwire man`: manual pages.

use std::{io::Write as _, path::PathBuf};

use clap::Args;

use super::command;
use crate::failure::Failure;

/// Print the manual page, or write one for every command to a directory
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire man ~/.local/share/man/man1 && man teamwire-send")]
pub(super) struct Man {
    /// An existing directory to write teamwire.1, teamwire-send.1 and the others to [default: print teamwire.1]
    dir: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if let Some(dir) = &self.dir {
            return clap_mangen::generate_to(command(), dir)
                .map_err(|error| Failure::local(&format!("Cannot write manual pages to {}", dir.display()), error));
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command()).render(&mut page)?;
        Ok(std::io::stdout().write_all(&page)?)
    }
}
