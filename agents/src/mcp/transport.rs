//! Standard input and output of the MCP server. Every line that wants an answer gets one, even if it cannot be read.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex},
    sync::mpsc,
    task::JoinHandle,
};

use crate::line_protocol::{
    json::{self, Unreadable},
    lines::{Lines, Piece},
};

/// How many bytes wait between the program and the server in each direction.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// How many answers to unreadable lines may wait. Reading stops until there is room.
const ANSWERS_MAX: usize = 16;

/// JSON-RPC's code for a line that is not valid JSON.
const PARSE_ERROR: i32 = -32700;

/// Connects the server with a program. Returns the server's ends, and what ends once everything that the server wrote is written.
pub(super) fn connect(
    input: impl AsyncRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> ((DuplexStream, DuplexStream), JoinHandle<()>) {
    let (to_server, reads) = duplex(WAITING_BYTES_MAX);
    let (writes, from_server) = duplex(WAITING_BYTES_MAX);
    let (answers, waiting) = mpsc::channel(ANSWERS_MAX);
    tokio::spawn(pass_in(input, to_server, answers));
    ((reads, writes), tokio::spawn(pass_out(from_server, waiting, output)))
}

/// Passes the program's lines to the server, and answers those that cannot be read.
async fn pass_in(input: impl AsyncRead + Unpin, mut server: DuplexStream, answers: mpsc::Sender<String>) {
    let mut lines = Lines::new(input);
    let mut unreadable = Unreadable::default();
    while let Ok(Some(piece)) = lines.next().await {
        let line = match piece {
            Piece::Line(line) => line,
            Piece::Part(part) => {
                unreadable.add(&part);
                if part.ends_with(b"\n") {
                    answer(&std::mem::take(&mut unreadable), &answers).await;
                }
                continue;
            }
        };
        // Most lines are passed on as they are.
        let passed = match serde_json::from_slice::<Value>(&line) {
            Ok(_) => line,
            Err(_) => match json::read(&line) {
                Some(value) => value.to_string().into_bytes(),
                None => {
                    unreadable.add(&line);
                    answer(&std::mem::take(&mut unreadable), &answers).await;
                    continue;
                }
            },
        };
        if server.write_all(&[&passed[..], b"\n"].concat()).await.is_err() {
            return;
        }
    }
}

async fn answer(unreadable: &Unreadable, answers: &mpsc::Sender<String>) {
    let gist = unreadable.gist();
    // A notification wants no answer, and an answer to the server is not expected.
    if !gist["id"].is_null() && !gist["method"].is_null() {
        let error = json!({ "code": PARSE_ERROR, "message": "This call is longer than 1 MiB, or damaged. It was not carried out." });
        let _ = answers.send(json!({ "jsonrpc": "2.0", "id": gist["id"], "error": error }).to_string()).await;
    }
}

/// Passes the server's lines to the program, and the answers between them.
async fn pass_out(server: DuplexStream, mut answers: mpsc::Receiver<String>, mut output: impl AsyncWrite + Unpin) {
    let mut lines = Lines::new(server);
    let mut is_within_line = false;
    loop {
        let bytes = tokio::select! {
            Some(answer) = answers.recv(), if !is_within_line => [answer.as_bytes(), b"\n"].concat(),
            piece = lines.next() => match piece {
                Ok(Some(Piece::Line(line))) => [&line[..], b"\n"].concat(),
                Ok(Some(Piece::Part(part))) => {
                    is_within_line = !part.ends_with(b"\n");
                    part
                }
                Ok(None) | Err(_) => return,
            },
        };
        if output.write_all(&bytes).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

    use super::*;

    #[tokio::test]
    async fn lines_are_repaired_and_those_that_cannot_be_read_are_answered() {
        let long = "x".repeat(2 << 20);
        let lines = [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":"\ud83d"}}"#.to_owned(),
            format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"a":"{long}"}}}}"#),
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"a":}}"#.to_owned(),
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/a","params":{{"a":"{long}"}}}}"#),
            r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#.to_owned(),
        ];
        let input = std::io::Cursor::new(lines.join("\n").into_bytes());
        let (output, mut written) = duplex(1 << 20);
        let ((reads, mut writes), done) = connect(input, output);
        let mut reads = BufReader::new(reads).lines();
        let mut next = async || reads.next_line().await.expect("readable").expect("a line");
        assert_eq!(serde_json::from_str::<Value>(&next().await).expect("JSON")["params"]["a"], "\u{fffd}");
        assert_eq!(next().await, lines[4], "as it was");
        writes.write_all(b"{\"id\":3}\n").await.expect("written");
        drop(writes);
        done.await.expect("ended");
        let mut all = String::new();
        written.read_to_string(&mut all).await.expect("text");
        let ids: Vec<Value> =
            all.lines().map(|line| serde_json::from_str::<Value>(line).expect("a whole line")["id"].clone()).collect();
        assert!([json!(2), json!("x"), json!(3)].iter().all(|id| ids.contains(id)) && ids.len() == 3, "{all}");
    }
}
