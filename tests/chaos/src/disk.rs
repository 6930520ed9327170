//! A small disk that can be filled.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    unistd::geteuid,
};

/// The mount option for its size.
const SIZE: &str = "size=64m";

/// A disk in memory, unmounted on drop.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// Creates a directory and mounts a disk there.
    pub fn mount(directory: &Path) -> io::Result<Self> {
        if !geteuid().is_root() {
            return Err(io::Error::other("only root can mount a disk: run this as root"));
        }
        fs::create_dir_all(directory)?;
        mount(Some("tmpfs"), directory, Some("tmpfs"), MsFlags::empty(), Some(SIZE))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Returns its mount point.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Fills the remaining space.
    pub fn fill(&self) -> io::Result<()> {
        let mut ballast = File::create(self.ballast())?;
        // The page size of a tmpfs: afterwards less than one page is free.
        let page = [1; 4096];
        loop {
            match ballast.write_all(&page) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
                written => written?,
            }
        }
    }

    /// Frees the space.
    pub fn free(&self) -> io::Result<()> {
        fs::remove_file(self.ballast())
    }

    fn ballast(&self) -> PathBuf {
        self.directory.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A file that is still open disappears with its process.
        if let Err(error) = umount2(&self.directory, MntFlags::MNT_DETACH) {
            eprintln!("chaos: {} cannot be unmounted: {error}", self.directory.display());
        }
    }
}
