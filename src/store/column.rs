//! The columns of a rollout: their names, their values on the way in and on the way out.
//!
//! May touch `format` for dtypes. Knows nothing of files, ids or versions.

use std::borrow::Cow;
use std::fmt;

use half::{bf16, f16};

use crate::format::dtype::{DType, Element};
use crate::format::meta::{ArchivedRolloutMeta, ColumnCode, ColumnRef};

/// One column of a rollout.
///
/// | ours | TRL | verl | `AReaL` |
/// |---|---|---|---|
/// | `old_logps` | `old_per_token_logps` | `old_log_probs` | `proximal_logp` |
/// | `sampler_logps` | `sampling_per_token_logps` | `rollout_log_probs` | `logprobs` |
/// | `kl_ref_logps` | `ref_per_token_logps` | `ref_log_prob` | (none) |
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Column {
    /// Token ids of the prompt. Shape `[prompt_token_count]`, u32.
    PromptIds,
    /// Token ids of the completion. Shape `[token_count]`, u32.
    CompletionIds,
    /// 1 where a completion token counts in the loss, else 0. Shape `[token_count]`, u8.
    LossMask,
    /// Log-probs of the completion's tokens under `π_old`: the denominator of the ratio. Shape `[token_count]`, f32, nats.
    OldLogps,
    /// Log-probs that the inference engine reported. Shape `[token_count]`, f32, nats; NaN = not reported.
    SamplerLogps,
    /// Log-probs under the KL reference model. Shape `[token_count]`, f32, nats.
    KlRefLogps,
    /// A column of the caller's own.
    Named(String),
}

impl Column {
    const WELL_KNOWN: [(Self, &'static str, ColumnCode); 6] = [
        (Self::PromptIds, "prompt_ids", ColumnCode::PROMPT_IDS),
        (Self::CompletionIds, "completion_ids", ColumnCode::COMPLETION_IDS),
        (Self::LossMask, "loss_mask", ColumnCode::LOSS_MASK),
        (Self::OldLogps, "old_logps", ColumnCode::OLD_LOGPS),
        (Self::SamplerLogps, "sampler_logps", ColumnCode::SAMPLER_LOGPS),
        (Self::KlRefLogps, "kl_ref_logps", ColumnCode::KL_REF_LOGPS),
    ];

    /// The column of this name; any name that is not one of the six well-known ones is the caller's own.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let known = Self::WELL_KNOWN.iter().find(|(_, known, _)| *known == name);
        known.map_or_else(|| Self::Named(name.to_owned()), |(column, _, _)| column.clone())
    }

    /// The name, as the CLI and the Python package spell it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            _ => Self::WELL_KNOWN.iter().find(|(column, _, _)| column == self).map_or("", |(_, name, _)| name),
        }
    }

    /// The code in the descriptor; `None` for a named column.
    pub(crate) fn code(&self) -> Option<ColumnCode> {
        match self {
            Self::PromptIds => Some(ColumnCode::PROMPT_IDS),
            Self::CompletionIds => Some(ColumnCode::COMPLETION_IDS),
            Self::LossMask => Some(ColumnCode::LOSS_MASK),
            Self::OldLogps => Some(ColumnCode::OLD_LOGPS),
            Self::SamplerLogps => Some(ColumnCode::SAMPLER_LOGPS),
            Self::KlRefLogps => Some(ColumnCode::KL_REF_LOGPS),
            Self::Named(_) => None,
        }
    }

    /// Where a descriptor says that the column lies; `None` where its frame has none.
    pub(crate) fn find_in(&self, meta: &ArchivedRolloutMeta) -> Option<ColumnRef> {
        match self {
            Self::Named(name) => meta.named(name),
            known => meta.column(known.code()?),
        }
    }

    pub(crate) fn from_code(code: ColumnCode) -> Option<Self> {
        Self::WELL_KNOWN.iter().find(|(_, _, known)| *known == code).map(|(column, _, _)| column.clone())
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<&str> for Column {
    fn from(name: &str) -> Self {
        Self::from_name(name)
    }
}

/// Whether log-probs come from the model's raw distribution or from the processed one that was sampled from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogpKind {
    /// `log_softmax(logits)`.
    Raw,
    /// After temperature, top-p or top-k.
    Processed,
}

/// How a log-prob column was made. Raw and processed log-probs of one token differ, so that asking for one and getting
/// the other is an error.
#[derive(Debug, Clone, PartialEq)]
pub struct Provenance {
    /// The engine that computed them, for example `vllm 0.11`.
    pub engine: String,
    /// Raw or processed.
    pub kind: LogpKind,
    /// Sampling temperature; 1 where none was applied.
    pub temperature: f32,
    /// Nucleus mass; 1 where it was off.
    pub top_p: f32,
    /// Number of candidates kept; 0 where it was off.
    pub top_k: u32,
}

