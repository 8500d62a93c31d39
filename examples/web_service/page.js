// The page. What it shows comes from the server: a snapshot, the newest page of history, and updates from the
// snapshot's cursor on. Nothing is parsed as HTML: whatever a model or a tool says goes in as text.

const $ = (id) => document.getElementById(id);

// Characters that change what is seen without being seen: controls, bidirectional marks, invisible ones. They are
// shown as escapes. Prose keeps the joiners and selectors that emoji and some scripts are made of; what a person
// approves keeps none.
const HIDDEN = "[\\p{Cc}\\p{Cf}\\p{Co}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}]";
const PROSE = new RegExp(`(?![\\n\\t\\u200c\\u200d\\ufe0f])${HIDDEN}`, "gu");
const EXACT = new RegExp(`(?!\\n)${HIDDEN}`, "gu");
const escape = (character) => `\\u{${character.codePointAt(0).toString(16)}}`;
const prose = (text) => text.replace(PROSE, escape);
const exact = (text) => text.replace(EXACT, escape);

/** An element with a class, and text or other elements in it. */
function element(name, kind, ...content) {
  const made = document.createElement(name);
  made.className = kind;
  made.append(...content); // Strings become text.
  return made;
}

function button(label, act) {
  const made = element("button", "", label);
  made.type = "button";
  made.onclick = act;
  return made;
}

/** An id of the form that the server takes: 26 digits of Crockford's base 32. */
function fresh(prefix) {
  const random = crypto.getRandomValues(new Uint8Array(25));
  return `${prefix}0${Array.from(random, (byte) => "0123456789abcdefghjkmnpqrstvwxyz"[byte & 31]).join("")}`;
}

async function post(path, body) {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const value = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(value.error), value, { status: answer.status });
  return value;
}

const query = async (name, fields) => (await post("/api", { query: name, ...fields })).value;

const command = (name, conversation_id, fields) =>
  post("/api", { id: fresh("cmd_"), command: { command: name, conversation_id, ...fields } });

function complain(error) {
  $("complaint").textContent = error ? exact(error.message) : "";
  $("complaint").hidden = !error;
}

/** Does what a person asked for, and says what went wrong. */
const attempt = (act) => act().then(() => complain(), complain);

// ── The conversation that is shown ──────────────────────────────────────────────────────────────────────────────

let view = null;

async function open(id) {
  view?.source?.close();
  const opened = (view = { id, seen: new Set(), cards: new Map(), draft: new Map(), state: null });
  for (const part of ["transcript", "requests"]) $(part).replaceChildren();
  $("earlier").hidden = true;
  showStatus();
  if (!id) return;
  try {
    // In this order: what happens in between is in the history and comes again, it is not lost.
    const snapshot = await query("snapshot", { conversation_id: id });
    await earlier(opened);
    if (view === opened) follow(opened, snapshot.cursor);
  } catch (error) {
    if (view !== opened) return;
    complain(error);
    if (!error.status) setTimeout(() => view === opened && open(id), 1000); // Nobody is there: again.
  }
}

/** Puts the page of history before what is shown. */
async function earlier(of) {
  const page = { count: 50, bytes: 1 << 20 };
  const { events, next } = await query("history", { conversation_id: of.id, page, before: of.before });
  if (view !== of) return;
  const part = document.createDocumentFragment();
  for (const event of events) showEvent(of, event, part);
  $("transcript").prepend(part);
  of.before = next?.before;
  $("earlier").hidden = !next;
}

function follow(of, cursor) {
  // It reconnects by itself, with the id of the last durable event.
  const source = (of.source = new EventSource(`/conversations/${of.id}/updates?after=${cursor}`));
  source.onopen = () => {
    complain();
    forgetDraft(of); // What is not durable comes again from its beginning.
    for (const card of of.cards.values()) if (!card.settled) card.output.textContent = "";
  };
  source.onmessage = (message) => {
    const down = $("prompt").getBoundingClientRect().top < innerHeight;
    receive(of, JSON.parse(message.data));
    if (down) $("prompt").scrollIntoView({ block: "nearest" });
  };
  source.onerror = () => {
    complain(new Error("the server does not answer; trying again"));
    if (source.readyState === EventSource.CLOSED) setTimeout(() => view === of && open(of.id), 1000);
  };
}

