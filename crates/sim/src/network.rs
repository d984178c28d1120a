//! The network: connections whose messages are late, and that break.
//!
//! A connection keeps its order, as TCP does, and loses what is under way when it breaks. Connections know nothing of
//! each other. **Checked here:** every request is answered at most once, and answers leave in the order of the requests.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use riparian_broker::{Connection, ConnectionId, Reply};

use crate::{core::Core, queue::Event};

/// One connection, with both ends.
pub(crate) struct Link {
    pub(crate) actor: usize,
    server: Arc<Connection>,
    to_server: VecDeque<Bytes>,
    next_slot: u64,
    /// The slot whose reply leaves next.
    next_out: u64,
    done: BTreeMap<u64, Reply>,
    to_client: VecDeque<Bytes>,
    arrives_us: u64,
    delivers_us: u64,
    client_is_open: bool,
    server_is_open: bool,
    /// Nothing gets through any more; the ends hear of it in their time.
    is_broken: bool,
}

impl Core {
    /// Opens a connection for an actor, if the server is up.
    pub(crate) fn connect(&mut self, actor: usize) -> Option<u64> {
        let server = self.server.as_ref()?;
        let peer = ([127, 0, 0, 1], 40_000 + (actor as u16 % 20_000)).into();
        let connection = server.broker.connected(peer, "PLAINTEXT");
        let number = self.link_count;
        self.link_count += 1;
        self.link_of.insert(connection.id().0, number);
        let link = Link {
            actor,
            server: connection,
            to_server: VecDeque::new(),
            next_slot: 0,
            next_out: 0,
            done: BTreeMap::new(),
            to_client: VecDeque::new(),
            arrives_us: 0,
            delivers_us: 0,
            client_is_open: true,
            server_is_open: true,
            is_broken: false,
        };
        self.links.insert(number, link);
        self.totals.add("connections", 1);
        Some(number)
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, number: u64, frame: Bytes) {
        let delay_us = self.draw_latency_us();
        let now_us = self.now_us;
        let Some(link) = self.links.get_mut(&number) else { return };
        link.to_server.push_back(frame);
        link.arrives_us = link.arrives_us.max(now_us + delay_us);
        let arrives_us = link.arrives_us;
        self.queue.add(arrives_us, &mut self.prng, Event::Arrive(number));
        let one_in_dropped = if self.is_healing { 0 } else { self.options.faults.one_in_dropped };
        if self.prng.chance(one_in_dropped) {
            let breaks_us = self.prng.below(2 * (arrives_us - now_us) + self.options.faults.latency_us_max);
            self.after_us(breaks_us, Event::Break(number));
        }
    }

    /// The client closes its end; what it sent before still arrives.
    pub(crate) fn close(&mut self, number: u64) {
        let delay_us = self.draw_latency_us();
        if let Some(link) = self.links.get_mut(&number) {
            link.client_is_open = false;
            let heard_us = link.arrives_us.max(self.now_us + delay_us) + 1;
            self.queue.add(heard_us, &mut self.prng, Event::ServerHears(number));
        }
    }

