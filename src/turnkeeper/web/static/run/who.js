// Who or what gave an answer, in words.
import { hasWord, t } from "../lib/words.js";

export function answeredBy(mode, by) {
  if (mode !== "user_reply") return hasWord(`answered.${mode}`) ? t(`answered.${mode}`) : mode;
  if (!by) return t("answered.person");
  if (hasWord(`answered.by.${by}`)) return t(`answered.by.${by}`);
  return t("answered.by", { by: by.replace(/^(key|page|link):/, "") }); // the name of a key
}