function receive(of, update) {
  switch (update.update) {
    case "event":
      if (["assistant_message", "execution_state"].includes(update.event.payload.type)) forgetDraft(of);
      return showEvent(of, update.event, $("transcript"));
    case "text":
    case "thinking":
      return draftOf(of, update).append(prose(update.delta));
    case "restarted":
      return forgetDraft(of);
    case "progress":
      return cardOf(of, update.call_id, "").output.append(prose(update.delta));
    case "state":
      of.state = update;
      return showStatus();
  }
}

/** The text that is under way, by block of the message. */
function draftOf(of, { update, block }) {
  if (!of.draft.size) $("transcript").append((of.drafted = element("article", "assistant draft")));
  if (!of.draft.has(block)) {
    of.draft.set(block, element("div", `text ${update}`));
    of.drafted.append(of.draft.get(block));
  }
  return of.draft.get(block);
}

function forgetDraft(of) {
  of.drafted?.remove();
  of.draft.clear();
}

function showEvent(of, { sequence, payload }, into) {
  if (of.seen.has(sequence)) return;
  of.seen.add(sequence);
  switch (payload.type) {
    case "user_message":
      return into.append(element("article", "user text", prose(payload.text)));
    case "assistant_message": {
      const message = element("article", "assistant");
      payload.message.content.forEach((block, index) => {
        if (block.type === "tool_call") {
          const call = payload.calls.find((call) => call.content_index === index);
          if (call) message.append(cardOf(of, call.id, block.name, block.arguments).element);
        } else if (block.text) {
          message.append(element("div", `text ${block.type}`, prose(block.text)));
        }
      });
      return into.append(message);
    }
    case "tool_call_response": {
      const card = cardOf(of, payload.call_id, payload.tool_name, payload.arguments);
      card.settled = true;
      card.title.textContent = exact(`${payload.tool_name} · ${payload.outcome}`);
      card.output.textContent = prose(payload.user.text ?? "");
      if (!card.element.parentNode) into.append(card.element);
      return;
    }
    case "execution_state":
      if (!["failed", "interrupted", "cancelled", "retrying"].includes(payload.state.state)) return;
      return into.append(note(`${payload.state.state} ${payload.state.message ?? payload.state.error ?? ""}`));
    case "notification":
    case "user_intervention":
      return into.append(note(payload.text ?? payload.kind));
  }
}

const note = (text) => element("p", "note text", prose(text));

/** The card of a tool call, made when the call is first heard of. */
function cardOf(of, id, tool, wanted) {
  if (!of.cards.has(id)) {
    const [title, given, output] = [element("summary", ""), element("pre", ""), element("pre", "output")];
    of.cards.set(id, { element: element("details", "card", title, given, output), title, given, output });
    title.textContent = exact(tool);
  }
  const card = of.cards.get(id);
  if (wanted !== undefined) card.given.textContent = exact(JSON.stringify(wanted, null, 1));
  return card;
}

// ── What it does, and what a person is asked ────────────────────────────────────────────────────────────────────

function showStatus() {
  const { conversation, queue, interactions } = view.state ?? { queue: [], interactions: [] };
  const open = ["running", "waiting", "paused"].includes(conversation?.status);
  const waiting = queue.length ? ` · ${queue.length} queued` : "";
  $("status").textContent = (conversation?.status ?? "") + waiting;
  $("stop").hidden = !open || conversation.paused;
  $("continue").hidden = !conversation?.paused && !["failed", "interrupted"].includes(conversation?.status);
  // A paused execution goes on; one that has ended is continued by a new one.
  $("continue").dataset.command = open || queue.length ? "resume" : "continue_processing";
  // A request is shown for as long as it is open, whoever closes it.
  const wanted = new Map(interactions.map((request) => [request.id, request]));
  for (const dialog of [...$("requests").children]) {
    if (wanted.get(dialog.id)?.digest === dialog.dataset.digest) wanted.delete(dialog.id);
    else dialog.remove();
  }
  for (const request of wanted.values()) $("requests").append(dialogOf(request));
}

