//! The admin client's methods for streams groups: one program, against a broker of Kafka and our server, says the same.

use std::{path::Path, time::Duration};

use riparian_tests::{Against, Program, Server, WordCount, own_program};

const CALLS_LIMIT: Duration = Duration::from_secs(90);
const LINES: u64 = 40;

fn calls(server: &Server, group: &str, phase: &str) -> String {
    let mut command = own_program("StreamsGroupsAdmin");
    command.args(["--bootstrap", &server.bootstrap(), "--group", group, "--topic", "text-lines", "--phase", phase]);
    let finished = Program::start(phase, &mut command).finish(CALLS_LIMIT).success();
    assert!(!finished.both().contains("Exception in thread"), "{}", finished.both());
    format!("== {phase}\n{}\n", finished.stdout)
}

/// What the program says while the group lives, when it is empty, and when it is deleted.
fn told_by(against: Against) -> String {
    let server = Server::start_this(against, WordCount::QUICK);
    let application = WordCount::new(&server, None, &[]);
    let instances = [application.start("one"), application.start("two")];
    application.wait_until_settled(&[&instances[0], &instances[1]]);
    application.feed(0, LINES, 1000).finish();
    application.check_counts(LINES, true);
    let living = calls(&server, WordCount::APPLICATION, "living");
    for instance in instances {
        application.close(instance);
    }
    let empty = calls(&server, WordCount::APPLICATION, "empty");
    let gone = calls(&server, WordCount::APPLICATION, "gone");
    [living, empty, gone].concat()
}

/// What Kafka says is kept, so that both can't be wrong in the same way unseen; `RIPARIAN_BLESS=1` writes it anew.
#[test]
fn methods_for_streams_groups_say_what_they_say_of_kafka() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/streams-groups-admin.txt");
    let kafka = told_by(Against::Kafka);
    if std::env::var_os("RIPARIAN_BLESS").is_some() {
        std::fs::write(&golden, &kafka).expect("the golden text can be written");
    }
    let kept = std::fs::read_to_string(&golden).expect("the golden text is there");
    check("Kafka", &kafka, &kept);
    check("Riparian", &told_by(Against::Riparian), &kept);
}

fn check(who: &str, said: &str, kept: &str) {
    let differing = said.lines().zip(kept.lines()).filter(|(said, kept)| said != kept);
    let differing: Vec<String> = differing.map(|(said, kept)| format!("{said}\n instead of {kept}")).collect();
    assert!(said == kept, "{who} says\n{}\n\nin all:\n{said}", differing.join("\n"));
}
