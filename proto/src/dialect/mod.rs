//! The JSON forms of SendMessage.
//!
//! Agents write two of them, and [`read`] accepts either:
//! - the classic one, `{"type", "recipient", "content", "summary", "request_id", "approve"}`, where `content` is also
//!   the reason of a shutdown, the plan, the feedback on it, and the detail of a permission request, which also has a
//!   `tool`;
//! - the newer one, `{"to", "message", "summary"}`, where `message` is a text, or for other kinds an object:
//!   `{"type", "request_id", "approve", "reason"}`.
//!
//! It also accepts mixtures, since models write them. Everywhere `to` is `recipient`, `message` is `content`,
//! `requestId` is `request_id`, `approved` is `approve`; outside of a message or broadcast, `reason`, `feedback`,
//! `plan` and `detail` are `content`. Two spellings of one field must agree. A message to `*` is a broadcast,
//! and a broadcast to `@TAG` is a message to it. An answer
//! may have `from` and `timestamp`, which are ignored.
//!
//! All may carry `in_reply_to`, `attachments` and `idempotency_key`. A null field counts as absent.
//!
//! [`read`] refuses ambiguous input, and every key that an object repeats ([`Json`]). The coordinator checks bounds,
//! names and permissions. [`write`](write()) returns the one JSON form of a delivered message.

mod fields;
mod json;
mod read;
mod write;