function dialogOf(request) {
  const { id, digest, kind, tool_name, reason, targets } = request;
  const dialog = element("dialog", "", element("h2", "", exact(`${tool_name} · ${kind.kind}`)));
  Object.assign(dialog, { id, open: true });
  dialog.dataset.digest = digest;
  const say = (text) => text && dialog.append(element("p", "text", exact(text)));
  const words = element("input", "");
  if (kind.kind === "approval") {
    say(reason);
    targets.forEach(say);
    dialog.append(element("pre", "", exact(JSON.stringify(request.arguments, null, 1))));
    const remember = element("select", "", new Option("this once", ""));
    const rules = kind.rememberable ? kind.suggested : [];
    const places = { conversation: "in this conversation", project: "in this project", user: "everywhere" };
    rules.forEach(({ label, scopes }, suggestion) => {
      for (const scope of scopes.filter((scope) => places[scope])) {
        remember.append(new Option(exact(`${places[scope]}: ${label}`), JSON.stringify({ scope, suggestion })));
      }
    });
    const kept = () => remember.value && JSON.parse(remember.value);
    words.placeholder = "why not (the model reads it)";
    dialog.append(
      remember,
      button("Approve", () => resolve(request, { resolution: "approve", digest, remember: kept() || null })),
      words,
      button("Deny", () => resolve(request, { resolution: "deny", message: words.value || null })),
    );
  } else {
    [kind.question, kind.context, kind.recommendation && `Recommended: ${kind.recommendation}`].forEach(say);
    const answer = (text) => resolve(request, { resolution: "answer", text });
    for (const option of kind.options ?? []) dialog.append(button(exact(option), () => answer(option)));
    dialog.append(words, button("Answer", () => answer(words.value)));
  }
  return dialog;
}

/** An approval carries the digest of what was shown. If something else is asked by now, that is shown instead. */
const resolve = (request, resolution) =>
  attempt(async () => {
    const dialog = $(request.id);
    dialog.inert = true; // Until it closes.
    try {
      await command("resolve", request.conversation_id, { interaction_id: request.id, resolution });
    } catch (error) {
      dialog.inert = false;
      if (error.current) dialog.replaceWith(dialogOf(error.current));
      throw error;
    }
  });

// ── All conversations ───────────────────────────────────────────────────────────────────────────────────────────

/** Lists the conversations, and what a person is asked in them. Asked again and again, because a browser keeps few
 *  connections to one server, and a stream for this would take one more of each tab. */
async function list() {
  const conversations = await query("conversations");
  const inbox = await query("interactions");
  const links = conversations.map(({ id, title, status }) => {
    const asked = inbox.filter((request) => request.conversation_id === id).length;
    const link = element("a", "", element("small", "", asked ? "needs you " : ""), exact(title ?? id));
    link.href = `#${id}`;
    link.title = status;
    if (id === view.id) link.ariaCurrent = "true";
    return link;
  });
  $("conversations").replaceChildren(...links);
  document.title = inbox.length ? `(${inbox.length}) nervekit` : "nervekit";
}

// The same text sent again, after an answer was lost, is the same input.
let input = fresh("input_");
$("text").oninput = () => (input = fresh("input_"));
$("prompt").onsubmit = (event) => {
  event.preventDefault();
  attempt(async () => {
    const text = $("text").value;
    if (!view.id) {
      const { conversation_id } = await post("/conversations", { title: text.slice(0, 80) });
      location.hash = conversation_id;
      open(conversation_id);
    }
    await command("submit", view.id, { input: { id: input, text } });
    $("prompt").reset();
    input = fresh("input_");
  });
};
$("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("prompt").requestSubmit();
  }
};
$("stop").onclick = () => attempt(() => command("stop", view.id));
$("continue").onclick = () => attempt(() => command($("continue").dataset.command, view.id));
$("earlier").onclick = () => attempt(() => earlier(view));

const selected = () => location.hash.slice(1);
onhashchange = () => selected() !== (view.id ?? "") && open(selected());
open(selected());
const refresh = () => document.hidden || list().catch(() => {}); // A server that is away is told by the stream.
setInterval(refresh, 2000);
refresh();
