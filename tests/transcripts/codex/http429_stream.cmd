cd /workspace && HOME=/home/agent SCRIPTED_API_KEY=x codex exec --json --yolo --skip-git-repo-check -C /workspace - < prompt.txt
# prompt.txt: please [[sfail:rate_limit_exceeded Rate limit reached for gpt-5.5 in organization org-x on tokens per min (TPM): Limit 30000, Used 28000, Requested 2750. Please try again in 1.5s.]]
# {"wall": 0.21, "requests": [["model", "responses", "sfail", "/v1/responses"]]}
