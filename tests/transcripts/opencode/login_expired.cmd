cd /workspace && HOME=/home/agent OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1 HTTPS_PROXY=http://127.0.0.1:PORT HTTP_PROXY=http://127.0.0.1:PORT NO_PROXY=127.0.0.1,localhost opencode run --format json --auto --title t --print-logs --log-level ERROR -m openai/gpt-5.5 < prompt.txt
# prompt.txt: please [[ask]]
# {"wall": 13.15, "requests": [["connect", null, null, "registry.npmjs.org:443"]]}
