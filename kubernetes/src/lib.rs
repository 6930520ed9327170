//! Starts members of a team as Jobs of Kubernetes.
//!
//! [`Jobs`] is the backend of a host: it turns an order into a Job with one Pod, watches both, and says in words why a Pod does
//! not start and how it ended. A profile is a Pod template, which [`Profiles`] reads.
//!
//! | module | what it does | depends on |
//! |---|---|---|
//! | `backend` | answers the host's loop | all below |
//! | `watch` | follows the Jobs and Pods of this host, and ends those that cannot start | `api`, `verdict` |
//! | `api` | every call to the API server | `job` |
//! | `verdict` | decides from a Job and its Pods where a member is in its life | `words`, `job` |
//! | `words` | says what Kubernetes reports of a Pod in a sentence | |
//! | `job` | builds the Job and the Secret of an order | `profiles` |
//! | `profiles` | reads the host's file and its Pod templates | |
//!
//! # Why no name ever has two Pods
//!
//! The name of a Job is made from the order's id, so a second start of an order is a conflict at the API server. A Job has one
//! Pod at most: it never retries (`backoffLimit: 0`) and never replaces a Pod that still ends. It is created suspended, and is
//! resumed once the Secret with the join token is there. So a Job without a token has no Pod, and a Pod never sees the token of
//! an earlier attempt. To end a member, its Job is suspended: its Pod ends, and the Job keeps saying why until the host has
//! reported it.

mod api;
mod backend;
mod job;
mod profiles;
mod verdict;
mod watch;
mod words;

pub use self::{
    backend::{ConnectError, Jobs},
    profiles::{ConfigError, Profiles},
};
