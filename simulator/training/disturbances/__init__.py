"""Disturbances of a run: slow devices, noise, pauses, crashes, degraded links, background traffic."""