pub use json::Json;
pub use read::{read, read_object, resembles_field, resembles_type};
pub use write::write;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::{
        Kind, Reason,
        body::Parts,
        v1::{self, message, send_request::Body},
    };

    fn body(json: Value) -> Body {
        read(&json.to_string()).expect("a message").body.expect("a body")
    }

    /// Asserts that the JSON is refused with this reason, at this field, with a text that contains the hint.
    fn refused(json: Value, reason: Reason, field: &str, hint: &str) {
        let refusal = read(&json.to_string()).expect_err(&json.to_string());
        assert_eq!((refusal.reason, refusal.field.as_deref()), (reason, Some(field)), "{json}: {refusal}");
        assert!(refusal.message.contains(hint), "{json}: {refusal}");
    }

    #[test]
    fn the_classic_dialect_writes_every_text_as_content() {
        assert_eq!(
            body(json!({"type": "message", "recipient": "task-manager", "content": "任务", "summary": "摘要"})),
            Body::Message(v1::DirectMessage {
                recipient: "task-manager".into(),
                summary: "摘要".into(),
                content: "任务".into()
            })
        );
        assert_eq!(
            body(json!({"type": "shutdown_request", "recipient": "a", "content": "done", "summary": "ignored"})),
            Body::ShutdownRequest(v1::ShutdownRequest { recipient: "a".into(), reason: "done".into(), ttl: None })
        );
        assert_eq!(
            body(json!({"type": "shutdown_response", "request_id": "r", "approve": false, "content": "busy"})),
            Body::ShutdownResponse(v1::ShutdownResponse {
                request_id: "r".into(),
                approve: Some(false),
                reason: "busy".into()
            })
        );
        assert_eq!(
            body(json!({"type": "plan_approval_request", "content": "1. do", "summary": "s", "recipient": ""})),
            Body::PlanApprovalRequest(v1::PlanApprovalRequest { plan: "1. do".into(), summary: "s".into(), ttl: None })
        );
        assert_eq!(
            body(json!({"type": "plan_approval_response", "request_id": "r", "recipient": "a", "approve": true})),
            Body::PlanApprovalResponse(v1::PlanApprovalResponse {
                recipient: "a".into(),
                request_id: "r".into(),
                approve: Some(true),
                feedback: String::new()
            })
        );
    }

    #[test]
    fn the_newer_dialect_maps_to_the_same_messages() {
        assert_eq!(
            body(json!({"to": "a", "message": "hi", "summary": "s"})),
            body(json!({"type": "message", "recipient": "a", "content": "hi", "summary": "s"}))
        );
        assert_eq!(
            body(json!({"to": "*", "message": "hi", "summary": "s"})),
            body(json!({"type": "broadcast", "content": "hi", "summary": "s"}))
        );
        assert_eq!(
            body(json!({"to": "a", "message": {"type": "shutdown_request", "reason": "done"}})),
            body(json!({"type": "shutdown_request", "recipient": "a", "content": "done"}))
        );
        for to in [json!("team-lead"), json!("*"), Value::Null] {
            assert_eq!(
                body(json!({"to": to, "message": {"type": "shutdown_response", "requestId": "r", "approved": true}})),
                body(json!({"type": "shutdown_response", "request_id": "r", "approve": true}))
            );
        }
        assert_eq!(
            body(json!({"to": "a", "message":
                {"type": "plan_approval_response", "request_id": "r", "approve": false, "feedback": "no"}})),
            body(json!({"type": "plan_approval_response", "recipient": "a", "request_id": "r", "approve": false,
                "content": "no"}))
        );
    }

    #[test]
    fn a_message_or_a_broadcast_goes_to_a_tag() {
        let expected = body(json!({"type": "message", "recipient": "@api", "content": "hi", "summary": "s"}));
        for written in [
            json!({"to": "@api", "message": "hi", "summary": "s"}),
            json!({"type": "broadcast", "to": "@api", "content": "hi", "summary": "s"}),
            json!({"type": "broadcast", "recipient": "@api", "content": "hi", "summary": "s"}),
        ] {
            assert_eq!(body(written), expected);
        }
        let (summary, content, tag) = ("s".to_owned(), "hi".to_owned(), "api".to_owned());
        let broadcast = message::Body::Broadcast(v1::Broadcast { summary, content, tag });
        let json = write(&v1::Message { body: Some(broadcast), ..Default::default() });
        assert_eq!((&json["type"], &json["to"]), (&json!("broadcast"), &json!("@api")));
        assert_eq!(body(json!({"type": json["type"], "to": json["to"], "content": "hi", "summary": "s"})), expected);
    }

    #[test]
    fn a_permission_request_may_leave_its_recipient_out() {
        let ask = |recipient: &str, detail: &str| {
            let [recipient, detail] = [recipient, detail].map(str::to_owned);
            let (tool, summary) = ("Bash".to_owned(), "s".to_owned());
            Body::PermissionRequest(v1::PermissionRequest { recipient, tool, summary, detail, ..Default::default() })
        };
        let classic = json!({"type": "permission_request", "tool": "Bash", "summary": "s", "content": "rm x"});
        assert_eq!(body(classic), ask("", "rm x"));
        let named = json!({"type": "permission_request", "recipient": "a", "tool": "Bash", "summary": "s"});
        assert_eq!(body(named), ask("a", ""));
        let newer = json!({"to": "a", "summary": "s",
            "message": {"type": "permission_request", "tool": "Bash", "detail": "rm x"}});
        assert_eq!(body(newer), ask("a", "rm x"));
        // Not the lead: the coordinator refuses it.
        let everyone = json!({"type": "permission_request", "to": "*", "tool": "Bash", "summary": "s"});
        assert_eq!(body(everyone), ask("*", ""));
        let approval = json!({"type": "permission_request", "tool": "Bash", "approve": true});
        refused(approval, Reason::InvalidJson, "approve", "answers nothing");
        let misspelled = json!({"type": "permission_request", "toll": "Bash"});
        refused(misspelled, Reason::InvalidJson, "toll", "nearest is \"tool\"");
        let message = json!({"type": "message", "recipient": "a", "content": "c", "tool": "Bash"});
        refused(message, Reason::InvalidJson, "tool", "no field");
    }

    #[test]
    fn both_dialects_answer_a_permission_request() {
        let answer = |approve, reason: &str| {
            let (request_id, reason) = ("r".to_owned(), reason.to_owned());
            Body::PermissionResponse(v1::PermissionResponse {
                request_id,
                approve: Some(approve),
                reason,
                add_budget: None,
            })
        };
        let classic = json!({"type": "permission_response", "request_id": "r", "approve": false, "content": "no"});
        assert_eq!(body(classic), answer(false, "no"));
        let newer = json!({"to": "a", "message":
            {"type": "permission_response", "request_id": "r", "approve": false, "feedback": "no"}});
        assert_eq!(body(newer), answer(false, "no"));
        let spelled = json!({"type": "permission_response", "requestId": "r", "approved": true, "from": "lead"});
        assert_eq!(body(spelled), answer(true, ""));
        let addressed = json!({"type": "permission_response", "recipient": "a", "request_id": "r", "approve": true});
        refused(addressed, Reason::UnexpectedRecipient, "recipient", "Leave recipient out");
    }

    #[test]
    fn every_spelling_of_a_field_is_accepted_in_every_form() {
        let message = body(json!({"type": "message", "recipient": "a", "content": "hi", "summary": "s"}));
        for mixed in [
            json!({"type": "message", "to": "a", "content": "hi", "summary": "s"}),
            json!({"type": "message", "to": "a", "message": "hi", "summary": "s"}),
            json!({"type": "message", "to": "a", "recipient": "a", "message": "hi", "content": "hi", "summary": "s"}),
            json!({"to": "a", "content": "hi", "summary": "s"}),
        ] {
            assert_eq!(body(mixed.clone()), message, "{mixed}");
        }
        let broadcast = body(json!({"type": "broadcast", "content": "hi", "summary": "s"}));
        for everyone in [
            json!({"type": "message", "to": "*", "content": "hi", "summary": "s"}),
            json!({"type": "message", "recipient": "*", "content": "hi", "summary": "s"}),
            json!({"type": "broadcast", "to": "*", "message": "hi", "summary": "s"}),
        ] {
            assert_eq!(body(everyone.clone()), broadcast, "{everyone}");
        }
        let answer = body(json!({"type": "shutdown_response", "request_id": "r", "approve": false, "content": "busy"}));
        for spelled in [
            json!({"type": "shutdown_response", "requestId": "r", "approved": false, "reason": "busy"}),
            json!({"type": "shutdown_response", "requestId": "r", "approve": false, "reason": "busy", "from": "bob",
                "timestamp": "2026-01-01T00:00:00.000Z"}),
            json!({"to": "lead", "message": {"type": "shutdown_response", "requestId": "r", "approve": false,
                "reason": "busy", "from": "bob", "timestamp": 1}}),
            json!({"type": "shutdown_response", "to": "team-lead", "request_id": "r", "approve": false, "message": "busy"}),
            json!({"type": "shutdown_response", "message": {"request_id": "r", "approve": false, "reason": "busy"}}),
            json!({"type": "shutdown_response", "to": "lead",
                "message": {"type": "shutdown_response", "request_id": "r", "approve": false, "reason": "busy"}}),
        ] {
            assert_eq!(body(spelled.clone()), answer, "{spelled}");
        }
        assert_eq!(
            body(json!({"type": "plan_approval_response", "to": "a", "requestId": "r", "approved": false,
                "feedback": "no"})),
            body(json!({"type": "plan_approval_response", "recipient": "a", "request_id": "r", "approve": false,
                "content": "no"}))
        );
    }

    #[test]
    fn spellings_of_one_field_that_differ_are_refused() {
        let invalid = Reason::InvalidJson;
        refused(json!({"type": "message", "recipient": "a", "to": "b", "content": "c"}), invalid, "to", "Give one");
        refused(json!({"type": "message", "recipient": "*", "to": "b", "content": "c"}), invalid, "to", "Give one");
        refused(json!({"to": "a", "message": "m", "content": "c"}), invalid, "message", "Give one");
        let ids = json!({"type": "shutdown_response", "request_id": "r", "requestId": "s", "approve": true});
        refused(ids, invalid, "requestId", "Give one");
        let texts =
            json!({"type": "shutdown_response", "request_id": "r", "approve": true, "content": "a", "reason": "b"});
        refused(texts, invalid, "reason", "Give one");
        let types = json!({"type": "shutdown_request", "to": "a", "message": {"type": "shutdown_response"}});
        refused(types, Reason::InvalidType, "message.type", "once");
        let answers = json!({"type": "shutdown_response", "request_id": "r", "approve": true, "approved": false});
        refused(answers, Reason::ApproveMissing, "approved", "true or false");
        let everyone = json!({"type": "broadcast", "to": "bob", "content": "c"});
        refused(everyone, Reason::UnexpectedRecipient, "to", "Leave recipient out");
    }

    #[test]
    fn a_repeated_key_is_refused_by_its_name() {
        for (text, field) in [
            (r#"{"type":"shutdown_response","request_id":"r","approve":false,"approve":true}"#, "approve"),
            (r#"{"type":"shutdown_response","request_id":"r","approve":true,"approve":true}"#, "approve"),
            (
                r#"{"to":"lead","message":{"type":"shutdown_response","approve":false,"request_id":"r","approve":true}}"#,
                "message.approve",
            ),
            (r#"{"type":"broadcast","content":"c","attachments":[{"uri":"a:b","uri":"a:c"}]}"#, "attachments[0].uri"),
        ] {
            let refusal = read(text).expect_err(text);
            assert_eq!((refusal.reason, refusal.field.as_deref()), (Reason::InvalidJson, Some(field)), "{text}");
            assert!(refusal.message.contains(field) && refusal.message.contains("once"), "{refusal}");
        }
    }

    #[test]
    fn text_that_looks_like_a_protocol_message_stays_text() {
        let content = r#"{"type":"shutdown_response","request_id":"r","approve":true}"#;
        let Body::Message(read) = body(json!({"to": "a", "message": content, "summary": "s"})) else {
            panic!("a protocol message")
        };
        assert_eq!(read.content, content);
    }

    #[test]
    fn missing_fields_and_unknown_types_are_named() {
        refused(json!({}), Reason::InvalidType, "type", "shutdown_response");
        refused(json!({"type": "massage"}), Reason::InvalidType, "type", "Use one of: message");
        refused(json!({"type": "notice"}), Reason::InvalidType, "type", "Use one of");
        refused(json!({"to": "a", "message": {}}), Reason::InvalidType, "message.type", "required");
        refused(json!({"to": "a", "message": {"type": "broadcast"}}), Reason::InvalidType, "message.type", "string");
        refused(json!({"type": "message", "content": "x"}), Reason::MissingRecipient, "recipient", "team-lead");
        refused(json!({"message": "x"}), Reason::MissingRecipient, "to", "\"to\"");
        refused(
            json!({"to": "*", "message": {"type": "shutdown_request"}}),
            Reason::MissingRecipient,
            "to",
            "one member",
        );
        refused(json!({"to": "a"}), Reason::MissingContent, "message", "required");
        refused(json!({"type": "shutdown_response", "request_id": "r"}), Reason::ApproveMissing, "approve", "required");
        refused(
            json!({"message": {"type": "shutdown_response"}}),
            Reason::ApproveMissing,
            "message.approve",
            "required",
        );
    }

    #[test]
    fn an_answer_must_be_true_or_false() {
        for approve in [json!("true"), json!(1), json!("no"), json!([]), json!({})] {
            let json = json!({"type": "shutdown_response", "request_id": "r", "approve": approve});
            refused(json, Reason::ApproveMissing, "approve", "true or false");
        }
        let twice = json!({"message": {"type": "shutdown_response", "approve": true, "approved": false}});
        refused(twice, Reason::ApproveMissing, "message.approved", "true or false");
    }

    #[test]
    fn an_unexpected_recipient_is_refused() {
        for kind in ["broadcast", "shutdown_response", "plan_approval_request"] {
            let json = json!({"type": kind, "recipient": "a", "approve": true});
            refused(json, Reason::UnexpectedRecipient, "recipient", "Leave recipient out");
        }
    }

    #[test]
    fn malformed_messages_are_refused_with_the_field_at_fault() {
        let invalid = Reason::InvalidJson;
        assert_eq!(read("{").expect_err("no JSON").reason, invalid);
        assert_eq!(read(&"[".repeat(10_000)).expect_err("no JSON").reason, invalid);
        refused(json!([]), invalid, "json", "an object");
        refused(json!({"type": 5}), invalid, "type", "a string");
        refused(json!({"type": "message", "recipient": ["a"]}), invalid, "recipient", "an array");
        refused(json!({"type": "message", "recipent": "a"}), invalid, "recipent", "nearest is \"recipient\"");
        refused(
            json!({"type": "message", "recipient": "a", "reason": "r"}),
            invalid,
            "reason",
            "nearest is \"content\"",
        );
        refused(json!({"type": "message", "recipient": "a", "from": "b"}), invalid, "from", "no field");
        let answer = json!({"type": "shutdown_response", "request_id": "r", "approve": true, "form": "bob"});
        refused(answer, invalid, "form", "no field");
        refused(json!({"to": "a", "mesage": "m"}), invalid, "mesage", "nearest is \"message\"");
        refused(json!({"to": "a", "message": 1}), invalid, "message", "a number");
        refused(json!({"type": "message", "recipient": "a", "approve": true}), invalid, "approve", "answers nothing");
        refused(
            json!({"type": "shutdown_request", "recipient": "a", "request_id": "r"}),
            invalid,
            "request_id",
            "Leave",
        );
        let twice = json!({"to": "a", "message": {"type": "shutdown_request", "reason": "x", "content": "y"}});
        refused(twice, invalid, "message.reason", "Give one");
        let sized = json!({"type": "broadcast", "attachments": [{"uri": "a:b"}, {"size_bytes": -1}]});
        refused(sized, invalid, "attachments[1].size_bytes", "a whole number");
    }

    #[test]
    fn a_notice_shows_its_kind_and_its_facts() {
        let message = v1::Message {
            sender: Some(v1::Sender { kind: 3, name: "coordinator".into() }),
            body: Some(message::Body::Notice(v1::Notice {
                kind: v1::NoticeKind::MemberExited.into(),
                member: "a".into(),
                request_id: "r".into(),
                text: "a has exited.".into(),
                exit: Some(v1::ExitReport { code: Some(0), ..Default::default() }),
                ..Default::default()
            })),
            sent_at: Some(prost_types::Timestamp { seconds: 0, nanos: 0 }),
            ..Default::default()
        };
        let json = write(&message);
        assert_eq!(json["type"], "notice");
        assert_eq!(json["content"], "a has exited.");
        let facts = json!({"kind": "member_exited", "member": "a", "request_id": "r", "exit": {"code": 0}});
        assert_eq!(json["notice"], facts);
        assert_eq!(json.get("request_id"), None, "a notice neither makes nor answers a request");
        assert_eq!(json["sent_at"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn a_digest_shows_what_it_gathers_and_how_often() {
        let idle = v1::Notice {
            kind: v1::NoticeKind::Idle.into(),
            member: "a".into(),
            text: "a is idle.".into(),
            count: 3,
            ..Default::default()
        };
        let digest =
            v1::Notice { kind: v1::NoticeKind::Digest.into(), count: 3, gathered: vec![idle], ..Default::default() };
        let json = write(&v1::Message { body: Some(message::Body::Notice(digest)), ..Default::default() });
        let gathered = json!([{"kind": "idle", "member": "a", "count": 3, "text": "a is idle."}]);
        assert_eq!(json["notice"], json!({"kind": "digest", "count": 3, "gathered": gathered}));
    }

    /// Bodies of every kind that a client can send.
    fn bodies() -> impl Strategy<Value = Body> {
        let kind = prop::sample::select(Kind::SENDABLE);
        let parts = ("[a-z]{1,5}", "\\PC{0,9}", "\\PC{0,20}", "\\PC{0,20}", "\\PC{0,20}", any::<bool>());
        (kind, parts).prop_map(|(kind, (recipient, tool, summary, text, request_id, approve))| {
            let parts = Parts { recipient, tool, summary, text, request_id, approve: Some(approve) };
            kind.compose(parts).expect("a kind that a client can send")
        })
    }

    /// What a coordinator delivers when it has accepted the request.
    fn accepted(request: &v1::SendRequest) -> v1::Message {
        let body = request.body.clone().map(message::Body::from);
        v1::Message {
            id: "m".into(),
            team: "t".into(),
            in_reply_to: request.in_reply_to.clone(),
            attachments: request.attachments.clone(),
            body,
            ..Default::default()
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_with_a_field_and_a_text(json in prop_oneof![
            "\\PC*",
            r#"\{("(type|to|message|approve|request_id|content)":("[a-z_*]*"|true|null|1|\{\}|\[\]),?){0,4}\}"#,
        ]) {
            if let Err(refusal) = read(&json) {
                prop_assert!(refusal.field.is_some() && !refusal.message.is_empty());
            }
        }

        #[test]
        fn no_key_may_be_given_twice(
            body in bodies(),
            is_nested in any::<bool>(),
            which in any::<prop::sample::Index>(),
            second in prop_oneof![Just("null"), Just("true"), Just("false"), Just("\"x\"")],
            is_first in any::<bool>(),
        ) {
            let request = v1::SendRequest { body: Some(body), ..Default::default() };
            let Value::Object(mut object) = write(&accepted(&request)) else { panic!("no object") };
            object.retain(|key, _| ["type", "content", "request_id", "approve"].contains(&key.as_str()));
            let keys: Vec<String> = object.keys().cloned().collect();
            let key = which.get(&keys);
            let inner = Value::Object(object.clone()).to_string();
            let inside = inner.trim_start_matches('{').trim_end_matches('}');
            let repeated = match is_first {
                true => format!("{{\"{key}\":{second},{inside}}}"),
                false => format!("{{{inside},\"{key}\":{second}}}"),
            };
            let (json, path) = match is_nested {
                true => (format!("{{\"to\":\"a\",\"message\":{repeated}}}"), format!("message.{key}")),
                false => (repeated, key.clone()),
            };
            let refusal = read(&json).expect_err(&json);
            prop_assert_eq!(refusal.reason, Reason::InvalidJson, "{}", json);
            prop_assert_eq!(refusal.field.as_deref(), Some(path.as_str()), "{}", json);
        }

        #[test]
        fn an_accepted_message_is_written_as_it_was_read(
            body in bodies(),
            in_reply_to in "[a-z0-9-]{0,8}",
            attachments in proptest::collection::vec(("[a-z:/]{1,9}", "[a-z/]{0,9}", any::<u64>(), "[0-9a-f]{0,9}"), 0..3),
        ) {
            let attachments = attachments.into_iter().map(|(uri, media_type, size_bytes, sha256)| {
                v1::Attachment { uri, media_type, size_bytes, sha256 }
            });
            let sent = v1::SendRequest {
                in_reply_to,
                attachments: attachments.collect(),
                body: Some(body),
                ..Default::default()
            };
            let Value::Object(mut written) = write(&accepted(&sent)) else { panic!("no object") };
            // What a sender writes is a part of what is delivered; `to` is the newer word for `recipient`.
            let to = written.remove("to").filter(|to| to != "*");
            let mut classic = Map::from_iter(to.map(|to| ("recipient".to_owned(), to)));
            for key in ["type", "tool", "summary", "content", "request_id", "approve", "in_reply_to", "attachments"] {
                classic.extend(written.remove(key).map(|value| (key.to_owned(), value)));
            }
            prop_assert_eq!(read(&Value::Object(classic).to_string()), Ok(sent));
        }
    }
}
