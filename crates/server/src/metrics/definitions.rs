//! The table of metrics: `docs/metrics.md` is made from it.

use prometheus_client::registry::Unit;

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows, until the server or what it counts starts anew.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many were how long.
    Histogram,
    /// A fact; always 1.
    Info,
}

/// One metric.
#[derive(Debug)]
pub(super) struct Definition {
    /// Without unit and suffix.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) unit: Option<Unit>,
    pub(super) labels: &'static [&'static str],
    /// One line, without a full stop.
    pub(super) help: &'static str,
}

macro_rules! definitions {
    ($($constant:ident = $name:literal $kind:ident $($unit:ident)? [$($label:literal)*] $help:literal;)*) => {
        $(pub(super) static $constant: Definition = Definition {
            name: $name,
            kind: Kind::$kind,
            unit: definitions!(@unit $($unit)?),
            labels: &[$($label),*],
            help: $help,
        };)*

        /// All of them, in the order of the page.
        #[cfg(test)]
        pub(super) static ALL: &[&Definition] = &[$(&$constant),*];
    };
    (@unit) => { None };
    (@unit $unit:ident) => { Some(Unit::$unit) };
}

definitions! {
    BUILD = "riparian_build" Info ["version"] "What runs";
    START_TIME = "riparian_process_start_time" Gauge Seconds [] "When the process started, since 1970";
    CPU = "riparian_process_cpu" Counter Seconds [] "Processor time, the system's included";
    RESIDENT = "riparian_process_resident_memory" Gauge Bytes [] "Memory that is resident";
    THREADS = "riparian_process_threads" Gauge [] "Threads";
    DESCRIPTORS = "riparian_process_open_descriptors" Gauge [] "Open descriptors: connections, files, sockets";
    DESCRIPTORS_MAX = "riparian_process_max_descriptors" Gauge [] "How many descriptors may be open";

    CONNECTIONS = "riparian_connections" Gauge [] "Connections of clients that are open";
    ACCEPTED = "riparian_connections_accepted" Counter [] "Connections that were accepted and served";
    REFUSED = "riparian_connections_refused" Counter ["reason"]
        "Connections that were not served: too_many, too_many_of_address, accept_failed (no descriptors, mostly), ended (before it began)";
    CLOSED = "riparian_connections_closed" Counter ["reason"]
        "Connections that ended: peer (the client closed it), idle, bad_request, overload, network, answer (there was no other), failure (the server's), stopping";
    IN_FLIGHT = "riparian_requests_in_flight" Gauge [] "Requests that came and are not answered yet, those that wait for records or for a group among them";
    LIMIT_HITS = "riparian_limit_hits" Counter ["limit"] "How often a limit was hit, by the configuration key or the name of the limit";

    REQUESTS = "riparian_requests" Counter ["api" "error"]
        "Requests that were answered, by API and error (Kafka's name; NONE for none); an answer with several errors counts under the first";
    LATENCY = "riparian_request_latency" Histogram Seconds ["api"]
        "From when a request was complete until its answer was ready, syncs and all that it waited for included";
    REQUEST_BYTES = "riparian_request" Counter Bytes ["api"] "Bytes of requests";
    RESPONSE_BYTES = "riparian_response" Counter Bytes ["api"] "Bytes of answers";

    GROUPS = "riparian_groups" Gauge ["type" "state"]
        "Groups by type (streams, classic) and Kafka's name of the state; Dead are those that could not be loaded";
    GROUP_MEMBERS_ALL = "riparian_groups_members" Gauge ["type"] "Members of all groups";
    GROUP_TASKS_ALL = "riparian_groups_tasks" Gauge ["role"] "Tasks that members of streams groups hold: active, standby, warmup";
    GROUPS_LEFT_OUT = "riparian_groups_left_out" Gauge []
        "Groups without metrics of their own because there are more than riparian.metrics.groups.max";
    REBALANCES_ALL = "riparian_rebalances" Counter ["type"]
        "New target assignments of streams groups, new generations of classic groups, while there are members";
    MEMBERS_GONE = "riparian_members_gone" Counter ["type" "reason"]
        "Members that are in their group no more: left; not heard of for a session; not done in the time of a rebalance; restarted (their process is back without them)";
    ASSIGNMENT_TIME = "riparian_assignment" Histogram Seconds [] "How long it took to compute a target assignment";
    ASSIGNMENT_FAILURES = "riparian_assignment_failures" Counter [] "Target assignments that could not be computed; the group keeps the last one";
    GROUP_STATE = "riparian_group_state" Gauge ["group" "type" "state"] "1 for the state that the group is in";
    GROUP_STATE_TIME = "riparian_group_in_state" Counter Seconds ["group" "state"] "How long a streams group was in a state";
    GROUP_EPOCH = "riparian_group_epoch" Gauge ["group"] "The epoch of a streams group";
    GROUP_ASSIGNMENT_EPOCH = "riparian_group_assignment_epoch" Gauge ["group"]
        "The epoch of a streams group's target assignment; below the group's epoch while a new one is due";
    GROUP_GENERATION = "riparian_group_generation" Gauge ["group"] "The generation of a classic group";
    GROUP_MEMBERS = "riparian_group_members" Gauge ["group" "type"] "Members of a group";
    GROUP_TASKS = "riparian_group_tasks" Gauge ["group" "role"] "Tasks that members of a streams group hold: active, standby, warmup";
    GROUP_REBALANCES = "riparian_group_rebalances" Counter ["group" "type"]
        "New target assignments of a streams group, new generations of a classic group";

    SHARDS = "riparian_shards" Gauge ["kind" "state"]
        "Shards (metadata, groups) by what they do: serving, unloaded (being loaded again), damaged (until their log is repaired)";
    SHARDS_UNLOADED = "riparian_shards_unloaded" Counter [] "How often a shard was unloaded because something failed";
    SHARD_LOG_START = "riparian_shard_log_start_offset" Gauge ["kind" "shard"] "The first offset of a shard's log";
    SHARD_LOG_END = "riparian_shard_log_end_offset" Gauge ["kind" "shard"] "The offset after the last record of a shard's log";
    SHARD_LOG_DURABLE = "riparian_shard_log_durable_offset" Gauge ["kind" "shard"] "The offset up to which a shard's log is durable";
    SHARD_LOG_BYTES = "riparian_shard_log_size" Gauge Bytes ["kind" "shard"] "How long a shard's log is";
    LOG_APPENDS = "riparian_log_appends" Counter ["kind"] "Batches appended to the logs of the metadata, of groups, of clients' topics";
    LOG_RECORDS = "riparian_log_records" Counter ["kind"] "Records appended";
    LOG_BYTES = "riparian_log_appended" Counter Bytes ["kind"] "Bytes appended";
    SYNC_TIME = "riparian_log_sync" Histogram Seconds ["kind"] "How long it took to make a log durable";
    SYNC_FAILURES = "riparian_log_sync_failures" Counter ["kind"] "Syncs that failed";
    PARTITIONS = "riparian_partitions" Gauge [] "Partitions of clients' topics";
    PARTITIONS_OFFLINE = "riparian_partitions_offline" Gauge [] "Those of them whose log can't be written to or read";
    PARTITIONS_BYTES = "riparian_partitions_size" Gauge Bytes [] "How long their logs are together";
}
