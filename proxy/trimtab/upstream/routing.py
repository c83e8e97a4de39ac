"""Which upstream takes a model: the first whose `models` globs match, in the order of the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from trimtab.errors import UnknownModel
from trimtab.upstream.settings import UpstreamSettings

_SHOWN_NAME = 100  # characters of a model name quoted back; a name is short, anything longer is not a name


def route(model: str | None, upstreams: Sequence[UpstreamSettings]) -> UpstreamSettings:
    """The upstream for `model`; with no model (a path that names none) the first one.

    Raises UnknownModel, with the nearest configured names and what to do.
    """
    if model is None and upstreams:
        return upstreams[0]
    for upstream in upstreams:
        for glob in upstream.models:
            if _takes(glob, model or ""):
                return upstream
    raise UnknownModel(_unknown(model or "", upstreams), param="model")


def _takes(glob: str, model: str) -> bool:
    return glob == "*" or glob == model or fnmatchcase(model, glob)


def _unknown(model: str, upstreams: Sequence[UpstreamSettings]) -> str:
    globs = [glob for upstream in upstreams for glob in upstream.models]
    near = get_close_matches(model[:_SHOWN_NAME], globs, n=3, cutoff=0.5) or globs[:3]
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return (
        f"No upstream takes the model {model[:_SHOWN_NAME]!r}.{hint}"
        " Send one of the configured models, or add this one to `models` of an [[upstreams]] table."
    )
