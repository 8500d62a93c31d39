//! What opening a store costs, by what is stored: the file, the store, the list of unfinished conversations, and
//! the ten conversations on it. `cargo bench -p nervekit-store --bench open`

#![expect(clippy::unwrap_used, reason = "a benchmark")]

#[path = "../tests/seed/store.rs"]
mod seed;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nervekit_conversation_core::ExecutionState;
use nervekit_conversation_core::store::{Draft, Role, Store};
use nervekit_store::RedbBackend;
use nervekit_types::testing::SequenceIds;
use nervekit_types::{ConversationId, EventId, IdSource, TurnId};
use serde_json::json;
use tokio::runtime::Runtime;

const UNFINISHED: u64 = 10;
/// Events of each conversation.
const EVENTS: u64 = 100;
/// Conversations that are written in one batch.
const TOGETHER: u64 = 50;
const OPENINGS: usize = 15;

async fn fill(path: &Path, conversations: u64) {
    let ids: Arc<dyn IdSource> = Arc::new(SequenceIds::default());
    let store = Store::open(Arc::new(RedbBackend::open(path).await.unwrap()), ids.clone()).await.unwrap();
    let project = seed::project(&store).await;
    let text = "One of a million events, of the length that a short message has. ".repeat(4);
    let mut finished = 0;
    while finished < conversations + UNFINISHED {
        let mut batch = store.batch();
        for _ in 0..TOGETHER.min(conversations + UNFINISHED - finished) {
            let id = ConversationId::next(&ids);
            seed::conversation(&store, id, project).await;
            let rows = store.load(id).await.unwrap().unwrap();
            let mut draft = Draft::new(&rows, Role::Owner, seed::now());
            let execution = draft.open_execution(EventId::next(&ids), TurnId::next(&ids));
            for _ in 2..EVENTS {
                draft.append(seed::note(EventId::next(&ids), &text));
            }
            if finished < conversations {
                draft.end_execution(EventId::next(&ids), ExecutionState::Completed { denied: Vec::new() });
            } else {
                draft.put_call(seed::call(&ids, id, execution, &json!({ "path": "src/lib.rs" })));
                draft.enqueue(seed::input(&ids, id, true));
            }
            batch.change(&rows, draft.finish()).unwrap();
            finished += 1;
        }
        store.commit(&mut batch).await.unwrap();
    }
}

/// Opens everything that has to be open before work goes on.
async fn open(path: &Path) -> [Duration; 3] {
    let start = Instant::now();
    let backend = RedbBackend::open(path).await.unwrap();
    let file = start.elapsed();
    let store = Store::open(Arc::new(backend), Arc::new(SequenceIds::after(1 << 40))).await.unwrap();
    let unfinished = store.unfinished().await.unwrap();
    let listed = start.elapsed();
    assert_eq!(unfinished.len() as u64, UNFINISHED);
    for id in unfinished {
        store.load(id).await.unwrap().unwrap();
    }
    [file, listed.saturating_sub(file), start.elapsed().saturating_sub(listed)]
}

fn main() {
    let runtime = Runtime::new().unwrap();
    println!(
        "{:>10}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}",
        "events", "filled in", "file", "list", "rows", "together"
    );
    for conversations in [100, 1_000, 10_000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.redb");
        let start = Instant::now();
        runtime.block_on(fill(&path, conversations));
        let filled = start.elapsed();
        let openings: Vec<_> = (0..OPENINGS).map(|_| runtime.block_on(open(&path))).collect();
        let median = |part: &dyn Fn(&[Duration; 3]) -> Duration| {
            let mut times: Vec<_> = openings.iter().map(part).collect();
            times.sort();
            times.get(OPENINGS / 2).copied().unwrap()
        };
        let [file, list, rows] = [0, 1, 2].map(|part| median(&|times| times.get(part).copied().unwrap()));
        let together = median(&|times| times.iter().sum());
        let events = conversations * EVENTS;
        println!("{events:>10}  {filled:>9.1?}  {file:>9.2?}  {list:>9.2?}  {rows:>9.2?}  {together:>9.2?}");
    }
}
