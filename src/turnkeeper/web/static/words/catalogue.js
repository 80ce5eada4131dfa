// Adds the words of the new-run form, the skills and the engines; imported by the pages that speak them.

import { addWords } from "../lib/words.js";
import en from "./catalogue.en.js";
import zh from "./catalogue.zh.js";

addWords({ en, zh });
