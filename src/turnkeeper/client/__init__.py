"""A client for the service, for programs in Python: `Client`, and `AsyncClient` with the same names to await.

from turnkeeper.client import Client

with Client() as client:
    run = client.run("meeting-notes", engine="demo", input={"notes": "We ship on Friday."})
    print(run.result())
"""

from turnkeeper.client.aio import AsyncClient, AsyncRun
from turnkeeper.client.errors import (
    ApiError,
    ClientError,
    RunCanceled,
    RunError,
    RunFailed,
    ServiceNotFound,
    ServiceUnreachable,
    WaitingForPerson,
)
from turnkeeper.client.key_records import Entry, Key, Me, NewKey
from turnkeeper.client.records import (
    Answered,
    Artifact,
    Attempt,
    Cancellation,
    Engine,
    Event,
    Finding,
    Log,
    Option,
    Question,
    Receipt,
    RunInfo,
    Schemas,
    Skill,
)
from turnkeeper.client.service_records import AnswerLink, Pruned, Secret, SignIn, Status
from turnkeeper.client.sync import Client, Run

__all__ = [
    "AnswerLink",
    "Answered",
    "ApiError",
    "Artifact",
    "AsyncClient",
    "AsyncRun",
    "Attempt",
    "Cancellation",
    "Client",
    "ClientError",
    "Engine",
    "Entry",
    "Event",
    "Finding",
    "Key",
    "Log",
    "Me",
    "NewKey",
    "Option",
    "Pruned",
    "Question",
    "Receipt",
    "Run",
    "RunCanceled",
    "RunError",
    "RunFailed",
    "RunInfo",
    "Schemas",
    "Secret",
    "ServiceNotFound",
    "ServiceUnreachable",
    "SignIn",
    "Skill",
    "Status",
    "WaitingForPerson",
]
