//! The permission engine alone, below an agent with a loop and tools of its own.
//!
//! Shows, in the order in which a host meets it: tools described, rules in files, trust decisions kept by the host, a
//! folder and a rule set of its own, the rules of a cloned project shown and accepted, calls judged and carried out, a
//! person asked and the answer kept, rules listed and revoked.
//!
//! ```sh
//! cargo run -p nervekit-permissions --example own_tools     # with `-- --demo` it answers itself
//! ```

#![expect(clippy::wildcard_imports, reason = "what is not of `std` is of this crate")]

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use nervekit_permissions::*;
use serde_json::{Value, json};

#[path = "own_tools/json_trust.rs"]
mod json_trust;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// What comes with the clone: under the rule set `careful`, tests and drafts are to be automatic.
const PROJECT_RULES: &str = include_str!("own_tools/permissions.json");

/// What a tool says about itself. One of your own is `Unknown` until you reviewed what it does at worst.
fn describe(tool: &str) -> Option<ToolDescriptor> {
    let described = |kind, risk| ToolDescriptor::new(tool, kind, risk);
    Some(match tool {
        "peek" => described(ToolKind::Filesystem, Risk::Read).target(TargetSelector::path("file")),
        "put" => described(ToolKind::Filesystem, Risk::Write).target(TargetSelector::path("file").write()),
        "get" => described(ToolKind::Network, Risk::Network).target(TargetSelector::url("url")),
        "run" => described(ToolKind::Command, Risk::Unknown).primary_argument("command"),
        _ => return None,
    })
}

struct Agent {
    engine: RuleEngine,
    policies: PolicyDocuments,
    project: PathBuf,
    /// The rules that count for this conversation; the host keeps them.
    conversation: PolicyDocument,
    /// Answers given beforehand; `None` asks at the terminal.
    script: Option<VecDeque<&'static str>>,
}

impl Agent {
    fn ask(&mut self, question: &str) -> Outcome<String> {
        print!("  {question} ");
        std::io::stdout().flush()?;
        let Some(script) = &mut self.script else {
            return Ok(std::io::stdin().lines().next().transpose()?.unwrap_or_default().trim().to_owned());
        };
        let answer = script.pop_front().unwrap_or("no");
        println!("{answer}");
        Ok(answer.to_owned())
    }

    /// One turn of the loop: judge, ask if need be, carry out with what the evaluation holds.
    async fn call(&mut self, tool: &str, arguments: Value) -> Outcome {
        let descriptor = describe(tool).ok_or("no such tool")?;
        let arguments = EffectiveArguments::new(arguments)?;
        println!("\n{tool} {}", display(&arguments.as_value().to_string()));
        let call = ProposedCall::new(descriptor, arguments.clone(), CallOrigin::Model, "careful")
            .working_directory(&self.project)
            .conversation_document(self.conversation.clone());
        let evaluation = self.engine.evaluate(call);
        println!("  {}: {}", evaluation.decision(), evaluation.evidence.reason);
        match evaluation.decision() {
            Decision::Allow => self.carry_out(tool, &arguments, &evaluation)?,
            Decision::Prompt if self.approve(&evaluation.evidence).await? => {
                self.carry_out(tool, &arguments, &evaluation)?;
            }
            Decision::Prompt | Decision::Deny => println!("  it does not run"),
        }
        Ok(())
    }

    /// Shows what would be affected and what can be remembered, and saves what the person chooses.
    async fn approve(&mut self, evidence: &Evidence) -> Outcome<bool> {
        evidence.targets.iter().for_each(|target| println!("  it affects {}", target.display()));
        let rules = evidence.suggestions.iter();
        let offers = rules.flat_map(|rule| rule.scopes.iter().map(move |scope| (rule, *scope)));
        let offers: Vec<_> = offers.filter(|(_, scope)| *scope != GrantScope::Once).collect();
        for (number, (rule, scope)) in offers.iter().enumerate() {
            println!("  {number}: always, for the {scope}: {}", rule.label);
        }
        let answer = self.ask("`yes` for once, a number for always, anything else refuses:")?;
        let chosen = answer.parse::<usize>().ok().and_then(|number| offers.get(number));
        let Some((rule, scope)) = chosen else { return Ok(answer == "yes") };
        let grant = Grant::new(evidence.clone(), (*rule).clone(), Decision::Allow, *scope);
        let owner = match scope {
            GrantScope::Project => DocumentOwner::Project(self.project.clone()),
            GrantScope::User => DocumentOwner::User(None),
            // The rules of a conversation are the host's to keep: it plans the change, and stores the document.
            _ => {
                let planned = self.engine.plan_grant(grant.document(self.conversation.clone()))?;
                let DocumentChange::Replace { document, .. } = planned else { return Ok(true) };
                self.conversation = *document;
                return Ok(true);
            }
        };
        if let Err(error) = self.policies.save(&self.engine, &owner, &grant).await {
            println!("  not remembered: {error}"); // the approval itself counts once
        }
        Ok(true)
    }

