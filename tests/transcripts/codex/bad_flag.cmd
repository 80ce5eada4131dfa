cd /workspace && HOME=/home/agent SCRIPTED_API_KEY=x codex exec --json --yolo --skip-git-repo-check --no-such-flag -C /workspace - < prompt.txt
# prompt.txt: please [[ask]]
# {"wall": 0.04, "requests": []}
