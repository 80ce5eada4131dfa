cd /workspace && HOME=/home/agent CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1 IS_SANDBOX=1 ANTHROPIC_API_KEY=x ANTHROPIC_BASE_URL=http://127.0.0.1:PORT claude -p --output-format stream-json --verbose --dangerously-skip-permissions --setting-sources user --disallowedTools AskUserQuestion,EnterPlanMode,ExitPlanMode,CronCreate,Monitor,ScheduleWakeup,Workflow < prompt.txt
# prompt.txt: please [[ask]]
# {"wall": 0.49, "requests": [["model", "anthropic", "ask", "/v1/messages?beta=true"]]}
