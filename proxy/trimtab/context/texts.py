"""Every text the proxy may put into a conversation. All are constants, without a count, a date or a name: a text that
changes between two requests breaks the provider's prefix cache.

The wording of the placeholder follows two reports of users. It must say that the call worked: a model that reads it as
a failure runs the tool again at once. And it must not speak of little room: a model then stops early.
"""

TRUNCATED = "[Truncated]"
"""Stands where text was cut."""

PLACEHOLDER = (
    "[This tool ran and its result was shown; the result has since been cleared to keep the conversation within "
    "the context window. The newest results stay whole, so there is no need to stop early to save room. "
    "The tool can be run again if the output is needed once more.]"
)
"""The content of a cleared tool result."""

SAME_LATER_TEXT = "[This tool ran and its result was shown; a later call brought the same content, see there.]"
"""The content of a cleared tool result whose content a later one repeats."""

NEWER_LATER_TEXT = "[This tool ran and its result was shown; the same call was made again later, see its newer result.]"
"""The content of a cleared tool result whose call was made again."""

NOTE = (
    "[Earlier messages of this conversation have been removed to keep it within the context window. "
    "What follows is the most recent part.]"
)
"""The message in the gap when there is no summary."""

EXTRACT = (
    "[Extract of the removed messages, oldest first; … stands where text is left out. "
    "A tool can be run again to get its full result.]"
)
"""The first line of the extract, after the note or the summary."""

LEFT_OUT = " … "
"""Stands between two excerpts of one text."""

SOURCES = {"user": "user:", "assistant": "assistant:", "call": " with:", "result": " ->", "unknown": "tool ->"}
"""How a line of the extract says where it is from: who wrote it; after a call, what it was given or what it brought."""

CLEARED_TO_EXTRACT = (
    "[This tool ran and its result was shown; the result has since been cleared to save room, but for this extract. "
    "The tool can be run again if the full output is needed.]"
)
"""The first line of a cleared tool result of which an extract is kept."""

ANNOUNCEMENT = (
    "\n\nWhen the context window fills, older tool results are cleared and the newest are kept. "
    "There is no need to stop early to save room; a tool can be run again if its output is needed."
)
"""Appended to the system message of requests with tools when `announce` is on."""

SUMMARY_PREFIX = "[Conversation summary]"
"""The first line of a summary."""

SUMMARY_READ = "OK."
"""The assistant's message between a summary and the question, where two user messages must not stand side by side."""

JSON_WORD = "Answer in JSON."
"""Added to the system message, or sent as one, where a request for JSON would lose the last message that says so."""

CLEARED_ARGUMENTS = "{}"
"""The arguments of a call whose inputs were cleared."""

REMOVED = {
    kind: f"[{kind} removed to keep the request within the upstream's size limit]"
    for kind in ("image", "audio", "file", "video")
}
"""The text in place of a payload, by its kind, when an upstream refused a request for its bytes."""
