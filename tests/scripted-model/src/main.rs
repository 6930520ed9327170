//! A scripted model for a person to try: serves the rules of a file, and prints every request.

#![allow(clippy::unwrap_used)]

use std::{fs, io, net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use teamwire_scripted_model::{Model, Rule};

/// Serve a model that follows a script
///
/// Set the address of an agent program's model to what this prints: ANTHROPIC_BASE_URL for Claude Code,
/// GOOGLE_GEMINI_BASE_URL for Gemini CLI, and `base_url` of a provider, followed by /v1, for Codex and opencode.
/// Without a matching rule, the model says `done`.
///
/// Each line of standard input opens the gate that it names.
#[derive(Parser)]
#[command(
    after_help = "A file of rules:\n\n    [{\"when\": \"greet (\\\\w+)\", \"calls\": [{\"tool\": \"SendMessage\", \"input\": {\"to\": \"$1\", \"message\": \"hello\"}}]},\n     {\"when\": \"wait\", \"say\": \"I waited.\", \"gate\": \"go\"},\n     {\"when\": \"fail\", \"status\": 503, \"always\": true}]"
)]
struct Options {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0", value_name = "HOST:PORT")]
    listen: SocketAddr,
    /// The file with the rules, a list in JSON
    #[arg(value_name = "FILE")]
    rules: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("teamwire-scripted-model: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let rules: Vec<Rule> = match &options.rules {
        None => Vec::new(),
        Some(file) => {
            let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            serde_json::from_str(&text)
                .map_err(|error| format!("{} is not a list of rules: {error}", file.display()))?
        }
    };
    let model =
        Model::listen(options.listen).map_err(|error| format!("cannot listen on {}: {error}", options.listen))?;
    rules.into_iter().for_each(|rule| model.add(rule));
    model.observe(|request| println!("{request}"));
    println!("{}", model.address());
    for gate in io::stdin().lines().map_while(Result::ok) {
        model.open(gate.trim());
    }
    // Its standard input has ended, which opens no gate. It serves until it is interrupted.
    loop {
        std::thread::park();
    }
}
