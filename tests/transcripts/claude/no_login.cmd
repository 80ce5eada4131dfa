cd /workspace && HOME=/home/agent CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 IS_SANDBOX=1 ANTHROPIC_BASE_URL=http://127.0.0.1:PORT claude -p --output-format stream-json --verbose --dangerously-skip-permissions < prompt.txt
# prompt.txt: please [[ask]]
# {"wall": 0.43, "requests": []}
