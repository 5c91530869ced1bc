//! Which tensors a file has, and what they are called.

use ::safetensors::Dtype;
use rollstore::{Column, DType};

use super::super::layout::{Field, Layout, Which};

/// One tensor of a file.
#[derive(Debug)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) part: Part,
    pub(super) dtype: Dtype,
    /// The number of its values.
    pub(super) len: u64,
}

/// What a tensor holds; the number is that of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Ids,
    CreatedSteps,
    BornSteps,
    RefVersions,
    Groups,
    HasGroup,
    Rewards,
    HasReward,
    Advantages,
    HasAdvantage,
    Keys,
    KeyOffsets,
    Metadata,
    MetadataOffsets,
    SpanVersions,
    SpanTokens,
    SpanOffsets,
    Values(usize),
    Offsets(usize),
    Has(usize),
    Versions(usize),
    Provenance(usize),
    ProvenanceOffsets(usize),
}

impl Part {
    /// What its tensor is called.
    pub(super) fn name(self, fields: &[Field]) -> String {
        let of = |field: usize, part: &str| format!("{}{part}", fields[field].label);
        match self {
            Self::Ids => "ids".into(),
            Self::CreatedSteps => "created_steps".into(),
            Self::BornSteps => "born_steps".into(),
            Self::RefVersions => "ref_versions".into(),
            Self::Groups => "group_ids".into(),
            Self::HasGroup => "group_ids.present".into(),
            Self::Rewards => "rewards".into(),
            Self::HasReward => "rewards.present".into(),
            Self::Advantages => "advantages".into(),
            Self::HasAdvantage => "advantages.present".into(),
            Self::Keys => "keys".into(),
            Self::KeyOffsets => "keys.offsets".into(),
            Self::Metadata => "metadata".into(),
            Self::MetadataOffsets => "metadata.offsets".into(),
            Self::SpanVersions => "version_spans.versions".into(),
            Self::SpanTokens => "version_spans.token_counts".into(),
            Self::SpanOffsets => "version_spans.offsets".into(),
            Self::Values(field) => of(field, ""),
            Self::Offsets(field) => of(field, ".offsets"),
            Self::Has(field) => of(field, ".present"),
            Self::Versions(field) => of(field, ".versions"),
            Self::Provenance(field) => of(field, ".provenance"),
            Self::ProvenanceOffsets(field) => of(field, ".provenance.offsets"),
        }
    }

    /// The type of its values.
    pub(super) fn dtype(self, fields: &[Field]) -> Dtype {
        match self {
            _ if self.is_offsets() => Dtype::I64,
            Self::Ids
            | Self::CreatedSteps
            | Self::BornSteps
            | Self::RefVersions
            | Self::Groups
            | Self::SpanVersions
            | Self::Versions(_) => Dtype::U64,
            Self::Rewards | Self::Advantages => Dtype::F32,
            Self::SpanTokens => Dtype::U32,
            Self::HasGroup | Self::HasReward | Self::HasAdvantage | Self::Has(_) => Dtype::BOOL,
            Self::Values(field) => match fields[field].dtype {
                DType::F16 => Dtype::F16,
                DType::Bf16 => Dtype::BF16,
                DType::I32 => Dtype::I32,
                DType::I64 => Dtype::I64,
                DType::U32 => Dtype::U32,
                DType::U8 => Dtype::U8,
                _ => Dtype::F32,
            },
            // Texts and bytes.
            _ => Dtype::U8,
        }
    }

    /// Whether it tells where each rollout's values begin: it has one more than there are rollouts, the first of them 0.
    pub(super) fn is_offsets(self) -> bool {
        matches!(
            self,
            Self::KeyOffsets
                | Self::MetadataOffsets
                | Self::SpanOffsets
                | Self::Offsets(_)
                | Self::ProvenanceOffsets(_)
        )
    }
}

/// Whether a field is that of the log-probs under the KL reference, whose versions are their own.
pub(super) fn has_versions(field: &Field) -> bool {
    field.which == Which::Column(Column::KlRefLogps)
}

/// The tensors of a layout, in the order of the file. What no rollout has has none.
pub(super) fn tensors(layout: &Layout) -> Vec<Tensor> {
    let rows = layout.rows.len() as u64;
    let mut parts =
        vec![(Part::Ids, rows), (Part::CreatedSteps, rows), (Part::BornSteps, rows), (Part::RefVersions, rows)];
    for (having, value, has) in [
        (layout.groups, Part::Groups, Part::HasGroup),
        (layout.rewards, Part::Rewards, Part::HasReward),
        (layout.advantages, Part::Advantages, Part::HasAdvantage),
    ] {
        parts.extend((having > 0).then_some((value, rows)));
        parts.extend((having > 0 && having < rows).then_some((has, rows)));
    }
    if layout.key_bytes > 0 {
        parts.extend([(Part::Keys, layout.key_bytes), (Part::KeyOffsets, rows + 1)]);
    }
    if layout.metadata_bytes > 0 {
        parts.extend([(Part::Metadata, layout.metadata_bytes), (Part::MetadataOffsets, rows + 1)]);
    }
    if layout.spans > 0 {
        parts.extend([
            (Part::SpanVersions, layout.spans),
            (Part::SpanTokens, layout.spans),
            (Part::SpanOffsets, rows + 1),
        ]);
    }
    for (place, field) in layout.fields.iter().enumerate() {
        parts.extend([(Part::Values(place), field.values), (Part::Offsets(place), rows + 1)]);
        parts.extend((field.rows < rows).then_some((Part::Has(place), rows)));
        parts.extend(has_versions(field).then_some((Part::Versions(place), rows)));
        if field.provenance_bytes > 0 {
            parts.extend([
                (Part::Provenance(place), field.provenance_bytes),
                (Part::ProvenanceOffsets(place), rows + 1),
            ]);
        }
    }
    let tensor = |(part, len): (Part, u64)| {
        let (name, dtype) = (part.name(&layout.fields), part.dtype(&layout.fields));
        Tensor { name, part, dtype, len }
    };
    let mut tensors: Vec<Tensor> = parts.into_iter().map(tensor).collect();
    tensors.sort_by_key(|tensor| std::cmp::Reverse(tensor.dtype.bitsize()));
    tensors
}

impl Tensor {
    pub(super) fn size_bytes(&self) -> u64 {
        self.len * (self.dtype.bitsize() / 8) as u64
    }
}
