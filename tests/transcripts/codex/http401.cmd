cd /workspace && HOME=/home/agent SCRIPTED_API_KEY=x codex exec --json --yolo --skip-git-repo-check -C /workspace - < prompt.txt
# prompt.txt: please [[err:http401]]
# {"wall": 0.31, "requests": [["model", "responses", "err", "/v1/responses"]]}