impl Provenance {
    /// Raw log-probs of this engine.
    #[must_use]
    pub fn raw(engine: &str) -> Self {
        Self { engine: engine.to_owned(), kind: LogpKind::Raw, temperature: 1.0, top_p: 1.0, top_k: 0 }
    }

    /// Log-probs of this engine after temperature, top-p and top-k.
    #[must_use]
    pub fn processed(engine: &str, temperature: f32, top_p: f32, top_k: u32) -> Self {
        Self { engine: engine.to_owned(), kind: LogpKind::Processed, temperature, top_p, top_k }
    }
}

/// A column that is asked for, and the kind of log-probs that it must hold.
///
/// ```
/// use rollstore::{Ask, Column, LogpKind};
/// let any: Ask = Column::SamplerLogps.into();
/// let raw = Column::SamplerLogps.of_kind(LogpKind::Raw);
/// assert_ne!(any, raw);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub(crate) column: Column,
    pub(crate) kind: Option<LogpKind>,
}

impl Column {
    /// Ask for this column, and for an error where its provenance says the other kind, or says nothing.
    #[must_use]
    pub fn of_kind(self, kind: LogpKind) -> Ask {
        Ask { column: self, kind: Some(kind) }
    }
}

impl From<Column> for Ask {
    fn from(column: Column) -> Self {
        Self { column, kind: None }
    }
}

macro_rules! columns {
    ($($variant:ident($type:ty)),*) => {
        /// The values of one column on their way in: borrowed, so that a commit writes them from where they are, or owned.
        #[derive(Debug, Clone)]
        #[expect(missing_docs, reason = "one variant for each dtype, named after it")]
        pub enum ColumnValues<'a> { $($variant(Cow<'a, [$type]>)),* }

        /// The values of one column, read in place.
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[expect(missing_docs, reason = "one variant for each dtype, named after it")]
        pub enum ColumnView<'a> { $($variant(&'a [$type])),* }

        impl ColumnValues<'_> {
            /// The type of the values.
            #[must_use]
            pub fn dtype(&self) -> DType {
                match self { $(Self::$variant(_) => DType::$variant),* }
            }

            /// The number of values.
            #[must_use]
            pub fn len(&self) -> usize {
                match self { $(Self::$variant(values) => values.len()),* }
            }

            /// Whether there are no values.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            pub(crate) fn as_bytes(&self) -> &[u8] {
                match self { $(Self::$variant(values) => bytemuck::cast_slice(values)),* }
            }
        }

        impl<'a> ColumnView<'a> {
            /// The type of the values.
            #[must_use]
            pub fn dtype(&self) -> DType {
                match self { $(Self::$variant(_) => DType::$variant),* }
            }

            /// The number of values.
            #[must_use]
            pub fn len(&self) -> usize {
                match self { $(Self::$variant(values) => values.len()),* }
            }

            /// Whether there are no values.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The values as they lie: little-endian bytes.
            #[must_use]
            pub fn as_bytes(&self) -> &'a [u8] {
                match self { $(Self::$variant(values) => bytemuck::cast_slice(values)),* }
            }

            /// `None` where the bytes are no whole number of aligned values.
            pub(crate) fn cast(dtype: DType, bytes: &'a [u8]) -> Option<Self> {
                match dtype {
                    $(DType::$variant => bytemuck::try_cast_slice(bytes).ok().map(Self::$variant),)*
                }
            }

            /// The values as a slice of `T`; `None` where the column has another type.
            #[must_use]
            pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
                if T::DTYPE != self.dtype() { return None; }
                bytemuck::try_cast_slice(self.as_bytes()).ok()
            }
        }

        $(
            impl<'a> From<&'a [$type]> for ColumnValues<'a> {
                fn from(values: &'a [$type]) -> Self { Self::$variant(Cow::Borrowed(values)) }
            }
            impl<'a> From<&'a Vec<$type>> for ColumnValues<'a> {
                fn from(values: &'a Vec<$type>) -> Self { Self::$variant(Cow::Borrowed(values)) }
            }
            impl From<Vec<$type>> for ColumnValues<'_> {
                fn from(values: Vec<$type>) -> Self { Self::$variant(Cow::Owned(values)) }
            }
            impl<'a> From<Cow<'a, [$type]>> for ColumnValues<'a> {
                fn from(values: Cow<'a, [$type]>) -> Self { Self::$variant(values) }
            }
        )*
    };
}

columns!(F32(f32), F16(f16), Bf16(bf16), I32(i32), I64(i64), U32(u32), U8(u8));
