//! The files of the server, read by Kafka's dump tool.

use std::path::{Path, PathBuf};
use std::time::Duration;

use riparian_tests::{Finished, Program, Server, Tool, own_program};

const LIMIT: Duration = Duration::from_secs(90);
/// Small segments, so that there are several files of each kind.
const SETTINGS: &[(&str, &str)] = &[
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("log.segment.bytes", "1048576"),
    ("log.index.interval.bytes", "1024"),
];

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("cannot list {}: {error}", dir.display()));
    let mut files: Vec<PathBuf> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|it| it == extension))
        .collect();
    files.sort();
    files
}

/// Runs the tool over files; whatever it does not like is a failure.
fn dump(files: &[PathBuf], options: &[&str]) -> Finished {
    assert!(!files.is_empty(), "nothing to dump with {options:?}");
    let list = files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",");
    let dumped = Tool::new("DumpLogSegments").args(&["--files", &list]).args(options).run();
    let both = dumped.both();
    let complaints: Vec<&str> = both.lines().filter(|line| is_complaint(line)).collect();
    assert!(complaints.is_empty(), "with {options:?}: {complaints:#?}");
    dumped
}

fn is_complaint(line: &str) -> bool {
    const COMPLAINTS: &[&str] = &[
        "Found timestamp mismatch",
        "Found out of order",
        "Mismatches in",
        "Index timestamp",
        "Exception",
        "isvalid: false",
        "Could not",
        " invalid bytes",
    ];
    // The tool expects each file to go on from offset -1, so every segment but the first is told to start elsewhere.
    let gap = line.contains(" is followed by ") && !line.trim_start().starts_with("-1 ");
    gap || COMPLAINTS.iter().any(|complaint| line.contains(complaint))
}

fn fill(server: &Server, topic: &str) {
    let arguments = ["--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1"];
    Tool::at("TopicCommand", &server.bootstrap())
        .args(&arguments)
        .args(&["--config", "segment.bytes=1048576", "--config", "index.interval.bytes=1024"])
        .run();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let compression = format!("compression.type={codec}");
        Tool::new("ProducerPerformance")
            .args(&["--bootstrap-server", &server.bootstrap(), "--topic", topic, "--num-records", "4000"])
            .args(&["--record-size", "300", "--throughput", "-1", "--command-property", &compression])
            .run();
    }
}

#[test]
fn records_and_indexes_are_in_order() {
    let mut server = Server::start(SETTINGS);
    fill(&server, "dumped");
    server.terminate();
    let dir = server.partition_dir("dumped", 0);
    let logs = files(&dir, "log");
    assert!(logs.len() >= 2, "one segment only: {logs:?}");
    let dumped = dump(&logs, &["--deep-iteration", "--print-data-log"]);
    dumped.says("compresscodec: gzip").says("compresscodec: zstd").says("| offset: 19999 ");
    dump(&files(&dir, "index"), &["--verify-index-only"]);
    dump(&files(&dir, "index"), &["--index-sanity-check"]);
    dump(&files(&dir, "timeindex"), &["--verify-index-only"]);
}

#[test]
fn files_of_a_killed_server_are_in_order_after_its_restart() {
    let mut server = Server::start(SETTINGS);
    fill(&server, "crashed");
    server.kill();
    server.restart();
    server.terminate();
    let dir = server.partition_dir("crashed", 0);
    dump(&files(&dir, "log"), &["--deep-iteration"]).says("baseOffset: ");
    dump(&files(&dir, "index"), &["--verify-index-only"]);
    dump(&files(&dir, "timeindex"), &["--verify-index-only"]);
}

#[test]
fn group_and_metadata_records_are_kafkas() {
    let mut server = Server::start(SETTINGS);
    let bootstrap = server.bootstrap();
    for topic in ["text-lines", "word-counts"] {
        let arguments = ["--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1"];
        Tool::at("TopicCommand", &bootstrap).args(&arguments).run();
    }
    Tool::at("ConfigCommand", &bootstrap)
        .args(&["--entity-type", "groups", "--entity-name", "word-count", "--alter"])
        .args(&["--add-config", "streams.num.standby.replicas=1"])
        .run();
    let states = tempfile::tempdir().expect("a temporary directory can be made");
    let mut command = own_program("WordCount");
    command.args(["--bootstrap", &bootstrap, "--state-dir"]).arg(states.path());
    let application = Program::start("word count", &mut command);
    application.wait_for_line("start", LIMIT, |line| line.ends_with(" RUNNING"));
    let mut feeder = own_program("Feeder");
    feeder.args(["--bootstrap", &bootstrap, "--topic", "text-lines", "--count", "200"]);
    Program::start("feeder", &mut feeder).finish(LIMIT).success();
    let mut counts = own_program("CountsChecker");
    counts.args(["--bootstrap", &bootstrap, "--count", "200", "--exact", "true"]);
    Program::start("counts", &mut counts).finish(LIMIT).success();
    application.terminate(LIMIT).says("closed");
    server.terminate();

    let logs_of = |prefix: &str| -> Vec<PathBuf> {
        let dirs = std::fs::read_dir(server.data_dir()).expect("the server has a data directory");
        let mut dirs: Vec<PathBuf> = dirs.filter_map(|entry| Some(entry.ok()?.path())).collect();
        dirs.sort();
        let wanted =
            dirs.into_iter().filter(|dir| dir.file_name().is_some_and(|it| it.to_string_lossy().starts_with(prefix)));
        wanted.flat_map(|dir| files(&dir, "log")).collect()
    };
    let offsets = dump(&logs_of("__consumer_offsets-"), &["--offsets-decoder"]);
    // One record of each kind that a group with committed offsets leaves, by the type of its key: offset, group,
    // member, topology, target, target of a member, current assignment.
    for kind in [1, 17, 19, 23, 20, 21, 22] {
        let key = format!("key: {{\"type\":\"{kind}\"");
        let written = offsets.stdout.lines().any(|line| line.contains(&key) && line.contains("payload: {"));
        assert!(written, "no record of type {kind}\n{}", offsets.stdout);
    }
    let metadata = dump(&logs_of("__cluster_metadata-"), &["--cluster-metadata-decoder"]);
    for kind in ["TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "FEATURE_LEVEL_RECORD", "PRODUCER_IDS_RECORD"] {
        metadata.says(kind);
    }
}
