// A question in a few plain lines: without the marks of Markdown, which only get in the way of a glance.
const MARKS = [
  [/```[^\n]*\n?/g, ""],
  [/!?\[([^\]]*)\]\([^)\s]*\)/g, "$1"],
  [/^[ \t]*(?:#{1,6}|>)[ \t]+/gm, ""],
  [/(\*\*|__|~~|`)(\S(?:.*?\S)?)\1/g, "$2"],
  [/(^|\W)\*(\S(?:[^*\n]*\S)?)\*(?=\W|$)/g, "$1$2"],
  [/\n\s*\n/g, "\n"],
];
const MOST = 600;

export const gist = (text) => MARKS.reduce((plain, [mark, by]) => plain.replace(mark, by), text.slice(0, MOST)).trim();
