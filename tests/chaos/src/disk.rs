//! A small disk that can be filled up.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    unistd::geteuid,
};

/// How large it is.
const SIZE: &str = "size=64m";

/// A disk in memory, mounted at a directory. Unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// Mounts a disk at a directory, which is made.
    pub fn mount(directory: &Path) -> io::Result<Self> {
        if !geteuid().is_root() {
            return Err(io::Error::other("a disk of its own can be mounted by root only: run this as root"));
        }
        fs::create_dir_all(directory)?;
        mount(Some("tmpfs"), directory, Some("tmpfs"), MsFlags::empty(), Some(SIZE))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Returns where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes all the room that is left.
    pub fn fill(&self) -> io::Result<()> {
        let mut ballast = File::create(self.ballast())?;
        // The pages of a tmpfs: whatever room is left then is less than one.
        let page = [1; 4096];
        loop {
            match ballast.write_all(&page) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
                written => written?,
            }
        }
    }

    /// Gives it back.
    pub fn free(&self) -> io::Result<()> {
        fs::remove_file(self.ballast())
    }

    fn ballast(&self) -> PathBuf {
        self.directory.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What is still open there goes with its process.
        if let Err(error) = umount2(&self.directory, MntFlags::MNT_DETACH) {
            eprintln!("proof: {} cannot be unmounted: {error}", self.directory.display());
        }
    }
}
