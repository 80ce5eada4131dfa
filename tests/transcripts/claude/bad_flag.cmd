cd /workspace && HOME=/home/agent ANTHROPIC_BASE_URL=http://127.0.0.1:PORT ANTHROPIC_API_KEY=x CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 IS_SANDBOX=1 claude -p --output-format stream-json --verbose --dangerously-skip-permissions --no-such-flag < prompt.txt
# prompt.txt: please [[ask]]
# {"wall": 0.18, "requests": []}
