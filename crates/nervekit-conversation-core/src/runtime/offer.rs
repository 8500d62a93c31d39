//! The tools that a turn offers, and how the model is told of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use nervekit_harness::{ModelInfo, ToolSet, ToolSpec};
use nervekit_permissions::SelectorKind;
use nervekit_tools::{Availability, Catalog, HandledBy, Tool};

use super::core::Inner;
use super::request::TurnSnapshot;
use crate::conversation::Attendance;
use crate::port::Resources;

/// What decides which tools of a catalog a turn offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OfferTerms {
    /// Whether the model takes tools at all.
    calls_tools: bool,
    /// Whether a person can be asked.
    attended: bool,
    /// Whether there is a folder to work in.
    has_folder: bool,
    /// The names that the settings allow, if they say so.
    configured: Option<Vec<String>>,
    /// The names that the turn's resources allow, if they say so.
    resolved: Option<Vec<String>>,
}

impl OfferTerms {
    /// The terms of a turn.
    pub(crate) fn of(turn: &TurnSnapshot, resources: &Resources, info: &ModelInfo) -> Self {
        Self {
            calls_tools: info.tools,
            attended: turn.config.attendance == Attendance::Attended && !turn.delegated,
            has_folder: turn.project.directory.is_some() || turn.config.working_directory.is_some(),
            configured: turn.config.tools.clone(),
            resolved: resources.tools.clone(),
        }
    }

    fn allow(&self, tool: &Tool, capabilities: &BTreeSet<String>) -> bool {
        let definition = tool.definition();
        let name = definition.name();
        let named = |list: &Option<Vec<String>>| {
            list.as_ref().is_none_or(|names| names.iter().any(|allowed| allowed == name))
        };
        let runs = match definition.handled_by {
            HandledBy::Core => super::plan::CORE_TOOLS.contains(&name),
            HandledBy::Local | HandledBy::Host => tool.executor().is_some(),
        };
        let enabled = match &definition.availability {
            Availability::Always => true,
            Availability::Capability(name) => capabilities.contains(name),
            _ => false,
        };
        runs && enabled
            && self.calls_tools
            && named(&self.configured)
            && named(&self.resolved)
            && (self.attended || name != "ask_user")
            && (self.has_folder || !works_in_a_folder(tool))
    }
}

/// Whether the tool is about files: without a folder it has nothing to work on.
fn works_in_a_folder(tool: &Tool) -> bool {
    let selectors = &tool.definition().descriptor.targets;
    selectors.iter().any(|selector| matches!(selector.kind, SelectorKind::Path { .. }))
}

/// The tools of a turn. Only what is offered can be executed.
#[derive(Debug)]
pub(crate) struct Offer {
    /// By name.
    pub(crate) tools: BTreeMap<String, Tool>,
    /// As the model is told of them.
    pub(crate) specs: ToolSet,
    /// What the system prompt says of them.
    pub(crate) guidelines: String,
    catalog: Catalog,
    terms: OfferTerms,
}

impl Offer {
    /// What these terms let through of a catalog, where these capabilities are enabled.
    pub(crate) fn new(catalog: &Catalog, terms: OfferTerms, capabilities: &BTreeSet<String>) -> Self {
        let offered = catalog.iter().filter(|tool| terms.allow(tool, capabilities));
        let tools: BTreeMap<String, Tool> =
            offered.map(|tool| (tool.definition().name().to_owned(), tool.clone())).collect();
        let mut guidelines = String::new();
        let mut specs = Vec::with_capacity(tools.len());
        for definition in tools.values().map(Tool::definition) {
            if let Some(guideline) = &definition.prompt_guideline {
                guidelines.push_str("\n\n");
                guidelines.push_str(guideline);
            }
            let parameters = definition.parameters.clone();
            specs.push(ToolSpec::new(definition.name(), &definition.description, parameters));
        }
        Self { tools, specs: specs.into(), guidelines, catalog: catalog.clone(), terms }
    }
}

impl Inner {
    /// The tools of a turn. Copying their schemas costs more than the rest of a small turn, so the last offer is
    /// kept for the next turn on the same terms.
    pub(crate) fn offer(&self, catalog: &Catalog, terms: OfferTerms) -> Arc<Offer> {
        let mut last = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(offer) if offer.catalog.is_same(catalog) && offer.terms == terms => offer.clone(),
            _ => last.insert(Arc::new(Offer::new(catalog, terms, &self.capabilities))).clone(),
        }
    }
}
