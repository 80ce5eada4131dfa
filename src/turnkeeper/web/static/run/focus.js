// What was pressed or written in may be gone with its question or its run: the keyboard goes on in the conversation.
export function keepFocus() {
  if (document.activeElement === document.body) document.querySelector(".talk-box")?.focus({ preventScroll: true });
}
