cd /workspace && HOME=/home/agent SCRIPTED_API_KEY=x codex exec --json --yolo --skip-git-repo-check -C /workspace - < prompt.txt
# prompt.txt: please [[drop]]
# {"wall": 0.23, "requests": [["model", "responses", "drop", "/v1/responses"]]}
