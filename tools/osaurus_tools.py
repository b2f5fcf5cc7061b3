"""The tools of the sandbox, for code that sandbox_execute_code runs.

Each function returns the tool's result, a dict. A call that went wrong raises
SandboxToolError, which carries the tool's envelope. Warnings go to standard error.
"""

import http.client
import json
import os
import pwd
import socket
import sys

__all__ = [
    "SandboxToolError",
    "call",
    "edit_file",
    "read_file",
    "search_files",
    "share_artifact",
    "terminal",
    "write_file",
]


class SandboxToolError(Exception):
    """A call of a tool that went wrong."""

    def __init__(self, envelope):
        super().__init__(envelope)
        self.envelope = envelope
        self.tool = envelope.get("tool")
        self.kind = envelope.get("kind")
        self.message = envelope.get("message")
        self.field = envelope.get("field")
        self.retryable = envelope.get("retryable", False)

    def __str__(self):
        return "%s: %s (%s)" % (self.tool, self.message, self.kind)


class _Bridge(http.client.HTTPConnection):
    """A connection to the host, over the socket of the room."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ.get("OSAURUS_BRIDGE_SOCKET", "/run/osaurus-bridge.sock"))


def _token():
    path = os.environ.get("OSAURUS_TOKEN_FILE")
    if path is None:
        path = "/run/osaurus/%s.token" % pwd.getpwuid(os.getuid()).pw_name
    with open(path) as file:
        return file.read().strip()


def call(tool, **arguments):
    """Call a tool by its whole name. Arguments that are None are left out."""
    body = json.dumps({"arguments": {k: v for k, v in arguments.items() if v is not None}})
    bridge = _Bridge("osaurus")
    try:
        headers = {
            "Authorization": "Bearer " + _token(),
            "Content-Type": "application/json",
            "X-Osaurus-Script-Id": os.environ.get("OSAURUS_SCRIPT_ID", ""),
        }
        bridge.request("POST", "/api/sandbox-tool/" + tool, body, headers)
        response = bridge.getresponse()
        envelope = json.loads(response.read().decode())
    except (OSError, http.client.HTTPException, ValueError) as e:  # no answer, or none that can be read
        raise SandboxToolError({"ok": False, "tool": tool, "kind": "unavailable", "message": str(e), "retryable": True}) from e
    finally:
        bridge.close()
    if response.status >= 400:  # the tool was not called
        message = " ".join(filter(None, (envelope.get("error"), envelope.get("advice"))))
        envelope = {"ok": False, "tool": tool, "kind": envelope.get("kind", "execution_error"), "message": message, "retryable": False}
    if not envelope["ok"]:
        raise SandboxToolError(envelope)
    for warning in envelope.get("warnings", ()):
        print("warning:", warning, file=sys.stderr)
    return envelope["result"]


def read_file(path, **options):
    """Read a file, or list a folder. Options: start_line, line_count, tail_lines, offset, max_chars."""
    return call("sandbox_read_file", path=path, **options)


def write_file(path, content, **options):
    """Write all of a file. Options: mode="append"."""
    return call("sandbox_write_file", path=path, content=content, **options)


def edit_file(path, old_string, new_string):
    """Replace a text that is in a file exactly once."""
    return call("sandbox_edit_file", path=path, old_string=old_string, new_string=new_string)


def search_files(pattern, target="content", **options):
    """Find lines, or with target="files" names. Options: path, include, context_lines, case_insensitive, max_results."""
    return call("sandbox_search_files", pattern=pattern, target=target, **options)


def terminal(command, **options):
    """Run a shell command. Options: cwd, timeout, idle_timeout, background, session, fresh."""
    return call("sandbox_exec", command=command, **options)


def share_artifact(path=None, content=None, filename=None, description=None):
    """Hand a file or a folder over to the person, or a text under a file name."""
    return call("share_artifact", path=path, content=content, filename=filename, description=description)
