"""The page: a scene as one HTML file."""
