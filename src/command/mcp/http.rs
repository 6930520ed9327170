//! `teamwire mcp --http`: a setting with which a program reaches the tools by URL.

use clap::ValueEnum;
use serde_json::{Value, json};
use teamwire_client::v1::{self, SignInPurpose};

use crate::{
    context::Caller,
    failure::{Failure, is_local},
    show::{self, bold, paint},
};

/// The environment variable that the settings name in place of the credential.
const VARIABLE: &str = "TEAMWIRE_TOOL_CREDENTIAL";

/// A program, and with it the form of its settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Program {
    /// Claude Code, and others that read `.mcp.json`
    #[default]
    Claude,
    /// Codex
    Codex,
    /// opencode
    Opencode,
    /// Visual Studio Code
    Vscode,
}

impl Program {
    /// Returns the file that the setting goes to.
    fn file(self) -> &'static str {
        match self {
            Self::Claude => ".mcp.json",
            Self::Codex => "~/.codex/config.toml",
            Self::Opencode => "opencode.json",
            Self::Vscode => ".vscode/mcp.json",
        }
    }

    /// Returns the setting. It holds no secret.
    fn setting(self, url: &str) -> String {
        let server = |kind: &str, variable: &str| json!({ "type": kind, "url": url, "headers": { "Authorization": format!("Bearer {variable}") } });
        let setting: Value = match self {
            Self::Claude => json!({ "mcpServers": { "teamwire": server("http", &format!("${{{VARIABLE}}}")) } }),
            Self::Opencode => json!({ "mcp": { "teamwire": server("remote", &format!("{{env:{VARIABLE}}}")) } }),
            Self::Vscode => json!({ "servers": { "teamwire": server("http", &format!("${{env:{VARIABLE}}}")) } }),
            Self::Codex => {
                return format!("[mcp_servers.teamwire]\nurl = \"{url}\"\nbearer_token_env_var = \"{VARIABLE}\"");
            }
        };
        format!("{setting:#}")
    }
}

/// Creates a tool credential for the caller, and prints it with the setting for a program.
pub(super) async fn print(caller: &Caller, program: Program, leads: bool, as_json: bool) -> Result<(), Failure> {
    let purpose = if leads { SignInPurpose::LeadTools } else { SignInPurpose::Tools };
    let request = v1::CreateSignInCodeRequest { purpose: purpose.into(), ..Default::default() };
    let code = caller.client.create_sign_in_code(request).await?;
    if code.mcp_address.is_empty() {
        return Err(Failure::usage("The coordinator does not serve MCP. Set mcp.enabled = true in its configuration."));
    }
    let called = caller.address.split(',').next().unwrap_or(&caller.address);
    // The program may run elsewhere.
    let address = if is_local(called) { &code.mcp_address } else { called };
    let url = format!("{}/mcp", address.trim_end_matches('/'));
    let signed_in = caller.client.with_credential(&code.code)?.sign_in(v1::SignInRequest::default()).await?;
    let of = signed_in.caller.unwrap_or_default();
    let setting = program.setting(&url);
    if as_json {
        show::line(&json!({
            "url": url, "as": format!("{}@{}", of.member, of.team), "credential": signed_in.credential,
            "credential_id": of.credential_id, "variable": VARIABLE, "file": program.file(), "setting": setting,
        }));
        return Ok(());
    }
    let lead = if leads { ", with a lead's tools" } else { "" };
    anstream::println!(
        "A program with this setting is {} in team {}{lead}. Add it to {}:\n",
        of.member,
        of.team,
        program.file()
    );
    anstream::println!("{}\n", paint(bold(), &setting));
    anstream::println!("The setting holds no secret. Start the program with this one in its environment:\n");
    anstream::println!("    export {VARIABLE}={}\n", signed_in.credential);
    anstream::println!(
        "It is valid until the life of {} ends. To end it now: `teamwire access revoke {}`.",
        of.member,
        of.credential_id
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_the_variable_and_are_readable() {
        for program in Program::value_variants() {
            let setting = program.setting("https://coordinator.example:7420/mcp");
            assert!(
                setting.contains(VARIABLE) && setting.contains("https://coordinator.example:7420/mcp"),
                "{setting}"
            );
            match program {
                Program::Codex => drop(setting.parse::<toml_edit::DocumentMut>().expect("TOML")),
                _ => drop(serde_json::from_str::<Value>(&setting).expect("JSON")),
            }
        }
    }
}
