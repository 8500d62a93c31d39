//! Where to cut.

use crate::compaction::file::FileList;
use crate::compaction::{CompactionError, CompactionSettings};
use crate::estimate::{TokenEstimator, message_tokens};
use crate::message::{Message, Messages, Origin, plain_text};

/// What will be summarised and what will be kept. Made by [`plan`].
///
/// ```
/// use nervekit_harness::compaction::{CompactionSettings, plan};
/// use nervekit_harness::{AssistantMessage, HeuristicTokens, Messages, UserMessage};
/// let long = "word ".repeat(10_000);
/// let messages = Messages::from(vec![
///     UserMessage::text(&*long).into(),
///     AssistantMessage::text(&*long).into(),
///     UserMessage::text("and now?").into(),
/// ]);
/// let plan = plan(&messages, &CompactionSettings::balanced(), 32_000, &HeuristicTokens).unwrap();
/// assert_eq!(plan.first_kept, 2);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CompactionPlan {
    /// The messages that the plan is for.
    pub messages: Messages,
    /// The index of the first message that is kept.
    pub first_kept: usize,
    /// Whether the cut lies inside a turn.
    pub splits_turn: bool,
    /// The summary that is already there.
    pub previous: Option<String>,
    /// The files that the summarised messages touched, those of earlier summaries among them.
    pub files: FileList,
    /// The size of all messages, estimated.
    pub tokens_before: u64,
    /// The size of the kept messages, estimated.
    pub tokens_kept: u64,
    /// The most tokens of the summary: 8 % of the window, at least 1,024 and at most 16,384.
    pub summary_tokens: u64,
    /// The most tokens of the request for it: the window without the summary and a headroom of 10 %.
    pub request_tokens: u64,
}

/// Chooses the cut: about the configured share of recent tokens is kept, and no tool call is separated from
/// its result.
///
/// A cut before a user's message is preferred. When the newest turn alone is larger than the share, the turn
/// itself is cut, before one of its answers. A call that has no result yet is always kept. The last message
/// is kept too.
///
/// It fails with [`CompactionError::NothingToCompact`] when no cut leaves anything to summarise.
///
/// ```
/// use nervekit_harness::compaction::{CompactionSettings, plan};
/// use nervekit_harness::{AssistantMessage, CompactionError, HeuristicTokens, Messages, UserMessage};
///
/// let mut history = Messages::from_iter([UserMessage::text("word ".repeat(20_000))]);
/// let settings = CompactionSettings::balanced();
/// assert_eq!(plan(&history, &settings, 32_000, &HeuristicTokens), Err(CompactionError::NothingToCompact));
///
/// history.push(AssistantMessage::text("That was long."));
/// history.push(UserMessage::text("Go on."));
/// let plan = plan(&history, &settings, 32_000, &HeuristicTokens)?;
/// assert!(plan.first_kept > 0 && plan.tokens_kept < plan.tokens_before);
/// # Ok::<(), CompactionError>(())
/// ```
pub fn plan(
    messages: &Messages,
    settings: &CompactionSettings,
    window: u64,
    estimator: &dyn TokenEstimator,
) -> Result<CompactionPlan, CompactionError> {
    let sizes: Vec<u64> = messages.iter().map(|message| message_tokens(estimator, message)).collect();
    let tokens_before = sizes.iter().fold(0, |sum, size| u64::saturating_add(sum, *size));
    let share =
        (u128::from(window) * u128::from(settings.keep_percent()) / 100).try_into().unwrap_or(u64::MAX);
    let cuts = cuts(messages);
    let cut = choose(&cuts, &sizes, share).ok_or(CompactionError::NothingToCompact)?;

    let summarised = || messages.iter().take(cut.index);
    let previous = summarised().rev().find_map(|message| match message {
        Message::User(user) if user.origin == Origin::Summary => Some(plain_text(&user.content)),
        _ => None,
    });
    let (previous, mut files) = match &previous {
        Some(summary) => {
            let (text, files) = FileList::split(summary);
            (Some(text.to_owned()), files)
        }
        None => (None, FileList::default()),
    };
    files.collect(summarised());

    let summary_tokens = (window / 100 * 8).clamp(1_024, 16_384);
    Ok(CompactionPlan {
        messages: messages.clone(),
        first_kept: cut.index,
        splits_turn: !cut.begins_turn,
        previous,
        files,
        tokens_before,
        tokens_kept: kept(&sizes, cut.index),
        summary_tokens,
        request_tokens: window.saturating_sub(summary_tokens).saturating_sub(window / 10),
    })
}

/// An index at which the messages may be cut.
#[derive(Clone, Copy)]
struct Cut {
    index: usize,
    begins_turn: bool,
}

/// All places, in order, that leave something on both sides and every call with its result on one side.
fn cuts(messages: &Messages) -> Vec<Cut> {
    let mut open: Vec<&str> = Vec::new();
    let mut summarised = false;
    let mut cuts = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        // Before a result is never a place: should its call be missing, it stays with what came before it.
        if open.is_empty() && summarised && !matches!(message, Message::ToolResult(_)) {
            let begins_turn = matches!(message, Message::User(user) if user.origin.is_user());
            cuts.push(Cut { index, begins_turn });
        }
        match message {
            Message::Assistant(answer) => open.extend(answer.tool_calls().map(|call| &*call.id)),
            Message::ToolResult(result) => {
                if let Some(at) = open.iter().position(|id| *id == result.tool_call_id) {
                    open.swap_remove(at);
                }
            }
            Message::User(_) => {}
        }
        // A summary alone is not worth another one.
        summarised |= !matches!(message, Message::User(user) if user.origin == Origin::Summary);
    }
    cuts
}

/// The cut that keeps about `share` tokens.
fn choose(cuts: &[Cut], sizes: &[u64], share: u64) -> Option<Cut> {
    let fitting: Vec<_> = cuts.iter().filter(|cut| kept(sizes, cut.index) <= share).copied().collect();
    // A turn's begin is preferred as long as it does not throw away more than half of what may stay.
    let turn = fitting.iter().find(|cut| cut.begins_turn && kept(sizes, cut.index) >= share / 2);
    let larger = cuts.iter().rfind(|cut| kept(sizes, cut.index) > share);
    turn.or(fitting.first()).or(larger).copied()
}

fn kept(sizes: &[u64], cut: usize) -> u64 {
    sizes.iter().skip(cut).fold(0, |sum, size| u64::saturating_add(sum, *size))
}
