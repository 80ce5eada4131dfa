cd /workspace && HOME=/home/agent SCRIPTED_API_KEY=x codex exec --json --yolo --skip-git-repo-check -C /workspace - < prompt.txt
# prompt.txt: please [[err:overloaded]]
# {"wall": 0.23, "requests": [["model", "responses", "err", "/v1/responses"]]}
