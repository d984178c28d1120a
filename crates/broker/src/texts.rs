//! Texts for clients that more than one handler sends.

/// Why anything with a transactional id is refused.
pub(crate) const NO_TRANSACTIONS: &str = "this server has no transactions yet: set processing.guarantee=at_least_once \
     for Kafka Streams, or leave transactional.id out for a producer";
