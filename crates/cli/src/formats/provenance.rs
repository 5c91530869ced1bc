//! How a column was made, as JSON: one text for every format.

use std::borrow::Cow;

use rollstore::{LogpKind, Provenance};
use serde::{Deserialize, Serialize};

use super::values::Float;
use super::view::kind_name;

/// [`Provenance`], as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProvenanceJson<'a> {
    engine: Cow<'a, str>,
    kind: Cow<'a, str>,
    temperature: Float,
    top_p: Float,
    top_k: u32,
}

impl ProvenanceJson<'_> {
    pub(super) fn new(provenance: Provenance) -> Self {
        let Provenance { engine, kind, temperature, top_p, top_k } = provenance;
        let (temperature, top_p) = (Float(temperature), Float(top_p));
        Self { engine: engine.into(), kind: kind_name(kind).into(), temperature, top_p, top_k }
    }

    pub(super) fn provenance(self) -> Result<Provenance, String> {
        let kind = [LogpKind::Raw, LogpKind::Processed].into_iter().find(|kind| kind_name(*kind) == self.kind);
        let kind = kind.ok_or_else(|| format!("there are no {:?} log-probs", self.kind))?;
        let Self { engine, temperature: Float(temperature), top_p: Float(top_p), top_k, .. } = self;
        Ok(Provenance { engine: engine.into_owned(), kind, temperature, top_p, top_k })
    }
}

/// The text of a provenance.
pub(super) fn to_text(provenance: Provenance) -> String {
    serde_json::to_string(&ProvenanceJson::new(provenance)).unwrap_or_default()
}

/// What a text says.
pub(super) fn from_text(text: &[u8]) -> Result<Provenance, String> {
    let json: ProvenanceJson<'_> = serde_json::from_slice(text).map_err(|error| format!("provenance: {error}"))?;
    json.provenance()
}
