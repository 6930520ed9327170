//! Requests of the program: permissions, tool calls and questions.

use super::*;

#[test]
fn tools_are_called_and_their_results_returned() {
    let mut script = Script::ready(Setup::default());
    let input = json!({"to": "lead", "message": "hi"});
    let call = json!({"callId": "call_1", "namespace": null, "tool": "SendMessage", "arguments": input});
    script.request("item/tool/call", 0, call);
    let [Event::ToolCalled { key, tool, input: called }] = &script.events()[..] else { panic!("no call") };
    assert_eq!((tool.as_str(), called), ("SendMessage", &input));
    script.codex.tool_result(key, ToolResult { text: "Sent to lead.".into(), is_error: false }, &mut script.out);
    let content = json!([{"type": "inputText", "text": "Sent to lead."}]);
    assert_eq!(script.out.lines, [json!({"id": 0, "result": {"contentItems": content, "success": true}})]);
}

#[test]
fn a_command_runs_only_with_permission() {
    let mut script = Script::ready(Setup::default());
    let asks = json!({"kind": "command", "itemId": "call_8", "reason": "Need to touch",
        "command": "/bin/bash -lc 'touch /escaped'", "cwd": "/work",
        "commandActions": [{"type": "unknown", "command": "touch /escaped"}]});
    script.request("item/commandExecution/requestApproval", 0, asks.clone());
    let [Event::PermissionWanted(request)] = &script.events()[..] else { panic!("no permission request") };
    assert_eq!((request.tool.as_str(), request.summary.as_str()), ("command", "/bin/bash -lc 'touch /escaped'"));
    assert_eq!(request.detail, "/bin/bash -lc 'touch /escaped'\nDirectory: /work\nReason: Need to touch");
    script.codex.decide(&request.key, Decision::Allow, &mut script.out);
    assert_eq!(script.out.lines.remove(0), json!({"id": 0, "result": {"decision": "accept"}}));
    script.notify("serverRequest/resolved", json!({"requestId": 0}));
    assert_eq!(script.events(), []);
}

#[test]
fn a_refusals_reason_is_sent_to_the_turn_before_the_refusal_itself() {
    let mut script = Script::ready(Setup::default());
    script.request("item/commandExecution/requestApproval", 3, json!({"command": "rm -r /", "cwd": "/work"}));
    script.codex.decide("3", Decision::Deny("lead said no: not now".to_owned()), &mut script.out);
    let steer = script.asked("turn/steer");
    assert_eq!((&steer["params"]["expectedTurnId"], &steer["params"]["threadId"]), (&json!(TURN), &json!(THREAD)));
    let text = "Your request for permission (command) was refused. lead said no: not now";
    assert_eq!(steer["params"]["input"][0]["text"], text);
    assert_eq!(script.out.lines, [json!({"id": 3, "result": {"decision": "decline"}})]);
}

#[test]
fn an_edit_is_shown_with_its_changes() {
    let mut script = Script::ready(Setup::default());
    let item = json!({"type": "fileChange", "id": "call_b6", "status": "inProgress",
        "changes": [{"path": "/out.txt", "kind": {"type": "add"}, "diff": "hello\n"}]});
    script.notify("item/started", json!({"item": item, "turnId": TURN}));
    script.request(
        "item/fileChange/requestApproval",
        0,
        json!({"itemId": "call_b6", "reason": null, "grantRoot": null}),
    );
    let [Event::Activity(_), Event::PermissionWanted(request)] = &script.events()[..] else {
        panic!("no permission request")
    };
    assert_eq!((request.summary.as_str(), request.detail.as_str()), ("/out.txt", "add /out.txt\nhello"));
}

