//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

use crate::logging::LogFormat;

/// Riparian coordinates Kafka Streams applications: a small server that speaks the Kafka protocol.
#[derive(Debug, Parser)]
#[command(name = "riparian", version, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a server; without arguments on 127.0.0.1:9092 with its data in ./riparian-data
    Serve(Box<ServeOptions>),
    /// List, create, describe or delete topics of any Kafka-compatible server
    Topics {
        #[command(subcommand)]
        command: TopicsCommand,
    },
    /// List or describe groups of any Kafka-compatible server
    Groups {
        #[command(subcommand)]
        command: GroupsCommand,
    },
}

/// Settings come from flags, then from the environment, then from the file, then from the defaults.
#[derive(Debug, Args)]
#[command(after_help = "\
Environment: every key of the properties file can be set as RIPARIAN_ and its name in capitals with _ for each dot, \
for example RIPARIAN_NUM_PARTITIONS=3 or RIPARIAN_ADVERTISED_LISTENERS=PLAINTEXT://db1:9092.

The first line on standard output is the address that clients connect to; the log goes to standard error.
Over HTTP there are /metrics, /healthz, /readyz and /version; the line \"ready\" of the log says where.
Exit codes: 0 after SIGTERM or SIGINT, 1 when the server cannot run, 2 for a wrong configuration.")]
pub(crate) struct ServeOptions {
    /// A properties file with Kafka's names (a server.properties will do)
    #[arg(long, value_name = "FILE", env = "RIPARIAN_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The port to listen on; 0 for any free one
    #[arg(long, value_name = "PORT", conflicts_with = "listeners")]
    pub(crate) port: Option<u16>,
    /// Where to listen (key listeners), for example PLAINTEXT://0.0.0.0:9092
    #[arg(long, value_name = "LIST")]
    pub(crate) listeners: Option<String>,
    /// What clients are told to connect to (key advertised.listeners), for example PLAINTEXT://db1:9092
    #[arg(long, value_name = "LIST")]
    pub(crate) advertised_listeners: Option<String>,
    /// Where health and metrics are served over HTTP (key riparian.http.address), or off [default: 127.0.0.1:9464, or any free port]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) http_address: Option<String>,
    /// Where the data is kept (key log.dirs)
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Keep the data in a temporary directory that is removed at exit
    #[arg(long, conflicts_with = "data_dir")]
    pub(crate) ephemeral: bool,
    /// Set any key; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the configuration that follows from everything, and exit
    #[arg(long)]
    pub(crate) dump_config: bool,
    #[command(flatten)]
    pub(crate) log: LogOptions,
}

#[derive(Debug, Args)]
pub(crate) struct LogOptions {
    /// What is logged: error, warn, info, debug, trace, or directives like info,riparian_log=debug [default: RUST_LOG or info]
    #[arg(long, value_name = "LEVEL", env = "RIPARIAN_LOG")]
    pub(crate) log: Option<String>,
    /// How it is logged
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text", env = "RIPARIAN_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ServerOptions {
    /// Addresses of the server, separated by commas; the first that answers is used
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        default_value = "127.0.0.1:9092",
        env = "RIPARIAN_BOOTSTRAP",
        alias = "bootstrap-server"
    )]
    pub(crate) bootstrap: Vec<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// How long to wait for an answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopicsCommand {
    /// List all topics
    List {
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Create a topic
    Create {
        /// The topic's name
        topic: String,
        /// How many partitions it gets [default: the server's]
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
        partitions: Option<i32>,
        /// How many replicas each gets [default: the server's]
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i16).range(1..))]
        replication_factor: Option<i16>,
        /// A config of the topic, for example cleanup.policy=compact; may be given several times
        #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
        config: Vec<(String, String)>,
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Show the partitions and configs of topics
    Describe {
        /// The topics' names
        #[arg(required = true)]
        topics: Vec<String>,
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Delete topics with all their records
    Delete {
        /// The topics' names
        #[arg(required = true)]
        topics: Vec<String>,
        #[command(flatten)]
        server: ServerOptions,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupsCommand {
    /// List all groups
    List {
        #[command(flatten)]
        watch: WatchOptions,
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Show the members, their tasks or partitions, and the offsets of groups
    #[command(after_help = "\
Groups of the streams and of the classic protocol can be shown. A member is \"moving\" while it does not run yet what \
it is meant to run. LAG is how many records have not been committed yet; - stands for what is not known.")]
    Describe {
        /// The groups' ids; for a Kafka Streams application its application.id
        #[arg(required = true)]
        groups: Vec<String>,
        /// Draw the nodes of the topologies of streams groups, as far as members have described them
        #[arg(long)]
        topology: bool,
        #[command(flatten)]
        watch: WatchOptions,
        #[command(flatten)]
        server: ServerOptions,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// Show it again every so many seconds, until Ctrl-C; with --json one document per line
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    pub(crate) watch: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "allowed is 0.1 to 3600".to_owned())
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("allowed is key=value")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
