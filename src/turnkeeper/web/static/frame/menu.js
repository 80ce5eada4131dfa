// The menu in the header: language, theme, keys, sign out.
import { Button, Problem } from "../lib/parts.js";
import { Icon } from "../lib/icons.js";
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { signOut } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { setTheme, theme, THEMES } from "../lib/theme.js";
import { language, LANGUAGES, setLanguage, t } from "../lib/words.js";

function Choice({ name, legend, entries, value, onChange }) {
  return html`<fieldset class="field"><legend class="label small muted">${legend}</legend>
    <div class="segments">${entries.map(
      ([each, text]) => html`<label key=${each}><input class="visually-hidden" type="radio" name=${name} value=${each}
        checked=${each === value} onChange=${() => onChange(each)} />${text}</label>`,
    )}</div></fieldset>`;
}

/** A menu closes when the person turns to something else. */
function useClosing(element) {
  useEffect(() => {
    const close = (event) => {
      const menu = element.current;
      const leaves = event.type === "keydown" ? event.key === "Escape" : !menu?.contains(event.target);
      if (!menu?.open || !leaves) return;
      menu.open = false;
      if (event.type === "keydown") menu.querySelector("summary").focus();
    };
    for (const type of ["pointerdown", "keydown", "focusin"]) addEventListener(type, close);
    return () => ["pointerdown", "keydown", "focusin"].forEach((type) => removeEventListener(type, close));
  }, []);
}

export function Menu({ onKeys, canSignOut }) {
  const element = useRef();
  const chosen = useStore(theme);
  const [error, setError] = useState(null);
  useClosing(element);
  const close = () => (element.current.open = false);
  const leave = () => signOut().then(close, setError);
  return html`<details class="menu" ref=${element}>
    <summary aria-label=${t("menu")} title=${t("menu")}><${Icon} name="menu" /></summary>
    <div class="menu-body stack">
      <${Choice} name="language" legend=${t("menu.language")} entries=${Object.entries(LANGUAGES)}
        value=${language()} onChange=${setLanguage} />
      <${Choice} name="theme" legend=${t("menu.theme")} entries=${THEMES.map((each) => [each, t(`theme.${each}`)])}
        value=${chosen} onChange=${setTheme} />
      <${Button} onClick=${() => (close(), onKeys())}>${t("menu.keys")} <kbd>?</kbd><//>
      ${canSignOut && html`<${Button} onClick=${leave}>${t("menu.signout")}<//>`}
      <${Problem} error=${error} />
    </div>
  </details>`;
}
