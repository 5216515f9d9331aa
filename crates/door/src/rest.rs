//! `/rest/…`: the HTTP+JSON binding of A2A 1.0.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response};
use serde_json::{Map, Value};

use crate::auth::{Sender, one};
use crate::body::Inbound;
use crate::calls::{Asked, Call, Given};
use crate::fault::{Fault, Kind};
use crate::params::Params;
use crate::payload::{self, Payload, Source};
use crate::refusal::Refusal;
use crate::route::Place;
use crate::rpc;
use crate::shape::Form;
use crate::site::Site;

pub(crate) async fn answer(
    site: &Arc<Site>,
    sender: Sender,
    (place, id): (Place, &str),
    head: &Parts,
    body: &mut Inbound,
) -> Result<Response<Payload>, Refusal> {
    let call = match place {
        Place::Send => Call::Send,
        Place::Stream => Call::Stream,
        Place::Tasks => Call::List,
        Place::Task => Call::Get,
        Place::Cancel => Call::Cancel,
        Place::Subscribe => Call::Subscribe,
        Place::Push => Call::Push,
        Place::ExtendedCard => Call::ExtendedCard,
        Place::Card | Place::Health | Place::Rpc => return Err(Refusal::NotFound),
    };
    if !call.allows(sender.caller) {
        return Err(Refusal::Forbidden);
    }
    let read =
        if head.method == Method::POST { Some(body.read(site, sender.caller, &head.headers).await?) } else { None };
    let params = match params(head, read.as_ref().map(|read| &*read.bytes)) {
        Ok(params) => params,
        Err(fault) => return Ok(fault.http()),
    };
    drop(read);
    let tools = rpc::names_extension(&head.headers);
    let mut asked = Asked {
        site,
        sender,
        form: Form::V1 { tools },
        frames: false,
        id: None,
        seen: one(&head.headers, "last-event-id").map(str::to_owned),
        params,
    };
    if !id.is_empty() {
        asked.params.set("id", id.to_owned());
    }
    let mut response = match asked.carry_out(call).await {
        Ok(Given::Whole(bytes)) => payload::whole(site, "application/a2a+json", bytes),
        Ok(Given::Stream(feed)) => payload::events(Source::Frames(feed)),
        Err(fault) => fault.http(),
    };
    if tools {
        rpc::echo_extension(&mut response);
    }
    Ok(response)
}

/// What stands in the body of a `POST` and in the query of anything else.
fn params(head: &Parts, body: Option<&[u8]>) -> Result<Params, Fault> {
    match rpc::version(head).as_deref() {
        Some("1.0") => {}
        Some(version) => return Err(rpc::unsupported(version)),
        None => {
            let message = "this address speaks A2A 1.0: send the header `A2A-Version: 1.0`";
            return Err(Fault::new(Kind::Version, message));
        }
    }
    match body {
        None => Params::of_query(&head.uri),
        Some([]) => Ok(Params::new(Map::new())),
        Some(body) => match serde_json::from_slice(body) {
            Ok(Value::Object(map)) => Ok(Params::new(map)),
            Ok(_) => Err(Fault::new(Kind::InvalidRequest, "the body must be a JSON object")),
            Err(error) => Err(Fault::new(Kind::Parse, format!("the body is not JSON: {error}"))),
        },
    }
}
