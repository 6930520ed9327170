//! Access: signing in to the console, the credentials of a team, and who may back up the store.
//!
//! A code and the console credential that it is exchanged for are records of the team, or of the directory if they act
//! for the operator. [`SignInsRecord`](super::records::SignInsRecord) lists those of each member, which bounds their
//! number.

mod backup;
mod credentials;
mod member;
mod sign_in;

pub use backup::may_back_up;
pub use credentials::{
    Listing, Viewer, is_itself, listing, revoke, show_console, show_join_token, show_members, show_observer,
};
pub use sign_in::{create_code, get_caller, sign_in};
