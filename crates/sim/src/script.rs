//! Scripts (`docs/SCRIPTS.md`) against the simulated server: one client, no faults but those of the script.
//!
//! The server is the whole one, started as for scripts against real servers; its time is virtual, so a script that waits
//! takes no time. What luck decides (when a job runs, how late a call is) is drawn from a seed and must not show.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    path::Path,
    rc::Rc,
};

use bytes::Bytes;
use riparian_client::{ClientCore, CoreError, Received};
use riparian_protocol::{Request, messages::ApiVersionsRequest};
use riparian_scripts::{MAIN, SETTINGS, Transport};
use riparian_testkit::{DiskState, Runner, Script};

use crate::{
    actors::Actor,
    core::Core,
    disk::{Death, DiskFaults},
    options::{Groups, Options},
    queue::Event,
    trace::Mode,
    world::{Outcome, World},
};

/// An answer must be there after this long.
const ANSWER_MS_MAX: u64 = 60_000;
const FRAME_PREFIX_BYTES: usize = 4;
const CLOSED: &str = "the connection is closed";

/// Checks one script with one seed; what it led to, and what was not as it should be.
///
/// A script that only a simulated server can run may be rewritten when expectations are to be; one that holds what a
/// broker of Apache Kafka does may not.
pub fn check_script(path: &Path, seed: u64, mode: Mode, rewritable: bool) -> (Outcome, Result<(), String>) {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let own = Script::load(path).map(|script| script.settings()).unwrap_or_default();
    let common = SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let shared = Rc::new(RefCell::new(Simulated::new(common.chain(own).collect(), seed, mode)));
    let mut session = riparian_scripts::Server::session(&name, Network(shared.clone()));
    let mut carry_out = |line: &str| {
        shared.borrow_mut().world.core.say(format_args!("> {line}"));
        let lines = session.carry_out(line);
        let core = &mut shared.borrow_mut().world.core;
        lines.iter().flatten().for_each(|line| core.say(format_args!("    {line}")));
        core.check_replay();
        lines
    };
    let checked = match rewritable {
        true => Script::check_file(path, Runner::Riparian, &mut carry_out).map_err(|error| error.to_string()),
        false => Script::load(path)
            .map_err(|error| error.to_string())
            .and_then(|script| script.check(Runner::Riparian, &mut carry_out).map_err(|error| error.to_string())),
    };
    drop(session);
    let outcome =
        Rc::into_inner(shared).expect("the session had the other one").into_inner().world.finish(seed, Groups::Streams);
    let broken = outcome.failure.clone().map_or(Ok(()), Err);
    let result = broken.and(checked);
    (outcome, result)
}

/// The simulated server with the script's clients.
struct Simulated {
    world: World,
    clients: BTreeMap<String, Client>,
}

/// A client, by the name of its connection.
struct Client {
    actor: usize,
    inbox: Rc<RefCell<Inbox>>,
    connection: Option<(u64, ClientCore)>,
}

/// What has reached a client.
#[derive(Default)]
struct Inbox {
    replies: VecDeque<Bytes>,
    is_closed: bool,
}

/// A client as an actor: it waits.
struct Listener(Rc<RefCell<Inbox>>);

impl Actor for Listener {
    fn begin(&mut self, _: &mut Core) {}

    fn on_timer(&mut self, _: &mut Core, _: u64) {}

    fn on_reply(&mut self, _: &mut Core, reply: &Bytes) {
        self.0.borrow_mut().replies.push_back(reply.clone());
    }

    fn on_closed(&mut self, _: &mut Core) {
        self.0.borrow_mut().is_closed = true;
    }

    fn unfinished(&self, _: &Core) -> Option<String> {
        None
    }
}

impl Simulated {
    fn new(settings: Vec<(String, String)>, seed: u64, mode: Mode) -> Self {
        let mut world = World::new(Options::for_scripts(settings), seed, mode);
        world.core.after_us(0, Event::Start);
        world.core.after_ms(1000, Event::Check);
        Self { world, clients: BTreeMap::new() }
    }

    fn step(&mut self) -> Result<(), String> {
        self.world.step();
        self.world.core.failure.clone().map_or(Ok(()), Err)
    }

