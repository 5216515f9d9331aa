//! A call's span goes with each of its attempts, and a call without one sends none.

use testkit::{ModelServer, Turn};
use vocab::{CallParams, Delta, TraceContext};

use crate::support::{PARAMS, WIRES, asked, driver};

async fn sent(wire: &str, params: CallParams) -> Vec<Option<String>> {
    let server = ModelServer::start(vec![Turn::status(503, "busy"), Turn::new().text("Yes.")]).await;
    let driver = driver(wire, &server);
    let mut sink = |_: Delta<'_>| {};
    driver.call(asked(driver.as_ref()).as_ref(), params, &mut sink).await.unwrap();
    let headers = server.requests().into_iter().map(|request| request.headers);
    let traceparents =
        headers.map(|headers| headers.get("traceparent").map(|value| value.to_str().unwrap().to_owned()));
    traceparents.collect()
}

#[tokio::test]
async fn each_attempt_names_the_span() {
    let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let params = CallParams { traceparent: TraceContext::parse(text), ..PARAMS };
    for wire in WIRES {
        assert_eq!(sent(wire, params).await, [Some(text.to_owned()), Some(text.to_owned())], "{wire}");
    }
}

#[tokio::test]
async fn a_call_without_a_span_names_none() {
    for wire in WIRES {
        assert_eq!(sent(wire, PARAMS).await, [None, None], "{wire}");
    }
}
