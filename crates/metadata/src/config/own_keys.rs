//! The server's keys that are ours.

use super::{ConfigKey, Kind, Unit};

const fn own(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> ConfigKey {
    ConfigKey::broker(name, kind, default, doc)
}

pub(super) static OWN_KEYS: &[ConfigKey] = &[
    own(
        "riparian.connection.requests.max",
        Kind::int(1),
        "100",
        "Most requests of one connection that may wait for their answers; beyond it the connection is not read.",
    ),
    own(
        "riparian.connection.unsent.bytes.max",
        Kind::int(1024),
        "4194304",
        "How many bytes of answers may wait, for a client to read them or for the answers to its earlier requests, before its \
         next request is looked at.",
    )
    .unit(Unit::Bytes),
    own(
        "riparian.connections.bytes.max",
        Kind::long(1_048_576),
        "1073741824",
        "Most bytes that all connections together may hold of unfinished requests and unsent answers, those that wait for \
         earlier ones included. Beyond it those that hold much and would hold more are closed; small requests, heartbeats \
         among them, are served as ever.",
    )
    .unit(Unit::Bytes),
    own(
        "riparian.fast.rebalance",
        Kind::Bool,
        "true",
        "`true`: a streams group's assignment is computed as soon as there is a reason and the assignment interval is over, and members are told to send \
         heartbeats as often as the server can afford, unless the group sets `streams.heartbeat.interval.ms`. `false`: as \
         in Kafka, at the next heartbeat after a fixed interval.",
    )
    .high(),
    own(
        "riparian.fast.rebalance.heartbeats.per.second",
        Kind::int(1),
        "2000",
        "How many heartbeats per second all members of streams groups together may be told to send. The intervals are \
         never shorter than 500 ms, or 100 ms while tasks of the group move, and never longer than \
         `group.streams.heartbeat.interval.ms`.",
    ),
    own(
        "riparian.fence.restarted.processes",
        Kind::Bool,
        "true",
        "`true`: when all connections of a Kafka Streams process have closed and the same process (by the id that it keeps \
         in its state directory) joins again, its old members are fenced soon after. `false`: as in Kafka, when their \
         sessions end.",
    ),
    own(
        "riparian.flush",
        Kind::Enum(&["sync", "os"]),
        "sync",
        "When data counts as durable: `sync`, once the disk has confirmed it; `os`, once the operating system has it, which \
         is what Kafka does and what a power failure undoes.",
    )
    .high(),
    own(
        "riparian.groups.max",
        Kind::int(1),
        "100000",
        "Most groups of all types together, those that are only committed offsets included. A join or a commit that would \
         make another is refused; groups that are there stay.",
    ),
    own(
        "riparian.http.address",
        Kind::String,
        "auto",
        "Where health and metrics are served over HTTP: `host:port`; `off` or nothing for nowhere; `auto` for \
         `127.0.0.1:9464`, or any free port of that address if that one is taken or the server itself takes any port \
         (`--port 0`). There is no access control: whoever can connect can read.",
    ),
    own(
        "riparian.member.bytes.max",
        Kind::int(1024),
        "1048576",
        "Most bytes that are kept of what one member of a group says of itself: a topology, or tags, endpoint and task \
         offsets; of a classic group the subscription, or the assignment that it is given.",
    )
    .unit(Unit::Bytes),
    own(
        "riparian.members.max",
        Kind::int(1),
        "200000",
        "Most members of all groups together. Further ones are refused; members that are there stay.",
    ),
    own(
        "riparian.metrics.groups.max",
        Kind::int(0),
        "1000",
        "How many groups have metrics of their own; the rest is only in the totals, and a metric says how many that are.",
    ),
    own(
        "riparian.partitions.max",
        Kind::int(1),
        "1000000",
        "Most partitions of all topics together, but for the server's own. A topic or partitions that would be more are \
         refused; each takes about 1 KiB of memory.",
    ),
    own(
        "riparian.pattern.bytes.max",
        Kind::Int { min: 1024, max: 1_048_576 },
        "4096",
        "Most bytes that one source pattern of a streams group may take once it is compiled; an ordinary one takes a few \
         hundred. The larger one is, the longer it takes to match the topics that there are. A topology with a larger one \
         is refused, and so is one whose patterns together take more than four times as much.",
    )
    .unit(Unit::Bytes),
    own(
        "riparian.pattern.matches.max",
        Kind::int(1),
        "1000000",
        "Most topics that the source patterns of all streams groups together may stand for, a topic counted once for each \
         group. A new group that would go beyond it is refused; groups that are there get every topic that comes.",
    ),
    own(
        "riparian.patterns.max",
        Kind::int(1),
        "1000",
        "Most source patterns of all streams groups together; the same one in two groups may count once. A topology that \
         would bring more is refused. Each is compared with every topic that comes.",
    ),
    own(
        "riparian.replication.cap",
        Kind::Bool,
        "true",
        "What becomes of a `replication.factor` or `min.insync.replicas` above 1: `true` counts it as 1 and warns once per \
         topic, `false` refuses it as Kafka does when there are too few brokers.",
    ),
    own(
        "riparian.topics.max",
        Kind::int(1),
        "100000",
        "Most topics, but for the server's own. Further ones are refused; topics that are there stay.",
    ),
    own(
        "riparian.topology.description",
        Kind::Bool,
        "true",
        "`true`: one member of a streams group is asked to describe its topology, for `riparian groups describe --topology` \
         and other tools to show; the description is kept in the group's log. `false`: as in Kafka without a plugin, \
         nobody is asked, and what comes is refused.",
    ),
    own(
        "riparian.topology.description.bytes.max",
        Kind::Int { min: 1024, max: 1_000_000 },
        "262144",
        "Most bytes that the description of one group's topology may have. A larger one is not kept, and not asked for \
         again.",
    )
    .unit(Unit::Bytes),
    own(
        "riparian.topology.descriptions.bytes.max",
        Kind::int(1024),
        "67108864",
        "Most bytes that the descriptions of all groups' topologies together may have. One for which there is no room is \
         not kept, and asked for again after a while; those that are there stay.",
    )
    .unit(Unit::Bytes),
    own(
        "riparian.topology.patterns",
        Kind::Bool,
        "true",
        "`true`: a topology of a streams group may give source topics by patterns, which the server resolves, again \
         whenever topics come and go. `false`: as in Kafka, which refuses such a topology.",
    ),
    own(
        "riparian.topology.replace",
        Kind::Bool,
        "true",
        "`true`: a streams group whose members have all left takes the topology of the member that starts it next; its \
         offsets and internal topics stay. `false`: as in Kafka, where a group keeps its topology until it is deleted \
         together with its offsets.",
    ),
    own(
        "riparian.warmups",
        Kind::Bool,
        "true",
        "`true`: a stateful task stays where it runs until its new owner has restored a copy, for as many tasks of a group \
         at a time as `streams.num.warmup.replicas` says. `false`: as in Kafka 4.4, tasks move at once and are restored \
         then.",
    ),
];
