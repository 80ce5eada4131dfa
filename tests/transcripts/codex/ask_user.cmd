cd /workspace && HOME=/home/agent SCRIPTED_API_KEY=x codex exec --json --yolo --skip-git-repo-check -C /workspace - < prompt.txt
# prompt.txt: please [[call:request_user_input {"questions":[{"id":"colour","header":"Colour","question":"Which colour?","options":[{"label":"red","description":"r"},{"label":"blue","description":"b"}]}]}]]
# {"wall": 0.24, "requests": [["model", "responses", "call", "/v1/responses"], ["model", "responses", "call", "/v1/responses"]]}
