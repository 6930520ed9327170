//! Reads a team's file, and checks it, so that `up` reports a mistake before it does anything. How long texts may be,
//! and how many of something there may be, is for the coordinator to say.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use teamwire_proto::{Refusal, name::Name, permission_rule};

use super::file::{LOCAL, ME, Member, Source, TeamFile, is_same};
use crate::failure::Failure;

/// Reads and checks a file.
pub(super) fn load(path: &Path) -> Result<TeamFile, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("Cannot read {}: {error}.{}", path.display(), how_to_write(path))))?;
    let directory = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => parent.to_owned(),
        None => PathBuf::from("."),
    };
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    parse(&path.display().to_string(), &text, &directory)
}

/// Reads and checks the text of a file. `directory`: where it is.
pub(in crate::command) fn parse(name: &str, text: &str, directory: &Path) -> Result<TeamFile, Failure> {
    let source = Source::new(name, text)?;
    let mut file = TeamFile::read(&source, directory)?;
    check(&mut file, &source)?;
    Ok(file)
}

/// Checks a file, and reads the prompts that it refers to.
fn check(file: &mut TeamFile, source: &Source<'_>) -> Result<(), Failure> {
    Name::parse(&file.name, "name").map_err(|refusal| refused(source, &["name"], &refusal))?;
    check_members(file, source)?;
    check_profiles(file, source)?;
    check_lead(file, source)?;
    check_rules(file, source)?;
    check_tasks(file, source)
}

fn check_members(file: &mut TeamFile, source: &Source<'_>) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for (index, member) in file.members.iter_mut().enumerate() {
        let index = index.to_string();
        let at = |key| ["members", &index, key];
        let wrong = |key, what: &str| Err(source.wrong(&at(key), what));
        let name =
            Name::parse_member(&member.name, "name").map_err(|refusal| refused(source, &at("name"), &refusal))?;
        if [ME, LOCAL].contains(&name.folded()) {
            return wrong("name", &format!("no member can be named \"{name}\": use another name"));
        }
        if !names.insert(name.folded().to_owned()) {
            return wrong("name", &format!("two members are named \"{name}\": names are case-insensitive"));
        }
        Name::parse(&member.profile, "profile").map_err(|refusal| refused(source, &at("profile"), &refusal))?;
        if let Some(host) = &member.host {
            Name::parse(host, "host").map_err(|refusal| refused(source, &at("host"), &refusal))?;
        }
        if member.reschedule && member.host.is_some() {
            let what = "the coordinator chooses another host if this one is lost: leave out host, or use labels";
            return wrong("reschedule", what);
        }
        if let Some(prompt) = &member.prompt_file {
            if !member.prompt.is_empty() {
                return wrong("prompt_file", "give either prompt or prompt_file");
            }
            let path = file.directory.join(prompt);
            member.prompt = fs::read_to_string(&path).map_err(|error| {
                source.wrong(&at("prompt_file"), &format!("cannot read {}: {error}", path.display()))
            })?;
        }
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(&member.dir).components().all(is_plain) {
            return wrong("dir", "a relative path without \"..\": it lies below the profile's directory");
        }
    }
    Ok(())
}

/// Checks the profiles of the members that are for the local host, if the file says which it has.
fn check_profiles(file: &TeamFile, source: &Source<'_>) -> Result<(), Failure> {
    let Some(local) = file.local_host() else { return Ok(()) };
    let is_unknown = |member: &Member| {
        member.host.as_ref().is_some_and(|host| is_same(host, LOCAL))
            && !local.profiles.keys().any(|profile| is_same(profile, &member.profile))
    };
    let Some(index) = file.members.iter().position(is_unknown) else { return Ok(()) };
    let known: Vec<&str> = local.profiles.keys().map(String::as_str).collect();
    let what = match known.as_slice() {
        [] => format!("the local host has no profile: add [hosts.local.profiles.{}]", file.members[index].profile),
        known => format!("the local host has no profile \"{}\", but {}", file.members[index].profile, known.join(", ")),
    };
    Err(source.wrong(&["members", &index.to_string(), "profile"], &what))
}

