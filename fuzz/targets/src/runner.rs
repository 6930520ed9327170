//! What a program writes under the runner.

use std::{
    io,
    pin::Pin,
    str,
    task::{Context, Poll},
};

use prost::Message as _;
use serde_json::{Value, json};
use teamwire_agents::agent_text;
use teamwire_proto::{
    Refusal,
    dialect::{self, Json},
    v1,
};
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    lines::{LINE_BYTES_MAX, Lines, Piece},
    output_parser::OutputLine,
};

/// A line that a program has written, or a message that it was handed.
pub(crate) fn output_parser(input: &[u8]) {
    if let Ok(message) = v1::Message::decode(input) {
        check_echo(&message);
    }
    if let Some((refusal, quoted)) = OutputLine::too_long(input, LINE_BYTES_MAX) {
        check_help(&refusal);
        assert!(quoted.is_string(), "{quoted}");
    }
    let read = OutputLine::parse(input);
    let Ok(line) = str::from_utf8(input) else {
        return assert!(matches!(read, OutputLine::Refused(..) | OutputLine::Other), "{read:?}");
    };
    let Some(value) = unique_object(line) else {
        if let OutputLine::Refused(refusal, quoted) = &read {
            check_help(refusal);
            assert!(quoted.as_str().is_some_and(|quoted| quoted.chars().count() <= 201), "{quoted}");
        }
        return assert!(matches!(read, OutputLine::Refused(..) | OutputLine::Other), "{read:?}");
    };
    match read {
        OutputLine::Other => {}
        OutputLine::Ack(ids) => assert!(value["ack"] == json!(ids) || vec![value["ack"].clone()] == ids),
        OutputLine::Activity(text) => assert_eq!(value, json!({ "activity": text })),
        OutputLine::Usage(usage) => {
            let turns = value["usage"]["turns"].as_u64().unwrap_or_default();
            assert!(value["usage"].is_object() && usage.turns == turns, "{value}");
        }
        OutputLine::Complete(id, result, written) => {
            assert_eq!((written, result.as_str()), (value.clone(), value["result"].as_str().unwrap_or_default()));
            assert!(is_task(&value["complete"], id));
        }
        OutputLine::Release(id, reason, written) => {
            assert_eq!((written, reason.as_str()), (value.clone(), value["reason"].as_str().unwrap_or_default()));
            assert!(is_task(&value["release"], id));
        }
        OutputLine::Send(request, written) => {
            assert_eq!(dialect::read(line).as_ref(), Ok(&*request));
            // If the program echoes this, the runner must not take it for a message.
            for kind in ["sent", "error"] {
                let told = json!({"type": kind, "request": written}).to_string();
                assert_eq!(OutputLine::parse(told.as_bytes()), OutputLine::Other, "{told}");
            }
            assert_eq!(written, value);
        }
        OutputLine::Refused(refusal, written) => {
            check_help(&refusal);
            assert_eq!(written, value);
        }
    }
}

/// Returns the object that a line is, if it is one and none of its keys, at any depth, is repeated.
fn unique_object(line: &str) -> Option<Value> {
    let Json { value, repeated } = Json::parse(line).ok()?;
    (value.is_object() && repeated.is_none()).then_some(value)
}

fn check_help(refusal: &Refusal) {
    assert!(refusal.field.is_some() && refusal.message.ends_with(['.', '?']), "no help: {refusal}");
}

fn is_task(value: &Value, id: u64) -> bool {
    value.as_u64() == Some(id) || value.as_str().and_then(|text| text.parse().ok()) == Some(id)
}

/// A program that shows what it was handed must not send it again under its own name.
fn check_echo(message: &v1::Message) {
    let mut line = dialect::write(message);
    line["text"] = json!(agent_text::teammate_message(message, agent_text::AnswerWith::Command));
    line["delivery_count"] = json!(1);
    let line = line.to_string();
    assert!(!line.contains(['\n', '\r']), "a message is one line");
    assert_eq!(OutputLine::parse(line.as_bytes()), OutputLine::Other, "{line}");
}

/// A pipe that gives what it has in pieces of any length.
struct Pipe<'a> {
    left: &'a [u8],
    lengths: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl AsyncRead for Pipe<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // Of a piece that is at least one byte; the large ones in a few steps.
        let length = self.lengths.next().map_or(1, |length| usize::from(*length).pow(2) + 1);
        let (piece, left) = self.left.split_at(length.min(self.left.len()).min(buf.remaining()));
        buf.put_slice(piece);
        self.left = left;
        Poll::Ready(Ok(()))
    }
}

/// A byte that says how many times the remaining bytes are repeated, so that long lines need little input; then what a
/// program writes. However the input is split, none of it is lost, and no piece is too long.
pub(crate) fn lines(input: &[u8]) {
    let Some((times, written)) = input.split_first() else { return };
    // Long ones are rare, since they take long.
    let times =
        if *times < 250 { 1 } else { (LINE_BYTES_MAX / written.len().max(1)).min(100_000) + usize::from(*times - 249) };
    let text = written.repeat(times);
    let pieces = pieces(&text, if times == 1 { written } else { &[255] });
    let mut joined = Vec::new();
    let mut is_within = false;
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Line(line) => {
                assert!(!is_within, "a part of a long line is taken for a line");
                assert!(line.len() <= LINE_BYTES_MAX && !line.contains(&b'\n'));
                joined.extend_from_slice(line);
                // Only the last may lack its end.
                if at + 1 < pieces.len() || text.ends_with(b"\n") {
                    joined.push(b'\n');
                }
            }
            Piece::Part(part) => {
                assert!(part.len() <= LINE_BYTES_MAX + 64 * 1024, "too much is held in memory");
                joined.extend_from_slice(part);
                is_within = part.last() != Some(&b'\n');
            }
        }
    }
    assert!(joined == text, "something was lost or made up");
}

fn pieces(text: &[u8], lengths: &[u8]) -> Vec<Piece> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut lines = Lines::new(Pipe { left: text, lengths: lengths.iter().cycle() });
        let mut pieces = Vec::new();
        while let Some(piece) = lines.next().await.expect("nothing fails here") {
            pieces.push(piece);
        }
        pieces
    })
}
