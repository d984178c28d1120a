//! InitProducerId (key 22, versions 0 to 5): a new id for an idempotent producer (KIP-98).
//!
//! Ids are handed out from blocks that the metadata log reserves, so that no id is ever given twice.
//! Gaps: transactional ids are refused. Every request gets a new id, also one that names its old id (KIP-360), which is
//! what Kafka does for producers without a transactional id.

use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{InitProducerIdRequest, InitProducerIdResponse},
};
use riparian_types::ProducerId;
use riparian_wire::{DecodeError, Reader};

use crate::{
    Broker,
    authorizer::{Operation, Resource},
    handlers::Api,
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::InitProducerId, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = InitProducerIdRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let refused = if request.transactional_id.is_some() {
        // The client knows this code as fatal for InitProducerId.
        Some(ErrorCode::UnsupportedVersion)
    } else if !ctx.allows(Operation::IdempotentWrite, Resource::Cluster) {
        Some(ErrorCode::ClusterAuthorizationFailed)
    } else {
        None
    };
    if let Some(code) = refused {
        let refusal = InitProducerIdResponse { error_code: code as i16, producer_epoch: -1, ..Default::default() };
        ctx.reply(&refusal);
        return Ok(());
    }
    let to = ctx.to;
    ctx.broker.next_producer_id(
        ctx.now,
        Box::new(move |broker: &Broker, id: Option<ProducerId>| {
            let response = match id {
                Some(id) => InitProducerIdResponse { producer_id: id.0, producer_epoch: 0, ..Default::default() },
                None => InitProducerIdResponse {
                    error_code: ErrorCode::CoordinatorLoadInProgress as i16,
                    producer_epoch: -1,
                    ..Default::default()
                },
            };
            broker.reply(to, &response);
        }),
    );
    Ok(())
}
