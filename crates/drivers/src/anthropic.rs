//! Anthropic's Messages API: `POST <endpoint>/v1/messages`.
//!
//! The key goes as `x-api-key`; a gateway that wants a bearer token is spoken to with the `openai`
//! driver or its own header. An endpoint that already ends in `/v1` is taken as such.

mod decode;
mod wire;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use secrets::Secret;
use serde_json::{Map, Value};
use vocab::{ToolSpec, Wire};

use crate::config::BuildError;
use crate::exchange::{Decoder, Protocol, headers, join};
use crate::wire::refuse_reserved;

pub(crate) struct Anthropic {
    model: String,
    request: Map<String, Value>,
    author: String,
}

impl Protocol for Anthropic {
    const NAME: &'static str = "anthropic";

    fn url(endpoint: Url) -> Url {
        let has_version = endpoint.path().trim_end_matches('/').ends_with("/v1");
        join(endpoint, if has_version { "/messages" } else { "/v1/messages" })
    }

    fn headers() -> HeaderMap {
        let mut headers = headers();
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        headers
    }

    fn credential(key: Secret) -> (HeaderName, Secret) {
        (HeaderName::from_static("x-api-key"), key)
    }

    fn new(model: &str, _url: &Url, request: Map<String, Value>) -> Result<Self, BuildError> {
        refuse_reserved(&request, &["model", "messages", "system", "tools", "stream", "max_tokens"])?;
        Ok(Self { model: model.to_owned(), request, author: format!("{}/{model}", Self::NAME) })
    }

    fn open(&self, system: &str, tools: &[ToolSpec]) -> Box<dyn Wire> {
        Box::new(wire::AnthropicWire::new(&self.model, &self.request, &self.author, system, tools))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::AnthropicDecoder::new(&self.author))
    }
}
