// A message as a person reads it, from its JSON, and what differs between two texts.

import { h } from "./dom.js";

/** The text of a message: what is said, the calls with their arguments, the kind of any other part. */
export function readable(json) {
  let message;
  try {
    message = JSON.parse(json);
  } catch {
    return json;
  }
  if (message === null || typeof message !== "object") return json;
  const lines = [contentOf(message.content), contentOf(message.output), contentOf(message.summary)];
  for (const call of message.tool_calls ?? []) lines.push(callOf(call.function ?? call.custom ?? call));
  if (message.function_call) lines.push(callOf(message.function_call));
  if (message.type === "function_call") lines.push(callOf(message));
  return lines.filter(Boolean).join("\n") || json;
}

const callOf = (call) =>
  `${call.name ?? "?"}(${typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments ?? call.input ?? "")})`;

function contentOf(content) {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content
    .map((part) => {
      if (typeof part === "string") return part;
      if (typeof part?.text === "string") return part.text;
      if (part?.type === "tool_use") return callOf({ name: part.name, arguments: part.input });
      if (part?.type === "tool_result") return contentOf(part.content);
      return `[${part?.type ?? "part"}]`;
    })
    .join("\n");
}

/** Both texts with what differs marked: the part between their common beginning and their common end. */
export function marked(before, after) {
  if (before === after) return [[before], [after]];
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < most - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  const side = (text, tag) => {
    const middle = text.slice(head, text.length - tail);
    return [text.slice(0, head), middle && h(tag, {}, middle), text.slice(text.length - tail)].filter(Boolean);
  };
  return [side(before, "del"), side(after, "ins")];
}
