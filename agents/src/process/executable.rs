//! Finds out whether a program can be executed, before a member joins for it.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};

use crate::exit::{CANNOT_EXECUTE, NOT_FOUND, RunnerExit};

/// Where programs are looked for if PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Checks that a program can be found and executed. `path` replaces the PATH variable of this process, and `directory`
/// its working directory.
///
/// Fails with the exit code that a shell would give: 127 if there is no such program, 126 if it cannot be executed.
pub fn check_program(program: &OsStr, path: Option<&OsStr>, directory: Option<&Path>) -> Result<(), RunnerExit> {
    let shown = program.display();
    let candidates = candidates(program, path, directory);
    if candidates.iter().any(|candidate| is_executable(candidate)) {
        return Ok(());
    }
    let (code, detail) = match candidates.iter().find(|candidate| candidate.exists()) {
        Some(found) if found.is_dir() => {
            (CANNOT_EXECUTE, format!("{} is a directory. Name a program.", found.display()))
        }
        Some(found) => {
            let found = found.display();
            (
                CANNOT_EXECUTE,
                format!("{found} is not executable. Make it so: chmod +x {found}. Or name its interpreter."),
            )
        }
        None if is_path(program) => (NOT_FOUND, format!("There is no program {shown}. Check the path.")),
        None => (NOT_FOUND, format!("There is no program {shown} on the PATH. Check the spelling, or give its path.")),
    };
    Err(RunnerExit { code, detail: format!("{detail} The member has not joined.") })
}

/// Returns the file of a program. `None` if it cannot be found or executed. The arguments are those of
/// [`check_program`].
pub(crate) fn find_program(program: &OsStr, path: Option<&OsStr>, directory: Option<&Path>) -> Option<PathBuf> {
    candidates(program, path, directory).into_iter().find(|candidate| is_executable(candidate))
}

fn candidates(program: &OsStr, path: Option<&OsStr>, directory: Option<&Path>) -> Vec<PathBuf> {
    let in_directory = |path: &Path| directory.map_or_else(|| path.to_owned(), |directory| directory.join(path));
    if is_path(program) {
        return vec![in_directory(Path::new(program))];
    }
    let path = path.map(OsStr::to_owned).or_else(|| env::var_os("PATH")).unwrap_or_else(|| DEFAULT_PATH.into());
    let path = with_own_directory(path, env::current_exe().ok().as_deref());
    env::split_paths(&path).map(|directory| in_directory(&directory).join(program)).collect()
}

/// Returns a search path, on which a program also finds this `teamwire` if it finds no other. `executable`: the file of
/// this process.
pub(crate) fn with_own_directory(path: OsString, executable: Option<&Path>) -> OsString {
    let own = executable.filter(|executable| executable.file_name().is_some_and(|name| name == "teamwire"));
    let Some(own) = own.and_then(Path::parent) else { return path };
    env::join_paths(env::split_paths(&path).chain([own.to_owned()])).unwrap_or(path)
}

fn is_path(program: &OsStr) -> bool {
    program.as_encoded_bytes().contains(&b'/')
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(program: &str, path: &str, directory: &Path) -> u8 {
        check_program(OsStr::new(program), Some(OsStr::new(path)), Some(directory))
            .map_or_else(|exit| exit.code, |()| 0)
    }

    #[test]
    fn teamwires_own_directory_comes_last_on_the_search_path() {
        let path = |executable: &str| with_own_directory("/bin:/usr/bin".into(), Some(Path::new(executable)));
        assert_eq!(path("/opt/two/teamwire"), "/bin:/usr/bin:/opt/two");
        assert_eq!(path("/opt/two/another-program"), "/bin:/usr/bin");
    }

    #[test]
    fn a_program_is_looked_for_as_a_shell_does() {
        let directory = tempfile::tempdir().expect("a directory");
        let here = directory.path();
        std::fs::write(here.join("text"), "").expect("written");
        let path = format!("/nowhere:{}:/bin:/usr/bin", here.display());
        assert_eq!(code("sh", &path, here), 0);
        assert_eq!(code("/bin/sh", "", here), 0);
        assert_eq!(code("nosuchprogram", &path, here), 127);
        assert_eq!(code("./nosuchprogram", &path, here), 127);
        assert_eq!(code("text", &path, here), 126);
        assert_eq!(code("./text", &path, here), 126);
        assert_eq!(code("/", &path, here), 126);
        std::os::unix::fs::symlink("/bin/sh", here.join("shell")).expect("linked");
        assert_eq!(code("./shell", "/nowhere", here), 0);
        assert_eq!(code("shell", "/nowhere", here), 127);
        assert_eq!(code("shell", "", here), 0, "an empty part of PATH is the working directory");
    }
}
