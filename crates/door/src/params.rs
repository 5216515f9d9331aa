//! A request's parameters, however they came: a JSON object, or a query string.

use http::Uri;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::fault::Fault;

/// The parameters of one request.
#[derive(Debug, Default)]
pub(crate) struct Params(Map<String, Value>);

impl Params {
    pub(crate) fn new(map: Map<String, Value>) -> Self {
        Self(map)
    }

    /// Those of a query: numbers and truth values are told by their form. A name that comes twice is refused.
    pub(crate) fn of_query(uri: &Uri) -> Result<Self, Fault> {
        let mut map = Map::new();
        for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if map.contains_key(&name) {
                return Err(Fault::params(format!("the query has `{name}` twice")));
            }
            map.insert(name, Value::String(value));
        }
        Ok(Self(map))
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), Value::String(value));
    }

    /// An object that must be there.
    pub(crate) fn object(&self, name: &str) -> Result<&Map<String, Value>, Fault> {
        self.0.get(name).and_then(Value::as_object).ok_or_else(|| Fault::params(format!("`{name}` must be an object")))
    }

    /// A text that must be there.
    pub(crate) fn needed(&self, name: &str) -> Result<&str, Fault> {
        self.text(name)?.ok_or_else(|| Fault::params(format!("`{name}` is missing")))
    }

    /// A text; an empty one is as good as none, as in protocol buffers.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Fault> {
        text(&self.0, name)
    }

    pub(crate) fn count(&self, name: &str) -> Result<Option<usize>, Fault> {
        count(&self.0, name)
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Fault> {
        flag(&self.0, name)
    }

    pub(crate) fn optional(&self, name: &str) -> Result<Option<&Map<String, Value>>, Fault> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.object(name).map(Some),
        }
    }
}

pub(crate) fn text<'m>(map: &'m Map<String, Value>, name: &str) -> Result<Option<&'m str>, Fault> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok((!text.is_empty()).then_some(text)),
        Some(_) => Err(Fault::params(format!("`{name}` must be a string"))),
    }
}

pub(crate) fn count(map: &Map<String, Value>, name: &str) -> Result<Option<usize>, Fault> {
    let number = match map.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => text.parse().ok(),
        Some(_) => None,
    };
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.map(Some).ok_or_else(|| Fault::params(format!("`{name}` must be a number that is not negative")))
}

pub(crate) fn flag(map: &Map<String, Value>, name: &str) -> Result<Option<bool>, Fault> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(Value::String(text)) if text == "true" => Ok(Some(true)),
        Some(Value::String(text)) if text == "false" => Ok(Some(false)),
        Some(_) => Err(Fault::params(format!("`{name}` must be true or false"))),
    }
}

fn decoded(text: &str) -> Result<String, Fault> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8();
    decoded.map(String::from).map_err(|_| Fault::params("the query is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::Params;

    #[test]
    fn a_query_is_read_as_an_object_would_be() {
        let of = |query: &str| Params::of_query(&query.parse().unwrap());
        let params = of("/rest/tasks?pageSize=7&contextId=a+b%26&includeArtifacts=true&status=").unwrap();
        assert_eq!(params.count("pageSize"), Ok(Some(7)));
        assert_eq!(params.text("contextId"), Ok(Some("a b&")));
        assert_eq!(params.flag("includeArtifacts"), Ok(Some(true)));
        assert_eq!(params.text("status"), Ok(None));
        assert!(params.count("contextId").is_err() && params.flag("pageSize").is_err());
        for bad in ["/?a=1&a=2", "/?a=%ff"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
