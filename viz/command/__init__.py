"""The command: from its options to a scene, its summary, and its exit code."""
