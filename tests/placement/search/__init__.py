"""Tests of the search for a placement, by part."""
