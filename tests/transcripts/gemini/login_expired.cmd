cd /workspace && HOME=/home/agent GEMINI_CLI_NO_RELAUNCH=1 GEMINI_CLI_TRUST_WORKSPACE=true HTTPS_PROXY=http://127.0.0.1:PORT HTTP_PROXY=http://127.0.0.1:PORT NO_PROXY=127.0.0.1,localhost gemini --yolo -o stream-json -m gemini-2.5-flash < prompt.txt
# prompt.txt: please [[ask]]
# {"wall": 3.19, "requests": [["connect", null, null, "oauth2.googleapis.com:443"], ["connect", null, null, "oauth2.googleapis.com:443"], ["connect", null, null, "oauth2.googleapis.com:443"], ["connect", null, null, "oauth2.googleapis.com:443"]]}
