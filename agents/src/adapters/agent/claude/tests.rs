use super::{super::protocol::McpCommand, *};

fn lifecycle(uuid: &str, state: &str) -> Value {
    json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state, "session_id": "s"})
}

/// Hands over a prompt, and returns its frame's UUID.
fn hand_over(claude: &mut Claude, id: PromptId) -> String {
    let mut out = Outbox::default();
    claude.prompt(Prompt { id, text: format!("prompt {id}") }, &mut out);
    assert_eq!(out.lines[0]["message"], json!({"role": "user", "content": format!("prompt {id}")}));
    text(&out.lines[0], "uuid").to_owned()
}

fn read(claude: &mut Claude, lines: impl IntoIterator<Item = Value>) -> Outbox {
    let mut out = Outbox::default();
    lines.into_iter().for_each(|line| claude.read(line, &mut out));
    out
}

#[test]
fn a_prompt_is_processed_when_its_turn_has_ended_and_not_when_it_is_taken() {
    let mut claude = Claude::new(Setup::default());
    let (first, second) = (hand_over(&mut claude, 1), hand_over(&mut claude, 2));
    let replay = json!({"type": "user", "uuid": first, "isReplay": true, "message": {}});
    let out = read(&mut claude, [lifecycle(&first, "queued"), lifecycle(&first, "started"), replay]);
    assert_eq!(out.events, [Event::Taken(1)]);
    let result = json!({"type": "result", "is_error": false, "total_cost_usd": 0.5, "modelUsage": {
        "m": {"inputTokens": 7, "outputTokens": 2, "cacheReadInputTokens": 3, "cacheCreationInputTokens": 1}}});
    let out = read(&mut claude, [result, lifecycle(&first, "completed"), lifecycle(&second, "completed")]);
    let usage = Usage { turns: 1, input_tokens: 11, cached_tokens: 3, output_tokens: 2, cost_usd: Some(0.5) };
    assert_eq!(out.events, [Event::Usage(usage), Event::ended(""), Event::Processed(1), Event::Processed(2)]);
}

#[test]
fn a_resumed_session_is_not_counted_twice() {
    let used_before = Usage { turns: 2, input_tokens: 20, output_tokens: 40, cost_usd: Some(0.5), ..Usage::default() };
    let mut claude = Claude::new(Setup { resume: Some("s".to_owned()), used_before, ..Setup::default() });
    let result =
        json!({"type": "result", "total_cost_usd": 0.75, "modelUsage": {"m": {"inputTokens": 30, "outputTokens": 60}}});
    let out = read(&mut claude, [result]);
    let usage = Usage { turns: 1, input_tokens: 10, output_tokens: 20, cost_usd: Some(0.25), ..Usage::default() };
    assert_eq!(out.events, [Event::Usage(usage), Event::ended("")]);
    assert_eq!(used_before.plus(usage).cost_usd, Some(0.75));
}

#[test]
fn usage_is_reported_within_a_turn_and_each_reply_is_counted_once() {
    let mut claude = Claude::new(Setup::default());
    let part = |id: &str, output: u64| {
        json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": id, "content": [],
            "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": output}}})
    };
    let used = |input_tokens, cached_tokens, output_tokens| {
        Event::Usage(Usage { input_tokens, cached_tokens, output_tokens, ..Usage::default() })
    };
    let event = |event: Value| json!({"type": "stream_event", "parent_tool_use_id": null, "event": event});
    let begun = event(json!({"type": "message_start", "message": part("b", 0)["message"]}));
    let ended = event(json!({"type": "message_delta", "usage": {"output_tokens": 3}}));
    let out = read(&mut claude, [part("a", 1), part("a", 1), begun, part("b", 0), ended, part("b", 0)]);
    assert_eq!(out.events, [used(7, 2, 1), used(14, 4, 1), used(14, 4, 4)]);
    let result = json!({"type": "result", "total_cost_usd": 0.5,
        "modelUsage": {"m": {"inputTokens": 10, "cacheReadInputTokens": 4, "outputTokens": 4}}});
    let ended = Usage { turns: 1, input_tokens: 14, cached_tokens: 4, output_tokens: 4, cost_usd: Some(0.5) };
    assert_eq!(read(&mut claude, [result]).events, [Event::Usage(ended), Event::ended("")]);
    let next = Usage { input_tokens: 21, cached_tokens: 6, output_tokens: 5, ..ended };
    assert_eq!(read(&mut claude, [part("c", 1)]).events, [Event::Usage(next)]);
}

