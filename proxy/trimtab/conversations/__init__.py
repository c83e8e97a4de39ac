"""Conversations that live in the proxy: stored histories, loaded for a request and appended before its last byte."""
