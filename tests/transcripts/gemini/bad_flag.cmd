cd /workspace && HOME=/home/agent GEMINI_API_KEY=x GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:PORT GEMINI_CLI_NO_RELAUNCH=1 GEMINI_CLI_TRUST_WORKSPACE=true gemini --yolo -o stream-json -m gemini-2.5-flash --no-such-flag < prompt.txt
# prompt.txt: please [[ask]]
# {"wall": 0.89, "requests": []}
