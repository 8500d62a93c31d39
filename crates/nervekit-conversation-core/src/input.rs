//! Inputs: what waits to be delivered, and what became of it.

use bytes::Bytes;
use nervekit_types::{AssetId, ConversationId, Digest, EventId, ExecutionId, InputId, Principal, Timestamp};
use serde::{Deserialize, Serialize};

/// Where an input came from.
///
/// ```
/// use nervekit_conversation_core::InputSource;
/// assert_eq!(serde_json::to_string(&InputSource::User)?, "\"user\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputSource {
    /// A person, through the host. Of all inputs only such a one clears a pause.
    #[default]
    User,
    /// The lead of a delegated conversation.
    ParentConversation,
    /// The runtime: a notice.
    System,
}

/// When an input may be delivered.
///
/// ```
/// use nervekit_conversation_core::DeliveryTarget;
/// assert_eq!(DeliveryTarget::default(), DeliveryTarget::NextTurn);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "target", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeliveryTarget {
    /// Before the next model request, of this execution or a new one.
    #[default]
    NextTurn,
    /// Within this execution, or not at all: it expires when the execution ends first.
    Execution {
        /// The execution, which must be open when the input is accepted.
        execution_id: ExecutionId,
    },
    /// When the next execution starts.
    NextExecution,
}

/// An image that came with a prompt, kept as an asset.
///
/// ```
/// use nervekit_conversation_core::Image;
/// fn alt(image: &Image) -> String {
///     format!("image ({})", image.media_type)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// Where its bytes are kept.
    pub asset_id: AssetId,
    /// SHA-256 of its bytes.
    pub digest: Digest,
}

/// An image to submit.
///
/// ```
/// use nervekit_conversation_core::{NewImage, NewInput};
/// let input = NewInput::new("What is this?").image(NewImage::new("image/png", &b"\x89PNG"[..]));
/// assert_eq!(input.images.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewImage {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// The bytes of the file.
    pub bytes: Bytes,
}

impl NewImage {
    /// An image by media type and bytes.
    #[must_use]
    pub fn new(media_type: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { media_type: media_type.into(), bytes: bytes.into() }
    }
}

/// A prompt to submit.
///
/// ```
/// use nervekit_conversation_core::NewInput;
/// use nervekit_types::InputId;
///
/// // With an id from a key the caller has, submitting twice delivers once.
/// let input = NewInput::new("Review this delivery.").id(InputId::from_key("github:delivery:8f2c"));
/// assert_eq!(input.text, "Review this delivery.");
/// assert_eq!(NewInput::from("hello").text, "hello");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewInput {
    /// The id; a fresh one if absent.
    pub id: Option<InputId>,
    /// The text: at most [`RuntimeLimits::input_bytes`](crate::RuntimeLimits::input_bytes), 1 MiB by default, and not
    /// blank unless there is an image.
    pub text: String,
    /// Images that belong to it, kept in the [`AssetStore`](nervekit_tools::AssetStore).
    #[serde(default)]
    pub images: Vec<NewImage>,
    /// When it may be delivered.
    #[serde(default)]
    pub target: DeliveryTarget,
}

impl NewInput {
    /// A prompt of this text, for the next turn.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { id: None, text: text.into(), images: Vec::new(), target: DeliveryTarget::NextTurn }
    }

    /// Names the input: one with a known id is not accepted again, and the receipt tells the fate of the first.
    #[must_use]
    pub fn id(mut self, id: InputId) -> Self {
        self.id = Some(id);
        self
    }

    /// Adds an image.
    #[must_use]
    pub fn image(mut self, image: NewImage) -> Self {
        self.images.push(image);
        self
    }

    /// Says when it may be delivered.
    #[must_use]
    pub fn target(mut self, target: DeliveryTarget) -> Self {
        self.target = target;
        self
    }
}

impl From<&str> for NewInput {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for NewInput {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// An input that was accepted and not yet delivered.
///
/// ```
/// use nervekit_conversation_core::QueuedInput;
/// fn place(input: &QueuedInput) -> String {
///     format!("#{}: {}", input.acceptance_sequence, input.text)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueuedInput {
    /// The id.
    pub id: InputId,
    /// Its conversation.
    pub conversation_id: ConversationId,
    /// Its place in the queue; inputs are delivered in this order.
    pub acceptance_sequence: u64,
    /// Where it came from.
    pub source: InputSource,
    /// Who submitted it.
    pub submitter: Principal,
    /// The conversation that sent it, for what a conversation sends.
    pub sender_conversation_id: Option<ConversationId>,
    /// The text.
    pub text: String,
    /// Images that belong to it.
    pub images: Vec<Image>,
    /// When it may be delivered.
    pub target: DeliveryTarget,
    /// Whether it starts an execution when none is open.
    pub wake_when_idle: bool,
    /// When it was accepted.
    pub accepted_at: Timestamp,
}

/// What became of an input; kept for ever.
///
/// ```
/// use nervekit_conversation_core::InputFate;
/// assert!(!InputFate::Queued.is_final());
/// assert!(InputFate::Cancelled.is_final());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputFate {
    /// It waits.
    Queued,
    /// It became this event.
    Delivered {
        /// The event.
        event_id: EventId,
    },
    /// It was taken back before delivery.
    Cancelled,
    /// The execution it was meant for ended first.
    Expired,
}

impl InputFate {
    /// Whether nothing can happen to it any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Queued)
    }

    /// The fate's name.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Delivered { .. } => "delivered",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

impl QueuedInput {
    /// SHA-256 of what was submitted, by which a repetition is told from the same id for something else.
    pub(crate) fn content_digest(&self) -> Digest {
        let target = match self.target {
            DeliveryTarget::NextTurn => "next turn".to_owned(),
            DeliveryTarget::NextExecution => "next execution".to_owned(),
            DeliveryTarget::Execution { execution_id } => execution_id.to_string(),
        };
        let mut parts = vec![self.text.clone().into_bytes(), target.into_bytes()];
        parts.extend(self.images.iter().map(|image| image.digest.as_bytes().to_vec()));
        Digest::of_parts(parts)
    }

    /// Whether the input is for this execution alone.
    pub(crate) fn is_for(&self, execution: ExecutionId) -> bool {
        matches!(self.target, DeliveryTarget::Execution { execution_id } if execution_id == execution)
    }
}

/// Whether a text shows nothing: providers refuse messages of white space and of characters without width.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || matches!(c, '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}'))
}
