cd /workspace && HOME=/home/agent GEMINI_CLI_NO_RELAUNCH=1 GEMINI_CLI_TRUST_WORKSPACE=true gemini --yolo -o stream-json -m gemini-2.5-flash < prompt.txt
# prompt.txt: please [[ask]]
# {"wall": 0.89, "requests": []}
