"""Every code that the API can show, with the sentence the docs print, and the exceptions that carry them.

HTTP status codes are not chosen here; see `web/problems.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Code(StrEnum):
    """Why a request was refused, or why a run failed. Stable once released."""

    # requests
    INVALID_REQUEST = "INVALID_REQUEST"
    UNKNOWN_FIELD = "UNKNOWN_FIELD"
    OPTION_CONFLICT = "OPTION_CONFLICT"
    INPUT_INVALID = "INPUT_INVALID"
    SKILL_NOT_FOUND = "SKILL_NOT_FOUND"
    SKILL_BROKEN = "SKILL_BROKEN"
    SKILL_CHANGED = "SKILL_CHANGED"
    SKILL_VERSION_NOT_HIGHER = "SKILL_VERSION_NOT_HIGHER"
    SKILL_NOT_MANAGED = "SKILL_NOT_MANAGED"
    ARCHIVE_REFUSED = "ARCHIVE_REFUSED"
    SKILL_EXECUTION_MODE_UNSUPPORTED = "SKILL_EXECUTION_MODE_UNSUPPORTED"
    SKILL_ENGINE_UNSUPPORTED = "SKILL_ENGINE_UNSUPPORTED"
    ENGINE_NOT_FOUND = "ENGINE_NOT_FOUND"
    ENGINE_NOT_READY = "ENGINE_NOT_READY"
    ENGINE_MODEL_UNKNOWN = "ENGINE_MODEL_UNKNOWN"
    INTERACTIVE_PROFILE_UNSUPPORTED = "INTERACTIVE_PROFILE_UNSUPPORTED"
    PERMISSION_POLICY_UNSUPPORTED = "PERMISSION_POLICY_UNSUPPORTED"
    SECRET_INVALID = "SECRET_INVALID"
    SECRET_NOT_FOUND = "SECRET_NOT_FOUND"
    SECRET_NOT_GRANTED = "SECRET_NOT_GRANTED"
    RUN_NOT_FOUND = "RUN_NOT_FOUND"
    RUN_NOT_WAITING = "RUN_NOT_WAITING"
    RUN_ENDING = "RUN_ENDING"
    RUN_NOT_ENDED = "RUN_NOT_ENDED"
    UPLOAD_NOT_EXPECTED = "UPLOAD_NOT_EXPECTED"
    INTERACTION_STALE = "INTERACTION_STALE"
    INTERACTION_ANSWERED = "INTERACTION_ANSWERED"
    IDEMPOTENCY_KEY_REUSED = "IDEMPOTENCY_KEY_REUSED"
    QUEUE_FULL = "QUEUE_FULL"
    CURSOR_INVALID = "CURSOR_INVALID"
    RESULT_NOT_AVAILABLE = "RESULT_NOT_AVAILABLE"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    UNAUTHORIZED = "UNAUTHORIZED"
    CODE_INVALID = "CODE_INVALID"
    KEY_EXPIRED = "KEY_EXPIRED"
    KEY_REVOKED = "KEY_REVOKED"
    SCOPE_MISSING = "SCOPE_MISSING"
    NOT_ALLOWED_FOR_KEY = "NOT_ALLOWED_FOR_KEY"
    KEY_NOT_FOUND = "KEY_NOT_FOUND"
    KEY_NAME_TAKEN = "KEY_NAME_TAKEN"
    KEY_NOT_REVOCABLE = "KEY_NOT_REVOCABLE"
    EXPIRY_REFUSED = "EXPIRY_REFUSED"
    HOST_NOT_ALLOWED = "HOST_NOT_ALLOWED"
    ORIGIN_NOT_ALLOWED = "ORIGIN_NOT_ALLOWED"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    URL_TOO_LONG = "URL_TOO_LONG"
    HEADERS_TOO_LARGE = "HEADERS_TOO_LARGE"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    RATE_LIMITED = "RATE_LIMITED"
    KEY_IN_URL = "KEY_IN_URL"
    LINK_DEAD = "LINK_DEAD"
    LINK_EXPIRED = "LINK_EXPIRED"
    LINK_NOT_FOR_THIS = "LINK_NOT_FOR_THIS"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    STORAGE_UNAVAILABLE = "STORAGE_UNAVAILABLE"
    STORAGE_LOW = "STORAGE_LOW"
    SHUTTING_DOWN = "SHUTTING_DOWN"
    # start of the service
    SETTINGS_INVALID = "SETTINGS_INVALID"
    DATA_DIR_IN_USE = "DATA_DIR_IN_USE"
    SCHEMA_TOO_NEW = "SCHEMA_TOO_NEW"
    # runs
    OUTPUT_INVALID = "OUTPUT_INVALID"
    INTERACTIVE_MAX_ATTEMPT_EXCEEDED = "INTERACTIVE_MAX_ATTEMPT_EXCEEDED"
    INTERACTION_WAIT_TIMEOUT = "INTERACTION_WAIT_TIMEOUT"
    INTERACTION_PROCESS_LOST = "INTERACTION_PROCESS_LOST"
    RECONCILE_FAILED = "RECONCILE_FAILED"
    RUN_INTERRUPTED = "RUN_INTERRUPTED"
    UPLOAD_MISSING = "UPLOAD_MISSING"
    SESSION_LOST = "SESSION_LOST"
    SESSION_TOO_LARGE = "SESSION_TOO_LARGE"
    ENGINE_AUTH_REQUIRED = "ENGINE_AUTH_REQUIRED"
    ENGINE_QUOTA_EXHAUSTED = "ENGINE_QUOTA_EXHAUSTED"
    ENGINE_RATE_LIMITED = "ENGINE_RATE_LIMITED"
    ENGINE_CONTEXT_EXHAUSTED = "ENGINE_CONTEXT_EXHAUSTED"
    ENGINE_TRUST_REQUIRED = "ENGINE_TRUST_REQUIRED"
    ENGINE_ARGS_REJECTED = "ENGINE_ARGS_REJECTED"
    ENGINE_TTY_REQUIRED = "ENGINE_TTY_REQUIRED"
    ENGINE_CRASHED = "ENGINE_CRASHED"
    ENGINE_OOM_KILLED = "ENGINE_OOM_KILLED"
    ENGINE_LIMIT_EXCEEDED = "ENGINE_LIMIT_EXCEEDED"
    ENGINE_STALLED = "ENGINE_STALLED"
    TURN_TIMEOUT = "TURN_TIMEOUT"
    ENGINE_FAILED = "ENGINE_FAILED"
    INTERNAL_ERROR = "INTERNAL_ERROR"


class Warn(StrEnum):
    """What a run or a skill is worth telling about without failing it."""

    INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER = "INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER"
    ENGINE_FAILED_AFTER_RESULT = "ENGINE_FAILED_AFTER_RESULT"
    ENGINE_LINGERED_AFTER_RESULT = "ENGINE_LINGERED_AFTER_RESULT"
    ENGINE_LEFT_PROCESSES = "ENGINE_LEFT_PROCESSES"
    ENGINE_RETRYING = "ENGINE_RETRYING"
    ENGINE_REMARK = "ENGINE_REMARK"
    ENGINE_VERSION_UNTESTED = "ENGINE_VERSION_UNTESTED"
    ENGINE_MODEL_CHANGED = "ENGINE_MODEL_CHANGED"
    ENGINE_REPLACED = "ENGINE_REPLACED"
    APPROVAL_MODE_DOWNGRADED = "APPROVAL_MODE_DOWNGRADED"
    TOOL_SERVER_FAILED = "TOOL_SERVER_FAILED"
    LOGIN_NOT_RETURNED = "LOGIN_NOT_RETURNED"
    PROCESS_NOT_REAPED = "PROCESS_NOT_REAPED"
    ENGINE_ENDED_BY_FORCE = "ENGINE_ENDED_BY_FORCE"
    SESSION_LARGE = "SESSION_LARGE"
    SESSION_NOT_NAMED = "SESSION_NOT_NAMED"
    MARKER_BEFORE_LAST_MESSAGE = "MARKER_BEFORE_LAST_MESSAGE"
    MESSAGE_TRUNCATED = "MESSAGE_TRUNCATED"
    LINE_TRUNCATED = "LINE_TRUNCATED"
    RAW_OUTPUT_CAPPED = "RAW_OUTPUT_CAPPED"
    ASK_BLOCK_INVALID = "ASK_BLOCK_INVALID"
    QUESTION_EMPTY = "QUESTION_EMPTY"
    SANDBOX_UNAVAILABLE = "SANDBOX_UNAVAILABLE"
    TURN_RESTARTED = "TURN_RESTARTED"
    RESIDENT_PROCESS_LOST = "RESIDENT_PROCESS_LOST"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    OUTPUT_SCHEMA_TOO_LOOSE = "OUTPUT_SCHEMA_TOO_LOOSE"
    SECRET_MASKED = "SECRET_MASKED"


MEANING: dict[Code | Warn, str] = {
    Code.INVALID_REQUEST: "The request is not of the documented form; `detail` says where.",
    Code.UNKNOWN_FIELD: "The request has a field that the API does not know; it is named.",
    Code.OPTION_CONFLICT: "One option was given twice, at the top and in `runtime_options`, with different values.",
    Code.INPUT_INVALID: "Input or parameters do not fit the skill's schema; every error is listed by JSON pointer.",
    Code.SKILL_NOT_FOUND: "No skill of that id is installed.",
    Code.SKILL_BROKEN: "The skill's folder cannot be used as it is; every problem is listed.",
    Code.SKILL_CHANGED: "The skill was replaced by another version while the run was queued; post the job again.",
    Code.SKILL_VERSION_NOT_HIGHER: "A skill of that id is installed; it is replaced only by a higher version.",
    Code.SKILL_NOT_MANAGED: "The skill is in a folder of the operator's; it is changed there, not through the API.",
    Code.ARCHIVE_REFUSED: "The file is not a zip archive, or one that must not be unpacked; the entry is named.",
    Code.SKILL_EXECUTION_MODE_UNSUPPORTED: "The skill's `execution_modes` do not include the requested mode.",
    Code.SKILL_ENGINE_UNSUPPORTED: "The skill does not run on that engine; the allowed ones are named.",
    Code.ENGINE_NOT_FOUND: "No engine of that name is known here.",
    Code.ENGINE_NOT_READY: "The engine cannot be started as it is installed; the fix is named.",
    Code.ENGINE_MODEL_UNKNOWN: "The engine has no model of that name; a request is refused, a run fails with it.",
    Code.INTERACTIVE_PROFILE_UNSUPPORTED: "The engine cannot wait in the way that `interactive_profile` asks for.",
    Code.PERMISSION_POLICY_UNSUPPORTED: "The run could not be held to that `permissions`; the reason is named.",
    Code.SECRET_INVALID: "A secret cannot have that name or that value; the reason is named.",
    Code.SECRET_NOT_FOUND: "No secret of that name is set.",
    Code.SECRET_NOT_GRANTED: "The skill needs a secret that is not set, or not granted to it; each is named.",
    Code.RUN_NOT_FOUND: "No run of that id exists.",
    Code.RUN_NOT_WAITING: "The run is not waiting for a reply; its state is named.",
    Code.RUN_ENDING: "The run is being ended (cancel or timeout) and takes no more replies.",
    Code.RUN_NOT_ENDED: "The run has not ended yet; its files may still change.",
    Code.UPLOAD_NOT_EXPECTED: "The run takes no upload, or does not any more; its state is named.",
    Code.INTERACTION_STALE: "The reply names a question that is not the open one; the open one is named.",
    Code.INTERACTION_ANSWERED: "Somebody else's answer to this question was accepted first.",
    Code.IDEMPOTENCY_KEY_REUSED: "The `Idempotency-Key` was used for another request body in the last 24 hours.",
    Code.QUEUE_FULL: "Too many runs are queued; nothing was stored. Try again after `Retry-After` seconds.",
    Code.CURSOR_INVALID: "The cursor is not a number in the range of this log or list.",
    Code.RESULT_NOT_AVAILABLE: "The run has no result (yet); its state is named.",
    Code.FILE_NOT_FOUND: "The run has no such file, or it is not an ordinary file inside the run.",
    Code.UNAUTHORIZED: "The bearer token or key is missing or wrong.",
    Code.CODE_INVALID: "The sign-in code was used already, or is older than ten minutes.",
    Code.KEY_EXPIRED: "The key was good until a moment that is past; it is named.",
    Code.KEY_REVOKED: "The key was revoked.",
    Code.SCOPE_MISSING: "The key has none of the scopes that this call needs; both are named.",
    Code.NOT_ALLOWED_FOR_KEY: "The key is limited to other skills or engines; those are named.",
    Code.KEY_NOT_FOUND: "There is no key of that id or name.",
    Code.KEY_NAME_TAKEN: "There is a key of that name, or was one: names are never given twice.",
    Code.KEY_NOT_REVOCABLE: "The service's own token cannot be revoked; it is replaced instead.",
    Code.EXPIRY_REFUSED: "The moment at which the key shall expire is past, or beyond what a calendar holds.",
    Code.HOST_NOT_ALLOWED: "The `Host` header names a host that this service does not answer for.",
    Code.ORIGIN_NOT_ALLOWED: "The request comes from a web page of another origin.",
    Code.BODY_TOO_LARGE: "The request body is larger than the limit.",
    Code.URL_TOO_LONG: "The address of the request is longer than 8 KB.",
    Code.HEADERS_TOO_LARGE: "The headers of the request are larger than 32 KB together.",
    Code.REQUEST_TIMEOUT: "The request did not become whole in time; nothing was done, and the connection is closed.",
    Code.RATE_LIMITED: "Too many requests came in too short a time; nothing was done. `Retry-After` says when.",
    Code.KEY_IN_URL: "The address has a key in it; nothing was done. Addresses are logged on their way.",
    Code.LINK_DEAD: "The question that the link was made for cannot be answered any more; it is said why.",
    Code.LINK_EXPIRED: "The time that the link was made for is over; its question may still be open.",
    Code.LINK_NOT_FOR_THIS: "A link answers the one question it was made for, at `/v1/answer`, and opens nothing else.",
    Code.NOT_FOUND: "No such path.",
    Code.METHOD_NOT_ALLOWED: "The path exists, but not for this method.",
    Code.STORAGE_UNAVAILABLE: "The database or a run's files cannot be read or written (a full disk, a stray link).",
    Code.STORAGE_LOW: "The disk is almost full: no new work is taken, nothing was stored. What was accepted goes on.",
    Code.SHUTTING_DOWN: "The service is stopping and takes no new work.",
    Code.SETTINGS_INVALID: "A setting is wrong; it is named with the value it had.",
    Code.DATA_DIR_IN_USE: "Another server owns the data directory; its pid is named.",
    Code.SCHEMA_TOO_NEW: "The database was written by a newer Turnkeeper.",
    Code.OUTPUT_INVALID: "The turn ended without output that passes the skill's schema.",
    Code.INTERACTIVE_MAX_ATTEMPT_EXCEEDED: "The last allowed turn brought neither the done marker nor valid output.",
    Code.INTERACTION_WAIT_TIMEOUT: "Nobody replied to a resident run before `wait_deadline_at`.",
    Code.INTERACTION_PROCESS_LOST: "The process of a waiting run ended, and its session or its request with it.",
    Code.RECONCILE_FAILED: "After a restart the waiting run had no open question or no usable session.",
    Code.RUN_INTERRUPTED: "The service stopped in the middle of a turn that cannot be resumed.",
    Code.UPLOAD_MISSING: "The files that the job needs were not uploaded in time.",
    Code.SESSION_LOST: "The engine no longer knows the session that the run wanted to resume, or cannot use it.",
    Code.SESSION_TOO_LARGE: "What the engine keeps of its session has grown beyond the limit; it is not resumed.",
    Code.ENGINE_AUTH_REQUIRED: "The engine asks for a login or rejects the one it has.",
    Code.ENGINE_QUOTA_EXHAUSTED: "The engine's plan or credit is used up; only its owner can change that.",
    Code.ENGINE_RATE_LIMITED: "The engine's provider asks for a pause; `retry_after` says how long, if it told.",
    Code.ENGINE_CONTEXT_EXHAUSTED: "The conversation has grown longer than the model can read.",
    Code.ENGINE_TRUST_REQUIRED: "The engine does not trust the workspace and asks a person to.",
    Code.ENGINE_ARGS_REJECTED: "The engine does not know an argument that it was started with: another version of it.",
    Code.ENGINE_TTY_REQUIRED: "The engine wants a terminal, and a service has none: another version of it.",
    Code.ENGINE_CRASHED: "A signal that was not ours ended the engine; it is named.",
    Code.ENGINE_OOM_KILLED: "The kernel ended the engine because memory ran out.",
    Code.ENGINE_LIMIT_EXCEEDED: "The engine and its tools used more than the sandbox allows; limit and use are named.",
    Code.ENGINE_STALLED: "The engine neither spoke nor worked for one of its `timeouts`, or its tools only failed.",
    Code.TURN_TIMEOUT: "The turn took longer than `timeouts.turn_sec`.",
    Code.ENGINE_FAILED: "The engine reported an error, exited with one, or left without closing its turn.",
    Code.INTERNAL_ERROR: "A fault of ours; the log has the details under the run's id.",
    Warn.INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER: "Valid output ended an interactive run without the done marker.",
    Warn.ENGINE_FAILED_AFTER_RESULT: "The engine failed after it had given marker and valid output.",
    Warn.ENGINE_LINGERED_AFTER_RESULT: "The engine did not exit after its result and was ended.",
    Warn.ENGINE_LEFT_PROCESSES: "The engine exited and left processes behind; they were ended.",
    Warn.ENGINE_RETRYING: "The engine could not reach its model and tries again by itself.",
    Warn.ENGINE_REMARK: "The engine warned of something; its words are quoted.",
    Warn.ENGINE_VERSION_UNTESTED: "Turnkeeper was tested with another version of the engine; it runs all the same.",
    Warn.ENGINE_MODEL_CHANGED: "The engine went on with another model in the middle of a turn; both are named.",
    Warn.ENGINE_REPLACED: "The engine's program was replaced on the disk while it ran; the file is named.",
    Warn.APPROVAL_MODE_DOWNGRADED: "The engine does not let its agent do all that it was told to allow.",
    Warn.TOOL_SERVER_FAILED: "A server of tools (MCP) of the engine did not come up; it is named.",
    Warn.LOGIN_NOT_RETURNED: "The engine renewed its login, and the operator's file could not be renewed with it.",
    Warn.PROCESS_NOT_REAPED: "A process of the run survived even SIGKILL (uninterruptible); look at the host.",
    Warn.ENGINE_ENDED_BY_FORCE: "The engine did not stop when it was told to and was killed; it could not tidy up.",
    Warn.SESSION_LARGE: "What the engine keeps of its session has grown large; there is a limit.",
    Warn.SESSION_NOT_NAMED: "The run was canceled before its engine had named a session; nothing can be resumed.",
    Warn.MARKER_BEFORE_LAST_MESSAGE: "The done marker came in an earlier message, not in the last.",
    Warn.MESSAGE_TRUNCATED: "An assistant message was longer than the limit; its end was not looked at.",
    Warn.LINE_TRUNCATED: "A line of output was longer than the limit; the whole is in the raw log.",
    Warn.RAW_OUTPUT_CAPPED: "Unparsed output beyond the limit is only in the raw log.",
    Warn.ASK_BLOCK_INVALID: "The agent's ask block was incomplete; the question stands without it.",
    Warn.QUESTION_EMPTY: "The agent ended its turn without a word; the question is a plain one of ours.",
    Warn.SANDBOX_UNAVAILABLE: "The turn was played without a sandbox, since there is none here; the reason is named.",
    Warn.TURN_RESTARTED: "The service stopped before the engine was started; the turn was started anew.",
    Warn.RESIDENT_PROCESS_LOST: "The process that waited with the run ended; the next reply loads its session.",
    Warn.PERMISSION_DENIED: "The agent was refused a permission: `permissions` is `deny`, or nobody could be asked.",
    Warn.OUTPUT_SCHEMA_TOO_LOOSE: "The skill's output schema accepts an empty object.",
    Warn.SECRET_MASKED: "A job or a skill held a secret: stars are in its place, which is named; a job is stored so.",
}


class TurnkeeperError(Exception):
    """A refusal that a caller can act on: a stable code and a sentence."""

    code: Code = Code.INTERNAL_ERROR

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts
        """Extra members of the problem document, such as `state` or `pending_interaction_id`."""


class InvalidRequest(TurnkeeperError):
    code = Code.INVALID_REQUEST


class UnknownFields(TurnkeeperError):
    code = Code.UNKNOWN_FIELD


class OptionConflict(TurnkeeperError):
    code = Code.OPTION_CONFLICT


class InputInvalid(TurnkeeperError):
    code = Code.INPUT_INVALID


class Unauthorized(TurnkeeperError):
    code = Code.UNAUTHORIZED


class CodeInvalid(TurnkeeperError):
    code = Code.CODE_INVALID


class KeyExpired(TurnkeeperError):
    code = Code.KEY_EXPIRED


class KeyRevoked(TurnkeeperError):
    code = Code.KEY_REVOKED


class ScopeMissing(TurnkeeperError):
    code = Code.SCOPE_MISSING


class NotAllowedForKey(TurnkeeperError):
    code = Code.NOT_ALLOWED_FOR_KEY


class KeyNotFound(TurnkeeperError):
    code = Code.KEY_NOT_FOUND


class KeyNameTaken(TurnkeeperError):
    code = Code.KEY_NAME_TAKEN


class KeyNotRevocable(TurnkeeperError):
    code = Code.KEY_NOT_REVOCABLE


class ExpiryRefused(TurnkeeperError):
    code = Code.EXPIRY_REFUSED


class LinkDead(TurnkeeperError):
    code = Code.LINK_DEAD


class LinkExpired(TurnkeeperError):
    code = Code.LINK_EXPIRED


class LinkNotForThis(TurnkeeperError):
    code = Code.LINK_NOT_FOR_THIS


class SecretInvalid(TurnkeeperError):
    code = Code.SECRET_INVALID


class SecretNotFound(TurnkeeperError):
    code = Code.SECRET_NOT_FOUND


class SecretNotGranted(TurnkeeperError):
    code = Code.SECRET_NOT_GRANTED


class SkillNotFound(TurnkeeperError):
    code = Code.SKILL_NOT_FOUND


class SkillBroken(TurnkeeperError):
    code = Code.SKILL_BROKEN

    def __init__(self, skill_id: str, problems: Sequence[str]) -> None:
        super().__init__(f"skill {skill_id!r} cannot be used: {'; '.join(problems)}", problems=list(problems))
        self.skill_id = skill_id
        self.problems = list(problems)


class SkillVersionNotHigher(TurnkeeperError):
    code = Code.SKILL_VERSION_NOT_HIGHER


class SkillNotManaged(TurnkeeperError):
    code = Code.SKILL_NOT_MANAGED


class ArchiveRefused(TurnkeeperError):
    code = Code.ARCHIVE_REFUSED


class ModeUnsupported(TurnkeeperError):
    code = Code.SKILL_EXECUTION_MODE_UNSUPPORTED


class EngineUnsupported(TurnkeeperError):
    code = Code.SKILL_ENGINE_UNSUPPORTED


class EngineNotFound(TurnkeeperError):
    code = Code.ENGINE_NOT_FOUND


class EngineNotReady(TurnkeeperError):
    code = Code.ENGINE_NOT_READY


class ModelUnknown(TurnkeeperError):
    code = Code.ENGINE_MODEL_UNKNOWN


class ProfileUnsupported(TurnkeeperError):
    code = Code.INTERACTIVE_PROFILE_UNSUPPORTED


class PermissionsUnsupported(TurnkeeperError):
    code = Code.PERMISSION_POLICY_UNSUPPORTED


class RunNotFound(TurnkeeperError):
    code = Code.RUN_NOT_FOUND


class RunNotWaiting(TurnkeeperError):
    code = Code.RUN_NOT_WAITING


class RunEnding(TurnkeeperError):
    code = Code.RUN_ENDING


class RunNotEnded(TurnkeeperError):
    code = Code.RUN_NOT_ENDED


class UploadNotExpected(TurnkeeperError):
    code = Code.UPLOAD_NOT_EXPECTED


class InteractionStale(TurnkeeperError):
    code = Code.INTERACTION_STALE


class InteractionAnswered(TurnkeeperError):
    code = Code.INTERACTION_ANSWERED


class IdempotencyKeyReused(TurnkeeperError):
    code = Code.IDEMPOTENCY_KEY_REUSED


class QueueFull(TurnkeeperError):
    code = Code.QUEUE_FULL


class CursorInvalid(TurnkeeperError):
    code = Code.CURSOR_INVALID


class ResultNotAvailable(TurnkeeperError):
    code = Code.RESULT_NOT_AVAILABLE


class FileNotAvailable(TurnkeeperError):
    code = Code.FILE_NOT_FOUND


class StorageUnavailable(TurnkeeperError):
    code = Code.STORAGE_UNAVAILABLE


class StorageFull(StorageUnavailable):
    """For lack of room, and for nothing else: who deletes something may try again."""


class StorageLow(TurnkeeperError):
    code = Code.STORAGE_LOW


class ShuttingDown(TurnkeeperError):
    code = Code.SHUTTING_DOWN


class SettingsInvalid(TurnkeeperError):
    code = Code.SETTINGS_INVALID


class DataDirInUse(TurnkeeperError):
    code = Code.DATA_DIR_IN_USE


class SchemaTooNew(TurnkeeperError):
    code = Code.SCHEMA_TOO_NEW


class IllegalTransition(TurnkeeperError):
    """A trigger that the statechart does not allow in this state: a fault of the caller, never a write."""

    code = Code.INTERNAL_ERROR