    pub(crate) fn arrive(&mut self, number: u64) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let Some(frame) = link.to_server.pop_front() else { return };
        if !link.server_is_open || link.is_broken {
            self.totals.add("lost requests", 1);
            return;
        }
        let slot = link.next_slot;
        link.next_slot += 1;
        let connection = link.server.clone();
        self.totals.add("requests", 1);
        self.with_broker(|core, broker, now| {
            if let Err(reason) = broker.handle(now, &connection, slot, frame) {
                core.fail(format_args!("the server closes a connection without need: {reason}"));
            }
        });
    }

    /// The broker answered.
    pub(crate) fn reply(&mut self, connection: ConnectionId, slot: u64, reply: Reply) {
        let Some(&number) = self.link_of.get(&connection.0) else { return };
        let Some(link) = self.links.get_mut(&number) else { return };
        if slot >= link.next_slot || slot < link.next_out || link.done.contains_key(&slot) {
            self.fail(format_args!("slot {slot} of connection {number} is answered twice or was never asked"));
            return;
        }
        link.done.insert(slot, reply);
        while let Some(link) = self.links.get_mut(&number)
            && let Some(reply) = link.done.remove(&link.next_out)
        {
            link.next_out += 1;
            if !link.server_is_open || link.is_broken {
                continue;
            }
            let Some(body) = reply.body() else {
                self.fail(format_args!("connection {number} is answered by something that is no frame"));
                return;
            };
            link.to_client.push_back(body);
            let delay_us = self.draw_latency_us();
            let Some(link) = self.links.get_mut(&number) else { return };
            link.delivers_us = link.delivers_us.max(self.now_us + delay_us);
            self.queue.add(link.delivers_us, &mut self.prng, Event::Deliver(number));
        }
    }

    /// The next reply, if the client still listens; the actor to give it to.
    pub(crate) fn deliver(&mut self, number: u64) -> Option<(usize, Bytes)> {
        let link = self.links.get_mut(&number)?;
        let actor = link.actor;
        let paused_until_us = self.paused_until_us[actor];
        if link.client_is_open && paused_until_us > self.now_us {
            self.queue.add(paused_until_us, &mut self.prng, Event::Deliver(number));
            return None;
        }
        let reply = link.to_client.pop_front()?;
        if !link.client_is_open {
            self.totals.add("lost answers", 1);
            return None;
        }
        Some((actor, reply))
    }

    /// Whether messages get through.
    pub(crate) fn link_is_whole(&self, number: u64) -> bool {
        self.links.get(&number).is_some_and(|link| link.client_is_open && link.server_is_open && !link.is_broken)
    }

    /// Both ends go, and what is under way with them.
    pub(crate) fn break_link(&mut self, number: u64) {
        if self.is_healing {
            return;
        }
        let (first_us, second_us) = (self.draw_latency_us(), self.draw_latency_us());
        let Some(link) = self.links.get_mut(&number) else { return };
        if !link.client_is_open || !link.server_is_open || link.is_broken {
            return;
        }
        link.is_broken = true;
        let (requests, answers) = (link.to_server.len(), link.to_client.len());
        link.to_server.clear();
        link.to_client.clear();
        let actor = link.actor;
        self.tell(actor, format_args!("loses connection {number}, {requests} requests and {answers} answers with it"));
        self.totals.add("drops", 1);
        self.totals.add("lost requests", requests as u64);
        self.totals.add("lost answers", answers as u64);
        self.after_us(first_us, Event::ClientHears(number));
        self.after_us(second_us, Event::ServerHears(number));
    }

    /// Whether an answer is on its way to the client.
    pub(crate) fn has_reply(&self, number: u64) -> bool {
        self.links.get(&number).is_some_and(|link| !link.to_client.is_empty())
    }

    /// Answers that are under way are lost; to be followed by the end of their connections.
    pub(crate) fn lose_answers(&mut self) {
        for link in self.links.values_mut() {
            self.totals.add("lost answers", link.to_client.len() as u64);
            link.to_client.clear();
        }
    }

    /// The server is gone: answers that left arrive, everything else is lost.
    pub(crate) fn break_all_links(&mut self) {
        self.link_of.clear();
        let numbers: Vec<u64> = self.links.keys().copied().collect();
        for number in numbers {
            let delay_us = self.draw_latency_us();
            let Some(link) = self.links.get_mut(&number) else { continue };
            if !link.server_is_open {
                continue;
            }
            link.server_is_open = false;
            let heard_us = link.delivers_us.max(self.now_us + delay_us) + 1;
            self.queue.add(heard_us, &mut self.prng, Event::ClientHears(number));
        }
    }

    /// The client hears that the connection is gone; the actor to tell.
    pub(crate) fn client_hears(&mut self, number: u64) -> Option<usize> {
        let link = self.links.get_mut(&number)?;
        let paused_until_us = self.paused_until_us[link.actor];
        if link.client_is_open && paused_until_us > self.now_us {
            self.queue.add(paused_until_us, &mut self.prng, Event::ClientHears(number));
            return None;
        }
        let was_open = std::mem::replace(&mut link.client_is_open, false);
        let actor = link.actor;
        self.forget_closed(number);
        was_open.then_some(actor)
    }

    pub(crate) fn server_hears(&mut self, number: u64) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if std::mem::replace(&mut link.server_is_open, false) {
            let connection = link.server.clone();
            self.link_of.remove(&connection.id().0);
            self.with_broker(|_, broker, now| broker.disconnected(now, &connection));
        }
        self.forget_closed(number);
    }

    fn forget_closed(&mut self, number: u64) {
        if self.links.get(&number).is_some_and(|link| !link.client_is_open && !link.server_is_open) {
            self.links.remove(&number);
        }
    }

    fn draw_latency_us(&mut self) -> u64 {
        let faults = &self.options.faults;
        let is_late = !self.is_healing && self.prng.chance(faults.one_in_late);
        let (latency_us, late_us) = (faults.latency_us_max, faults.late_us_max);
        if is_late {
            self.totals.add("late messages", 1);
        }
        1 + self.prng.below(if is_late { late_us } else { latency_us })
    }
}
