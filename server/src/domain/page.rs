//! Pages of lists: `page_size`, `page_token`, `next_page_token`.
//!
//! A page ends when it has as many items as were asked for, or before it exceeds [`PAGE_BYTES_MAX`]: generated clients
//! accept replies of up to 4 MiB by default. A single item of any size is a page. Tokens are opaque to clients; they
//! hold the position of the last item that the page has covered.

use prost::Message;
use teamwire_proto::{Reason, Refusal, name::Name};

/// How many bytes the items of a page take at most, encoded.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// How many items are looked through for one page. If few of them pass a filter, the page ends there.
pub const SEARCHED_MAX: usize = 10_000;

/// How many bytes of items are looked through for one page.
pub const SEARCHED_BYTES_MAX: usize = 16 << 20;

/// How many items a page has when the request does not say.
const PAGE_SIZE_DEFAULT: u32 = 100;

/// How many items a page has at most.
pub const PAGE_SIZE_MAX: u32 = 1_000;

/// What each item of a repeated field takes besides its own bytes, at most: the field's tag and the length.
const ITEM_OVERHEAD_BYTES: usize = 6;

/// A page that is being filled.
#[derive(Debug)]
pub struct Page<T> {
    items: Vec<T>,
    size: usize,
    bytes: usize,
    bytes_max: usize,
}

impl<T: Message> Page<T> {
    /// Starts a page of this many items.
    pub fn new(size: usize) -> Self {
        Self::within(size, PAGE_BYTES_MAX)
    }

    /// Starts a page of this many items, which have up to so many bytes.
    pub fn within(size: usize, bytes_max: usize) -> Self {
        Self { items: Vec::new(), size, bytes: 0, bytes_max }
    }

    /// Returns how many items the page takes at most.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Adds an item. `false` if it does not fit, and the page ends before it.
    pub fn add(&mut self, item: T) -> bool {
        let bytes = self.bytes + item.encoded_len() + ITEM_OVERHEAD_BYTES;
        let fits = self.items.is_empty() || (self.items.len() < self.size && bytes <= self.bytes_max);
        if fits {
            self.bytes = bytes;
            self.items.push(item);
        }
        fits
    }

    /// Returns the items.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }
}

/// Checks `page_size`.
pub fn page_size(given: u32) -> Result<usize, Refusal> {
    match given {
        0 => Ok(PAGE_SIZE_DEFAULT as usize),
        1..=PAGE_SIZE_MAX => Ok(given as usize),
        _ => {
            Err(Refusal::new(Reason::InvalidField, format!("page_size must be up to {PAGE_SIZE_MAX}."))
                .field("page_size"))
        }
    }
}

/// Writes the token of the page after a position.
pub fn token(position: impl ToString) -> String {
    hex::encode(position.to_string())
}

/// Reads the position from `page_token`. `None` if the first page is asked for.
pub fn position(token: &str) -> Result<Option<String>, Refusal> {
    if token.is_empty() {
        return Ok(None);
    }
    let text = hex::decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Some).ok_or_else(unknown_token)
}

/// Reads a position that is a number from `page_token`.
pub fn number(token: &str) -> Result<Option<u64>, Refusal> {
    position(token)?.map(|text| text.parse().map_err(|_| unknown_token())).transpose()
}

/// Reads a position that is a name from `page_token`.
pub fn name(token: &str) -> Result<Option<Name>, Refusal> {
    position(token)?.map(|text| Name::parse(&text, "page_token").map_err(|_| unknown_token())).transpose()
}

/// Returns the refusal of a token that no list has returned.
pub fn unknown_token() -> Refusal {
    let message = "page_token is not one that a list has returned. Pass on next_page_token of the previous reply, or leave it \
                   out for the first page.";
    Refusal::new(Reason::InvalidField, message).field("page_token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_size_or_before_it_is_too_large() {
        let mut few = Page::new(2);
        assert_eq!([1_u64, 2, 3].map(|item| few.add(item)), [true, true, false]);
        assert_eq!(few.into_items(), [1, 2]);
        let mut large = Page::new(1_000);
        let items = ["x".repeat(PAGE_BYTES_MAX + 1), "x".to_owned()];
        assert_eq!(items.map(|item| large.add(item)), [true, false]);
    }

    #[test]
    fn a_page_token_returns_its_position_and_invalid_tokens_are_refused() {
        assert_eq!(number(&token(7)), Ok(Some(7)));
        assert_eq!(position(&token("team.a")), Ok(Some("team.a".to_owned())));
        assert_eq!(number(""), Ok(None));
        for wrong in ["7", "zz", "ff", &token("x")] {
            assert_eq!(number(wrong).expect_err("no token").field.as_deref(), Some("page_token"), "{wrong}");
        }
    }
}
