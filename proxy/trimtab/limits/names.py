"""The forms of a model's name: the other names under which the same model may be known.

Clients write `openai/gpt-4o-2024-08-06`, `ft:gpt-4o-mini-2024-07-18:org::id`, `models/gemini-2.5-pro`,
`qwen/qwen3-coder:free`, `claude-3-5-sonnet@20240620`, `github:copilot:claude-sonnet-4`. Each rule removes one part
that names a route, a region, a date or a fine-tune, and records it; what remains must match a known name *as a whole*.
A name is never cut at an arbitrary place: `gpt-4o-mini` never becomes `gpt-4o`, an unknown family stays unknown. A
four-digit suffix is not treated as a date: `mistral-large-2402` has a quarter of `mistral-large`'s window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Who serves or made a model; one or more of these precede the name. Gateways, clouds, then makers.
_PREFIXES = (
    r"models|openrouter|litellm|litellm_proxy|hosted_vllm|vllm|custom_openai|openai_like|portkey|"
    r"vercel_ai_gateway|github_copilot|copilot|github|huggingface|hf|hf\.co|lm_studio|lmstudio|ollama|"
    r"ollama_chat|llamafile|azure|azure_ai|azure_openai|bedrock|bedrock_converse|bedrock_mantle|"
    r"converse|invoke|vertex_ai|vertex|gemini|groq|together|together_ai|fireworks|fireworks_ai|"
    r"deepinfra|novita|nebius|cerebras|sambanova|baseten|replicate|databricks|cloudflare|@cf|"
    r"watsonx|oci|snowflake|wandb|lambda_ai|hyperbolic|perplexity|friendliai|nscale|dashscope|"
    r"volcengine|chatgpt|openai|anthropic|google|meta|meta-llama|meta_llama|mistral|mistralai|qwen|"
    r"alibaba|deepseek|deepseek-ai|xai|x-ai|moonshot|moonshotai|zai|zai-org|z-ai|thudm|minimax|"
    r"minimaxai|microsoft|nvidia|cohere|cohere_chat|coherelabs|amazon|amazon-nova|ai21|01-ai|"
    r"tencent|baidu|bytedance|inception|ibm-granite"
)
# Bedrock puts the maker before a dot.
VENDORS = (
    "anthropic|meta|mistral|amazon|cohere|ai21|qwen|deepseek|openai|moonshotai|moonshot|xai|zai|minimax"
    "|nvidia|google|writer"
)

# (what the rule removes, pattern, what remains). In lower case: letter case does not matter.
RULES: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (why, re.compile(pattern), left)
    for why, pattern, left in (
        ("fine-tune", r"^(ft:[^:]+):.+$", r"\1"),
        ("fine-tune base", r"^ft:([^:]+).*$", r"\1"),
        ("resource name", r"^(?:arn:aws|projects/|publishers/|accounts/).*/([^/]+)$", r"\1"),
        ("prefix", rf"^(?:{_PREFIXES})/(.+)$", r"\1"),
        # `github:copilot:claude-sonnet-4`. Not Ollama's tags, which follow a colon too: `qwen:7b`, `mistral:latest`.
        ("prefix before a colon", rf"^(?:{_PREFIXES}):(?!latest$)([a-z].+)$", r"\1"),
        ("route", r"^(.+):(?:free|beta|nitro|floor|extended|exacto|online|thinking|latest)$", r"\1"),
        ("date written with @", r"^(.+)@(20\d{6})$", r"\1-\2"),
        ("@version", r"^(.+)@[\w.:-]+$", r"\1"),
        ("region", r"^(?:us|eu|apac|jp|au|ca|in|global|us-gov)\.(.+)$", r"\1"),
        ("version suffix", r"^(.+)-v\d+:\d+$", r"\1"),
        ("vendor", rf"^(?:{VENDORS})\.(.+)$", r"\1"),
        ("dated suffix", r"^(.+?)-(?:20\d\d-\d\d-\d\d|20\d{6})$", r"\1"),
        ("-latest", r"^(.+)-latest$", r"\1"),
        ("dot for hyphen", r"^(claude-.*\d)\.(\d.*)$", r"\1-\2"),
    )
)
_MOST_FORMS = 32  # bounds the work for a name of ten thousand slashes


def forms(name: str) -> Iterator[tuple[str, str]]:
    """(form, what was removed) of `name` in lower case: the name itself first, then by the number of rules applied.

    "openai/gpt-4o-2024-08-06" gives, among others, ("gpt-4o", "prefix, dated suffix").
    """
    seen = {name.lower(): ""}
    queue = list(seen)
    for form in queue:
        yield form, seen[form]
        for why, pattern, left in RULES:
            shorter = pattern.sub(left, form)
            if shorter not in seen and len(seen) < _MOST_FORMS:
                seen[shorter] = f"{seen[form]}, {why}" if seen[form] else why
                queue.append(shorter)
