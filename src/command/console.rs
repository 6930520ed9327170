//! `teamwire console`: opens the console in a browser, signed in.

#[cfg(target_os = "macos")]
use std::process::{Command, Stdio};
use std::{
    env,
    io::{self, Write as _},
    time::Duration,
};

use clap::Args;
use serde_json::json;
use teamwire_client::{Client, v1};
use teamwire_proto::{credential::Credential, v1::CredentialKind};
use teamwire_server::console::File;
use tempfile::NamedTempFile;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{Output, stop_on_signal::stop_on_signal};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::Failure,
    show::{self, bold, dim, paint},
};

/// The files of the console, which `build.rs` has embedded.
pub(super) const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// How long a code is valid.
const CODE_TTL: Duration = Duration::from_secs(60);

/// How long `up` waits until the browser that it has opened signs in.
const OPEN_MAX: Duration = Duration::from_secs(10);

/// How often to ask whether the person has signed in.
const POLL: Duration = Duration::from_millis(500);

/// Open the console, a web page that shows the team, in a browser
///
/// The page shows members, messages, approvals and the board as they change. On it, you can do most of what you can do
/// at the command line. The coordinator serves the page; see `console.enabled` in `teamwire serve --print-config`. This
/// command signs you in as your current identity, and says which identity that is. It prints a code and, unless you add
/// --no-open, passes the code to the browser. The code works once and expires after 60 seconds. You are signed out
/// after 8 hours, or earlier if you sign out or your identity ends. With --as operator, you see every team.
///
/// If this machine has no browser, open the address elsewhere, and enter the code there.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire console\n    teamwire console --read-only     # for a screen that everyone can see\n    teamwire console --no-open       # only print the address and the code"
)]
pub(super) struct ConsoleCommand {
    /// Sign in read-only: the page cannot change anything
    #[arg(long)]
    read_only: bool,
    /// Do not open a browser; print the address and the code
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    pub output: Output,
}

impl ConsoleCommand {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let (address, reply) = sign_in_code(&caller, self.read_only).await?;
        let page = if self.no_open { None } else { open(&address, &reply.code) };
        self.print(&Printed {
            address: &address,
            who: whose(&caller.credential),
            why_operator: context.why_operator(&caller)?,
            reply: &reply,
            is_opening: page.is_some(),
        });
        let Some(page) = page else { return Ok(()) };
        let stop = stop_on_signal("closing")?;
        if has_signed_in(&caller.client, &reply.code, &stop).await && !self.output.json {
            anstream::eprintln!("{}", paint(dim(), "Signed in."));
        }
        // The file holds the code.
        drop(page);
        Ok(())
    }

    fn print(&self, printed: &Printed<'_>) {
        let Printed { address, who, why_operator, reply, is_opening } = printed;
        if self.output.json {
            let expires_at = reply.expires_at.map(|at| at.to_string());
            show::line(&json!({
                "address": address, "as": who, "code": reply.code, "expires_at": expires_at, "opened": is_opening,
            }));
            return;
        }
        let who = match who.as_str() {
            OPERATOR => "the operator, who sees every team".to_owned(),
            who => who.to_owned(),
        };
        let read_only = if self.read_only { " (read-only)" } else { "" };
        let why = why_operator.map(|why| format!(" {why}")).unwrap_or_default();
        let how = match is_opening {
            true => "The console opens in your browser. If it does not, go to",
            false => "Open the console in a browser at",
        };
        anstream::println!("You sign in as {who}{read_only}.{why}\n");
        anstream::println!("{how}\n\n    {}\n\nand sign in within 60 s with the code\n", paint(bold(), address));
        anstream::println!("    {}\n", reply.code);
    }
}

/// Opens the console in a browser, signed in as the caller, and waits a moment until the browser has signed in. Returns
/// false if no browser can be opened here.
pub(super) async fn open_console(caller: &Caller) -> Result<bool, Failure> {
    if !has_display() {
        return Ok(false);
    }
    let (address, reply) = sign_in_code(caller, false).await?;
    let Some(_page) = open(&address, &reply.code) else { return Ok(false) };
    let stop = stop_on_signal("closing")?;
    let _ = timeout(OPEN_MAX, has_signed_in(&caller.client, &reply.code, &stop)).await;
    Ok(true)
}

