"""Other users of a machine: what they are answered, and how processes are started as one of them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess

NOBODY = 65534
ASK = """
import json, ssl, sys, urllib.error, urllib.request
told = json.load(sys.stdin)
context = ssl.create_default_context(cadata=told["ca"]) if told["ca"] else None
scheme = "https" if told["ca"] else "http"
for path in told["paths"]:
    headers = {"content-type": "application/protobuf"} | told["headers"]
    request = urllib.request.Request(f"{scheme}://127.0.0.1:{told['port']}{path}", b"", headers, method="POST")
    try:
        print(urllib.request.urlopen(request, context=context, timeout=60).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""


def ask_as_another_user(port, paths, ca="", user=NOBODY, **headers):
    """The statuses that another user of the machine gets."""
    told = json.dumps({"port": port, "paths": paths, "ca": ca, "headers": headers})
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    said = subprocess.run(
        [python, "-c", ASK], input=told, capture_output=True, text=True, timeout=600, check=True, user=user, cwd="/"
    )
    return [int(line) for line in said.stdout.split()]


def as_user(user, command):
    """A command as it is run by another user.

    With the right to read, and no other one: the Python of the tests may be in a folder that this user cannot enter.
    """
    rights = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *rights, *map(str, command)]


def steps_of_the_proxy(root, name, state, user):
    """The commands of a step of the proxy's unit, with another folder and user than there."""
    unit = (root / "systemd" / "fedica-proxy.service").read_text()
    unit = unit.replace("/var/lib/fedica-proxy", str(state)).replace("-o fedica-proxy", f"-o {user}")
    lines = [line.partition("=")[2] for line in unit.splitlines() if line.startswith(f"{name}=")]
    return [shlex.split(line.removeprefix("+")) for line in lines]
