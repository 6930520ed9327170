use super::*;

/// Returns what is wrong with a text.
fn wrong(text: &str) -> String {
    parse("team.toml", text, Path::new("/")).expect_err(text).message()
}

const MEMBER: &str = "name = \"acme\"\n\n[[members]]\nname = \"backend\"\nprofile = \"claude\"\n";

#[test]
fn errors_name_the_line_the_key_and_what_is_allowed() {
    let cases = [
        (
            "nome = \"acme\"",
            "team.toml:1: unknown field `nome`, expected one of `name`, `description`, `lead`, `user`, `budget`, `members`, `tasks`, `permissions`, `hosts`",
        ),
        ("name = \"a b\"", "team.toml:1: name: \"a b\" is not a name. Use 1 to 63"),
        ("lead = \"me\"", "missing field `name`"),
        ("name = 3", "team.toml:1: invalid type: integer `3`, expected a string, in `name`"),
        ("name = \"acme\"\nname = \"b\"", "team.toml:2: duplicate key"),
        ("name = \"acme\"\nlead = \"ann\"", "team.toml:2: lead: \"ann\" is not a member. Use \"me\""),
        (
            &format!("{MEMBER}prompts = \"x\""),
            "team.toml:6: unknown field `prompts`, expected one of `name`, `profile`, `host`",
        ),
        (
            &format!("{MEMBER}restart = \"often\""),
            "team.toml:6: unknown variant `often`, expected one of `never`, `on-failure`, `always`",
        ),
        (
            &format!("{MEMBER}host = \"gpu-1\"\nreschedule = true"),
            "team.toml:7: members.reschedule: the coordinator chooses another host if this one is lost: leave out host",
        ),
        (
            &format!("{MEMBER}[[permissions.rules]]\ntool = \"Bash\"\ncommand = \"sudo *\""),
            "team.toml:8: permissions.rules.command: sudo can run any command, so this rule would permit everything",
        ),
        (
            &format!("{MEMBER}[[permissions.rules]]\ntool = \"Edit\"\npath = \"../x\""),
            "team.toml:8: permissions.rules.path: A rule's path must be",
        ),
        (
            &format!("{MEMBER}[[permissions.rules]]\ntool = \"Edit\"\npath = \"./\"\nmember = \"zed\""),
            "team.toml:9: permissions.rules.member: \"zed\" is not one of the members",
        ),
        (&format!("{MEMBER}[permissions]\naccepted = true"), "team.toml:7: unknown field `accepted`, expected `rules`"),
        (&format!("{MEMBER}dir = \"../x\""), "team.toml:6: members.dir: a relative path without \"..\""),
        (
            &format!("{MEMBER}prompt = \"x\"\nprompt_file = \"p.md\""),
            "team.toml:7: members.prompt_file: give either prompt or prompt_file",
        ),
        (
            &format!("{MEMBER}prompt_file = \"/nowhere/p.md\""),
            "team.toml:6: members.prompt_file: cannot read /nowhere/p.md: ",
        ),
        (
            &format!("{MEMBER}[[members]]\nname = \"Backend\"\nprofile = \"x\""),
            "team.toml:7: members.name: two members are named \"Backend\"",
        ),
        (
            &format!("{MEMBER}[[members]]\nname = \"team-lead\"\nprofile = \"x\""),
            "team.toml:7: members.name: No member can be named",
        ),
        (
            &format!("{MEMBER}[[members]]\nname = \"lead\"\nprofile = \"x\""),
            "team.toml:7: members.name: \"lead\" is your own name",
        ),
        (
            &format!("{MEMBER}[[members]]\nname = \"local\"\nprofile = \"x\""),
            "team.toml:7: members.name: no member can be named \"local\"",
        ),
        (&format!("{MEMBER}[[tasks]]\nsubject = \"\""), "team.toml:7: tasks.subject: one line, not empty"),
        (
            &format!("{MEMBER}[[tasks]]\nsubject = \"a\"\nowner = \"x\""),
            "team.toml:8: tasks.owner: \"x\" is neither one of the members nor you, lead",
        ),
        (
            &format!("{MEMBER}[[tasks]]\nsubject = \"a\"\nblocked_by = [\"b\"]"),
            "team.toml:8: tasks.blocked_by: no task has the key \"b\"",
        ),
        (
            &format!("{MEMBER}[[tasks]]\nsubject = \"a\"\n[[tasks]]\nsubject = \"a\""),
            "team.toml:9: tasks.subject: two tasks have the key \"a\"",
        ),
        (
            &format!(
                "{MEMBER}[[tasks]]\nsubject = \"a\"\nblocked_by = [\"b\"]\n[[tasks]]\nsubject = \"b\"\nblocked_by = [\"b\"]"
            ),
            "team.toml:11: tasks.blocked_by: \"b\" is blocked by itself",
        ),
        (
            &format!("{MEMBER}host = \"Local\"\n[hosts.local.profiles.echo]\ncommand = [\"cat\"]"),
            "team.toml:5: members.profile: the local host has no profile \"claude\", but echo.",
        ),
        (
            &format!("{MEMBER}host = \"local\"\n[hosts.local]\nslots = 2"),
            "team.toml:5: members.profile: the local host has no profile: add [hosts.local.profiles.claude].",
        ),
        (&format!("{MEMBER}[hosts.gpu]"), "unknown field `gpu`, expected `local`"),
    ];
    for (text, expected) in cases {
        let message = wrong(text);
        assert!(message.contains(expected), "{text}\n{message}\n{expected}");
        assert!(message.starts_with("team.toml:"), "{message}");
    }
}

