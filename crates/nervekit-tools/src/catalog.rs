//! The tools that come with the crate. Each is a function that makes it, and a type that holds its arguments.
//!
//! A host takes them all ([`core_tools`] and, with the feature `local-tools`, `local_tools`) or one by one, and may word
//! one otherwise with [`Tool::redefine`](crate::Tool::redefine).
//!
//! Others are definitions only: what the model reads, the arguments, and what the permission engine judges calls by. A
//! host adds an executor with [`Tool::carried_out_by`](crate::Tool::carried_out_by) and enables the capability; without
//! both no model is offered them. [`known_tools`] has all, so that a policy can be tried on every tool before any is
//! there.

mod ask_user;
mod async_bash;
#[cfg(feature = "local-tools")]
mod bash;
pub mod confluence;
#[cfg(feature = "local-tools")]
mod edit;
#[cfg(feature = "local-tools")]
mod find;
#[cfg(feature = "local-tools")]
mod grep;
mod integration;
pub mod jira;
mod launch;
#[cfg(feature = "local-tools")]
mod ls;
mod plan_mode;
mod python_exec;
#[cfg(feature = "local-tools")]
mod read;
mod subagent;
mod todos;
mod web;
#[cfg(feature = "local-tools")]
mod write;

pub use ask_user::{AskUser, ask_user};
pub use async_bash::{AsyncBash, AsyncBashAction, async_bash};
#[cfg(feature = "local-tools")]
pub use bash::{Bash, bash};
#[cfg(feature = "local-tools")]
pub use edit::{EditFile, edit};
#[cfg(feature = "local-tools")]
pub use find::{Find, find};
#[cfg(feature = "local-tools")]
pub use grep::{Grep, grep};
pub use launch::{Launch, LaunchAction, launch};
#[cfg(feature = "local-tools")]
pub use ls::{Ls, ls};
pub use plan_mode::{
    PlanModeEnter, PlanModeForceExit, PlanModePresent, plan_mode_enter, plan_mode_force_exit,
    plan_mode_present,
};
pub use python_exec::{PythonExec, PythonSource, python_exec};
#[cfg(feature = "local-tools")]
pub use read::{Read, ReadSource, read};
pub use subagent::{
    Assignment, SubagentPrompt, SubagentStatus, SubagentStop, subagent_prompt, subagent_status, subagent_stop,
};
pub use todos::{Todo, TodosGet, TodosSet, todos_get, todos_set};
pub use web::{WebFetch, WebSearch, web_fetch, web_search};
#[cfg(feature = "local-tools")]
pub use write::{Write, write};

use crate::manifest::Catalog;

/// The tools that the conversation core carries out.
///
/// ```
/// assert!(nervekit_tools::catalog::core_tools().get("ask_user").is_some());
/// ```
#[must_use]
pub fn core_tools() -> Catalog {
    Catalog::new().with(ask_user()).with(todos_set()).with(todos_get())
}

/// The tools that work on this machine.
///
/// ```
/// let tools = nervekit_tools::catalog::local_tools();
/// let names: Vec<&str> = tools.iter().map(|tool| tool.definition().name()).collect();
/// assert_eq!(names, ["bash", "edit", "find", "grep", "ls", "read", "write"]);
/// ```
#[cfg(feature = "local-tools")]
#[must_use]
pub fn local_tools() -> Catalog {
    Catalog::new().with(read()).with(ls()).with(find()).with(grep()).with(edit()).with(write()).with(bash())
}

/// Every tool of the catalog, also those that are definitions only: 49, or 42 without the feature `local-tools`.
///
/// To offer a model all that can run, take [`core_tools`] and `local_tools`. This is for those who write rules, and for
/// hosts that carry out more:
///
/// ```
/// use nervekit_permissions::{CallOrigin, Decision, EffectiveArguments, PermissionEngine, ProposedCall, Roots, RuleEngine};
/// use nervekit_tools::catalog;
///
/// let tools = catalog::known_tools();
/// let tool = tools.get("jira_manage_comment").unwrap();
/// let sent = r#"{"action": "delete", "issue_key": "NK-7", "comment_id": "10010"}"#;
/// let arguments = tool.effective(&EffectiveArguments::parse(sent)?)?.arguments;
/// let call = ProposedCall::new(tool.descriptor().clone(), arguments, CallOrigin::Model, "read_only");
/// assert_eq!(RuleEngine::new(Roots::new()).evaluate(call).decision(), Decision::Deny);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn known_tools() -> Catalog {
    let described = [
        python_exec(),
        web_search(),
        web_fetch(),
        plan_mode_enter(),
        plan_mode_present(),
        plan_mode_force_exit(),
        subagent_prompt(),
        subagent_status(),
        subagent_stop(),
        async_bash(),
        launch(),
    ];
    let families = [
        core_tools(),
        #[cfg(feature = "local-tools")]
        local_tools(),
        jira::tools(),
        confluence::tools(),
    ];
    let tools = families.iter().flat_map(Catalog::iter).cloned().chain(described);
    tools.fold(Catalog::new(), Catalog::with)
}

#[cfg(test)]
mod tests;
