//! The export of spans, where the manifest names a receiver.

use std::sync::Arc;

use manifest::Manifest;
use otel::{Exporter, Resource};
use runtime::Telemetry;
use secrets::Redactor;
use vocab::SessionId;

use crate::failure::Failure;

/// A running export.
pub(crate) struct Export {
    telemetry: Arc<dyn Telemetry>,
    exporter: Exporter,
}

impl Export {
    /// Starts the export that the manifest declares, if it declares one.
    pub(crate) fn start(
        manifest: &Manifest,
        session: &SessionId,
        redactor: &Redactor,
    ) -> Result<Option<Self>, Failure> {
        let Some(endpoint) = &manifest.observability.otlp_endpoint else { return Ok(None) };
        let resource = Resource {
            session: session.clone(),
            capsule: manifest.name.as_str().to_owned(),
            capsule_version: manifest.version.as_str().to_owned(),
            mur_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let (telemetry, exporter) = Exporter::start(endpoint.as_str(), &resource, redactor.clone())
            .map_err(|error| Failure::unusable(error.to_string()).code("E-RUN-007").hint(error.hint()))?;
        Ok(Some(Self { telemetry, exporter }))
    }

    pub(crate) fn telemetry(&self) -> Arc<dyn Telemetry> {
        Arc::clone(&self.telemetry)
    }

    /// Sends what is left, and says what got lost: a session's work does not depend on its measurements.
    pub(crate) fn finish(self) -> Option<String> {
        drop(self.telemetry);
        let report = self.exporter.finish();
        let why = report.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        (report.dropped > 0).then(|| {
            format!(
                "warning[W-RUN-007]: {} of {} spans did not reach the receiver{why}",
                report.dropped,
                report.dropped + report.sent
            )
        })
    }
}
