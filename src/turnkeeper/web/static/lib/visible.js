// Characters that nobody sees can make words look like others, or stand in another order: shown by their numbers.
const HIDDEN = /(?![\t\n]|\r\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

const asNumber = (character) => `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** For what somebody decides about, such as a command: it is what it looks like. */
export const visible = (text) => text.replace(HIDDEN, asNumber);
