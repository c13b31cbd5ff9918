"""Refusals: every answer that is no success says in one sentence what was expected, what came and what to do."""

from fastapi.responses import JSONResponse

UNREAD = (408, 411, 413, 431)  # statuses of requests whose body is not, or not wholly, read


class RefusedError(Exception):
    """A request that is not answered, with the status of HTTP and the sentence that the page shows."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence

    def response(self) -> JSONResponse:
        """The answer as JSON: {"error": sentence}."""
        headers = {"connection": "close"} if self.status in UNREAD else None
        return JSONResponse({"error": self.sentence}, self.status, headers)


def busy() -> RefusedError:
    """The server has as much to do as it may take on."""
    return RefusedError(503, "the server has too much to do at the moment; try again in a few seconds")
