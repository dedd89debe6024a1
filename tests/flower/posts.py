"""Requests as nodes send them, begun and not ended: for tests of what the proxy does with such ones."""

from __future__ import annotations

import re
import socket
import ssl


def known_keys(root):
    """The keys that the proxy of a federation lets through, as nodes send them."""
    return re.findall(r'"(\S+)" "[a-z]"', (root / "proxy" / "nginx.conf").read_text())


def begin_post(port, ca, key, n_bytes, n_sent):
    """A connection with this key that announces a body and sends some of it."""
    context = ssl.create_default_context(cafile=str(ca))
    raw = socket.create_connection(("127.0.0.1", port), 300)
    connection = context.wrap_socket(raw, server_hostname="127.0.0.1")
    connection.sendall(post_head(key, n_bytes) + bytes(n_sent))
    return connection


def post_head(key, n_bytes):
    """What stands before the body of a request with this key."""
    head = ["POST /v1/fleet/push-object HTTP/1.1", "Host: x", f"flwr-public-key: {key}", f"Content-Length: {n_bytes}"]
    return "\r\n".join([*head, "", ""]).encode()
