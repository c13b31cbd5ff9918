"""`pixtree demo`: the web app."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pixtree.cli.errors import UsageError, reported

if TYPE_CHECKING:
    from pixtree.app.demo_model import DemoModel

PORT = 8000


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("demo")(demo)


@reported()
def demo(
    host: Annotated[
        str, typer.Option(help="Listen at this address. 0.0.0.0 lets other machines connect; the server has no password.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen at this port; 0 takes any free one.")] = PORT,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
    model: Annotated[
        str | None, typer.Option(help="Show the outputs of this timm model, such as deit_tiny_patch16_224; needs --weights.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights of the model, a safetensors file.")] = None,
    memory: Annotated[int, typer.Option(min=64, help="Keep trees in at most this many megabytes.")] = 512,
) -> None:
    """Show photos as trees of regions in your browser: cut, select, draw, and compare tokens."""
    if (model is None) != (weights is None):
        raise UsageError("a model needs --model and --weights, got one of them; give both or none")
    try:
        from pixtree.app.server import create_app, hosts_for, listening, serve
    except ImportError as error:
        raise ImportError(f"the web app needs FastAPI and uvicorn ({error}); run pip install 'pixtree[app]'") from error
    from pixtree.app.limits import MEBIBYTE, Limits

    understanding = _model(model, weights) if model and weights else None
    listener = listening(host, port)
    address = f"http://{'localhost' if host == '127.0.0.1' else host}:{listener.getsockname()[1]}"
    typer.echo(f"pixtree is at {address} (Ctrl+C ends it)")
    app = create_app(Limits(session_bytes=memory * MEBIBYTE), model=understanding, hosts=hosts_for(host))
    serve(app, listener, host, address, open_browser=open_browser)


def _model(name: str, weights: Path) -> "DemoModel":
    from pixtree.app.demo_model import DemoModel

    return DemoModel.load(name, weights)