    /// The tools. Each touches what was decided, never a path or a URL out of its arguments.
    fn carry_out(&self, tool: &str, arguments: &EffectiveArguments, evaluation: &Evaluation) -> Outcome {
        let file = evaluation.target("file").and_then(|target| target.path.as_ref());
        let url = evaluation.target("url").and_then(|target| target.url.as_ref());
        match (tool, file, url) {
            ("peek", Some(file), _) => println!("  {:?}", std::io::read_to_string(file.open()?)?),
            ("put", Some(file), _) => file.replace(b"written\n")?,
            ("get", _, Some(url)) => println!("  an HTTP client would now get {}", url.as_url()),
            ("run", ..) => {
                let command = arguments.get("command").and_then(Value::as_str).ok_or("no command")?;
                let mut shell = std::process::Command::new("sh");
                shell.args(["-c", command]).current_dir(&self.project).status()?;
            }
            _ => return Err(format!("`{tool}` has nothing to work on").into()),
        }
        Ok(())
    }

    /// A project's rules count for nothing until a person has accepted exactly these bytes.
    async fn meet_project(&mut self) -> Outcome {
        let owner = DocumentOwner::Project(self.project.clone());
        let status = self.policies.status(&owner).await?;
        println!("The project's rules are {}; they would make automatic:", status.standing);
        status.automatic.iter().for_each(|rule| println!("  {}: {}", rule.rule.id, rule.summary));
        if let (Some(digest), "yes") = (status.digest, &*self.ask("`yes` accepts them:")?) {
            self.policies.trust(&owner, digest).await?;
        }
        Ok(())
    }

    /// Lists what is in force, and takes out of the person's document what was kept there.
    async fn review(&self) -> Outcome {
        println!("\nIn force, the strongest first:");
        let query = RuleQuery::new("careful").conversation_document(self.conversation.clone());
        for found in self.engine.rules(query) {
            println!("  {} {} (under `{}`)", found.rule.decision, found.rule.id, found.rule_set_id);
            if found.source == RuleSource::User {
                let revoked = self.policies.revoke(&DocumentOwner::User(None), &found.rule.id).await?;
                println!("    revoked: {}", revoked.ok_or("it is gone already")?.summary);
            }
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    // A home, a project that was just cloned, and a folder of the host's; all gone at the end.
    let folder = tempfile::tempdir()?;
    let base = folder.path().canonicalize()?; // a project is known by its canonical folder
    let (home, project, cache) = (base.join("home"), base.join("project"), base.join("cache"));
    for made in [&home, &project.join(".nerve/config"), &cache] {
        std::fs::create_dir_all(made)?;
    }
    std::fs::write(project.join("notes.md"), "hello")?;
    std::fs::write(project.join(".nerve/config/permissions.json"), PROJECT_RULES)?;

    // Below the home, because writing there asks whatever the rules say.
    let documents = FileDocuments::new(&home, json_trust::JsonTrust::new(home.join("trust.json")));
    documents.adopt().await?; // what the home holds at the first start is the person's
    let pages = Matcher::new().root(Root::Host("cache".to_owned())).subtree("pages");
    let pages = Filter::new().tool("put").every_target(pages);
    let pages = Rule::new("pages", Decision::Allow).priority(1).when(pages);
    let careful = RuleSet::new("careful")
        .rule(pages)
        .rule(Rule::new("reads", Decision::Allow).when(Filter::new().base_risk(Risk::Read)))
        .rule(Rule::new("rest", Decision::Prompt).priority(-1000));
    let roots = Roots::new().project(&project).nerve_home(&home).host("cache", &cache);
    let person = DocumentOwner::User(None);
    let engine = RuleEngine::new(roots).rule_set(careful).documents(documents.clone(), person);
    let demo = std::env::args().any(|word| word == "--demo") || !std::io::stdin().is_terminal();
    let script = VecDeque::from(["yes", "0", "no", "1", "2", "no"]);
    let (policies, conversation) = (PolicyDocuments::new(documents), PolicyDocument::new());
    let mut agent = Agent { engine, policies, project, conversation, script: demo.then_some(script) };

    agent.meet_project().await?;
    agent.call("peek", json!({"file": "./drafts/../notes.md"})).await?;
    agent.call("put", json!({"file": "drafts/today"})).await?; // the project's rule
    agent.call("put", json!({"file": "out/report"})).await?; // kept for the conversation
    agent.call("put", json!({"file": "out/report"})).await?;
    agent.call("put", json!({"file": cache.join("pages/1")})).await?; // the rule of the rule set
    agent.call("put", json!({"file": ".git/hooks/pre-commit"})).await?; // asks whatever the rules say
    agent.call("run", json!({"command": "echo tests passed"})).await?; // the project's rule
    agent.call("run", json!({"command": "echo hello"})).await?; // kept for the project
    agent.call("get", json!({"url": "https://docs.example/a"})).await?; // kept for the person
    agent.review().await?;
    agent.call("get", json!({"url": "https://docs.example/a"})).await // revoked, so it asks
}
