//! Chat Completions, OpenAI's own and every server's that speaks it: `POST <endpoint>/chat/completions`.
//!
//! An endpoint without a path gets `/v1`, as all of these servers have it; one with a path is taken as
//! it stands. The output cap goes as `max_completion_tokens` to OpenAI's and Azure's own hosts, whose
//! newer models refuse the older name, and as `max_tokens` to all others, some of which know no other.
//! Reasoning is read but never sent: this form has no place for it that all servers take.

mod decode;
mod wire;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use reqwest::Url;
use secrets::Secret;
use serde_json::{Map, Value};
use vocab::{ToolSpec, Wire};

use crate::config::BuildError;
use crate::exchange::{Decoder, Protocol, headers, join};
use crate::wire::refuse_reserved;

pub(crate) struct OpenAi {
    model: String,
    request: Map<String, Value>,
    author: String,
    cap: &'static str,
}

impl Protocol for OpenAi {
    const NAME: &'static str = "openai";

    fn url(endpoint: Url) -> Url {
        let bare = endpoint.path().trim_end_matches('/').is_empty();
        join(endpoint, if bare { "/v1/chat/completions" } else { "/chat/completions" })
    }

    fn headers() -> HeaderMap {
        headers()
    }

    fn credential(key: Secret) -> (HeaderName, Secret) {
        (AUTHORIZATION, Secret::new(format!("Bearer {}", key.expose())))
    }

    fn new(model: &str, url: &Url, request: Map<String, Value>) -> Result<Self, BuildError> {
        refuse_reserved(
            &request,
            &["model", "messages", "tools", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n"],
        )?;
        let host = url.host_str().unwrap_or_default();
        let own = host == "api.openai.com" || host.ends_with(".openai.com") || host.ends_with(".openai.azure.com");
        Ok(Self {
            model: model.to_owned(),
            request,
            author: format!("{}/{model}", Self::NAME),
            cap: if own { "max_completion_tokens" } else { "max_tokens" },
        })
    }

    fn open(&self, system: &str, tools: &[ToolSpec]) -> Box<dyn Wire> {
        Box::new(wire::OpenAiWire::new(&self.model, &self.request, self.cap, system, tools))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::OpenAiDecoder::new(&self.author))
    }
}

#[cfg(test)]
mod tests;
