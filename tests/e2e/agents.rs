//! The programs that run as members: small shell scripts that read lines and answer.
//!
//! Each records its input in `heard`, in its member's directory, and its process id in `pids`.

use crate::world::TEAMWIRE;

/// What all scripts begin with, after the path of the binary in `TW`.
const PRELUDE: &str = r#"
echo $$ >> pids
# Prints a string field of the line.
field() { printf '%s\n' "$line" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
ack() { printf '{"ack":"%s"}\n' "$(field id)"; }
# answer true|false REASON
answer() {
    printf '{"type":"shutdown_response","request_id":"%s","approve":%s,"content":"%s"}\n' "$(field request_id)" "$1" "$2"
}
hear() { IFS= read -r line && printf '%s\n' "$line" >> heard; }
"#;

/// Speaks the Agent Client Protocol: see `acp_agent.py`.
pub(crate) const ACP: &[&str] = &["python3", "-c", include_str!("acp_agent.py")];

/// Runs the shell commands that it is sent, in its directory: see `shell_teammate.py`.
pub(crate) const SHELL: &[&str] = &["python3", "-c", include_str!("shell_teammate.py")];

/// Acknowledges every message, answers a question with `pong`, and approves its shutdown.
pub(crate) const WILLING: &str = r#"
while hear; do
    case "$line" in
        *'"type":"shutdown_request"'*) answer true 'all done' ;;
        *'"content":"ping"'*)
            printf '{"type":"message","recipient":"%s","content":"pong","summary":"pong","in_reply_to":"%s"}\n' \
                "$(field from)" "$(field id)" ;;
        *'"id":"'*) ack ;;
    esac
done
"#;

/// Grants every permission request, acknowledges the rest, and approves its shutdown.
pub(crate) const GRANTING: &str = r#"
while hear; do
    case "$line" in
        *'"type":"shutdown_request"'*) answer true 'all done' ;;
        *'"type":"permission_request"'*)
            printf '{"type":"permission_response","request_id":"%s","approve":true}\n' "$(field request_id)" ;;
        *'"id":"'*) ack ;;
    esac
done
"#;

/// Answers every message without saying which one it answers, and acknowledges nothing. Approves its shutdown.
pub(crate) const PLAIN: &str = r#"
while hear; do
    case "$line" in
        *'"type":"shutdown_request"'*) answer true 'all done' ;;
        *'"type":"message"'*) printf '{"to":"%s","message":"plainly","summary":"an answer"}\n' "$(field from)" ;;
    esac
done
"#;

/// Reports the content of every message as activity, and every `used N` as N turns. Waits for a file `go` in its
/// directory first if told to. Approves its shutdown.
pub(crate) const REPORTING: &str = r#"
while hear; do
    case "$line" in
        *'"type":"shutdown_request"'*) answer true 'all done' ;;
        *'"content":"used '*)
            turns=$(field content) && turns=${turns#used }
            printf '{"usage":{"turns":%s,"input_tokens":%s000,"output_tokens":%s00,"cost_usd":%s.25}}\n' \
                "$turns" "$turns" "$turns" "$turns"
            ack ;;
        *'"type":"message"'*)
            case "$line" in *'"content":"wait"'*) until [ -e go ]; do sleep 0.05; done ;; esac
            printf '{"activity":"does %s"}\n' "$(field content)"
            ack ;;
        *'"id":"'*) ack ;;
    esac
done
"#;

/// Says every message back to its sender, and approves its shutdown.
pub(crate) const ECHO: &str = r#"
while hear; do
    case "$line" in
        *'"type":"shutdown_request"'*) answer true 'all done' ;;
        *'"type":"message"'*)
            printf '{"to":"%s","message":"You said: %s","summary":"an echo","in_reply_to":"%s"}\n' \
                "$(field from)" "$(field content)" "$(field id)" ;;
        *'"id":"'*) ack ;;
    esac
done
"#;

/// Sends `echo` one number after the other, five a second, until there is a file `stop` in its directory; then the last
/// of them is in `sent`. Acknowledges its input.
pub(crate) const COUNTING: &str = r#"
{
    number=0
    until [ -e stop ]; do
        number=$((number + 1))
        printf '{"to":"echo","message":"%s","summary":"a number"}\n' "$number"
        sleep 0.2
    done
    echo "$number" > sent
} &
while hear; do
    case "$line" in
        *'"id":"'*) ack ;;
    esac
done
"#;

/// Does every task that it is given but those that wait, acknowledges the rest, and approves its shutdown.
pub(crate) const WORKER: &str = r#"
number() { printf '%s\n' "$line" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
while hear; do
    case "$line" in
        *'"subject":"wait'*) ;;
        *'"type":"task"'*) printf '{"complete":%s,"result":"did %s"}\n' "$(number task_id)" "$(field subject)" ;;
        *'"type":"shutdown_request"'*) answer true 'all done' ;;
        *'"id":"'*) ack ;;
    esac
done
"#;

/// Rejects its shutdown the first time and approves it the second, but ignores SIGTERM, and has descendants that do so,
/// too: a child, a grandchild, and one in a separate session.
pub(crate) const STUBBORN: &str = r#"
trap '' TERM
sleep 1000 &
echo $! >> pids
sh -c 'echo $$ >> pids; sleep 1000 & echo $! >> pids; wait' &
setsid sh -c 'echo $$ >> pids; sleep 1000' &
asked=
while hear; do
    case "$line" in
        *'"type":"shutdown_request"'*)
            if [ -n "$asked" ]; then answer true 'all done'; else answer false 'three tests still run'; fi
            asked=yes ;;
        *'"id":"'*) ack ;;
    esac
done
while :; do sleep 1; done
"#;

/// Approves its shutdown once there is a file `go` in its directory.
pub(crate) const SLOW: &str = r#"
while hear; do
    case "$line" in
        *'"type":"shutdown_request"'*)
            until [ -e go ]; do sleep 0.05; done
            answer true 'at last'
            : > answered ;;
        *'"id":"'*) ack ;;
    esac
done
"#;

/// Reads its input and prints nothing.
pub(crate) const SILENT: &str = "while hear; do :; done";

/// Takes task after task and completes it, but holds on to each while there is a file `hold` in its directory. Keeps
/// the numbers of those that it has completed in `completed`.
pub(crate) const CLAIMER: &str = r#"
part() { printf '%s\n' "$claim" | sed -n "s/.*$1.*/\1/p"; }
while :; do
    claim=$("$TW" task next --wait 60 --json) || { [ $? = 5 ] && continue; exit 1; }
    id=$(part '"task":{.*"id":\([0-9]*\)')
    while [ -e hold ]; do sleep 0.05; done
    "$TW" task complete "$id" --token "$(part '"token":"\([^"]*\)"')" --result "by $$" && echo "$id" >> completed
done
"#;

/// Returns a whole script.
pub(crate) fn script(body: &str) -> String {
    format!("TW='{TEAMWIRE}'\n{PRELUDE}{body}")
}