/// Creates a code with which a browser signs in as the caller. Returns the console's address, too.
async fn sign_in_code(caller: &Caller, read_only: bool) -> Result<(String, v1::CreateSignInCodeResponse), Failure> {
    let request = v1::CreateSignInCodeRequest { read_only, ..Default::default() };
    let reply = caller.client.create_sign_in_code(request).await?;
    if reply.console_address.is_empty() {
        return Err(Failure::usage(
            "The coordinator does not serve its console: by default, it does only if no other machine can reach it. Set \
             console.enabled = \"on\" in its configuration, and serve TLS.",
        ));
    }
    let called = caller.address.split(',').next().unwrap_or(&caller.address);
    // A browser cannot use a Unix socket.
    let address = if called.starts_with("unix:") { &reply.console_address } else { called };
    let address = format!("{}/", address.trim_end_matches('/'));
    Ok((address, reply))
}

/// What the command prints.
struct Printed<'a> {
    address: &'a str,
    /// As whom the person signs in.
    who: String,
    /// Why that is the operator, if the person has not chosen it.
    why_operator: Option<&'static str>,
    reply: &'a v1::CreateSignInCodeResponse,
    /// A browser opens the page.
    is_opening: bool,
}

/// What [`whose`] returns for the operator.
const OPERATOR: &str = "operator";

/// Returns whom a credential belongs to: `operator`, MEMBER@TEAM, or `an observer of TEAM`.
fn whose(credential: &str) -> String {
    match Credential::parse(credential) {
        Ok(Credential::Member { team, member, .. }) => format!("{member}@{team}"),
        Ok(Credential::Observer { team, .. }) => format!("an observer of {team}"),
        // No other credential may create a code.
        _ => OPERATOR.to_owned(),
    }
}

/// Opens the page in a browser. Returns the file that leads the browser there, to be kept until it has. `None` if no
/// browser can be opened.
///
/// The code must not be an argument of the browser's process, where other users of the machine could see it. So the
/// browser opens a file that only its owner can read, which leads on to the address with the code.
fn open(address: &str, code: &str) -> Option<NamedTempFile> {
    if !has_display() {
        return None;
    }
    let mut file = tempfile::Builder::new().prefix("teamwire-console-").suffix(".html").tempfile().ok()?;
    let target = format!("{address}#code={code}");
    let page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={target}\">\n<title>teamwire</title>\n\
         <a href=\"{target}\">Open the console</a>\n"
    );
    file.write_all(page.as_bytes()).and_then(|()| file.flush()).ok()?;
    let url = Url::from_file_path(file.path()).ok()?;
    show_in_browser(url.as_str()).ok()?;
    Some(file)
}

/// Opens an address in the default browser.
#[cfg(target_os = "macos")]
fn show_in_browser(url: &str) -> io::Result<()> {
    let status = Command::new("/usr/bin/open").arg(url).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("open ended with {status}"))) }
}

/// Opens an address in the default browser.
#[cfg(not(target_os = "macos"))]
fn show_in_browser(url: &str) -> io::Result<()> {
    webbrowser::open(url)
}

/// Returns whether a browser could show something: on a server, or over ssh, there is no display.
fn has_display() -> bool {
    let is_set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"].iter().any(is_set)
}

/// Waits until the person has signed in with the code, or it has expired.
async fn has_signed_in(client: &Client, code: &str, stop: &CancellationToken) -> bool {
    let Ok(Credential::SignInCode { id, .. }) = Credential::parse(code) else { return false };
    // The operator's own console credentials are listed without a team.
    let client = client.clone().with_team("");
    let appears = async {
        loop {
            let listed = client.list_all_credentials(v1::ListCredentialsRequest::default(), usize::MAX).await;
            let is_there = |found: &v1::Credential| found.kind() == CredentialKind::Console && found.id == id;
            if listed.is_ok_and(|listed| listed.credentials.iter().any(is_there)) {
                return;
            }
            sleep(POLL).await;
        }
    };
    matches!(stop.run_until_cancelled(timeout(CODE_TTL, appears)).await, Some(Ok(())))
}
