//! Somebody who reads committed offsets and compares them with what was acknowledged.

use bytes::Bytes;
use riparian_protocol::{
    ErrorCode,
    messages::{
        OffsetFetchRequest,
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
    },
};

use crate::{
    actors::Actor,
    client::{Client, Watch, decode},
    core::Core,
    queue::Event,
};

const VERSION: i16 = 8;
const WORK: u64 = 1;

/// The auditor.
pub(crate) struct Auditor {
    actor: usize,
    client: Client,
    /// The request under way, its group, and when it was sent.
    asked: Option<(i32, usize, u64)>,
}

impl Auditor {
    pub(crate) fn new(actor: usize) -> Self {
        Self { actor, client: Client::new(actor, "auditor"), asked: None }
    }

    fn again(&self, core: &mut Core) {
        let delay_ms = 100 + core.prng.below(1500);
        core.after_ms(delay_ms, Event::Timer { actor: self.actor, token: WORK });
    }

    fn work(&mut self, core: &mut Core) {
        if self.asked.is_some() {
            return;
        }
        let count = core.options.sources().count();
        let index = core.prng.below(count as u64) as usize;
        let Some((name, _)) = core.options.sources().nth(index) else { return };
        let begin = format!("{name}-");
        let read = core.wanted.iter().filter(|(topic, _)| topic.starts_with(&begin));
        let topics = read.map(|(topic, partitions)| OffsetFetchRequestTopics {
            name: topic.clone().into(),
            partition_indexes: (0..*partitions).collect(),
            ..Default::default()
        });
        let asked = OffsetFetchRequestGroup {
            group_id: name.to_owned().into(),
            member_epoch: -1,
            topics: Some(topics.collect()),
            ..Default::default()
        };
        let request = OffsetFetchRequest { groups: vec![asked], ..Default::default() };
        let correlation = self.client.send(core, &request, VERSION);
        self.asked = correlation.map(|correlation| (correlation, index, core.now_us));
        if self.asked.is_none() {
            self.again(core);
        }
    }

    fn look(&self, core: &mut Core, reply: &Bytes, index: usize, began_us: u64) {
        let Some(response) = decode::<OffsetFetchRequest<'_>>(core, reply, VERSION) else { return };
        let (name, _) = core.source(index);
        for group in &response.groups {
            match ErrorCode::from_code(group.error_code) {
                Some(ErrorCode::None) => {}
                Some(ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress | ErrorCode::GroupIdNotFound) => {
                    continue;
                }
                other => core.fail(format_args!("offsets of {name} are refused: {other:?}")),
            }
            for topic in &group.topics {
                for partition in topic.partitions.iter().filter(|partition| partition.error_code == 0) {
                    let place = (&*name, &*topic.name, partition.partition_index);
                    let result = core.commits.read(place, partition.committed_offset, began_us);
                    core.check(result);
                    core.totals.add("offsets compared", 1);
                }
            }
        }
    }
}

impl Actor for Auditor {
    fn begin(&mut self, core: &mut Core) {
        self.again(core);
    }

    fn on_timer(&mut self, core: &mut Core, token: u64) {
        match self.client.on_watch(core, token) {
            Watch::AllWell => {}
            Watch::Lost => {
                self.asked = None;
                self.again(core);
            }
            Watch::NotMine => self.work(core),
        }
    }

    fn on_reply(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(correlation) = self.client.take_reply(core, reply) else { return };
        if let Some((asked, index, began_us)) = self.asked
            && asked == correlation
        {
            self.asked = None;
            self.look(core, reply, index, began_us);
            self.again(core);
        }
    }

    fn on_closed(&mut self, core: &mut Core) {
        self.client.on_closed();
        if self.asked.take().is_some() {
            self.again(core);
        }
    }

    fn unfinished(&self, _: &Core) -> Option<String> {
        None
    }
}
