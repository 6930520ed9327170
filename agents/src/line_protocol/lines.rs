//! Splits a stream into lines of any length, in bounded memory.

use std::{future::pending, io, mem};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The longest line that is kept in one piece, in bytes. A message of 64 KiB fits, however it is escaped.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;

/// A piece of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A line, without its end.
    Line(Vec<u8>),
    /// A part of a line that is too long to keep in one piece. The last part includes the line's end.
    Part(Vec<u8>),
}

/// A stream that is read line by line.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    is_within_long: bool,
    /// True until the stream has brought a line.
    is_at_start: bool,
    bytes_max: usize,
}

/// What some programs write at the start of a text in UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            is_within_long: false,
            is_at_start: true,
            bytes_max: LINE_BYTES_MAX,
        }
    }

    /// Returns the next piece, without a byte-order mark at the start of the stream. `None` if the stream has ended.
    /// Cancel-safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Piece>> {
        let mut piece = self.read().await?;
        if mem::take(&mut self.is_at_start)
            && let Some(Piece::Line(text) | Piece::Part(text)) = &mut piece
            && text.starts_with(BYTE_ORDER_MARK)
        {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(piece)
    }

    async fn read(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let read = self.reader.fill_buf().await?;
            if read.is_empty() {
                let rest = mem::take(&mut self.line);
                let piece = if self.is_within_long { Piece::Part(rest) } else { Piece::Line(rest) };
                return Ok(Some(piece)
                    .filter(|piece| !matches!(piece, Piece::Line(rest) | Piece::Part(rest) if rest.is_empty())));
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(read.len(), |end| end + 1);
            self.line.extend_from_slice(&read[..taken]);
            self.reader.consume(taken);
            if end.is_some() && !self.is_within_long && self.line.len() <= self.bytes_max {
                self.line.pop();
                return Ok(Some(Piece::Line(mem::take(&mut self.line))));
            }
            if end.is_some() || self.line.len() > self.bytes_max {
                self.is_within_long = end.is_none();
                return Ok(Some(Piece::Part(mem::take(&mut self.line))));
            }
        }
    }
}

/// Returns the next piece of a program's output. `None` if the output has ended, or cannot be read. Waits forever
/// without an output. Cancel-safe.
pub(crate) async fn next_piece<R: AsyncRead + Unpin>(output: &mut Option<Lines<R>>) -> Option<Piece> {
    let Some(lines) = output else { return pending().await };
    lines.next().await.unwrap_or_else(|error| {
        tracing::debug!(%error, "cannot read the program's output");
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pieces(text: &[u8]) -> Vec<Piece> {
        let mut lines = Lines { bytes_max: 8, ..Lines::new(text) };
        let mut pieces = Vec::new();
        while let Some(piece) = lines.next().await.expect("readable") {
            pieces.push(piece);
        }
        pieces
    }

    fn line(text: &str) -> Piece {
        Piece::Line(text.into())
    }

    #[tokio::test]
    async fn lines_lose_their_ends_and_the_last_needs_none() {
        assert_eq!(pieces(b"a\n\nbc").await, [line("a"), line(""), line("bc")]);
        assert_eq!(pieces(b"").await, []);
    }

    #[tokio::test]
    async fn a_byte_order_mark_is_removed_at_the_start_only() {
        assert_eq!(pieces("\u{feff}a\n\u{feff}b\n".as_bytes()).await, [line("a"), line("\u{feff}b")]);
        assert_eq!(pieces("a\n\u{feff}b".as_bytes()).await, [line("a"), line("\u{feff}b")]);
    }

    #[tokio::test]
    async fn a_long_line_is_split_and_the_next_line_is_whole_again() {
        let long = "x".repeat(20_000);
        let pieces = pieces(format!("{long}\nab\n").as_bytes()).await;
        let (last, parts) = pieces.split_last().expect("pieces");
        assert_eq!(*last, line("ab"));
        let parts = parts.iter().flat_map(|piece| match piece {
            Piece::Part(part) => part.clone(),
            Piece::Line(line) => panic!("a line of {}", line.len()),
        });
        assert_eq!(parts.collect::<Vec<_>>(), format!("{long}\n").as_bytes());
    }
}
