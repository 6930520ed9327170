//! Starts each member as a runner on this machine, in its own process session, so that it outlives the host program.
//!
//! | module | what it does |
//! |---|---|
//! | `table` | the orders in hand and their slots |
//! | `record` | the record of each order on disk, for the next process of the host |
//! | `launch` | the runner's command line, environment and join token |
//! | `watch` | waits for the ends of runners |
//! | `workspace` | directories and git worktrees |
//! | `limits` | cgroups |
//! | `log` | a member's output |
//!
//! # A start, step by step
//!
//! 1. The record says that the order is about to be started.
//! 2. The runner starts, and waits for its join token on its standard input, a pipe from the host.
//! 3. The record names the runner's process.
//! 4. The host writes the token into the pipe.
//! 5. The record says that the runner has its token. Then the host acknowledges the order.
//!
//! If the host dies before step 4, the pipe breaks and the runner exits. If it dies between steps 4 and 5, the next
//! process of the host checks whether the runner has joined, and ends it if not. In both cases the order was not
//! acknowledged, so the coordinator delivers it again.

mod launch;
mod limits;
mod log;
mod record;
mod table;
mod watch;
mod workspace;

use std::{
    io,
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;
use teamwire_proto::{failpoint, name::Name, v1};
use tokio::{process::Child, time::timeout};

use self::{
    launch::{Launch, hand_token, path_of},
    limits::Cgroups,
    log::Log,
    record::{Kept, Phase, Record, Records},
    table::{OrderState, Table},
    workspace::Workspace,
};
use super::{Backend, Ended, Found, HostFile, Order, Profile, StartError, Ticket, bounds};
use crate::process::{Cgroup, Pid, check_program};

/// How long an earlier member of the same name may take to exit. The coordinator has already ended its life.
const PREDECESSOR_PATIENCE: Duration = Duration::from_secs(5);

/// How long runners may take to exit after SIGTERM before the host kills them.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// How long an order without a deadline may take.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(60);

/// Starts members as processes on this machine.
#[derive(Clone, Debug)]
pub struct Processes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The path of the teamwire binary.
    teamwire: PathBuf,
    /// The host's state directory.
    state: PathBuf,
    /// The state directory of its user, where runners keep transcripts and sessions.
    users_state: PathBuf,
    file: HostFile,
    records: Records,
    /// The cgroups of members with limits. Err: why limits cannot be enforced.
    cgroups: Option<Result<Cgroups, String>>,
    table: Table,
    /// True once all members were asked to end. From then on, no order is admitted.
    is_stopping: AtomicBool,
}

impl Processes {
    /// Takes over the members that an earlier process of this host started. `teamwire`: the path of the binary that
    /// runs members. `state`: the host's state directory, which no other process uses. `users_state`: the absolute path of
    /// the state directory of its user, which the runners get.
    ///
    /// Must be called within a Tokio runtime.
    pub async fn open(teamwire: PathBuf, state: PathBuf, users_state: PathBuf, file: HostFile) -> io::Result<Self> {
        let has_limits = file.profiles.values().any(|profile| !profile.limits.is_empty());
        let opened = Self(Arc::new(Inner {
            teamwire,
            records: Records::open(&state)?,
            state,
            users_state,
            cgroups: has_limits.then(Cgroups::prepare),
            is_stopping: AtomicBool::new(false),
            table: Table::new(usize::try_from(file.slots()).unwrap_or(usize::MAX)),
            file,
        }));
        for record in opened.0.records.load()? {
            opened.take_over(record).await?;
        }
        Ok(opened)
    }

    /// Returns why the limits of the profiles are not enforced. `None` if they are, or there are none.
    pub fn weakness(&self) -> Option<String> {
        let why = self.0.cgroups.as_ref()?.as_ref().err()?;
        Some(format!("The limits of the profiles are not enforced: {why}."))
    }

    /// Returns how many members of an earlier process are still running.
    pub fn running(&self) -> usize {
        let is_alive = |record: &Record| matches!(&record.phase, Phase::Started(pid) if pid.is_alive());
        self.0.table.running().iter().filter(|record| is_alive(record)).count()
    }

    /// Ends the members that are still running, and removes what the host has kept about them. Returns a sentence about
    /// each worktree that stays, also of members that ended earlier.
    pub async fn clear(&self) -> io::Result<Vec<String>> {
        self.stop_all().await;
        for record in self.0.records.load()? {
            self.forget(&record.request_id).await;
        }
        Ok(self.0.records.kept())
    }

    /// Continues an order that an earlier process began.
    async fn take_over(&self, record: Record) -> io::Result<()> {
        let joined = self.0.records.has_joined(&record.request_id);
        match record.phase.clone() {
            Phase::Started(pid) => self.watch(record, pid, None),
            Phase::Waiting(pid) if joined => {
                let record = Record { phase: Phase::Started(pid.clone()), ..record };
                self.0.records.save(&record)?;
                self.watch(record, pid, None);
            }
            Phase::Waiting(pid) => {
                pid.signal(Signal::SIGKILL);
                pid.gone().await;
                self.interrupted(record).await;
            }
            Phase::Starting => self.interrupted(record).await,
        }
        Ok(())
    }

