"""How a run moves: the diagram of its states, and every transition with the moment in which it happens."""

from tools.docs.tables import table
from turnkeeper.core.statechart import TABLE, Trigger, diagram

WHEN: dict[Trigger, str] = {
    Trigger.INPUT_COMPLETED: "The uploaded files are complete.",
    Trigger.INPUT_EXPIRED: "The files did not come in time.",
    Trigger.TURN_STARTED: "A slot is free: a worker claims the run, and only then starts the process. Or a permission "
    "is answered, and the turn goes on.",
    Trigger.TURN_NEEDS_INPUT: "The turn ended cleanly without marker and without valid output.",
    Trigger.TURN_NEEDS_PERMISSION: "The agent asks for a permission in the middle of its turn.",
    Trigger.TURN_SUCCEEDED: "The verdict is success.",
    Trigger.TURN_FAILED: "The verdict is failure, or the process could not be started.",
    Trigger.REPLY_ACCEPTED: "A person replied.",
    Trigger.WITHDRAWN: "The agent took back its request for a permission, or closed its turn without an answer.",
    Trigger.AUTO_DECIDE_TIMEOUT: "Nobody replied by the deadline, and the job lets the engine decide.",
    Trigger.WAIT_TIMEOUT: "Nobody replied to a resident run by the deadline, and the job insists on a person.",
    Trigger.PROCESS_LOST: "The resident process ended while waiting: its session cannot be loaded, or a permission "
    "was open.",
    Trigger.RESUME_TURN: "The service stopped during the turn; the same attempt is tried again.",
    Trigger.PRESERVE_WAITING: "The service restarted, or a resident process ended; the question stays open.",
    Trigger.RECONCILE_FAILED: "What the run would need to go on is gone, or a fault of ours ended the turn.",
    Trigger.RUN_CANCELED: "Somebody canceled the run, and nothing of it is alive any more.",
}


def mermaid() -> str:
    return f"```mermaid\n{diagram()}\n```\n"


def transitions() -> str:
    """One row for each trigger and target; states from which both are the same stand together."""
    rows: dict[tuple[str, str], list[str]] = {}
    for (state, trigger), target in TABLE.items():
        rows.setdefault((trigger, target), []).append(f"`{state}`")
    return table(
        ("from", "trigger", "to", "when"),
        (
            (", ".join(states), f"`{trigger}`", f"`{to}`", WHEN[Trigger(trigger)])
            for (trigger, to), states in rows.items()
        ),
    )
