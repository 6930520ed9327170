//! The form in which an agent reads a message.