    /// Remembers an interrupted order, which the coordinator will deliver again because the earlier process did not
    /// acknowledge it.
    async fn interrupted(&self, record: Record) {
        if record.expires_at <= SystemTime::now() {
            self.undo(&record).await;
            return;
        }
        self.0.table.set(&record.request_id, &record.member, OrderState::Interrupted);
    }

    /// Watches a runner until it exits.
    fn watch(&self, record: Record, pid: Pid, child: Option<Child>) {
        if child.is_none() && !pid.is_alive() {
            return self.0.table.end(watch::ended(self, &record, None));
        }
        self.0.table.set(&record.request_id, &record.member, OrderState::Running(Box::new(record.clone())));
        tokio::spawn(watch::watch(self.clone(), record, pid, child));
    }

    fn profile(&self, order: &Order) -> Result<&Profile, StartError> {
        bounds::profile(&self.0.file.profiles, &order.terms.profile).ok_or_else(|| {
            let known: Vec<&str> = self.0.file.profiles.keys().map(String::as_str).collect();
            StartError::here_only(format!(
                "The host has no profile {}. It has: {}.",
                order.terms.profile,
                known.join(", ")
            ))
        })
    }

    /// Plans where the program of an order runs.
    fn workspace(&self, profile: &Profile, order: &Order) -> Workspace {
        let below = &order.terms.dir;
        match (&profile.dir, &profile.worktree, &self.0.file.dir) {
            (None, None, Some(shared)) => Workspace::shared(shared, below),
            (dir, worktree, _) => {
                let directory = dir.clone().unwrap_or_else(|| self.0.state.join("work"));
                let plain = Workspace::plan(&directory, &order.member, below);
                match worktree {
                    Some(repository) => plain.in_worktree(repository, &order.member, profile.discard_ignored),
                    None => plain,
                }
            }
        }
    }

    fn log(&self, member: &str) -> Log {
        Log::of(&self.0.state, member)
    }

    /// Ends an earlier member of the same name, whose life the coordinator has already ended.
    async fn end_predecessor(&self, order: &Order) {
        if timeout(PREDECESSOR_PATIENCE, self.0.table.name_free(order)).await.is_ok() {
            return;
        }
        for record in self.0.table.running() {
            if let Phase::Started(pid) = &record.phase
                && record.member.eq_ignore_ascii_case(&order.member)
            {
                pid.signal(Signal::SIGKILL);
            }
        }
        self.0.table.name_free(order).await;
    }

    /// Removes what is left of an order whose member has ended, or never began. Returns a sentence about what stays.
    async fn undo(&self, record: &Record) -> Option<String> {
        // First, so that no process of the member writes into what is about to be removed.
        if let Some(directory) = &record.cgroup {
            let cgroup = Cgroup::at(directory.clone());
            cgroup.kill();
            cgroup.remove();
        }
        let is_free = !self.0.table.has_other(&record.request_id, &record.member);
        let kept = match is_free.then(|| record.workspace.clean()) {
            None => None,
            Some(cleaned) => {
                let kept = cleaned.await.map(|why| {
                    let (place, member) = (record.workspace.place(), &record.member);
                    format!("The worktree of {member} stays in {place}: {why}.")
                });
                let noted = kept.clone().map(|says| Kept { root: record.workspace.root.clone(), says });
                self.0.records.note_kept(&record.member, noted.as_ref());
                kept
            }
        };
        self.0.records.remove(&record.request_id);
        kept
    }

    /// Starts an order's runner, hands it its token, and records each step.
    async fn launch(&self, order: &Order, ticket: &Ticket, record: &mut Record) -> Result<(Pid, Child), StartError> {
        let records = &self.0.records;
        let save = |record: &Record| records.save(record).map_err(|error| local("The host's state", &error));
        let profile = self.profile(order)?;
        let output = self.log(&order.member);
        let (log, length) = output.open().map_err(|error| local("The member's log", &error))?;
        record.log_begins_at = length;
        let cgroup = match &self.0.cgroups {
            Some(Ok(cgroups)) if !profile.limits.is_empty() => {
                Some(cgroups.create(&order.request_id, &profile.limits).map_err(|error| local("The limits", &error))?)
            }
            _ => None,
        };
        record.cgroup = cgroup.as_ref().map(|cgroup| cgroup.directory().to_owned());
        save(record)?;
        failpoint::reach("order-recorded");
        record.workspace.prepare().await?;
        let cgroup_procs = cgroup.map(|cgroup| cgroup.procs()).transpose();
        let launch = Launch {
            teamwire: &self.0.teamwire,
            profile,
            order,
            ticket,
            workspace: &record.workspace,
            context: records.context(&order.request_id),
            state: &self.0.users_state,
            log,
            cgroup_procs: cgroup_procs.map_err(|error| local("The limits", &error))?,
        };
        let mut child = launch.spawn().map_err(|error| self.not_launched(&error))?;
        failpoint::reach("runner-started");
        let pid = child.id().and_then(|id| Pid::of_child(id.try_into().ok()?, output.path()));
        let Some(pid) = pid else {
            return Err(StartError::new("The runner ended at once."));
        };
        record.phase = Phase::Waiting(pid.clone());
        let handed = async {
            save(record)?;
            failpoint::reach("runner-recorded");
            hand_token(&mut child, ticket).await.map_err(|error| local("The runner", &error))?;
            failpoint::reach("token-handed");
            record.phase = Phase::Started(pid.clone());
            save(record)?;
            failpoint::reach("start-recorded");
            Ok(())
        };
        if let Err(error) = handed.await {
            pid.signal(Signal::SIGKILL);
            let _ = child.wait().await;
            return Err(error);
        }
        Ok((pid, child))
    }

