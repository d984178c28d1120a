//! What is answered: `/healthz`, `/readyz`, `/version` and `/metrics`.

use std::{fmt::Write, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State as Shared,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use riparian_broker::{
    Broker,
    telemetry::{LogKind, ShardReading, ShardState},
};
use riparian_protocol::ApiKey;
use serde_json::json;
use tokio::{
    spawn,
    sync::Semaphore,
    task::spawn_blocking,
    time::{Instant, sleep, timeout_at},
};

use super::State;
use crate::metrics;

/// How long a shard's lock, or what was due, may keep somebody waiting before something is wrong.
const PATIENCE: Duration = Duration::from_secs(1);
/// How soon to look again at a shard that was busy.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How many times as long as a scrape took the next one waits: scrapes without end take a quarter of a processor.
const SCRAPE_PAUSE: u32 = 3;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the answers share.
struct Answers {
    state: Arc<State>,
    /// One look at the shards at a time, and one scrape: whoever waits for a lock keeps one thread at most.
    look: Arc<Semaphore>,
    scrape: Arc<Semaphore>,
}

pub(super) fn router(state: Arc<State>) -> Router {
    let answers = Answers { state, look: Arc::new(Semaphore::new(1)), scrape: Arc::new(Semaphore::new(1)) };
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .route("/version", get(version))
        .route("/metrics", get(scrape))
        .with_state(Arc::new(answers))
}

type Answer = (StatusCode, String);

/// All is well, or a line for everything that is not.
fn told(wrong: &[String]) -> Answer {
    if wrong.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let lines = wrong.iter().fold(String::new(), |mut lines, line| {
        writeln!(lines, "{line}").expect("writing to a string succeeds");
        lines
    });
    (StatusCode::SERVICE_UNAVAILABLE, lines)
}

/// Whether the process does its work; loading a lot of data is work too.
async fn health(Shared(answers): Shared<Arc<Answers>>) -> Answer {
    let mut wrong = Vec::new();
    let late_ms = answers.state.hub.late_ms();
    if u128::from(late_ms) > PATIENCE.as_millis() {
        wrong.push(format!("what was due is late by {late_ms} ms"));
    }
    if let Some(broker) = answers.state.broker.get() {
        match answers.shards(broker).await {
            Some(shards) => wrong.extend(shards.iter().filter(|it| it.state == ShardState::Busy).map(describe)),
            None => wrong.push("a log does not answer".to_owned()),
        }
    }
    told(&wrong)
}

/// Whether everything that is stored here is served.
async fn readiness(Shared(answers): Shared<Arc<Answers>>) -> Answer {
    if answers.state.is_stopping.load(std::sync::atomic::Ordering::Relaxed) {
        return told(&["the server stops".to_owned()]);
    }
    let Some(broker) = answers.state.broker.get() else {
        return told(&["the data is being loaded".to_owned()]);
    };
    match answers.shards(broker).await {
        Some(shards) => {
            let wrong = shards.iter().filter(|it| it.state != ShardState::Serving).map(describe);
            told(&wrong.collect::<Vec<_>>())
        }
        None => told(&["a log does not answer".to_owned()]),
    }
}

fn describe(shard: &ShardReading) -> String {
    let name = match shard.kind {
        LogKind::Groups => format!("group shard {}", shard.number),
        LogKind::Metadata | LogKind::Clients => shard.kind.name().to_owned(),
    };
    let state = match shard.state {
        ShardState::Serving => "is served",
        ShardState::Unloaded => "is unloaded: it is being loaded again from its log",
        ShardState::Damaged => "is offline: its log is damaged",
        ShardState::Busy => "does not answer",
    };
    format!("{name} {state}")
}

impl Answers {
    /// All shards, none of them busy if that is possible within [`PATIENCE`]; `None` if their logs can't be looked at.
    async fn shards(&self, broker: &Arc<Broker>) -> Option<Vec<ShardReading>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let permit = timeout_at(deadline, Arc::clone(&self.look).acquire_owned()).await.ok()?.ok()?;
            let broker = Arc::clone(broker);
            let look = spawn_blocking(move || {
                // Kept until the look has ended, however long that takes.
                let _permit = permit;
                broker.shards()
            });
            let shards = timeout_at(deadline, look).await.ok()?.ok()?;
            let is_busy = shards.iter().any(|shard| shard.state == ShardState::Busy);
            if !is_busy || Instant::now() >= deadline {
                return Some(shards);
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

async fn version(Shared(answers): Shared<Arc<Answers>>) -> Response {
    let apis = ApiKey::ALL.iter().filter_map(|api| {
        let served = api.served()?;
        Some(json!({ "key": *api as i16, "name": api.name(), "min": served.min, "max": served.max }))
    });
    let mut body = json!({ "version": env!("CARGO_PKG_VERSION"), "apis": apis.collect::<Vec<_>>() });
    if let Some(broker) = answers.state.broker.get() {
        body["cluster_id"] = broker.cluster_id().into();
    }
    ([(CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

async fn scrape(Shared(answers): Shared<Arc<Answers>>) -> Response {
    // Whoever waits here for too long is closed with its connection.
    let Ok(permit) = Arc::clone(&answers.scrape).acquire_owned().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let state = Arc::clone(&answers.state);
    let scrape = spawn_blocking(move || {
        let began = Instant::now();
        let text = metrics::text(metrics::Scrape::take(&state, state.broker.get()));
        // Also when nobody takes the text any more the permit was kept until here.
        (text, permit, began.elapsed() * SCRAPE_PAUSE)
    });
    match scrape.await {
        Ok((text, permit, pause)) => {
            spawn(async move {
                sleep(pause).await;
                drop(permit);
            });
            ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response()
        }
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the scrape made the server fail, see its log\n").into_response(),
    }
}
