"""Trimtab: an OpenAI-compatible reverse proxy that keeps long conversations inside the model's context window."""

__version__ = "0.1.0"
