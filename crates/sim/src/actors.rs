//! The clients.

use bytes::Bytes;

use crate::{core::Core, queue::Order};

pub(crate) mod admin;
pub(crate) mod auditor;
pub(crate) mod classic;
pub(crate) mod member;
pub(crate) mod onlooker;
pub(crate) mod operator;
pub(crate) mod producer;
pub(crate) mod reader;

/// Somebody who does something of its own.
pub(crate) trait Actor {
    /// Its first moment.
    fn begin(&mut self, core: &mut Core);
    /// One of its timers went off.
    fn on_timer(&mut self, core: &mut Core, token: u64);
    /// An answer came.
    fn on_reply(&mut self, core: &mut Core, reply: &Bytes);
    /// Its connection is gone, and the answers with it.
    fn on_closed(&mut self, core: &mut Core);
    /// It is stopped or started from outside.
    fn on_order(&mut self, _: &mut Core, _: Order) {}
    /// Everything has come to rest for the first time; there may be something more to do.
    fn on_rest(&mut self, _: &mut Core) {}
    /// Faults have stopped: it shall come to rest.
    fn on_heal(&mut self, _: &mut Core) {}
    /// The server was killed once more after everything had come to rest.
    fn on_second_look(&mut self, _: &mut Core) {}
    /// What it still waits for; nothing once it has come to rest.
    fn unfinished(&self, core: &Core) -> Option<String>;
}
