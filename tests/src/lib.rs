//! Harness for tests with real clients: starts a server, runs Java programs, Kafka's tools and other clients
//! against it, and leaves nothing behind.
//!
//! **Invariant:** whatever a test starts is ended by its process id when its value is dropped, and every wait has a
//! limit and says what it waited for. Nothing is skipped: without the tools a test fails and names the command that
//! brings them.
//! It links nothing of the server: the built binary is what is tested. What it asks a server itself goes through
//! `riparian-client` (`direct`, `text`, `watch`) or is written by hand (`raw`, `http`).

mod direct;
mod environment;
mod http;
mod java;
pub mod leave;
mod process;
mod proxy;
mod queue;
mod raw;
mod relay;
mod server;
mod text;
mod watch;
mod word_count;

pub use direct::{create_topics, set_group_configs};
pub use environment::{Against, against, jars, java, kcat, paths, peer_jars, python, riparian_binary, valgrind};
pub use http::{HttpAnswer, Scrape, http_get};
pub use java::{Tool, java_program, own_program, own_program_on};
pub use process::{Finished, Program};
pub use proxy::LossyProxy;
pub use queue::unread;
pub use raw::{Connection, create_topic_request, request};
pub use relay::{Break, Relay};
pub use server::{Server, free_port, http_port_of, riparian};
pub use text::Feed;
pub use watch::{GroupView, GroupWatch, MemberView};
pub use word_count::WordCount;
