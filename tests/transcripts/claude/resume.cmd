cd /workspace && HOME=/home/agent CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1 IS_SANDBOX=1 ANTHROPIC_API_KEY=x ANTHROPIC_BASE_URL=http://127.0.0.1:PORT claude -p --output-format stream-json --verbose --dangerously-skip-permissions --setting-sources user --disallowedTools AskUserQuestion,EnterPlanMode,ExitPlanMode,CronCreate,Monitor,ScheduleWakeup,Workflow --resume 3cdeef59-8f2d-4945-bb2f-c7a643b69ea6 < prompt.txt
# prompt.txt: blue [[done]]
# {"wall": 0.41, "requests": [["model", "anthropic", "done", "/v1/messages?beta=true"]]}
