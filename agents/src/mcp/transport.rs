//! Standard input and output of the MCP server. Every line that wants an answer gets one, even if it cannot be read.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

use crate::line_protocol::{
    json::{self, Unreadable},
    lines::{Lines, Piece},
};

/// How many bytes wait between the program and the server in each direction.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// How many answers to unreadable lines may wait. Reading stops until there is room.
const ANSWERS_MAX: usize = 16;

/// How long the last answers may take once the program has closed its output.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Connects the server with a program. Returns the server's ends, and what ends once everything that the server wrote
/// is written.
pub(super) fn connect(
    input: impl AsyncRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> ((DuplexStream, DuplexStream), JoinHandle<()>) {
    let (to_server, reads) = duplex(WAITING_BYTES_MAX);
    let (writes, from_server) = duplex(WAITING_BYTES_MAX);
    let (answers, waiting) = mpsc::channel(ANSWERS_MAX);
    let unanswered = Arc::new(watch::Sender::new(0));
    tokio::spawn(pass_in(input, to_server, answers, Arc::clone(&unanswered)));
    ((reads, writes), tokio::spawn(pass_out(from_server, waiting, output, unanswered)))
}

/// How many calls the server has not answered.
type Unanswered = Arc<watch::Sender<usize>>;

/// Passes the program's lines to the server, and answers those that cannot be read. When the program has closed its
/// output, waits for the last answers before it tells the server, which would leave its calls unfinished.
async fn pass_in(
    input: impl AsyncRead + Unpin,
    mut server: DuplexStream,
    answers: mpsc::Sender<String>,
    unanswered: Unanswered,
) {
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
        let Some(value) = json::read(&line) else {
            unreadable.add(&line);
            answer(&std::mem::take(&mut unreadable), &answers).await;
            continue;
        };
        if is_call(&value) {
            unanswered.send_modify(|unanswered| *unanswered += 1);
        }
        if server.write_all(format!("{value}\n").as_bytes()).await.is_err() {
            return;
        }
    }
    let _ = timeout(LAST_ANSWERS, unanswered.subscribe().wait_for(|unanswered| *unanswered == 0)).await;
}

/// Returns whether a line wants an answer.
fn is_call(line: &Value) -> bool {
    !line["id"].is_null() && !line["method"].is_null()
}

async fn answer(unreadable: &Unreadable, answers: &mpsc::Sender<String>) {
    let gist = unreadable.gist();
    if is_call(&gist) {
        let why = "This call is longer than 1 MiB, or damaged. It was not carried out.";
        let _ = answers.send(json::parse_error(&gist["id"], why).to_string()).await;
    }
}

/// Passes the server's lines to the program, and the answers between them.
async fn pass_out(
    server: DuplexStream,
    mut answers: mpsc::Receiver<String>,
    mut output: impl AsyncWrite + Unpin,
    unanswered: Unanswered,
) {
    let mut lines = Lines::new(server);
    let mut is_within_line = false;
    loop {
        let mut is_answer = false;
        let bytes = tokio::select! {
            Some(answer) = answers.recv(), if !is_within_line => [answer.as_bytes(), b"\n"].concat(),
            piece = lines.next() => match piece {
                Ok(Some(Piece::Line(line))) => {
                    is_answer = serde_json::from_slice::<Value>(&line).is_ok_and(|line| line["method"].is_null());
                    [&line[..], b"\n"].concat()
                }
                // The server's own calls are short.
                Ok(Some(Piece::Part(part))) => {
                    is_within_line = !part.ends_with(b"\n");
                    is_answer = !is_within_line;
                    part
                }
                Ok(None) | Err(_) => return,
            },
        };
        if output.write_all(&bytes).await.is_err() || output.flush().await.is_err() {
            return;
        }
        if is_answer {
            unanswered.send_modify(|unanswered| *unanswered = unanswered.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
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
        let mut next = async || -> Value {
            serde_json::from_str(&reads.next_line().await.expect("readable").expect("a line")).expect("JSON")
        };
        assert_eq!(next().await["params"]["a"], "\u{fffd}");
        assert_eq!(next().await["id"], 3);
        writes.write_all(b"{\"id\":1}\n{\"id\":3}\n").await.expect("written");
        // The program's calls are answered, so its end reaches the server.
        assert_eq!(reads.next_line().await.expect("readable"), None);
        drop(writes);
        done.await.expect("ended");
        let mut all = String::new();
        written.read_to_string(&mut all).await.expect("text");
        let ids: Vec<Value> =
            all.lines().map(|line| serde_json::from_str::<Value>(line).expect("a whole line")["id"].clone()).collect();
        assert!(
            [json!(1), json!(2), json!("x"), json!(3)].iter().all(|id| ids.contains(id)) && ids.len() == 4,
            "{all}"
        );
    }
}
