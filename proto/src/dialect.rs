//! The JSON forms of SendMessage.
