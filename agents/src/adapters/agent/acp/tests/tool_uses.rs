//! What programs ask permission for, as permission rules match it.

use super::*;

/// Returns what a program asks permission for. `title`: the first one that it gives the call.
fn use_of(command: &str, title: &str, call: Value) -> Option<ToolUse> {
    let mut acp = ready(command);
    hand_over(&mut acp, 1);
    let begun = update(json!({"sessionUpdate": "tool_call", "toolCallId": call["toolCallId"], "title": title,
        "kind": "other", "status": "pending"}));
    let out = read(&mut acp, [begun, wants(0, call)]);
    out.events.into_iter().find_map(|event| match event {
        Event::PermissionWanted(request) => request.tool_use,
        _ => None,
    })
}

#[test]
fn a_command_is_what_its_input_says_and_nothing_else() {
    let command = |program: &str, title: &str, input: Value| {
        let call = json!({"toolCallId": "run_shell_command__1", "title": title, "kind": "execute", "rawInput": input});
        use_of(program, "bash", call).map(|what| what.command)
    };
    assert_eq!(command(OPENCODE, "lies", json!({"command": "make x", "description": "d"})).as_deref(), Some("make x"));
    assert_eq!(command(OPENCODE, "make x", Value::Null), None, "a title is not a command");
    assert_eq!(command(OPENCODE, "x", json!({"command": "make x", "env": {"PATH": "/tmp"}})), None);
    assert_eq!(command(OPENCODE, "x", json!({"command": "make x", "workdir": "/"})), None);
    assert_eq!(
        command(OPENCODE, "x", json!({"command": "make x", "workdir": format!("{WORK}/a")})).as_deref(),
        Some("make x")
    );
    let words = json!({"command": ["/bin/bash", "-lc", "make x"], "cwd": WORK});
    assert_eq!(command("other-agent", "x", words).as_deref(), Some("make x"));
    assert_eq!(command("other-agent", "x", json!({"command": ["make", "a b"]})).as_deref(), Some("make 'a b'"));
    assert_eq!(command("other-agent", "x", json!({"command": ["bash", "x.sh"]})), None);
    assert_eq!(command("other-agent", "make x", Value::Null), None);
    // Gemini CLI sends no input. Its title is the command, and its content says where it runs.
    let by_gemini = |title: &str, content: &str| {
        let content = json!([{"type": "content", "content": {"type": "text", "text": content}}]);
        let call = json!({"toolCallId": "run_shell_command__1", "title": title, "kind": "execute", "content": content});
        use_of(GEMINI, "x", call).map(|what| what.command)
    };
    assert_eq!(by_gemini("make x", "[current working directory /proj] (Build)").as_deref(), Some("make x"));
    assert_eq!(by_gemini("make x", "[in sub] ([current working directory /proj])"), None);
    assert_eq!(command(GEMINI, "make x", Value::Null).as_deref(), Some("make x"));
}

#[test]
fn an_edit_is_about_all_files_that_it_names() {
    let diff = |path: &str| json!({"type": "diff", "path": path, "newText": "x"});
    let edit = |kind: &str, content: Value, locations: Value| {
        let call = json!({"toolCallId": "c", "title": "t", "kind": kind, "content": content, "locations": locations});
        use_of(OPENCODE, "edit", call).map(|what| what.paths)
    };
    let [a, b] = ["a", "b"].map(|name| format!("{WORK}/{name}"));
    let locations = json!([{"path": b}]);
    assert_eq!(edit("edit", json!([diff(&a)]), locations.clone()), Some(vec![a.clone(), b.clone()]));
    assert_eq!(edit("read", json!([]), locations.clone()), Some(vec![b.clone()]));
    assert_eq!(edit("edit", json!([]), json!([])), None);
    for kind in ["delete", "move"] {
        assert_eq!(edit(kind, json!([diff(&a)]), locations.clone()), None, "{kind}");
    }
    let other = json!({"toolCallId": "c", "title": "t", "kind": "other", "rawInput": {"query": "q"}});
    assert_eq!(
        use_of(OPENCODE, "db_query", other.clone()),
        Some(ToolUse { directory: WORK.to_owned(), ..ToolUse::default() })
    );
    assert_eq!(use_of("other-agent", "db_query", other), None, "its tool is not known");
}

#[test]
fn no_rule_permits_what_would_also_permit_later_calls() {
    let mut acp = ready(OPENCODE);
    hand_over(&mut acp, 1);
    let call = json!({"toolCallId": "c", "title": "make", "kind": "execute", "rawInput": {"command": "make"}});
    let mut always = wants(0, call);
    always["params"]["options"] = json!([{"optionId": "a", "kind": "allow_always", "name": "Always"}]);
    let out = read(&mut acp, [always]);
    let Some(Event::PermissionWanted(request)) = out.events.back() else { panic!("{out:?}") };
    assert_eq!(request.tool_use, None);
}
