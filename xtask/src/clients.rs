//! Makes the clients in other languages ready: builds, checks and tests each by its own `check`.

use crate::{
    install::in_path,
    step::{Failure, Step, root},
};

/// A client, by its directory in `client/`.
struct Client {
    language: &'static str,
    /// The programs that its `check` needs in `PATH`.
    needs: &'static [&'static str],
    advice: &'static str,
}

/// What the tests read of which clients are ready.
pub(crate) const READY: &str = "TEAMWIRE_CLIENTS";

const CLIENTS: [Client; 4] = [
    Client {
        language: "python",
        needs: &["python3"],
        advice: "install Python 3.10 or newer with venv (Debian and Ubuntu: `sudo apt-get install python3-venv`)",
    },
    Client {
        language: "typescript",
        needs: &["node", "npm"],
        advice: "install Node.js 20 or newer with npm (Debian and Ubuntu: `sudo apt-get install nodejs npm`)",
    },
    Client { language: "go", needs: &["go"], advice: "install Go 1.24 or newer from your distribution or go.dev" },
    Client {
        language: "java",
        needs: &["javac", "mvn"],
        advice: "install Java 17 and Maven 3.8 or newer (Debian and Ubuntu: `sudo apt-get install openjdk-17-jdk maven`)",
    },
];

/// Makes the clients ready whose language is there, and returns their languages with commas between them. `all`: one that is
/// missing is a failure.
pub(crate) fn prepare(all: bool) -> Result<String, Failure> {
    let mut ready = Vec::new();
    for Client { language, needs, advice } in &CLIENTS {
        if let Some(missing) = needs.iter().find(|program| in_path(program).is_none()) {
            if all {
                return Err(Failure::new(format!("there is no {missing} in PATH for the {language} client"), advice));
            }
            eprintln!("xtask: the {language} client is left out, for want of {missing}: {advice}");
            continue;
        }
        let check = root().join("client").join(language).join("check");
        Step::new(check, &[]).advice("put right what it names; it can be run alone").run()?;
        ready.push(*language);
    }
    Ok(ready.join(","))
}
