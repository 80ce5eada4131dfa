cd /workspace && HOME=/home/agent SCRIPTED_API_KEY=x codex exec --json --yolo --skip-git-repo-check -C /workspace - < prompt.txt
# prompt.txt: please [[sfail:insufficient_quota You exceeded your current quota, please check your plan and billing details.]]
# {"wall": 0.26, "requests": [["model", "responses", "sfail", "/v1/responses"]]}
