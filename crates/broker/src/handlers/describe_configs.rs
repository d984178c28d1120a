//! DescribeConfigs (key 32, versions 1 to 4): configs of topics, groups and this broker, with where they come from.

use std::{borrow::Cow, collections::BTreeSet};

use riparian_metadata::{
    ConfigResource,
    config::{self, ConfigEntry},
};
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        DescribeConfigsRequest, DescribeConfigsResponse,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym},
    },
};
use riparian_wire::{DecodeError, Reader};

use crate::{
    authorizer::Operation,
    handlers::{Api, config_resource, create_topics},
    request::Context,
    texts,
};

pub(crate) const API: Api = Api { key: ApiKey::DescribeConfigs, handle };

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = DescribeConfigsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let (synonyms, documentation) = (request.include_synonyms, request.include_documentation);
    // Once is enough: a name is short, its configs are long.
    let mut seen = BTreeSet::new();
    let mut resources = request.resources;
    resources.retain(|asked| seen.insert((asked.resource_type, asked.resource_name.clone())));
    let results = resources.into_iter().map(|asked| {
        let outcome = describe(&ctx, &asked);
        let mut result = DescribeConfigsResult {
            resource_type: asked.resource_type,
            resource_name: Cow::Owned(asked.resource_name.into_owned()),
            ..Default::default()
        };
        match outcome {
            Ok(entries) => {
                result.configs = entries.into_iter().map(|e| entry(e, synonyms, documentation)).collect();
            }
            Err((code, text)) => {
                result.error_code = code.code();
                result.error_message = Some(texts::told(text));
            }
        }
        result
    });
    let results = results.collect();
    ctx.reply(&DescribeConfigsResponse { results, ..Default::default() });
    Ok(())
}

fn describe(ctx: &Context<'_>, asked: &DescribeConfigsResource<'_>) -> Result<Vec<ConfigEntry>, (ErrorCode, String)> {
    let broker = ctx.broker;
    let image = broker.image();
    let resource = config_resource::find(ctx, Operation::DescribeConfigs, asked.resource_type, &asked.resource_name)?;
    let keys = &asked.configuration_keys;
    let wanted = |name: &str| keys.as_ref().is_none_or(|keys| keys.iter().any(|key| key == name));
    let layers = image.layers(broker.node_id(), &broker.config.properties);
    match &resource {
        ConfigResource::Topic(name) if image.topic(name).is_none() => {
            let code = ErrorCode::UnknownTopicOrPartition;
            Err((code, format!("topic '{name}' does not exist")))
        }
        ConfigResource::Topic(_) => Ok(config::describe_topic(&layers, image.config(&resource), wanted)),
        ConfigResource::Group(group) if group.is_empty() => {
            Err((ErrorCode::InvalidRequest, "a group needs an id that is not empty".to_owned()))
        }
        ConfigResource::Group(_) => Ok(config::describe_group(&layers, image.config(&resource), wanted)),
        ConfigResource::Broker(None) => Ok(config::describe_broker(&layers, true, wanted)),
        ConfigResource::Broker(Some(id)) if *id == broker.node_id() => {
            Ok(config::describe_broker(&layers, false, wanted))
        }
        ConfigResource::Broker(Some(id)) => {
            let text = format!("there is no broker {id}: allowed are {} or no name", broker.node_id());
            Err((ErrorCode::InvalidRequest, text))
        }
    }
}

fn entry(entry: ConfigEntry, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult<'static> {
    let mut result = DescribeConfigsResourceResult {
        name: Cow::Borrowed(entry.key.name),
        is_sensitive: entry.sensitive(),
        config_type: entry.config_type() as i8,
        read_only: entry.read_only,
        config_source: create_topics::source(entry.source),
        value: entry.value.map(Cow::Owned),
        ..Default::default()
    };
    if documentation {
        result.documentation = Some(Cow::Owned(entry.key.documentation()));
    }
    if synonyms {
        let synonyms = entry.synonyms.into_iter().map(|synonym| DescribeConfigsSynonym {
            name: Cow::Borrowed(synonym.name),
            value: synonym.value.map(Cow::Owned),
            source: create_topics::source(synonym.source),
            ..Default::default()
        });
        result.synonyms = synonyms.collect();
    }
    result
}
