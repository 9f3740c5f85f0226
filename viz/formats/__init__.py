"""Formats: a scene as DOT, trace events, JSON and other files."""
