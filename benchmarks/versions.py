"""A version of pixtree that works in a process of its own, so that two versions can take turns in one run."""

import os
import subprocess
import sys
from pathlib import Path


class Version:
    """A process that runs `script` with the pixtree of a source tree, and answers each line with one that starts with "seconds"."""

    def __init__(self, folder: Path, script: str, *arguments: str) -> None:
        environment = os.environ | {"PYTHONPATH": str(folder.resolve() / "src")}
        command = [sys.executable, str(Path(script).resolve()), *arguments]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, question: str) -> float:
        """The answer to one line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(question, file=self.process.stdin, flush=True)
        for line in self.process.stdout:  # what else is printed, such as that kernels are compiled, is no answer
            if line.startswith("seconds "):
                return float(line.split()[1])
        raise SystemExit(f"{question!r} failed, see above")

    def close(self) -> None:
        """End the process."""
        self.process.communicate()