#[test]
fn a_rule_can_match_only_what_will_really_run() {
    let setup = || Setup { directory: "/work".into(), ..Setup::default() };
    let mut script = Script::ready(setup());
    let mut id = 10;
    let mut used = |method: &str, params: Value| {
        id += 1;
        script.request(method, id, params);
        match script.events().pop() {
            Some(Event::PermissionWanted(request)) => request.tool_use,
            event => panic!("{event:?}"),
        }
    };
    let mut command = |more: Value| {
        let mut params = json!({"command": "/bin/bash -lc 'touch /escaped'", "cwd": "/work/a", "reason": "r"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        used("item/commandExecution/requestApproval", params)
    };
    let plain = command(json!({})).unwrap();
    assert_eq!((&*plain.command, &*plain.directory), ("touch /escaped", "/work"));
    assert_eq!(command(json!({"cwd": "/"})), None, "it runs elsewhere");
    assert_eq!(command(json!({"cwd": null})), None);
    assert_eq!(command(json!({"networkApprovalContext": {"host": "example.org"}})), None);
    assert_eq!(command(json!({"additionalPermissions": {"network": true}})), None);
    assert_eq!(command(json!({"command": "/bin/bash -lc 'x' y"})), None);
    let asks = json!({"permissions": {"network": {"enabled": true}}});
    assert_eq!(used("item/permissions/requestApproval", asks), None);

    let mut script = Script::ready(setup());
    let mut edit = |changes: Value, more: Value| {
        let item = json!({"type": "fileChange", "id": "e", "status": "inProgress", "changes": changes});
        script.notify("item/started", json!({"item": item, "turnId": TURN}));
        let mut params = json!({"itemId": "e", "grantRoot": null});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        script.request("item/fileChange/requestApproval", 1, params);
        match script.events().pop() {
            Some(Event::PermissionWanted(request)) => request.tool_use.map(|what| what.paths.join(" ")),
            event => panic!("{event:?}"),
        }
    };
    let moved = json!([{"path": "a", "kind": {"type": "update", "move_path": "/b"}, "diff": ""},
        {"path": "/work/../c", "kind": {"type": "add"}, "diff": ""}]);
    assert_eq!(edit(moved.clone(), json!({})).as_deref(), Some("/work/a /c /b"));
    assert_eq!(edit(moved, json!({"grantRoot": "/"})), None);
    assert_eq!(edit(json!([]), json!({})), None);
}

#[test]
fn permissions_are_granted_exactly_as_requested_or_not_at_all() {
    let mut script = Script::ready(Setup::default());
    let asks = json!({"itemId": "call_f", "reason": "need net", "permissions": {"network": {"enabled": true}, "fileSystem": null}});
    for (id, decision, granted) in
        [(0, Decision::Allow, asks["permissions"].clone()), (1, Decision::Deny(String::new()), json!({}))]
    {
        script.request("item/permissions/requestApproval", id, asks.clone());
        script.codex.decide(&id.to_string(), decision, &mut script.out);
        let answer = script.out.lines.pop().expect("an answer");
        assert_eq!(answer, json!({"id": id, "result": {"permissions": granted, "scope": "turn"}}));
    }
}

#[test]
fn a_tool_of_another_mcp_server_is_called_only_with_permission() {
    let mut script = Script::ready(Setup::default());
    let asks = json!({"serverName": "files", "mode": "form", "message": "Allow the files MCP server to run tool \"Write\"?",
        "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_name": "Write", "tool_params": {"to": "a"}},
        "requestedSchema": {"type": "object", "properties": {}}});
    script.request("mcpServer/elicitation/request", 2, asks);
    let [Event::PermissionWanted(request)] = &script.events()[..] else { panic!("no permission request") };
    assert_eq!((request.tool.as_str(), request.detail.contains("\"to\": \"a\"")), ("files.Write", true));
    script.codex.decide("2", Decision::Allow, &mut script.out);
    assert_eq!(script.out.lines, [json!({"id": 2, "result": {"action": "accept", "content": {}}})]);
}

#[test]
fn a_permission_request_that_the_program_gives_up_is_withdrawn() {
    let mut script = Script::ready(Setup::default());
    script.request("item/commandExecution/requestApproval", 2, json!({"command": "make"}));
    script.events();
    script.notify("serverRequest/resolved", json!({"requestId": 2}));
    assert_eq!(script.events(), [Event::WishWithdrawn { key: "2".to_owned() }]);
    script.codex.decide("2", Decision::Allow, &mut script.out);
    assert_eq!(script.out.lines, Vec::<Value>::new());
}

#[test]
fn every_other_request_is_answered() {
    let mut script = Script::ready(Setup::default());
    script.request("attestation/generate", 5, json!({}));
    let answer = script.out.lines.remove(0);
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32601)));
    script.request(
        "mcpServer/elicitation/request",
        6,
        json!({"mode": "url", "url": "https://example.org", "_meta": null}),
    );
    assert_eq!(script.out.lines.remove(0), json!({"id": 6, "result": {"action": "decline"}}));
    script.request("item/tool/requestUserInput", 7, json!({"itemId": "call_1", "questions": [], "isBlocking": true}));
    assert!(script.said("turn/steer").contains("SendMessage"));
    assert_eq!(script.out.lines, [json!({"id": 7, "result": {"answers": {}}})]);
    assert_eq!(script.events(), []);
}