#[test]
fn a_process_that_was_killed_in_the_middle_of_a_turn_does_not_hide_what_its_successor_uses() {
    // The runner knows of 100 tokens, 40 of them from a turn that was killed. The program remembers the other 60, and
    // uses 20 in the first turn after the kill.
    let used_before = Usage { turns: 2, input_tokens: 100, output_tokens: 10, cost_usd: Some(1.0), ..Usage::default() };
    let mut claude = Claude::new(Setup { resume: Some("s".to_owned()), used_before, ..Setup::default() });
    let reply = json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": "a", "content": [],
        "usage": {"input_tokens": 20, "output_tokens": 5}}});
    let result = json!({"type": "result", "total_cost_usd": 1.25,
        "modelUsage": {"m": {"inputTokens": 80, "outputTokens": 11}}});
    let out = read(&mut claude, [reply, result]);
    let Some(Event::Usage(used)) = out.events.iter().nth_back(1) else { panic!("{out:?}") };
    assert_eq!((used.input_tokens, used.output_tokens, used.cost_usd), (20, 5, Some(0.25)));
}

#[test]
fn the_version_and_the_calls_that_run_are_noted() {
    let mut claude = Claude::new(Setup::default());
    let init = json!({"type": "system", "subtype": "init", "session_id": "s", "claude_code_version": "2.1.197"});
    let call = json!({"type": "assistant", "parent_tool_use_id": null, "message": {"content": [
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}]}});
    let result = json!({"type": "user", "parent_tool_use_id": null, "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "done"}]}});
    let out = read(&mut claude, [init, call, result]);
    let began = Change::CallBegan { key: "t1".to_owned(), line: "Bash: make".to_owned() };
    let over = Change::Trouble(String::new());
    let version = Change::Version("Claude Code 2.1.197 (tried: 2.1.332)".to_owned());
    assert_eq!(out.changes, [version, over, began, Change::CallEnded { key: "t1".to_owned() }]);
}

#[test]
fn usage_of_a_killed_process_is_not_subtracted_from_its_successors() {
    let used_before =
        Usage { turns: 2, input_tokens: 20, output_tokens: 40, cost_usd: Some(0.00088), ..Usage::default() };
    let mut claude = Claude::new(Setup { resume: Some("s".to_owned()), used_before, ..Setup::default() });
    let result = |turns: u64, cost: f64| {
        json!({"type": "result", "total_cost_usd": cost,
            "modelUsage": {"m": {"inputTokens": 10 * turns, "outputTokens": 20 * turns}}})
    };
    // The third turn brings the count to what was used before, and must not change what is subtracted.
    for (turns, cost) in [(1, 0.00044), (2, 0.00088), (3, 0.00132)] {
        let out = read(&mut claude, [result(turns, cost)]);
        let usage = Usage {
            turns,
            input_tokens: 10 * turns,
            output_tokens: 20 * turns,
            cost_usd: Some(cost),
            ..Usage::default()
        };
        assert_eq!(out.events, [Event::Usage(usage), Event::ended("")]);
    }
}

#[test]
fn a_turn_ends_with_what_the_model_wrote_last_even_if_its_last_line_cannot_be_read() {
    let says =
        |content: Value| json!({"type": "assistant", "parent_tool_use_id": null, "message": {"content": [content]}});
    let text = |text: &str| says(json!({"type": "text", "text": text}));
    let edit = says(json!({"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "/w/a.rs"}}));
    let mut claude = Claude::new(Setup::default());
    let mut out = read(&mut claude, [text("I look."), edit.clone(), text("Report.")]);
    assert!(out.changes.contains(&Change::FileChanged("/w/a.rs".to_owned())), "{out:?}");
    claude.unreadable(&json!({"type": "result", "subtype": "success"}), &mut out);
    assert!(out.events.contains(&Event::ended("Report.")), "{out:?}");
    let result = json!({"type": "result", "is_error": false, "result": "The whole report."});
    let out = read(&mut claude, [text("The whole"), result]);
    assert!(out.events.contains(&Event::ended("The whole report.")), "{out:?}");
    let out = read(&mut claude, [text("I look."), edit, json!({"type": "result", "is_error": false, "result": ""})]);
    assert!(out.events.contains(&Event::ended("")), "what comes before a tool call is no report: {out:?}");
}

#[test]
fn a_prompt_whose_turn_failed_is_handed_over_again_under_a_new_id() {
    let mut claude = Claude::new(Setup::default());
    let first = hand_over(&mut claude, 1);
    let result = json!({"type": "result", "is_error": true, "result": "API Error: 529"});
    let mut out = read(&mut claude, [result, lifecycle(&first, "cancelled")]);
    assert_eq!(out.events.pop_back(), Some(Event::Failed(1, "API Error: 529".to_owned())));
    assert_ne!(hand_over(&mut claude, 2), first);
}

#[test]
fn without_a_lifecycle_there_is_one_prompt_at_a_time_which_ends_with_its_turn() {
    let mut claude = Claude::new(Setup::default());
    for (is_error, outcome) in [(false, Event::Processed(1)), (true, Event::Failed(1, "down".to_owned()))] {
        assert!(claude.accepts_prompt());
        hand_over(&mut claude, 1);
        assert!(!claude.accepts_prompt(), "the version is unknown until it reports a lifecycle");
        // It is not repeated, as every prompt that begins with `<teammate-message`.
        let out = read(&mut claude, [json!({"type": "result", "is_error": is_error, "result": "down"})]);
        assert_eq!(out.events.back(), Some(&outcome));
    }
    let first = hand_over(&mut claude, 2);
    read(&mut claude, [lifecycle(&first, "queued")]);
    assert!(claude.accepts_prompt());
}

#[test]
fn a_line_that_cannot_be_read_is_refused_or_ends_the_turn() {
    let mut claude = Claude::new(Setup::default());
    let mut out = Outbox::default();
    claude.unreadable(&json!({"type": "control_request", "request_id": "r1"}), &mut out);
    assert_eq!(out.lines[0]["response"]["response"]["behavior"], "deny");
    assert_eq!(out.lines[0]["response"]["request_id"], "r1");
    hand_over(&mut claude, 1);
    claude.unreadable(&json!({"type": "result", "subtype": "success"}), &mut out);
    assert_eq!(out.events.pop_back(), Some(Event::Processed(1)));
    claude.unreadable(&json!({"type": "assistant"}), &mut out);
    assert_eq!(out.lines.len(), 1);
}

#[test]
fn a_permission_request_is_answered_once_with_its_input_and_can_be_withdrawn() {
    let mut claude = Claude::new(Setup::default());
    let asks = json!({"type": "control_request", "request_id": "r1", "request": {
        "subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "make", "description": "Build"}}});
    let mut out = read(&mut claude, [asks.clone()]);
    let Some(Event::PermissionWanted(request)) = out.events.pop_front() else { panic!("{out:?}") };
    assert_eq!((request.tool.as_str(), request.summary.as_str(), request.detail.as_str()), ("Bash", "Build", "make"));
    claude.decide("r1", Decision::Allow, &mut out);
    let response = &out.lines[0]["response"];
    assert_eq!(response["response"]["updatedInput"], json!({"command": "make", "description": "Build"}));
    assert_eq!((&response["request_id"], out.lines.len()), (&json!("r1"), 1));
    claude.decide("r1", Decision::Allow, &mut out);
    assert_eq!(out.lines.len(), 1, "a permission request is answered once");
    let withdrawn = read(&mut claude, [asks, json!({"type": "control_cancel_request", "request_id": "r1"})]);
    assert!(withdrawn.events.contains(&Event::WishWithdrawn { key: "r1".to_owned() }));
}

#[test]
fn the_approver_sees_all_of_the_input() {
    let plain = json!({"command": "make", "description": "Build", "timeout": 5});
    assert_eq!(detail_of("Bash", &plain), "make");
    for (tool, input) in [
        ("Bash", json!({"command": "make", "dangerouslyDisableSandbox": true})),
        ("mcp__editor__edit", json!({"command": "create", "path": "/etc/passwd"})),
    ] {
        let detail = detail_of(tool, &input);
        assert_eq!(serde_json::from_str::<Value>(&detail).ok(), Some(input), "{detail}");
    }
}

#[test]
fn a_rule_can_match_only_what_is_sure() {
    let used = |tool: &str, input: Value| {
        use_of(tool, &input, Path::new("/work")).map(|what| (what.command, what.paths.join(" ")))
    };
    let command = |command: &str| Some((command.to_owned(), String::new()));
    let path = |path: &str| Some((String::new(), path.to_owned()));
    assert_eq!(used("Bash", json!({"command": "make", "description": "Build", "timeout": 5})), command("make"));
    assert_eq!(used("Bash", json!({"command": "make", "dangerouslyDisableSandbox": true})), None);
    assert_eq!(used("Bash", json!({"command": "bash -c 'make'"})), command("bash -c 'make'"), "no shell is taken away");
    assert_eq!(used("Bash", json!({})), None);
    for tool in ["Edit", "MultiEdit", "Read", "Write"] {
        assert_eq!(used(tool, json!({"file_path": "/work/../etc/x"})), path("/etc/x"));
        assert_eq!(used(tool, json!({"path": "/x"})), None);
    }
    assert_eq!(used("NotebookEdit", json!({"notebook_path": "a.ipynb"})), path("/work/a.ipynb"));
    assert_eq!(used("mcp__db__query", json!({"command": "drop"})), path(""));
    assert_eq!(used("WebFetch", json!({"url": "https://example.org"})), path(""));
    for unknown in ["Task", "Glob", "KillShell", "PowerShell"] {
        assert_eq!(used(unknown, json!({"command": "x", "file_path": "/x"})), None, "{unknown}");
    }
}

#[test]
fn no_secret_is_among_the_arguments() {
    let environment = vec![("TEAMWIRE_CREDENTIAL".to_owned(), "secret".to_owned())];
    let mcp = McpCommand { program: "teamwire".to_owned(), arguments: vec!["mcp".to_owned()], environment };
    let launch = Claude::new(Setup { mcp: Some(mcp), ..Setup::default() }).launch();
    assert!(launch.before.iter().any(|argument| argument.to_string_lossy().contains("alwaysLoad")));
    assert!(!launch.before.iter().any(|argument| argument.to_string_lossy().contains("secret")));
}

#[test]
fn leaving_plan_mode_submits_the_plan_and_an_empty_plan_is_denied() {
    let asks = |input: Value| {
        json!({"type": "control_request", "request_id": "r1", "request": {
            "subtype": "can_use_tool", "tool_name": "ExitPlanMode", "input": input}})
    };
    let mut claude = Claude::new(Setup::default());
    let out = read(&mut claude, [asks(json!({"plan": "1. do", "planFilePath": "/p.md"}))]);
    assert_eq!(out.events, [Event::PlanReady { key: "r1".to_owned(), plan: "1. do".to_owned() }]);
    let out = read(&mut claude, [asks(json!({}))]);
    assert_eq!(out.lines[0]["response"]["response"]["behavior"], json!("deny"));
}

#[test]
fn the_system_prompt_says_who_the_agent_is_unless_the_user_adds_to_it() {
    let added = |arguments: &[&str]| {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let identity = "You are ann.".to_owned();
        let before = Claude::new(Setup { arguments, identity, ..Setup::default() }).launch().before;
        let option = before.iter().position(|argument| argument == "--append-system-prompt");
        option.map(|at| before[at + 1].to_string_lossy().into_owned())
    };
    assert_eq!(added(&["--model", "x"]).as_deref(), Some("You are ann."));
    assert_eq!(added(&["--append-system-prompt", "Be brief."]), None);
    assert_eq!(added(&["--append-system-prompt-file=x"]), None);
}

#[test]
fn a_plan_comes_first_only_if_the_user_chose_no_mode() {
    let modes = |arguments: &[&str]| {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let launch = Claude::new(Setup { arguments, plan_first: true, ..Setup::default() }).launch();
        launch.before.iter().filter(|argument| *argument == "--permission-mode").count()
    };
    assert_eq!((modes(&[]), modes(&["--permission-mode", "x"]), modes(&["--permission-mode=x"])), (1, 0, 0));
}
