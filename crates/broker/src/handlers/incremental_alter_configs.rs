//! IncrementalAlterConfigs (key 44, versions 0 and 1): change configs key by key (KIP-339).

use std::borrow::Cow;

use riparian_metadata::{
    ConfigResource,
    command::{AlterConfigs, AlterOperation, AlterResource, Command, ConfigChange},
    reply::{AlterConfigsError, Reply},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
        incremental_alter_configs_request::AlterConfigsResource,
        incremental_alter_configs_response::AlterConfigsResourceResponse,
    },
};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::Operation,
    handlers::{Api, config_resource},
    host::Unavailable,
    request::Context,
    texts,
};

pub(crate) const API: Api = Api { key: ApiKey::IncrementalAlterConfigs, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = IncrementalAlterConfigsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let mut response = IncrementalAlterConfigsResponse::default();
    let mut resources = Vec::new();
    for asked in request.resources {
        match resource(&ctx, &asked) {
            Ok(resource) => resources.push(resource),
            Err((code, text)) => response.responses.push(result(
                asked.resource_type,
                asked.resource_name.into_owned(),
                Some((code, text)),
            )),
        }
    }
    let to = ctx.to;
    let names: Vec<ConfigResource> = resources.iter().map(|resource| resource.resource.clone()).collect();
    let alter = AlterConfigs { resources, validate_only: request.validate_only };
    ctx.broker.change_metadata(
        ctx.now,
        |waiter| Command::AlterConfigs(waiter, alter),
        Box::new(move |broker, _, answer| {
            let everywhere = |code: ErrorCode| {
                let one = move |resource: &ConfigResource| {
                    let text = code.message().to_owned();
                    result(resource.type_number(), resource.name(), Some((code, text)))
                };
                names.iter().map(one)
            };
            match answer {
                Ok(Reply::AlterConfigs(results)) => {
                    response.responses.extend(results.into_iter().map(|(resource, outcome)| {
                        let error = outcome.err().map(|error| (code(&error), error.to_string()));
                        result(resource.type_number(), resource.name(), error)
                    }));
                }
                Ok(_) => response.responses.extend(everywhere(ErrorCode::UnknownServerError)),
                Err(Unavailable) => response.responses.extend(everywhere(ErrorCode::NotController)),
            }
            broker.reply(to, &response);
        }),
    );
    Ok(())
}

fn resource(ctx: &Context<'_>, asked: &AlterConfigsResource<'_>) -> Result<AlterResource, (ErrorCode, String)> {
    let resource = config_resource::find(ctx, Operation::AlterConfigs, asked.resource_type, &asked.resource_name)?;
    let changes = asked.configs.iter().map(|config| {
        let operation = match config.config_operation {
            0 => AlterOperation::Set,
            1 => AlterOperation::Delete,
            2 => AlterOperation::Append,
            3 => AlterOperation::Subtract,
            other => {
                let text = format!("config operation {other} is unknown: 0 set, 1 delete, 2 append, 3 subtract");
                return Err((ErrorCode::InvalidRequest, text));
            }
        };
        let value = config.value.as_deref().map(str::to_owned);
        Ok(ConfigChange { key: config.name.to_string(), operation, value })
    });
    let changes = changes.collect::<Result<_, _>>()?;
    Ok(AlterResource { resource, changes })
}

/// The one place where this operation's errors become codes.
fn code(error: &AlterConfigsError) -> ErrorCode {
    match error {
        AlterConfigsError::InvalidName { .. } => ErrorCode::InvalidTopicException,
        AlterConfigsError::UnknownTopic { .. } => ErrorCode::UnknownTopicOrPartition,
        AlterConfigsError::UnknownBroker { .. } | AlterConfigsError::InvalidGroupId | AlterConfigsError::NamedTwice => {
            ErrorCode::InvalidRequest
        }
        AlterConfigsError::Config(error) => config_resource::error_code(error),
        AlterConfigsError::Limit(_) => ErrorCode::PolicyViolation,
        _ => ErrorCode::UnknownServerError,
    }
}

fn result(
    resource_type: i8,
    resource_name: String,
    error: Option<(ErrorCode, String)>,
) -> AlterConfigsResourceResponse<'static> {
    let (error_code, error_message) = error.map_or((0, None), |(code, text)| (code.code(), Some(texts::told(text))));
    AlterConfigsResourceResponse {
        error_code,
        error_message,
        resource_type,
        resource_name: Cow::Owned(resource_name),
        ..Default::default()
    }
}
