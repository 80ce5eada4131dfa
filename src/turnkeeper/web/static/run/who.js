// Who or what gave an answer, in words.
import { hasWord, t } from "../lib/words.js";

export function answeredBy(mode, by) {
  if (mode !== "user_reply") return hasWord(`answered.${mode}`) ? t(`answered.${mode}`) : mode;
  if (!by) return t("answered.person");
  if (by.startsWith("link:")) return t("answered.by.link.name", { name: by.slice("link:".length) });
  if (hasWord(`answered.by.${by}`)) return t(`answered.by.${by}`);
  return t("answered.by", { by: by.replace(/^(key|page):/, "") }); // the name of a key
}
