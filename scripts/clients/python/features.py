"""Records what a client can do with Parley, for the table in docs/clients.md."""

import json
import os


def record(client, outcome, *features):
    """Record an outcome. The names of the features are in matrix_test.go."""
    if path := os.environ.get("FEATURES"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"client": client, "outcome": outcome, "features": features}) + "\n")
