//! Starts members of a team as Jobs of Kubernetes.
//!
//! [`Jobs`] is the backend of a host: it turns an order into a Job with one Pod, watches both, and explains in words
//! why a Pod does not start or how it ended. A profile is a Pod template, which [`Profiles`] reads.
//!
//! | module | what it does | depends on |
//! |---|---|---|
//! | `backend` | implements the host's backend | all below |
//! | `watch` | follows the Jobs and Pods of this host, and ends those that cannot start | `api`, `verdict` |
//! | `api` | every call to the API server | `job` |
//! | `verdict` | decides what to do about an order, given its Job and Pods | `words`, `job` |
//! | `words` | puts what Kubernetes reports about a Pod into a sentence | |
//! | `job` | builds the Job and the Secret of an order | `profiles` |
//! | `profiles` | reads the host's file and its Pod templates | |
//!
//! # Why no name ever has two Pods
//!
//! A Job's name is derived from the order's id, so a second start of an order is a conflict at the API server. A Job
//! has at most one Pod: it never retries (`backoffLimit: 0`) and never replaces a Pod that is still terminating. The
//! host creates the Job suspended, and resumes it once the Secret with the join token exists. So a Job without a token
//! has no Pod, and a Pod never sees the token of an earlier attempt. To end a member, the host suspends its Job: the
//! Pod ends, and the Job holds the reason until the host has reported it.

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
