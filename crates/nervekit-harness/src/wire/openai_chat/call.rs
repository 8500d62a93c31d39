//! Which call a piece of a call belongs to.

use serde_json::Value;

/// A call while it comes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CallDraft {
    /// The content block, once the call has a name and was announced.
    pub(super) block: Option<usize>,
    index: Option<u64>,
    /// The id as the server gave it; empty when it gave none.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// How much of the arguments was passed on.
    pub(super) given: usize,
}

/// One element of `tool_calls` in a delta.
#[derive(Debug, Default)]
pub(super) struct CallPiece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: String,
}

impl<'a> CallPiece<'a> {
    pub(super) fn read(value: &'a Value) -> Self {
        let text = |value: Option<&'a Value>| value.and_then(Value::as_str).unwrap_or_default();
        // Some servers leave the `function` object out and put its fields directly here.
        let function = value.get("function").unwrap_or(value);
        Self {
            index: value.get("index").and_then(Value::as_u64),
            id: text(value.get("id")),
            name: text(function.get("name")),
            arguments: match function.get("arguments") {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            },
        }
    }
}

/// The calls of one answer.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct CallDrafts(pub(super) Vec<CallDraft>);

impl CallDrafts {
    /// Adds a piece to its call, or begins one, and gives the call's place.
    pub(super) fn add(&mut self, piece: &CallPiece<'_>) -> usize {
        let place = self.place(piece).unwrap_or_else(|| {
            self.0.push(CallDraft {
                block: None,
                index: piece.index,
                id: String::new(),
                name: String::new(),
                arguments: String::new(),
                given: 0,
            });
            self.0.len() - 1
        });
        if let Some(call) = self.0.get_mut(place) {
            if call.id.is_empty() {
                piece.id.clone_into(&mut call.id);
            }
            if call.name.is_empty() {
                piece.name.clone_into(&mut call.name);
            }
            call.arguments.push_str(&piece.arguments);
        }
        place
    }

    fn place(&self, piece: &CallPiece<'_>) -> Option<usize> {
        let find = |wanted: &dyn Fn(&CallDraft) -> bool| self.0.iter().rposition(wanted);
        let place = if piece.index.is_some() {
            find(&|call| call.index == piece.index)?
        } else if !piece.id.is_empty() {
            // Without an index the id decides alone, unless the last call still waits for its own.
            match find(&|call| call.id == piece.id) {
                Some(place) => place,
                None => find(&|call| call.id.is_empty()).filter(|_| piece.name.is_empty())?,
            }
        } else {
            self.0.len().checked_sub(1)?
        };
        let call = self.0.get(place)?;
        let other_id = !piece.id.is_empty() && !call.id.is_empty() && piece.id != call.id;
        let other_name = !piece.name.is_empty() && !call.name.is_empty() && piece.name != call.name;
        let same_id = !piece.id.is_empty() && piece.id == call.id;
        // Servers that send whole calls at once may give all of them index 0, or no index and no id at all.
        let whole = !piece.name.is_empty()
            && !same_id
            && !piece.arguments.trim().is_empty()
            && is_object(&call.arguments);
        let begins = (other_id && !piece.name.is_empty()) || (other_name && !same_id) || whole;
        (!begins).then_some(place)
    }
}

fn is_object(text: &str) -> bool {
    matches!(serde_json::from_str(text), Ok(Value::Object(_)))
}
