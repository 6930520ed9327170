//! Programs that offer other answers than those for one call.

use super::*;

/// A request for permission with other options, written as opencode writes them.
fn wants_with(id: i64, options: &[(&str, &str)]) -> Value {
    let mut wants = wants(
        id,
        json!({"toolCallId": "call_1", "title": "touch x", "kind": "execute", "status": "pending", "locations": [],
            "rawInput": {"command": "touch x"}}),
    );
    wants["params"]["options"] = options
        .iter()
        .map(|(kind, name)| json!({"optionId": format!("o-{kind}"), "kind": kind, "name": name}))
        .collect();
    wants
}

fn requested(out: &Outbox) -> &PermissionRequest {
    let request = out.events.iter().find_map(|event| match event {
        Event::PermissionWanted(request) => Some(request),
        _ => None,
    });
    request.expect("a permission request")
}

#[test]
fn an_approver_learns_that_an_answer_holds_for_later_calls_and_is_asked_once() {
    let mut acp = ready(OPENCODE);
    hand_over(&mut acp, 1);
    let options = [("allow_always", "Always allow"), ("reject_once", "Reject")];
    let mut out = read(&mut acp, [wants_with(0, &options)]);
    let detail = requested(&out).detail.clone();
    assert!(detail.starts_with("The program offers no permission for this call only. If you approve"), "{detail}");
    assert!(detail.contains("\"Always allow\"") && detail.ends_with("\n\ntouch x"), "{detail}");
    assert!(!detail.contains("If you reject"), "{detail}");
    acp.decide("0", Decision::Allow, &mut out);
    assert_eq!(chosen(&out), [&json!("o-allow_always")]);

    let options = [("allow_once", "Allow"), ("reject_always", "Never")];
    let mut out = read(&mut acp, [wants_with(1, &options)]);
    let detail = requested(&out).detail.clone();
    assert!(detail.contains("If you reject, it chooses \"Never\"") && !detail.contains("If you approve"), "{detail}");
    acp.decide("1", Decision::Deny("No.".to_owned()), &mut out);
    assert_eq!(chosen(&out), [&json!("o-reject_always")]);
}

#[test]
fn a_call_that_no_option_permits_is_refused_without_asking_and_the_agent_reads_why() {
    let mut acp = ready(OPENCODE);
    let id = hand_over(&mut acp, 1);
    let out = read(&mut acp, [wants_with(0, &[("reject_once", "Reject")])]);
    assert!(out.events.is_empty(), "{out:?}");
    assert_eq!(chosen(&out), [&json!("o-reject_once")]);
    let out = read(&mut acp, [wants_with(1, &[])]);
    assert_eq!(out.lines[0]["result"], json!({"outcome": {"outcome": "cancelled"}}));
    let out = read(&mut acp, [ended(id, "end_turn")]);
    let text = out.lines[0]["params"]["prompt"][0]["text"].as_str().expect("a prompt");
    assert_eq!(text.matches("offers no answer that permits it").count(), 2, "{text}");
}
