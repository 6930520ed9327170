//! `teamwire attach`: takes over an agent's session at this terminal, and gives it back.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitStatus,
};

use clap::Args;
use teamwire_agents::attach::{Answer, Hello, Start, socket};
use teamwire_client::v1;
use teamwire_proto::address::SOCKET_PATH_BYTES_MAX;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::Command,
};

use super::confirm::has_terminal;
use crate::{
    context::{Caller, ContextArgs, Who, refuse_within_runner},
    failure::{Failure, NOT_PERMITTED, REFUSED},
    show,
};

/// How many bytes the name of a socket may need in its directory.
const NAME_BYTES: usize = 40;

/// Take over an agent's session at this terminal, and give it back when you leave
///
/// The agent's turn ends, and so does the program that its runner has started. The same program continues the session
/// here, where you can talk to the agent. When you leave it, by whatever way, the runner resumes the session: the agent
/// knows what was said, and gets the messages that came meanwhile. While you have the session, the member stays in the
/// team, `teamwire status` says who holds it, its messages wait, and it claims no tasks. One person at a time: --steal
/// takes the session from another one. Only on the machine where the member runs, as the user that runs it. Works with
/// Claude Code, Codex, Gemini CLI and opencode.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire attach backend")]
pub(super) struct Attach {
    /// The member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// Take the session from the person who has it
    #[arg(long)]
    steal: bool,
}

/// Returns the directory of the sockets of runners that have a state directory.
pub(super) fn directory(state_dir: &Path) -> PathBuf {
    let usual = state_dir.join("attach");
    if usual.as_os_str().len() + NAME_BYTES <= SOCKET_PATH_BYTES_MAX {
        return usual;
    }
    // Beside the socket of a coordinator with this state directory, which has the same problem.
    let beside = crate::context::socket_path(state_dir).unwrap_or(usual);
    beside.with_extension("d")
}

impl Attach {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        refuse_within_runner("An agent cannot take over a session. A person must do so in another terminal.")?;
        if !has_terminal() {
            return Err(Failure::usage("There is no terminal here, at which the agent's program could run."));
        }
        let caller = context.caller(Who::Current)?;
        let Some(member) = caller.find_member(&self.member).await? else {
            return Err(Failure::usage(format!(
                "There is no member {}. `teamwire status` lists the members.",
                self.member
            )));
        };
        if caller.is(&member.name) {
            let text = "You are this member yourself. Attach as the lead or the operator, such as with --as.";
            return Err(Failure::with_code(NOT_PERMITTED, text));
        }
        let (mut lines, write) = self.connect(context, &caller, &member).await?;
        anstream::eprintln!("Waiting for {} to end its turn…", member.name);
        match next(&mut lines).await {
            Some(Answer::Ready(start)) => self.hold(&member.name, &start, lines, write).await,
            Some(Answer::Refused(why) | Answer::Over(why)) => Err(Failure::with_code(REFUSED, show::plain(&why))),
            None => Err(Failure::with_code(REFUSED, format!("The runner of {} has ended.", member.name))),
        }
    }

    /// Connects to the member's runner, and says who wants the session.
    async fn connect(
        &self,
        context: &ContextArgs,
        caller: &Caller,
        member: &v1::Member,
    ) -> Result<(Lines<BufReader<OwnedReadHalf>>, OwnedWriteHalf), Failure> {
        let team = caller.client.get_team(v1::GetTeamRequest::default()).await?.team.unwrap_or_default();
        let path = socket(&directory(&context.state_dir()?), &team.id, &member.name);
        let stream = UnixStream::connect(&path).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => elsewhere(member),
            _ => Failure::local(&format!("cannot reach the runner at {}", path.display()), error),
        })?;
        let (read, mut write) = stream.into_split();
        let holder = caller.member.clone().unwrap_or_else(|| "the operator".to_owned());
        let mut hello = serde_json::to_vec(&Hello { holder, steal: self.steal }).unwrap_or_default();
        hello.push(b'\n');
        write.write_all(&hello).await.map_err(|error| Failure::local("cannot talk to the runner", error))?;
        Ok((BufReader::new(read).lines(), write))
    }

    /// Runs the program until it ends, or the session must be given back. Dropping `_write` gives it back.
    async fn hold(
        &self,
        name: &str,
        start: &Start,
        mut lines: Lines<BufReader<OwnedReadHalf>>,
        _write: OwnedWriteHalf,
    ) -> Result<(), Failure> {
        let mut command = Command::new(&start.program);
        command.args(&start.arguments).current_dir(&start.directory).kill_on_drop(true);
        command.envs(start.environment.iter().map(|(name, value)| (name, value)));
        let mut program =
            command.spawn().map_err(|error| Failure::local(&format!("cannot start {}", start.program), error))?;
        // What the person types reaches the program, and Ctrl-C must not end this command before it.
        let interrupts = async { while tokio::signal::ctrl_c().await.is_ok() {} };
        tokio::pin!(interrupts);
        let ended: Result<ExitStatus, String> = loop {
            tokio::select! {
                ended = program.wait() => break ended.map_err(|error| error.to_string()),
                answer = next(&mut lines) => {
                    let why = match answer {
                        Some(Answer::Over(why) | Answer::Refused(why)) => why,
                        Some(Answer::Ready(_)) => continue,
                        None => "The runner has ended.".to_owned(),
                    };
                    _ = program.kill().await;
                    break Err(why);
                }
                () = &mut interrupts => {}
            }
        };
        match ended {
            Ok(_) => {
                anstream::eprintln!("{name} has its session back.");
                Ok(())
            }
            Err(why) => {
                Err(Failure::with_code(REFUSED, format!("The session is no longer yours: {}", show::plain(&why))))
            }
        }
    }
}

/// Reads what the runner says next. `None` if it says nothing any longer.
async fn next(lines: &mut Lines<BufReader<OwnedReadHalf>>) -> Option<Answer> {
    serde_json::from_str(&lines.next_line().await.ok()??).ok()
}

/// Says where the member runs, if not here.
fn elsewhere(member: &v1::Member) -> Failure {
    let name = &member.name;
    let at = member.attributes.as_ref().map(|attributes| attributes.host.as_str()).unwrap_or_default();
    let there = match at {
        "" => "on the machine where it runs".to_owned(),
        host => format!("there: `ssh -t {} teamwire attach {name}`", show::one_line(host)),
    };
    Failure::with_code(
        REFUSED,
        format!(
            "No runner of an agent program has {name} on this machine, as this user. If it runs elsewhere, attach {there}."
        ),
    )
}
