//! Which internal topics were asked for, and how that went: so that a topic is asked for once, a failure is not repeated
//! at every heartbeat, and its text reaches the members.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use riparian_types::{GroupId, MonoMillis, TopicName};

use crate::{
    reply::Effect,
    streams::{InternalTopic, configured::some_of},
};

/// How long an attempt may go unanswered before the topic is asked for again.
const ATTEMPT_MS: i64 = 60_000;
/// Most topics remembered; beyond it the one that ends first is forgotten.
const TOPICS_MAX: usize = 10_000;

/// Attempts by topic, over all groups.
#[derive(Debug, Default)]
pub(crate) struct Creations(BTreeMap<TopicName, Attempt>);

#[derive(Debug)]
struct Attempt {
    /// From then on the topic may be asked for again.
    until: MonoMillis,
    /// Why it failed; `None`: under way, or done and not shown yet.
    failure: Option<String>,
}

impl Creations {
    /// Asks for those of the missing topics that are not being created and have not failed a moment ago.
    pub(crate) fn request(&mut self, now: MonoMillis, group: &GroupId, missing: &[InternalTopic]) -> Option<Effect> {
        let is_due = |topic: &&InternalTopic| self.0.get(&topic.name).is_none_or(|attempt| attempt.until <= now);
        let topics: Vec<InternalTopic> = missing.iter().filter(is_due).cloned().collect();
        if topics.is_empty() {
            return None;
        }
        for topic in &topics {
            self.0.insert(topic.name.clone(), Attempt { until: now.plus_ms(ATTEMPT_MS), failure: None });
        }
        self.shrink(now);
        Some(Effect::CreateInternalTopics { group: group.clone(), topics })
    }

    /// Notes how an attempt ended. Nothing is asked for again during `pause_ms`: by then a created topic has been shown.
    pub(crate) fn ended(
        &mut self,
        now: MonoMillis,
        pause_ms: i64,
        attempted: Vec<TopicName>,
        mut failures: BTreeMap<TopicName, String>,
    ) {
        for topic in attempted {
            let failure = failures.remove(&topic);
            self.0.insert(topic, Attempt { until: now.plus_ms(pause_ms), failure });
        }
        self.shrink(now);
    }

    /// Forgets a topic that changed: it was created, or can be created again.
    pub(crate) fn forget(&mut self, topic: &TopicName) {
        self.0.remove(topic);
    }

    /// Whether an attempt for one of these topics has failed and is to be repeated later.
    pub(crate) fn has_failed(&self, now: MonoMillis, missing: &[InternalTopic]) -> bool {
        let failed = |attempt: &Attempt| attempt.until > now && attempt.failure.is_some();
        missing.iter().any(|topic| self.0.get(&topic.name).is_some_and(failed))
    }

    /// What to tell members about failed attempts, to be put behind a status.
    pub(crate) fn failure_text(&self, now: MonoMillis, missing: &[InternalTopic]) -> Option<String> {
        let failures: Vec<String> = (missing.iter())
            .filter_map(|topic| {
                let attempt = self.0.get(&topic.name).filter(|attempt| attempt.until > now)?;
                Some(format!("{} ({})", topic.name, attempt.failure.as_ref()?))
            })
            .collect();
        (!failures.is_empty())
            .then(|| format!("; Creation failed: {}.", some_of(failures.iter().map(String::as_str).collect())))
    }

    fn shrink(&mut self, now: MonoMillis) {
        if self.0.len() > TOPICS_MAX {
            self.0.retain(|_, attempt| attempt.until > now);
        }
        while self.0.len() > TOPICS_MAX {
            let Some(name) = self.0.iter().min_by_key(|(_, attempt)| attempt.until).map(|(name, _)| name.clone())
            else {
                return;
            };
            self.0.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

    use riparian_types::MonoMillis;

    use super::{ATTEMPT_MS, Creations, TOPICS_MAX};
    use crate::{reply::Effect, streams::InternalTopic};

    fn topics(names: impl IntoIterator<Item = String>) -> Vec<InternalTopic> {
        names.into_iter().map(|name| InternalTopic { name: name.into(), ..InternalTopic::default() }).collect()
    }

    fn asked(effect: Option<Effect>) -> usize {
        effect.map_or(0, |Effect::CreateInternalTopics { topics, .. }| topics.len())
    }

    #[test]
    fn a_topic_is_asked_for_once_over_all_groups_until_the_attempt_is_old() {
        let mut creations = Creations::default();
        let missing = topics(["a".into(), "b".into()]);
        assert_eq!(asked(creations.request(MonoMillis(0), &"g".into(), &missing)), 2);
        assert_eq!(asked(creations.request(MonoMillis(1), &"h".into(), &missing)), 0);
        assert_eq!(asked(creations.request(MonoMillis(ATTEMPT_MS as u64), &"h".into(), &missing)), 2);
        creations.ended(MonoMillis(1), 10, Vec::from(["a".into()]), BTreeMap::from([("a".into(), "full".into())]));
        assert_eq!(creations.failure_text(MonoMillis(2), &missing), Some("; Creation failed: a (full).".into()));
        assert_eq!(creations.failure_text(MonoMillis(11), &missing), None);
        creations.forget(&"a".into());
        assert_eq!(asked(creations.request(MonoMillis(2), &"g".into(), &missing)), 1);
    }

    #[test]
    fn memory_for_attempts_is_bounded() {
        let mut creations = Creations::default();
        let missing = topics((0..TOPICS_MAX + 10).map(|index| format!("t{index}")));
        assert_eq!(asked(creations.request(MonoMillis(0), &"g".into(), &missing)), TOPICS_MAX + 10);
        assert_eq!(creations.0.len(), TOPICS_MAX);
    }
}
