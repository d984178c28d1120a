//! Somebody who looks at classic groups, as an operator does, and compares what is told with the records.
//!
//! What changed while the question was under way cannot be compared.

use bytes::Bytes;
use riparian_protocol::{
    ErrorCode,
    messages::{DescribeGroupsRequest, ListGroupsRequest},
};

use crate::{
    actors::Actor,
    client::{Client, Watch, decode},
    core::Core,
    queue::Event,
};

const DESCRIBE_VERSION: i16 = 6;
const LIST_VERSION: i16 = 5;
const WORK: u64 = 1;

/// The onlooker.
pub(crate) struct Onlooker {
    actor: usize,
    client: Client,
    asked: Option<Asked>,
}

/// The question under way.
struct Asked {
    correlation: i32,
    is_list: bool,
    /// The newest change of a classic group when it was asked.
    change: u64,
}

impl Onlooker {
    pub(crate) fn new(actor: usize) -> Self {
        Self { actor, client: Client::new(actor, "onlooker"), asked: None }
    }

    fn again(&mut self, core: &mut Core) {
        self.asked = None;
        let delay_ms = 100 + core.prng.below(1500);
        core.after_ms(delay_ms, Event::Timer { actor: self.actor, token: WORK });
    }

    fn work(&mut self, core: &mut Core) {
        if self.asked.is_some() {
            return;
        }
        let is_list = core.prng.chance(3);
        let correlation = if is_list {
            self.client.send(core, &ListGroupsRequest::default(), LIST_VERSION)
        } else {
            let index = core.prng.below(core.options.classic.len() as u64) as usize;
            let groups = core.options.classic.get(index).map(|group| group.name.clone().into());
            let request = DescribeGroupsRequest { groups: groups.into_iter().collect(), ..Default::default() };
            self.client.send(core, &request, DESCRIBE_VERSION)
        };
        match correlation {
            Some(correlation) => {
                self.asked = Some(Asked { correlation, is_list, change: core.records.last_classic_change() });
            }
            None => self.again(core),
        }
    }

    fn on_description(core: &mut Core, reply: &Bytes, change: u64) {
        let Some(response) = decode::<DescribeGroupsRequest<'_>>(core, reply, DESCRIBE_VERSION) else { return };
        for described in &response.groups {
            match ErrorCode::from_code(described.error_code) {
                Some(ErrorCode::None) => {
                    let name = &*described.group_id;
                    if let Some(recorded) = core.records.classic(name).filter(|recorded| recorded.change <= change) {
                        let result = recorded.check_description(described);
                        core.check(result);
                        core.totals.add("groups compared", 1);
                    }
                }
                Some(ErrorCode::GroupIdNotFound) => check_absent(core, &described.group_id, change),
                Some(ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress) => {}
                other => core.fail(format_args!("{} can't be described: {other:?}", described.group_id)),
            }
        }
    }

    fn on_list(core: &mut Core, reply: &Bytes, change: u64) {
        let Some(response) = decode::<ListGroupsRequest<'_>>(core, reply, LIST_VERSION) else { return };
        if response.error_code != 0 {
            return;
        }
        for index in 0..core.options.classic.len() {
            let name = core.options.classic[index].name.clone();
            let Some(listed) = response.groups.iter().find(|listed| *listed.group_id == *name) else {
                check_absent(core, &name, change);
                continue;
            };
            if listed.group_type != "classic" || !matches!(&*listed.protocol_type, "consumer" | "") {
                core.fail(format_args!("{name} is listed as {} {}", listed.group_type, listed.protocol_type));
            }
            let recorded = core.records.classic(&name).filter(|recorded| recorded.change <= change);
            let members = recorded.map_or(0, crate::oracle::classic::Recorded::member_count);
            if recorded.is_some() && listed.group_state == "Empty" && members > 0 {
                core.fail(format_args!("{name} is listed as Empty, by its records it has {members} members"));
            }
        }
        core.totals.add("groups compared", 1);
    }
}

/// A group that is told not to be there is none by its records.
fn check_absent(core: &mut Core, name: &str, change: u64) {
    if core.records.classic(name).is_some_and(|recorded| recorded.change <= change) {
        core.fail(format_args!("{name} is told not to be there, but its records are"));
    }
}

impl Actor for Onlooker {
    fn begin(&mut self, core: &mut Core) {
        self.again(core);
    }

    fn on_timer(&mut self, core: &mut Core, token: u64) {
        match self.client.on_watch(core, token) {
            Watch::AllWell => {}
            Watch::Lost => self.again(core),
            Watch::NotMine => self.work(core),
        }
    }

    fn on_reply(&mut self, core: &mut Core, reply: &Bytes) {
        let Some(correlation) = self.client.take_reply(core, reply) else { return };
        let Some(asked) = self.asked.take_if(|asked| asked.correlation == correlation) else { return };
        if asked.is_list {
            Self::on_list(core, reply, asked.change);
        } else {
            Self::on_description(core, reply, asked.change);
        }
        self.again(core);
    }

    fn on_closed(&mut self, core: &mut Core) {
        self.client.on_closed();
        if self.asked.is_some() {
            self.again(core);
        }
    }

    fn unfinished(&self, _: &Core) -> Option<String> {
        None
    }
}
