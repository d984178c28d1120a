//! Writes a data directory with a bit of everything, for Kafka's own tools to look at:
//!
//! ```text
//! cargo run -p riparian-log --example write_data_dir -- DIR
//! java -cp 'JARS/*' org.apache.kafka.tools.DumpLogSegments --deep-iteration --print-data-log --files DIR/t-0/*.log,...
//! ```

#![expect(clippy::unwrap_used, reason = "it is for looking, and stops at the first thing that goes wrong")]

use std::{env, path::Path, sync::Arc};

use riparian_log::{FlushMode, FsDisk, Identity, LogConfig, Logs, LogsConfig};
use riparian_records::{
    BatchBuilder, BatchOptions, Compression, ControlRecord, Header, Producer, TimestampType, check_produced,
};
use riparian_types::{
    LeaderEpoch, MonoMillis, NodeId, Now, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TopicName, Uuid,
    WallMillis,
};

fn main() {
    let dir = env::args().nth(1).expect("one argument: the directory to write");
    let now = |ms: i64| Now { mono: MonoMillis(0), wall: WallMillis(1_700_000_000_000 + ms) };
    let identity = Identity {
        node_id: NodeId(1),
        cluster_id: None,
        new_cluster_id: Uuid::from_random(1, 2).to_string(),
        new_directory_id: Uuid::from_random(3, 4),
    };
    let config = LogsConfig {
        flush: FlushMode::Sync,
        producer_expiration_ms: 86_400_000,
        topic_defaults: LogConfig::KAFKA,
        recovery_threads: 1,
        read_at_open_bytes: LogsConfig::READ_AT_OPEN_BYTES,
    };
    let disk = Arc::new(FsDisk::new(FsDisk::HANDLES_DEFAULT));
    let (logs, report) = Logs::open(disk, Path::new(&dir), identity, config, now(0).wall).unwrap();
    eprintln!("{report:?}");
    for (partition, timestamp_type) in [(0, TimestampType::CreateTime), (1, TimestampType::LogAppendTime)] {
        let config = LogConfig { segment_bytes: 20_000, timestamp_type, ..LogConfig::KAFKA };
        let log =
            logs.create(&TopicName::from("t"), Uuid::from_random(5, 6), PartitionIndex(partition), config).unwrap();
        for n in 0..400 {
            let ms = 10 * i64::from(n) - if n % 7 == 0 { 500 } else { 0 };
            let producer = Producer {
                id: ProducerId(i64::from(n % 3)),
                epoch: ProducerEpoch(0),
                base_sequence: Sequence(n / 3 * 2),
            };
            let mut builder = BatchBuilder::new(BatchOptions {
                compression: Compression::ALL[n as usize % Compression::ALL.len()],
                producer: Some(producer),
                ..BatchOptions::PLAIN
            });
            let value = format!("value {n} ").repeat(20);
            builder.push(now(ms).wall, Some(format!("key {n}").as_bytes()), Some(value.as_bytes()));
            let header = Header { key: b"header", value: Some(b"x") };
            builder.push_with_headers(now(ms + 5).wall, Some(b"k"), None, std::iter::once(header));
            let bytes = builder.build();
            let produced = check_produced(&bytes, &config.produce_rules(true), now(ms).wall).unwrap();
            log.append_produced(now(ms), LeaderEpoch(n / 100), &produced).unwrap();
            if n % 3 == 0 {
                log.sync().unwrap();
            }
        }
        let marker = ControlRecord::end_transaction(ProducerId(1), ProducerEpoch(1), true, 7, now(9999).wall);
        log.append_internal(now(9999), LeaderEpoch(4), &marker).unwrap();
        log.sync().unwrap();
        let (start, end, durable_end) = (log.start_offset(), log.end_offset(), log.durable_end());
        eprintln!("partition {partition}: start {start}, end {end}, durable end {durable_end}");
    }
    if env::args().nth(2).as_deref() == Some("--clean") {
        logs.shutdown().unwrap();
    }
}
