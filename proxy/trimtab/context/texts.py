"""Every text the proxy may put into a conversation. All are constants: nothing that counts, dates or names is
ever written, because a text that changes between two steps breaks the provider's prefix cache.

The wording of the placeholder follows two lessons users report: it must say that the call worked (a marker read
as a failure is called again at once), and it must take the hurry out (a model told that room is short stops early).
"""

TRUNCATED = "[Truncated]"

PLACEHOLDER = (
    "[This tool ran and its result was shown; the result has since been cleared to keep the conversation within "
    "the context window. The newest results stay whole, so there is no need to stop early to save room. "
    "The tool can be run again if the output is needed once more.]"
)

NOTE = (
    "[Earlier messages of this conversation have been removed to keep it within the context window. "
    "What follows is the most recent part.]"
)

ANNOUNCEMENT = (
    "\n\nWhen the context window fills, older tool results are cleared and the newest are kept. "
    "There is no need to stop early to save room; a tool can be run again if its output is needed."
)

SUMMARY_PREFIX = "[Conversation summary]"

CLEARED_ARGUMENTS = "{}"

# In the place of an image, a sound or a file whose bytes an upstream would not take.
REMOVED = {
    kind: f"[{kind} removed to keep the request within the upstream's size limit]"
    for kind in ("image", "audio", "file", "video")
}
