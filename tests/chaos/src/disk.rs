//! A small disk that can be filled.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;

/// The mount option for its size.
const SIZE: &str = "size=128m";

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
        mount(directory)?;
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
        if let Err(error) = unmount(&self.directory) {
            eprintln!("chaos: {} cannot be unmounted: {error}", self.directory.display());
        }
    }
}

#[cfg(target_os = "linux")]
fn mount(directory: &Path) -> io::Result<()> {
    Ok(nix::mount::mount(Some("tmpfs"), directory, Some("tmpfs"), nix::mount::MsFlags::empty(), Some(SIZE))?)
}

#[cfg(target_os = "linux")]
fn unmount(directory: &Path) -> io::Result<()> {
    Ok(nix::mount::umount2(directory, nix::mount::MntFlags::MNT_DETACH)?)
}

#[cfg(not(target_os = "linux"))]
fn mount(_: &Path) -> io::Result<()> {
    Err(io::Error::other(format!("only Linux has disks in memory with {SIZE}: run this on Linux")))
}

#[cfg(not(target_os = "linux"))]
fn unmount(_: &Path) -> io::Result<()> {
    Ok(())
}
