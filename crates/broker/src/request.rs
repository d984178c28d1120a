//! From a frame to its handler, and from a response to its reply.

use std::iter;

use bytes::Bytes;
use riparian_log::Piece;
use riparian_protocol::{ApiKey, ErrorCode, Message, RequestHeader, ResponseHeader, messages::FetchResponse};
use riparian_types::{
    ClientId, Now,
    planted::{self, Bug},
};
use riparian_wire::{
    DecodeError, EncodeError, Outline, Reader, frame,
    outline::{self, Gap},
};

use crate::{
    Broker,
    authorizer::{Operation, Resource},
    connection::Connection,
    handlers,
    shell::{ConnectionId, Reply},
};

/// Room for most responses.
const REPLY_BYTES_FIRST: usize = 128;

/// Why a connection is to be closed: the client sent something that can't be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The header can't be read.
    #[error("request header can't be read: {0}")]
    Header(DecodeError),
    /// No such API here.
    #[error("API key {0} is not served")]
    UnknownApi(i16),
    /// The API, but not this version of it.
    #[error("{name} version {version} is not served, versions {min} to {max} are")]
    UnknownVersion {
        /// The API's name.
        name: &'static str,
        /// The version asked for.
        version: i16,
        /// The lowest version served.
        min: i16,
        /// The highest version served.
        max: i16,
    },
    /// The body can't be read.
    #[error("{name} version {version} request can't be read: {error}")]
    Body {
        /// The API's name.
        name: &'static str,
        /// The version of the request.
        version: i16,
        /// What is wrong.
        error: DecodeError,
    },
}

/// Where a reply goes and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    pub(crate) connection: ConnectionId,
    pub(crate) slot: u64,
    pub(crate) correlation_id: i32,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    /// Where the API stands in the table of what is served.
    pub(crate) place: usize,
    /// When the request came, on the clock of [`crate::Shell::micros`].
    pub(crate) received: u64,
}

/// A request on its way through a handler.
pub(crate) struct Context<'a> {
    pub(crate) broker: &'a Broker,
    pub(crate) now: Now,
    pub(crate) connection: &'a Connection,
    pub(crate) client_id: ClientId,
    pub(crate) to: ReplyTo,
}

impl Context<'_> {
    /// The version of the request.
    pub(crate) const fn version(&self) -> i16 {
        self.to.version
    }

    /// Whether the connection's principal may do this.
    pub(crate) fn allows(&self, operation: Operation, resource: Resource<'_>) -> bool {
        let connection = self.connection;
        self.broker.authorizer.allows(connection.principal(), connection.client_host(), operation, resource)
    }

    /// Answers.
    pub(crate) fn reply<'r, R: Message<'r>>(&self, response: &R) {
        self.broker.reply(self.to, response);
    }
}

impl Broker {
    pub(crate) fn dispatch(
        &self,
        now: Now,
        connection: &Connection,
        slot: u64,
        frame: &Bytes,
    ) -> Result<(), CloseReason> {
        let received = self.shell.micros();
        let mut reader = Reader::new(frame);
        let header = RequestHeader::decode(&mut reader).map_err(CloseReason::Header)?;
        let found = header.api().and_then(|key| Some((key, handlers::place(key)?, key.served()?)));
        let Some((key, place, served)) = found else {
            return Err(CloseReason::UnknownApi(header.api_key));
        };
        let version = header.api_version;
        let to = ReplyTo {
            connection: connection.id(),
            slot,
            correlation_id: header.correlation_id,
            api: key,
            version,
            place,
            received,
        };
        self.telemetry.apis()[place].asked(frame.len());
        let client_id = header.client_id.as_deref().map_or_else(ClientId::default, ClientId::from);
        let context = Context { broker: self, now, connection, client_id, to };
        if version < served.min || version > served.max {
            if key == ApiKey::ApiVersions {
                handlers::api_versions::refuse_version(&context);
                return Ok(());
            }
            let (min, max) = (served.min, served.max);
            return Err(CloseReason::UnknownVersion { name: key.name(), version, min, max });
        }
        (handlers::APIS[place].handle)(context, &mut reader).map_err(|error| CloseReason::Body {
            name: key.name(),
            version,
            error,
        })
    }

    /// Encodes a response and completes its slot.
    pub(crate) fn reply<'r, R: Message<'r>>(&self, to: ReplyTo, response: &R) {
        let mut out = Vec::with_capacity(REPLY_BYTES_FIRST);
        frame::start(&mut out);
        let header = ResponseHeader::new(to.correlation_id);
        let encoded = header.encode(&mut out, to.api, to.version).and_then(|()| response.encode(&mut out, to.version));
        self.complete(to, response.first_error(), encoded.map(|()| (out, Vec::new())), iter::empty());
    }

