cd /workspace && HOME=/home/agent OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1 opencode run --format json --auto --title t < prompt.txt
# prompt.txt: please [[err:bad_key]]
# {"wall": 9.2, "requests": [["model", "chat", "err", "/v1/chat/completions"]]}
