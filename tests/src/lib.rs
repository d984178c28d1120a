//! Harness for tests with real clients: starts a server, runs Java programs, Kafka's tools and other clients
//! against it, and leaves nothing behind.
//!
//! **Invariant:** whatever a test starts is ended by its process id when its value is dropped, and every wait has a
//! limit and says what it waited for. Nothing is skipped: without the tools a test fails and names the command that
//! brings them.
//! It does not know the protocol (see `raw` for the few bytes that bad-input tests write by hand) and links nothing of
//! the server: the built binary is what is tested.

mod environment;
mod java;
pub mod leave;
mod process;
mod proxy;
mod raw;
mod server;
mod word_count;

pub use environment::{Against, against, jars, java, kcat, python, steady_heartbeat, valgrind};
pub use java::{Tool, java_program, own_program};
pub use process::{Finished, Program};
pub use proxy::LossyProxy;
pub use raw::{Connection, create_topic_request, request};
pub use server::{Server, free_port, riparian};
pub use word_count::WordCount;
