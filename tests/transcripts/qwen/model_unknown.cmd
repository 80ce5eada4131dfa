cd /workspace && HOME=/home/agent OPENAI_API_KEY=x OPENAI_BASE_URL=http://127.0.0.1:PORT/v1 OPENAI_MODEL=scripted-model QWEN_CODE_SUPPRESS_YOLO_WARNING=1 QWEN_CODE_NO_RELAUNCH=1 node /opt/clis/qwen/node_modules/@qwen-code/qwen-code/cli.js --yolo --output-format stream-json < prompt.txt
# prompt.txt: please [[err:model_unknown]]
# {"wall": 1.89, "requests": [["model", "chat", "err", "/v1/chat/completions"]]}
