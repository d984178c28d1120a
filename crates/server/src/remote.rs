//! Connects the command line to a server.

use std::time::Duration;

use anyhow::Result;
use riparian_client::{Cluster, Options};

use crate::cli::ServerOptions;

pub(crate) fn connect(server: &ServerOptions) -> Result<Cluster> {
    let options = Options {
        client_id: "riparian-cli".to_owned(),
        connect_timeout: Duration::from_secs(server.timeout.min(10)),
        request_timeout: Duration::from_secs(server.timeout),
    };
    Ok(Cluster::connect(&server.bootstrap, options)?)
}
