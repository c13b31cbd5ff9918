"""Commands in the process of a test, with errors apart from other output: older versions of click mix the two unless told."""

import inspect

from typer.testing import CliRunner

APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner.__init__).parameters else {}


def invoke(app, arguments):
    """What a command came to: exit_code, stdout, stderr."""
    return CliRunner(**APART).invoke(app, arguments)
