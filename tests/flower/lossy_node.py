"""``fedica`` for a client's node that loses one confirmation, as when the proxy is killed in that moment."""

from __future__ import annotations

import os
import time

import httpx
from flwr.supernode.fleet_http_client import FleetHttpClient

from fedica.cli import app


def lose_first(name):
    """Lose the first confirmation of the requests of this name; meanwhile the coordinator goes on with it."""
    sent, lost = getattr(FleetHttpClient, name), []

    def send(client, request):
        said = sent(client, request)
        if lost:
            return said
        lost.append(said)
        time.sleep(5)
        raise httpx.RemoteProtocolError("Server disconnected without sending a response.")

    setattr(FleetHttpClient, name, send)


if __name__ == "__main__":
    lose_first(os.environ["LOST"])
    app()
