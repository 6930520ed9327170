// The clients in languages other than Rust: the one list that `xtask/src/clients.rs`, its tests and
// `tests/e2e/clients/` include.
//
// A row names the directory in `client/`, the programs that its `check` needs in `PATH`, and how to install them. The
// tests cast a mixed team in the order of the rows.

languages! {
    python: ["python3"], "install Python 3.10 or newer with venv (Debian and Ubuntu: `sudo apt-get install python3-venv`)";
    typescript: ["node", "npm"], "install Node.js 20 or newer with npm (Debian and Ubuntu: `sudo apt-get install nodejs npm`)";
    go: ["go"], "install Go 1.24 or newer from your distribution or go.dev";
    java: ["javac", "mvn"], "install Java 17 and Maven 3.8 or newer (Debian and Ubuntu: `sudo apt-get install openjdk-17-jdk maven`)";
}