#[test]
fn defaults_are_those_of_a_team_led_by_a_person() {
    let file = parse("team.toml", MEMBER, Path::new("/")).unwrap();
    assert_eq!((file.lead_name(), file.user(), file.lead_member().is_none()), ("lead", "lead", true));
    assert_eq!((file.local, file.members[0].plan, file.members[0].restart), (None, false, None));
    let led = MEMBER.replacen('\n', "\nlead = \"Backend\"\n", 1);
    let file = parse("team.toml", &led, Path::new("/")).unwrap();
    assert_eq!((file.lead_name(), file.user()), ("backend", "user"));
}

#[test]
fn a_prompt_may_be_a_file_beside_the_teams_file() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("backend.md"), "You own the API.\n").unwrap();
    let path = directory.path().join("team.toml");
    fs::write(&path, format!("{MEMBER}prompt_file = \"backend.md\"")).unwrap();
    assert_eq!(load(&path).unwrap().members[0].prompt, "You own the API.\n");
    let missing = load(&directory.path().join("other.toml")).expect_err("missing").message();
    assert!(missing.contains("other.toml: No such file") && missing.contains("[[members]]"), "{missing}");
}

#[test]
fn the_configuration_of_the_local_host_becomes_a_separate_file() {
    let text = format!("{MEMBER}[hosts.local]\nslots = 2\n[hosts.local.profiles.claude]\ncommand = [\"claude\"]\n");
    let local = parse("team.toml", &text, Path::new("/")).unwrap().local.unwrap();
    let parsed: toml_edit::DocumentMut = local.parse().unwrap();
    assert_eq!(parsed["slots"].as_integer(), Some(2), "{local}");
    assert_eq!(parsed["profiles"]["claude"]["command"][0].as_str(), Some("claude"), "{local}");
}

#[test]
fn tasks_come_after_those_that_they_depend_on() {
    let text = "name = \"acme\"\n[[tasks]]\nkey = \"c\"\nsubject = \"C\"\nblocked_by = [\"b\", \"A\"]\n[[tasks]]\nkey = \"b\"\n\
                subject = \"B\"\nblocked_by = [\"A\"]\n[[tasks]]\nsubject = \"A\"\n";
    let file = parse("team.toml", text, Path::new("/")).unwrap();
    let keys: Vec<_> = file.tasks_in_order().iter().map(|task| task.key()).collect();
    assert_eq!(keys, ["A", "b", "c"]);
}
