//! `teamwire man`: manual pages.

use std::{io::Write as _, path::PathBuf};

use clap::Args;

use super::shared::help::without_help_command;
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
            return clap_mangen::generate_to(without_help_command(), dir)
                .map_err(|error| Failure::local(&format!("Cannot write manual pages to {}", dir.display()), error));
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(without_help_command()).render(&mut page)?;
        Ok(std::io::stdout().write_all(&page)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_each_command_and_none_about_help() {
        let directory = tempfile::tempdir().expect("a directory");
        Man { dir: Some(directory.path().to_owned()) }.run().expect("pages");
        let names = std::fs::read_dir(directory.path()).expect("pages").map(|page| page.expect("a page").file_name());
        let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        assert!(names.contains(&"teamwire-task-claim.1".to_owned()), "{names:?}");
        assert!(names.iter().all(|name| !name.contains("help")), "{names:?}");
    }
}
