cd /workspace && HOME=/home/agent CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1 IS_SANDBOX=1 ANTHROPIC_API_KEY=x ANTHROPIC_BASE_URL=http://127.0.0.1:PORT claude -p --output-format stream-json --verbose --dangerously-skip-permissions --setting-sources user --disallowedTools AskUserQuestion,EnterPlanMode,ExitPlanMode,CronCreate,Monitor,ScheduleWakeup,Workflow --resume 4045b10b-0000-4b38-a825-2b684496eb4f < prompt.txt
# prompt.txt: blue [[done]]
# {"wall": 0.35, "requests": []}
