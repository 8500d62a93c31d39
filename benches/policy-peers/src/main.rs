//! What one decision against a thousand rules costs, beside two other policy engines, and what the whole of a call
//! costs: see README.md.

mod engine;
mod policy;
mod side;

use std::hint::black_box;
use std::time::{Duration, Instant};

use ::casbin::Enforcer;
use cedar_policy::{Authorizer, Entities};
use engine::{Bed, Setting};
use nervekit_permissions::{Decision, PermissionEngine as _};
use side::{casbin, cedar, nervekit};

/// How often each is measured; the sides take turns, so that what else the machine does falls upon all.
const TURNS: usize = 15;

/// The samples of one thing that is measured.
struct Figure {
    name: String,
    samples: Vec<Duration>,
}

impl Figure {
    fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), samples: Vec::new() }
    }

    /// Measures one turn of so many repetitions, and keeps the time of one.
    fn take(&mut self, repetitions: u32, mut action: impl FnMut()) {
        let started = Instant::now();
        for _ in 0..repetitions {
            action();
        }
        self.samples.push(started.elapsed() / repetitions);
    }

    fn median(&self) -> Duration {
        let mut samples = self.samples.clone();
        samples.sort();
        samples[samples.len() / 2]
    }

    fn least(&self) -> Duration {
        self.samples.iter().min().copied().unwrap_or_default()
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "| {} | {:.2?} | {:.2?} |", self.name, self.median(), self.least())
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let compile = |lines| -> Enforcer { runtime.block_on(casbin::compile(lines)) };
    let folder = tempfile::tempdir().expect("a folder");
    let sources = policy::sources();
    let counts: Vec<String> =
        sources.iter().map(|source| format!("{} {}", source.name, source.rules.len())).collect();
    let calls = policy::calls();

    let documents = nervekit::documents(&sources);
    let bytes = documents.bytes();
    let text = cedar::text(&sources);
    let lines = casbin::lines(&sources);
    let ours = documents.compile();
    let engine = documents.engine(folder.path());
    let (authorizer, policies, entities) = (Authorizer::new(), cedar::parse(&text), Entities::empty());
    let enforcer = compile(lines.clone());

    let resolved: Vec<_> = calls.iter().map(|call| nervekit::resolve(folder.path(), call)).collect();
    let proposed = documents.proposed(folder.path(), &calls);
    let asked: Vec<_> = calls.iter().map(cedar::request).collect();
    let requests: Vec<_> = calls.iter().map(casbin::request).collect();

    // Unless all give the same answers, nothing is compared.
    let mut allowed = 0;
    for (index, call) in calls.iter().enumerate() {
        let ours = nervekit::decide(&ours, &resolved[index]);
        let others = [
            ("evaluate", nervekit::evaluate(&engine, &proposed[index])),
            ("cedar", cedar::decide(&authorizer, &policies, &entities, &asked[index])),
            ("casbin", casbin::decide(&enforcer, &requests[index])),
        ];
        for (name, theirs) in others {
            assert_eq!(ours, theirs, "nervekit and {name} differ on {call:?}");
        }
        allowed += usize::from(ours);
    }
    println!(
        "rules: {}; {} calls, {allowed} allowed, the same by every side",
        counts.join(", "),
        calls.len()
    );

    let three = engine::three(&documents);
    let mut hot = [
        "`Policy::decide`",
        "`Policy::decide` under three policies",
        "`RuleEngine::evaluate`",
        "cedar-policy `is_authorized`",
        "casbin `enforce`",
    ]
    .map(Figure::new);
    let mut cold = [
        "nervekit: build from documents in memory",
        "nervekit: parse the JSON documents and build",
        "cedar-policy: parse the policies",
        "casbin: add the lines",
    ]
    .map(Figure::new);
    for _ in 0..TURNS {
        let number = u32::try_from(calls.len()).expect("a few hundred");
        let round = |figure: &mut Figure, repetitions: u32, decide: &mut dyn FnMut(usize) -> bool| {
            figure.take(repetitions, || {
                for index in 0..calls.len() {
                    black_box(decide(black_box(index)));
                }
            });
            if let Some(sample) = figure.samples.last_mut() {
                *sample /= number;
            }
        };
        let [decide, by_three, evaluate, by_cedar, by_casbin] = &mut hot;
        round(decide, 100, &mut |index| nervekit::decide(&ours, &resolved[index]));
        round(by_three, 50, &mut |index| engine::decide(&three, &resolved[index]) == Decision::Allow);
        round(evaluate, 2, &mut |index| nervekit::evaluate(&engine, &proposed[index]));
        round(by_cedar, 2, &mut |index| cedar::decide(&authorizer, &policies, &entities, &asked[index]));
        round(by_casbin, 1, &mut |index| casbin::decide(&enforcer, &requests[index]));
        let [build, parse, by_cedar, by_casbin] = &mut cold;
        build.take(5, || drop(black_box(documents.compile())));
        parse.take(5, || drop(black_box(nervekit::Documents::parse(&bytes).compile())));
        by_cedar.take(1, || drop(black_box(cedar::parse(&text))));
        by_casbin.take(1, || drop(black_box(compile(lines.clone()))));
    }
    table("One decision, hot", &hot);
    table("A thousand rules, cold", &cold);
    let ratio = |slow: &Figure| slow.median().as_secs_f64() / hot[0].median().as_secs_f64();
    println!("\ncedar-policy : `decide` = {:.0}; casbin : `decide` = {:.0}", ratio(&hot[3]), ratio(&hot[4]));

    whole(&documents, &runtime);
}