    /// Lets events happen until this is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<(), String> {
        let limit_us = self.world.core.now_us + ANSWER_MS_MAX * 1000;
        while !is_so(self) {
            if self.world.core.now_us > limit_us {
                return Err(format!("{what}: not within {ANSWER_MS_MAX} ms"));
            }
            self.step()?;
        }
        Ok(())
    }

    /// The client that has a connection of this name.
    fn client(&mut self, name: &str) -> &mut Client {
        let (world, actor) = (&mut self.world, self.clients.len());
        self.clients.entry(name.to_owned()).or_insert_with(|| {
            let inbox = Rc::new(RefCell::new(Inbox::default()));
            world.add(name.to_owned(), |_, _| Box::new(Listener(inbox.clone())));
            Client { actor, inbox, connection: None }
        })
    }

    fn connect(&mut self, name: &str) -> Result<(), String> {
        let client = self.client(name);
        if client.connection.is_some() {
            return Ok(());
        }
        *client.inbox.borrow_mut() = Inbox::default();
        let actor = client.actor;
        self.until("the server is up", |it| it.world.core.server.is_some())?;
        let number = self.world.core.connect(actor).ok_or("the server is down")?;
        self.client(name).connection = Some((number, ClientCore::new("client")));
        let mut version = ApiVersionsRequest::VERSIONS.max;
        loop {
            self.send(name, |core, out| core.encode_api_versions(version, out))?;
            let received = self.receive(name)?;
            let (_, core) = self.client(name).connection.as_mut().ok_or(CLOSED)?;
            match core.handle_api_versions(&received).map_err(|error| error.to_string())? {
                Some(wanted) => version = wanted,
                None => return Ok(()),
            }
        }
    }

    /// Waits until the answer has left the server, and breaks the connection under it.
    fn lose(&mut self, name: &str) -> Result<(), String> {
        let number = self.client(name).connection.as_ref().ok_or(CLOSED)?.0;
        self.until("an answer on its way", |it| it.world.core.has_reply(number))?;
        self.world.core.break_link(number);
        self.hear_of_the_end(name)
    }

    /// Sends a request over the connection that there is.
    fn send(
        &mut self,
        name: &str,
        encode: impl FnOnce(&mut ClientCore, &mut Vec<u8>) -> Result<i32, CoreError>,
    ) -> Result<(), String> {
        let (number, core) = self.client(name).connection.as_mut().ok_or(CLOSED)?;
        let mut frame = Vec::new();
        encode(core, &mut frame).map_err(|error| error.to_string())?;
        let number = *number;
        self.world.core.send(number, Bytes::from(frame).slice(FRAME_PREFIX_BYTES..));
        Ok(())
    }

    fn receive(&mut self, name: &str) -> Result<Received, String> {
        let inbox = self.client(name).inbox.clone();
        self.until("an answer", |_| {
            let inbox = inbox.borrow();
            inbox.is_closed || !inbox.replies.is_empty()
        })?;
        let reply = inbox.borrow_mut().replies.pop_front();
        let client = self.client(name);
        let Some(reply) = reply else {
            client.connection = None;
            return Err("the connection breaks off".to_owned());
        };
        let (_, core) = client.connection.as_mut().ok_or(CLOSED)?;
        core.handle_bytes(&(reply.len() as u32).to_be_bytes());
        core.handle_bytes(&reply);
        let received = core.poll_answer().map_err(|error| error.to_string())?;
        received.ok_or_else(|| "half an answer came".to_owned())
    }

    /// Waits until the client knows that its connection is gone.
    fn hear_of_the_end(&mut self, name: &str) -> Result<(), String> {
        let client = self.client(name);
        if client.connection.take().is_none() {
            return Ok(());
        }
        let inbox = client.inbox.clone();
        self.until("the end of the connection", |_| inbox.borrow().is_closed)
    }

    fn close(&mut self, name: &str) {
        if let Some((number, _)) = self.client(name).connection.take() {
            self.world.core.close(number);
        }
    }

    fn wait(&mut self, ms: u64) -> Result<(), String> {
        let end_us = self.world.core.now_us + ms * 1000;
        while self.world.core.queue.next_us().is_some_and(|next_us| next_us <= end_us) {
            self.step()?;
        }
        self.world.core.now_us = end_us;
        Ok(())
    }

    fn die(&mut self, death: Death) -> Result<(), String> {
        let life = self.world.core.life;
        self.world.core.say(format_args!("{death:?}"));
        self.world.core.die(death);
        let names: Vec<String> = self.clients.keys().cloned().collect();
        names.iter().try_for_each(|name| self.hear_of_the_end(name))?;
        self.until("another life of the server", |it| it.world.core.life > life && it.world.core.server.is_some())
    }
}

/// The simulated network, for whoever runs a script.
struct Network(Rc<RefCell<Simulated>>);

impl Transport for Network {
    fn send<'a, R: Request<'a>>(&mut self, connection: &str, request: &R, version: Option<i16>) -> Result<(), String> {
        let mut simulated = self.0.borrow_mut();
        simulated.connect(connection)?;
        simulated.send(connection, |core, out| {
            let version = version.map_or_else(|| core.version(R::API_KEY, R::VERSIONS), Ok)?;
            core.encode(request, version, out)
        })
    }

    fn receive(&mut self, connection: &str) -> Result<Received, String> {
        self.0.borrow_mut().receive(connection)
    }

    fn lose<'a, R: Request<'a>>(&mut self, request: &R, version: Option<i16>) -> Result<(), String> {
        self.send(MAIN, request, version)?;
        self.0.borrow_mut().lose(MAIN)
    }

    fn close(&mut self, connection: &str) {
        self.0.borrow_mut().close(connection);
    }

    fn wait(&mut self, ms: u64) -> Result<(), String> {
        self.0.borrow_mut().wait(ms)
    }

    fn now_ms(&self) -> u64 {
        self.0.borrow().world.core.now_us / 1000
    }

    fn restart(&mut self) -> Result<(), String> {
        self.0.borrow_mut().die(Death::Kill)
    }

    fn cut_power(&mut self) -> Result<(), String> {
        self.0.borrow_mut().die(Death::PowerCut)
    }

    fn set_disk(&mut self, state: DiskState) -> Result<(), String> {
        let faults = DiskFaults { is_full: state == DiskState::Full, sync_fails: state == DiskState::SyncsFail };
        let simulated = self.0.borrow();
        let server = simulated.world.core.server.as_ref().ok_or("the server is down")?;
        server.disk.set_faults(faults);
        Ok(())
    }
}
