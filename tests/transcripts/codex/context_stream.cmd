cd /workspace && HOME=/home/agent SCRIPTED_API_KEY=x codex exec --json --yolo --skip-git-repo-check -C /workspace - < prompt.txt
# prompt.txt: please [[sfail:context_length_exceeded Your input exceeds the context window of this model. Please adjust your input and try again.]]
# {"wall": 0.24, "requests": [["model", "responses", "sfail", "/v1/responses"]]}
