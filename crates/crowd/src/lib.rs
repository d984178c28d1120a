//! Members of streams groups by hand, and what a thread needs to speak for many of them: connections, epoll, latencies.
//!
//! - [`member`]: a member as a client would be one, checked while it lives: [`owners`] knows who has which task.
//! - [`link`]: a connection whose answers come in the order of the requests; [`poll`]: epoll.
//! - [`pump`]: requests of any kind over some connections, so many under way on each.
//!
//! Whoever uses it decides who is there and when each speaks.
//! It needs Linux, and knows no server: it is told a port.

#![forbid(unsafe_code)]

pub mod latencies;
pub mod link;
pub mod member;
pub mod owners;
pub mod poll;
pub mod pump;
