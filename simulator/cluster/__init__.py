"""Clusters: devices, links, routes, and the descriptions from which they are read."""
