cd /workspace && HOME=/home/agent ANTHROPIC_BASE_URL=http://127.0.0.1:PORT ANTHROPIC_API_KEY=x CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 IS_SANDBOX=1 CLAUDE_CODE_MAX_RETRIES=0 claude -p --output-format stream-json --verbose --dangerously-skip-permissions < prompt.txt
# prompt.txt: please [[err:bad_key]]
# {"wall": 0.41, "requests": [["model", "anthropic", "err", "/v1/messages?beta=true"]]}
