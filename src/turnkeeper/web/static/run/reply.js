// What can be answered to a question, and the sending of it.
import { api } from "../lib/api.js";
import { t } from "../lib/words.js";

/** Kinds that are a yes or a no, where the agent itself offered no options. What is sent is English, for the agent. */
const PLAIN = {
  confirm: [
    ["answer.yes", "yes"],
    ["answer.no", "no"],
  ],
  risk_ack: [
    ["answer.risk.yes", "Yes, I understand the risk. Go on.", "accept_risk"],
    ["answer.risk.no", "No. Do not do this."],
  ],
};

const asChoice = ({ label, value, kind }) => ({ label: String(label ?? value), value: value ?? String(label), kind });

/** `[{label, value, kind}]`; an option without a usable value is answered by its label. */
export function choicesOf(pending) {
  const offered = Array.isArray(pending?.options) ? pending.options : [];
  if (offered.length) return offered.map(asChoice);
  return (PLAIN[pending?.kind] ?? []).map(([key, value, kind]) => ({ label: t(key), value, kind }));
}

export function sendReply(runId, interactionId, response) {
  return api.post(`/v1/jobs/${runId}/interaction/reply`, { interaction_id: interactionId, response });
}

/** Refusals that mean: the question is gone, and what was typed must be kept for the person. */
export const isTooLate = (problem) =>
  ["INTERACTION_ANSWERED", "INTERACTION_STALE", "RUN_NOT_WAITING", "RUN_ENDING"].includes(problem?.code);
