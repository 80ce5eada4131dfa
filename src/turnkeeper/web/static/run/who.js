// Who or what gave an answer, in words.
import { hasWord, t } from "../lib/words.js";

export function answeredBy(mode, by) {
  if (mode !== "user_reply") return hasWord(`answered.${mode}`) ? t(`answered.${mode}`) : mode;
  if (!by) return t("answered.person");
  if (by.startsWith("link:")) return t("answered.by.link.name", { name: by.slice("link:".length) });
  return hasWord(`answered.by.${by}`) ? t(`answered.by.${by}`) : t("answered.by", { by });
}
