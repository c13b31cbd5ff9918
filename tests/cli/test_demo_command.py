import socket
import subprocess
import sys
import urllib.request

from commands import invoke

from pixtree.cli.main import app


def test_a_model_needs_weights():
    result = invoke(app, ["demo", "--model", "vit_tiny_patch16_224"])
    assert result.exit_code == 2
    assert "give both or none" in result.stderr


def test_a_port_that_is_taken_is_an_error_in_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = invoke(app, ["demo", "--port", str(taken.getsockname()[1])])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: a server needs a free address")
    assert result.stderr.count("\n") == 1


def test_the_command_says_where_the_page_is_and_serves_it():
    command = [sys.executable, "-m", "pixtree.cli.main", "demo", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = next(word for word in process.stdout.readline().split() if word.startswith("http"))
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"<title>pixtree</title>" in answer.read()
    finally:
        process.terminate()
        assert process.wait(60) in (0, -15, 143)
        process.stdout.close()
