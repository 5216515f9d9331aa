//! A client for the official conformance kit, which starts it with a server's address as the last argument.
//!
//! It lists the tools and calls each with numbers for whatever is required.
#![expect(clippy::print_stderr, reason = "what the kit shows when a scenario fails")]

use std::process::ExitCode;
use std::sync::Arc;

use mcp::{Call, HttpConfig, Lifecycle, Limits, Server, Transport};
use serde_json::{Map, Value};

fn main() -> ExitCode {
    let url = std::env::args().next_back().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    match runtime.block_on(run(&url)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}: {}", error.hint());
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str) -> Result<(), mcp::Error> {
    let transport = Transport::Http(Arc::new(HttpConfig::new(url)?));
    let lifecycle = Lifecycle::KeepAlive { idle: std::time::Duration::from_secs(60) };
    let server = Server::new(transport, lifecycle, Limits::default());
    for tool in server.discover().await?.tools() {
        let required = tool.input_schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let arguments: Map<String, Value> =
            required.filter_map(Value::as_str).map(|name| (name.to_owned(), Value::from(7))).collect();
        let call = Call {
            tool: &tool.name,
            arguments: &arguments,
            definition: Some(tool.definition),
            meta: None,
            confirm: None,
        };
        server.call(&call, std::future::pending()).await?;
    }
    server.close().await;
    Ok(())
}