fn check_lead(file: &TeamFile, source: &Source<'_>) -> Result<(), Failure> {
    if file.lead != ME && file.lead_member().is_none() {
        let what = format!("\"{}\" is not a member. Use \"{ME}\", or the name of one of the members", file.lead);
        return Err(source.wrong(&["lead"], &what));
    }
    Name::parse_member(file.user(), "user").map_err(|refusal| refused(source, &["user"], &refusal))?;
    if is_same(file.user(), LOCAL) {
        return Err(source.wrong(&["user"], &format!("\"{LOCAL}\" is the name of the local host: use another name")));
    }
    match file.members.iter().position(|member| is_same(&member.name, file.user())) {
        Some(index) => Err(source.wrong(
            &["members", &index.to_string(), "name"],
            &format!("\"{}\" is your own name. Use another name, or set yours with the key `user`", file.user()),
        )),
        None => Ok(()),
    }
}

fn check_rules(file: &mut TeamFile, source: &Source<'_>) -> Result<(), Failure> {
    for (index, rule) in file.permissions.rules.iter().enumerate() {
        let rule = permission_rule::check(&rule.to_protocol()).map_err(|refusal| {
            let key = refusal.field.as_deref().and_then(|field| field.strip_prefix("rule.")).unwrap_or_default();
            refused(source, &["permissions", "rules", &index.to_string(), key], &refusal)
        })?;
        let is_known = |name: &str| file.members.iter().any(|member| is_same(&member.name, name));
        if !rule.member.is_empty() && !is_known(&rule.member) {
            let what = format!("\"{}\" is not one of the members", rule.member);
            return Err(source.wrong(&["permissions", "rules", &index.to_string(), "member"], &what));
        }
        file.rules.push(rule);
    }
    Ok(())
}

fn check_tasks(file: &TeamFile, source: &Source<'_>) -> Result<(), Failure> {
    let mut keys = BTreeSet::new();
    for (index, task) in file.tasks.iter().enumerate() {
        let index = index.to_string();
        let at = |key| ["tasks", &index, key];
        let is_line = |text: &str| !text.trim().is_empty() && !text.chars().any(char::is_control);
        for (key, text) in [("subject", task.subject.as_str()), ("key", task.key())] {
            if !is_line(text) {
                return Err(source.wrong(&at(key), "one line, not empty"));
            }
        }
        if !keys.insert(task.key()) {
            let what = format!("two tasks have the key \"{}\"; without a key, the subject is the key", task.key());
            return Err(source.wrong(&at("subject"), &what));
        }
        let is_known = |owner: &String| {
            is_same(owner, file.user()) || file.members.iter().any(|member| is_same(&member.name, owner))
        };
        if let Some(owner) = task.owner.as_ref().filter(|owner| !is_known(owner)) {
            let what = format!("\"{owner}\" is neither one of the members nor you, {}", file.user());
            return Err(source.wrong(&at("owner"), &what));
        }
    }
    for (index, task) in file.tasks.iter().enumerate() {
        if let Some(unknown) = task.blocked_by.iter().find(|key| !keys.contains(key.as_str())) {
            let path = ["tasks", &index.to_string(), "blocked_by"];
            return Err(source.wrong(&path, &format!("no task has the key \"{unknown}\"")));
        }
    }
    match circle(file) {
        Some(index) => Err(source.wrong(
            &["tasks", &index.to_string(), "blocked_by"],
            &format!("\"{}\" is blocked by itself, directly or through other tasks", file.tasks[index].key()),
        )),
        None => Ok(()),
    }
}

/// Returns the index of a task that depends on itself.
fn circle(file: &TeamFile) -> Option<usize> {
    let ordered: BTreeSet<&str> = file.tasks_in_order().iter().map(|task| task.key()).collect();
    let index_of = |key: &str| file.tasks.iter().position(|task| task.key() == key);
    let first = file.tasks.iter().position(|task| !ordered.contains(task.key()))?;
    // Every task that could not be put in order leads into a cycle.
    file.tasks.iter().try_fold(first, |at, _| {
        index_of(file.tasks[at].blocked_by.iter().find(|key| !ordered.contains(key.as_str()))?)
    })
}

fn refused(source: &Source<'_>, path: &[&str], refusal: &Refusal) -> Failure {
    source.wrong(path, &refusal.message)
}

fn how_to_write(path: &Path) -> String {
    if path.exists() {
        return String::new();
    }
    format!(
        "\n\nWrite {}, for example:\n\n    name = \"acme\"\n\n    [[members]]\n    name = \"backend\"\n    profile = \"claude\"\n    \
         prompt = \"You own the API.\"\n",
        path.display()
    )
}

#[cfg(test)]
mod tests;
