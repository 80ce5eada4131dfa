"""Keys as they look in the world, made up: none of them opens anything. Put together here, so that no file has one."""

from __future__ import annotations

import random
import string

from turnkeeper.core.keys import ID_LETTERS, SECRET_LETTERS

ALNUM = string.ascii_letters + string.digits
WORD = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
BASE64 = ALNUM + "+/"

SHAPES: dict[str, tuple[str, str, int]] = {
    "openai": ("sk-", ALNUM, 48),
    "openai-project": ("sk-proj-", WORD, 120),
    "anthropic": ("sk-ant-api03-", WORD, 95),
    "deepseek": ("sk-", HEX, 32),
    "openrouter": ("sk-or-v1-", HEX, 64),
    "openai-service": ("sk-svcacct-", WORD, 120),
    "github": ("ghp_", ALNUM, 36),
    "github-oauth": ("gho_", ALNUM, 36),
    "github-user": ("ghu_", ALNUM, 36),
    "github-server": ("ghs_", ALNUM, 36),
    "github-refresh": ("ghr_", ALNUM, 76),
    "github-fine": ("github_pat_", ALNUM, 82),
    "gitlab": ("glpat-", WORD, 20),
    "aws": ("AKIA", UPPER, 16),
    "aws-session": ("ASIA", UPPER, 16),
    "google": ("AIza", WORD, 35),
    "slack-bot": ("xoxb-", string.digits + "-" + ALNUM, 50),
    "slack-person": ("xoxp-", string.digits + "-" + ALNUM, 70),
    "npm": ("npm_", ALNUM, 36),
    "stripe": ("sk_live_", ALNUM, 24),
    "stripe-restricted": ("rk_live_", ALNUM, 24),
    "hugging-face": ("hf_", ALNUM, 34),
    "link": ("tkl_WyJ", WORD, 43),
}


def made(shape: str, seed: int = 0) -> str:
    pick = random.Random(f"{shape} {seed}")
    if shape == "turnkeeper":
        return f"tk_{''.join(pick.choices(ID_LETTERS, k=8))}_{''.join(pick.choices(SECRET_LETTERS, k=43))}"
    if shape == "pem":
        lines = ["".join(pick.choices(BASE64, k=64)) for _ in range(4)]
        name = pick.choice(["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY"])
        return "\n".join((f"-----BEGIN {name}-----", *lines, "".join(pick.choices(BASE64, k=30)) + "=="))
    begin, letters, size = SHAPES[shape]
    # The last is never a sign that a scanner may take for the end of a sentence.
    last = letters if letters in (UPPER, HEX) else ALNUM
    return begin + "".join(pick.choices(letters, k=size - 1)) + pick.choice(last)


EVERY = (*SHAPES, "turnkeeper", "pem")
