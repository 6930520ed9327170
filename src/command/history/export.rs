//! `teamwire history --export`: writes a team's history to a file, page by page.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, BufWriter, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use teamwire_agents::visible::json_line;
use teamwire_client::{Client, v1};

use crate::{failure::Failure, show};

/// How many entries a page has at most. The coordinator ends a large page early.
const PAGE: u32 = 1_000;

/// Writes the history to a file, after what the file holds already if `resume`. Holds one page at a time. Returns the
/// number of entries written, and the last sequence in the file.
pub(in crate::command) async fn export(
    client: &Client,
    filter: v1::HistoryFilter,
    path: &Path,
    resume: bool,
    force: bool,
) -> Result<(u64, u64), Failure> {
    let (file, mut last) = open(path, resume, force)?;
    let cannot = |error: io::Error| Failure::local(&format!("Cannot write {}", path.display()), error);
    let mut out = BufWriter::new(file);
    let mut request = v1::ListHistoryRequest {
        filter: Some(filter),
        page_size: PAGE,
        after_sequence: last,
        ..v1::ListHistoryRequest::default()
    };
    let mut written = 0;
    loop {
        let page = client.list_history(request.clone()).await?;
        for entry in &page.entries {
            writeln!(out, "{}", json_line(&show::entry_json(entry))).map_err(cannot)?;
            (written, last) = (written + 1, entry.sequence);
        }
        // What was written so far need not be read again.
        out.flush().map_err(cannot)?;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    out.get_ref().sync_all().map_err(cannot)?;
    Ok((written, last))
}

/// Opens the file, and returns the sequence of its last entry.
fn open(path: &Path, resume: bool, force: bool) -> Result<(File, u64), Failure> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match (resume, force) {
        (true, _) => options.create(true).truncate(false),
        (false, true) => options.create(true).truncate(true),
        (false, false) => options.create_new(true),
    };
    let mut file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::usage(format!(
            "{} exists. Continue it with --resume, replace it with --force, or choose another name.",
            path.display()
        )),
        _ => Failure::local(&format!("Cannot write {}", path.display()), error),
    })?;
    let (end, last) = last_entry(&file).map_err(|error| Failure::usage(format!("{}: {error}.", path.display())))?;
    // An interrupted export may have left half a line.
    file.set_len(end)?;
    file.seek(io::SeekFrom::End(0))?;
    Ok((file, last))
}

/// Returns where the last complete line ends, and the sequence of its entry.
fn last_entry(file: &File) -> Result<(u64, u64), String> {
    let mut lines = BufReader::new(file);
    let (mut line, mut last_line, mut end) = (Vec::new(), Vec::new(), 0);
    loop {
        line.clear();
        lines.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        if line.last() != Some(&b'\n') {
            break;
        }
        end += line.len() as u64;
        std::mem::swap(&mut line, &mut last_line);
    }
    if last_line.is_empty() {
        return if line.is_empty() { Ok((0, 0)) } else { Err("this is no exported history".to_owned()) };
    }
    let entry: Option<serde_json::Value> = serde_json::from_slice(&last_line).ok();
    let sequence = entry.and_then(|entry| entry.get("sequence")?.as_u64());
    sequence.map(|sequence| (end, sequence)).ok_or_else(|| "this is no exported history".to_owned())
}
