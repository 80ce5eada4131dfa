cd /workspace && HOME=/home/agent GEMINI_API_KEY=x GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:PORT GEMINI_CLI_NO_RELAUNCH=1 GEMINI_CLI_TRUST_WORKSPACE=true gemini --yolo -o stream-json -m gemini-2.5-flash < prompt.txt
# prompt.txt: please [[err:model_unknown]]
# {"wall": 1.11, "requests": [["model", "gemini", "err", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"]]}
