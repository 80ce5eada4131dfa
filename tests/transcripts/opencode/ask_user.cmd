cd /workspace && HOME=/home/agent OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1 opencode run --format json --auto --title t < prompt.txt
# prompt.txt: please [[call:question {"questions": [{"question": "Which colour?", "header": "Colour", "type": "choice", "options": [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}], "mul
# {"wall": 3.37, "requests": [["model", "chat", "call", "/v1/chat/completions"], ["model", "chat", "call", "/v1/chat/completions"]]}