    /// As [`Broker::reply`] to a fetch. Large records are not copied; `records` has all records in their order, also those
    /// that are in files and of which the response knows nothing.
    pub(crate) fn reply_with_records<'a>(
        &self,
        to: ReplyTo,
        response: &FetchResponse<'_>,
        records: impl Iterator<Item = &'a Piece> + Clone,
    ) {
        let copied = records.clone().filter(|records| !is_left_out(records)).map(Piece::len);
        let mut out = Outline::with_capacity(REPLY_BYTES_FIRST + copied.sum::<usize>());
        if records.clone().any(|records| matches!(records, Piece::File(_))) {
            out = out.with_records_elsewhere(records.clone().map(|records| match records {
                Piece::Bytes(_) => None,
                Piece::File(part) => Some(part.len()),
            }));
        }
        frame::start(&mut out);
        let header = ResponseHeader::new(to.correlation_id);
        let encoded = header.encode(&mut out, to.api, to.version).and_then(|()| response.outline(&mut out, to.version));
        self.complete(to, response.first_error(), encoded.map(|()| out.into_parts()), records);
    }

    /// Completes a slot with an encoded response and the records that were left out of it.
    fn complete<'a>(
        &self,
        to: ReplyTo,
        error: i16,
        encoded: Result<(Vec<u8>, Vec<Gap>), EncodeError>,
        records: impl Iterator<Item = &'a Piece>,
    ) {
        let framed = encoded.map_err(|error| error.to_string()).and_then(|(mut bytes, gaps)| {
            let missing = gaps.iter().map(|gap| gap.bytes).sum();
            frame::finish_with(&mut bytes, frame::PREFIX_BYTES, missing).map_err(|error| error.to_string())?;
            Ok((bytes.len() + missing - frame::PREFIX_BYTES, fill_gaps(bytes, gaps, records)))
        });
        let reply = match framed {
            Ok((bytes, reply)) => {
                self.note_answer(to, error, bytes);
                reply
            }
            Err(error) => {
                // Our fault: a response with a field that the version can't carry, or one beyond what a size can say.
                // The client must not wait for ever.
                tracing::error!(api = to.api.name(), version = to.version, %error, "response can't be encoded");
                self.note_answer(to, ErrorCode::UnknownServerError.code(), 0);
                Reply::Close
            }
        };
        if planted::is_in(Bug::AnsweredTwice) && to.correlation_id % 64 == 63 {
            self.shell.complete(to.connection, to.slot, reply.clone());
        }
        self.shell.complete(to.connection, to.slot, reply);
    }

    /// Completes the slot of a request that wants no answer, or can't have one that its client would understand.
    pub(crate) fn end_without_answer(&self, to: ReplyTo, error: ErrorCode, reply: Reply) {
        self.note_answer(to, error.code(), 0);
        self.shell.complete(to.connection, to.slot, reply);
    }

    fn note_answer(&self, to: ReplyTo, error: i16, bytes: usize) {
        let micros = self.shell.micros().saturating_sub(to.received);
        self.telemetry.apis()[to.place].answered(error, micros, bytes);
    }
}

/// Puts the large ones of these records where they are missing.
fn fill_gaps<'a>(bytes: Vec<u8>, gaps: Vec<Gap>, records: impl Iterator<Item = &'a Piece>) -> Reply {
    let mut rest = Bytes::from(bytes);
    if gaps.is_empty() {
        return Reply::Frame { first: rest, rest: Vec::new() };
    }
    let mut begin = gaps.first().map_or(rest.len(), |gap| gap.position);
    let first = rest.split_to(begin);
    let mut parts = Vec::with_capacity(2 * gaps.len());
    let mut records = records.filter(|records| is_left_out(records));
    for gap in gaps {
        let records = records.next().expect("a gap has the records that were left out");
        assert_eq!(records.len(), gap.bytes, "records come in the order of the response");
        parts.extend(Some(rest.split_to(gap.position - begin)).filter(|between| !between.is_empty()).map(Piece::Bytes));
        parts.push(records.clone());
        begin = gap.position;
    }
    parts.extend(Some(rest).filter(|rest| !rest.is_empty()).map(Piece::Bytes));
    Reply::Frame { first, rest: parts }
}

/// Whether an [`Outline`] leaves them out.
fn is_left_out(records: &Piece) -> bool {
    match records {
        Piece::Bytes(bytes) => bytes.len() >= outline::GAP_BYTES_MIN,
        Piece::File(_) => true,
    }
}