/// The whole of a call, by kind of call and by where the documents lie, and what a change of one byte costs.
fn whole(documents: &nervekit::Documents, runtime: &tokio::runtime::Runtime) {
    let mut bed = Bed::new(documents, runtime);
    Bed::settle();
    bed.check();
    let kinds = &bed.changed().calls;
    let mut figures: Vec<Vec<Figure>> =
        kinds.iter().map(|(kind, ..)| bed.settings.iter().map(|_| Figure::new(*kind)).collect()).collect();
    let mut look = Figure::new("`lstat`");
    for _ in 0..TURNS {
        for (column, Setting { engine, calls, .. }) in bed.settings.iter().enumerate() {
            for ((_, call, _), row) in calls.iter().zip(&mut figures) {
                row[column].take(50, || drop(black_box(engine.evaluate(call.clone()))));
            }
        }
        let place = std::env::temp_dir();
        look.take(500, || drop(black_box(std::fs::symlink_metadata(&place))));
    }
    let titles: Vec<&str> = bed.settings.iter().map(|setting| setting.name).collect();
    println!("\n| The whole of a call, hot: median, least | {} |", titles.join(" | "));
    println!("| --- |{}", " --- |".repeat(titles.len()));
    for row in &figures {
        let cells = row.iter().map(|figure| format!("{:.1?}, {:.1?}", figure.median(), figure.least()));
        println!("| {} | {} |", row[0].name, cells.collect::<Vec<_>>().join(" | "));
    }
    println!("\none `lstat` = {:.2?}, {:.2?}", look.median(), look.least());

    let mut reload = ["a version that nobody has seen", "the accepted version is back"].map(Figure::new);
    let call = bed.changed().calls[0].1.clone();
    for _ in 0..TURNS {
        bed.edit_anew();
        reload[0].take(1, || drop(black_box(bed.changed().engine.evaluate(call.clone()))));
        bed.edit(0);
        reload[1].take(1, || drop(black_box(bed.changed().engine.evaluate(call.clone()))));
    }
    table("The first call after one byte of the user's document changed", &reload);
}

fn table(title: &str, figures: &[Figure]) {
    println!("\n| {title} | median | least |\n| --- | --- | --- |");
    for figure in figures {
        println!("{figure}");
    }
}
