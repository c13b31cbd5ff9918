"""Commands in processes that share a run, as `torchrun` starts them, only from a server that has loaded everything."""

import json
import multiprocessing
import os
import signal
import socket

from commands import invoke
from forked import PROCESSES

LIMIT = 300  # seconds, for a machine that does other work as well


def command(arguments, output, environment, killed_after):
    """Run a command in this process; leave its exit code and what it printed in a file. The first process may die after a step."""
    os.environ.update(environment)
    if "fork" in multiprocessing.get_all_start_methods():  # data workers of the test's server would outlive a killed process
        multiprocessing.set_start_method("fork", force=True)
    from pixtree.cli import train
    from pixtree.cli.main import app

    def die(self, step, figures):
        if step == killed_after:
            os.kill(os.getpid(), signal.SIGKILL)

    train.Steps.__call__ = die
    result = invoke(app, arguments)
    output.write_text(json.dumps([result.exit_code, result.stdout, result.stderr]))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def surroundings(ranks):
    """The variables that a launcher gives each of its processes."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    own = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)] if ranks > 1 else [{}]
    return [(shared if ranks > 1 else {}) | one | {"OMP_NUM_THREADS": "1"} for one in own]


def started(arguments, folder, ranks=2, killed_after=None):
    """The processes of a command, which leave their results in `folder`, and the files of these results."""
    folder.mkdir(parents=True, exist_ok=True)
    outputs = [folder / f"printed_{rank}.json" for rank in range(ranks)]
    made = [
        PROCESSES.Process(target=command, args=(arguments, output, environment, killed_after))
        for output, environment in zip(outputs, surroundings(ranks), strict=True)
    ]
    for one in made:
        one.start()
    return made, outputs


def done(arguments, folder, ranks=2):
    """Exit code, stdout and stderr of every process of a command."""
    processes, outputs = started(arguments, folder, ranks)
    for one in processes:
        one.join(LIMIT)
    assert [one.exitcode for one in processes] == [0] * ranks
    return [json.loads(output.read_text()) for output in outputs]