    /// Returns why a runner cannot be started.
    fn not_launched(&self, error: &io::Error) -> StartError {
        let teamwire = &self.0.teamwire;
        if teamwire.exists() {
            return local("The runner", error);
        }
        StartError::here_only(format!(
            "The host's own program is gone, as after an upgrade: there is no {}. Restart the host.",
            teamwire.display()
        ))
    }
}

impl Backend for Processes {
    fn offer(&self) -> v1::HostOffer {
        self.0.file.offer()
    }

    async fn recover(&self, order: &Order) -> Found {
        match self.0.table.state(&order.request_id) {
            Some(OrderState::Running(_) | OrderState::Ended) => Found::Started,
            Some(OrderState::Interrupted) => Found::Interrupted,
            Some(OrderState::Reserved) | None => Found::Nothing,
        }
    }

    async fn admit(&self, order: &Order) -> Result<(), StartError> {
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(StartError::here_only("The host is about to end."));
        }
        let profile = self.profile(order)?;
        check_names(order)?;
        // A relative path is relative to the member's directory, where the runner looks for it.
        if let Some(program) = profile.command.first().filter(|program| !is_relative_path(program)) {
            check_program(program.as_ref(), path_of(profile).as_deref(), None)
                .map_err(|exit| StartError::here_only(exit.detail))?;
        }
        self.end_predecessor(order).await;
        self.0.table.take_slot(order).await
    }

    async fn start(&self, order: &Order, ticket: Ticket) -> Result<(), StartError> {
        let profile = self.profile(order)?;
        let mut record = Record {
            request_id: order.request_id.clone(),
            member: order.member.clone(),
            profile: order.terms.profile.clone(),
            expires_at: order.expires_at.unwrap_or_else(|| SystemTime::now() + DEADLINE_DEFAULT),
            workspace: self.workspace(profile, order),
            log_begins_at: 0,
            cgroup: None,
            phase: Phase::Starting,
        };
        match self.launch(order, &ticket, &mut record).await {
            Ok((pid, child)) => {
                self.watch(record, pid, Some(child));
                Ok(())
            }
            Err(error) => {
                self.undo(&record).await;
                Err(error)
            }
        }
    }

    async fn release(&self, order: &Order) {
        if let Some(OrderState::Reserved) = self.0.table.state(&order.request_id) {
            self.0.table.remove(&order.request_id);
        }
    }

    async fn next_end(&self) -> Ended {
        self.0.table.next_end().await
    }

    async fn forget(&self, request_id: &str) -> Option<String> {
        // The name stays taken until its directory is free.
        let kept = match self.0.records.read(request_id) {
            Some(record) => self.undo(&record).await,
            None => None,
        };
        self.0.table.remove(request_id);
        kept
    }

    async fn stop_all(&self) {
        let signal = |signal: Signal| {
            for record in self.0.table.running() {
                if let Phase::Started(pid) = &record.phase {
                    pid.signal(signal);
                }
            }
        };
        self.0.is_stopping.store(true, Ordering::Relaxed);
        signal(Signal::SIGTERM);
        if timeout(STOP_PATIENCE, self.0.table.all_ended()).await.is_err() {
            signal(Signal::SIGKILL);
            self.0.table.all_ended().await;
        }
    }
}

fn is_relative_path(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

/// Checks the parts of an order that become parts of paths. The coordinator has checked them, too.
fn check_names(order: &Order) -> Result<(), StartError> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let is_sound =
        Name::parse(&order.member, "member").is_ok() && Path::new(&order.terms.dir).components().all(is_plain);
    if is_sound { Ok(()) } else { Err(StartError::new("The name or the directory of the order is not valid.")) }
}

fn local(what: &str, error: &io::Error) -> StartError {
    StartError::here_only(format!("{what} cannot be used on this host: {error}."))
}

#[cfg(test)]
mod tests;
