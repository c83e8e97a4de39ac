// The words of the page, each explained where it stands: on hover and on focus. They are those of docs/architecture.md.

import { h } from "./dom.js";

export const TERMS = {
  outcome:
    "What became of a request. passed: sent as received. shaped: sent with edits. refused: what cannot be removed does not fit.",
  original: "Tokens of the request as the client sent it.",
  sent: "Tokens of the request as the upstream got it.",
  budget:
    "What the input of the request may take, in tokens: the model's window without the room for its answer, or less where you set less.",
  cached:
    "Prompt tokens that the upstream read from its prefix cache, as it reports. They cost a fraction of the price.",
  edits: "Messages that were changed or removed, by stage.",
  duration: "Milliseconds from the request's arrival to the last byte of its answer.",
  overhead: "Milliseconds that the proxy added before it called the upstream.",
  saved:
    "Tokens that were not sent, and what they would have cost: at the cached price where the upstream has a prefix cache, minus what summaries cost.",
  upstream: "The server that runs the model.",
  summaries: "Calls of the summary model, which replaces the oldest messages by fewer words.",
  system: "System and developer messages. They are never removed.",
  tools:
    "The schemas of the tools, and other fields that the model reads beside the messages: in the Messages API also the system prompt.",
  task: "The first user messages, up to the first answer of the model.",
  talk: "What the user and the model said since, with the arguments of tool calls.",
  results: "Results of tool calls, or the placeholders of those that were cleared.",
  extract: "What is kept of removed messages, word for word: the pieces that later messages refer to.",
  summary: "The summary of the removed messages, or the note that says there were some.",
  removed: "Tokens that were taken out of this request.",
  truncated: "A message over max_message_chars was cut, and ends in [Truncated].",
  trimmed: "The context inside a user message was cut; what it asks for stayed word for word.",
  cleared: "An old tool result was replaced by a placeholder. The tool can be called again.",
  inputs_cleared: "The arguments of an old tool call were emptied, because the request asked for that.",
  summarized: "A message was removed, and a summary stands for it.",
  dropped: "A message was removed, and a note or an extract stands for it.",
  squeezed: "A message that must stay was cut to the room that is left.",
  lightened: "An image or a file was replaced by a few words, after the upstream refused so many bytes.",
  window: "What the model takes, input and answer together, in tokens.",
  answer: "The longest answer of the model, in tokens.",
  usable: "What is left for the input of a request that does not set max_tokens.",
  source:
    "Where the window is known from. configured: your file. environment: LLM_CONTEXT_SIZE. discovered: the upstream's own listing. bundled: the table in the package. learned: an answer that said the prompt was too long. default: a guess.",
  factor:
    "Tokens that the upstream counts, divided by tokens that are estimated here. It is learned from the counts of every answer.",
  price: "US dollars per million tokens: input, output, cached input.",
  target:
    "How far down shaping goes once it has begun, as a share of the room above what must stay. Lower: fewer breaks of the prefix cache, and less history.",
  keep_share: "The newest tool results that fit into this share of the budget are not cleared, unless a later result stands for them.",
  clear_batch: "How many tool results are cleared at a time.",
  keep_recent: "So many of the newest messages are never dropped or summarized.",
  extract_share: "The most of the budget that the extract of removed messages may take. 0 turns it off.",
  result_extract: "The most tokens that are kept of a cleared tool result. 0 turns it off.",
  max_message_chars: "Characters of one message above which it is cut.",
  pin_share: "The most of the budget that pinned messages may take.",
  context_size: "Another window than the model's, in tokens. Empty: what is known of the model.",
};

let tips = 0;

/** A word with its explanation: on hover, on focus, and for screen readers. `label`: its name where `text` is a mark. */
export function term(name, text = name, label = null) {
  const id = `tip-${++tips}`;
  const tip = h("span", { id, role: "tooltip", class: "tip" }, TERMS[name]);
  const word = h("button", { type: "button", class: "word", "aria-describedby": id, "aria-label": label }, text);
  const place = () => {
    // below the word, and inside the window
    const under = word.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(under.left, innerWidth - tip.offsetWidth - 8))}px`;
    const below = under.bottom + 4;
    tip.style.top = `${below + tip.offsetHeight > innerHeight ? under.top - tip.offsetHeight - 4 : below}px`;
  };
  return h("span", { class: "term", onpointerenter: place, onfocusin: place }, word, tip);
}
