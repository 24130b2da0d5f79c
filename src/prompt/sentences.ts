import { matchesOf, spacedOnce } from "./long-text.ts";

const wordSet = (words: string) => new Set(words.split(" "));

/** Abbreviations that never end a sentence. */
const leading = wordSet(
  "approx apprx appx e.g i.e eg ie vs ca cf fig dr mr mrs ms prof st mt esp incl",
);

/** Times, temperatures and the like. They often end a sentence: then a capital letter follows. */
const closing = wordSet("min mins hr hrs sec secs deg degs temp °f °c ºf ºc a.m p.m etc");

/**
 * Measures, packages and shortened words. The thing that they measure follows, perhaps with a
 * capital letter (`8 oz. Parmesan`). They end a sentence only before a word that begins an
 * instruction.
 */
const measuring = wordSet(
  "tsp tsps tbs tbsp tbsps tblsp tbl tb oz ozs lb lbs pkg pkgs pt pts qt qts gal c t fl g kg " +
    "ml l doz ea env ctn bch sm sml med lg lrg sq cont cond evap conf choc veg opt pwd hvy dbl " +
    "cinn van",
);

/** Words that begin an instruction or another full sentence. */
const beginning = wordSet(
  "add allow arrange bake baste beat blend boil bring broil brown brush chill chop coat " +
    "combine continue cook cool cover crush cut dip discard divide drain dredge drizzle drop " +
    "fill flip flour fold form freeze fry garnish grease grill heat keep knead layer leave let " +
    "lift line lower make marinate mash measure melt microwave mix pat peel pierce place poach " +
    "pour preheat press process pulse push put reduce refrigerate remove repeat reserve rest " +
    "return rinse roast roll rub saute sauté scatter scoop scrape sear season serve set shake " +
    "shape sift simmer skim slice soak spoon spray spread sprinkle squeeze steam stir store " +
    "strain stuff sweeten take taste test thin top toss transfer trim turn uncover use wait " +
    "warm wash whip whisk wipe work wrap yield yields the this these that those then there if " +
    "when while after before once as at in on with for to it you your do don't be meanwhile " +
    "next now using carefully gently note",
);

/**
 * Splits text into trimmed sentences without empty ones; each run of white space becomes one space.
 * It is made for instructions: abbreviations, temperatures, decimals and numbered steps do not end
 * a sentence, and text in brackets stays whole.
 *
 * @example
 * [...splitSentences("Heat to 350 degrees F. Add 1 tsp. salt.")]; // two sentences
 */
export function* splitSentences(text: string): Generator<string> {
  for (const paragraph of paragraphsOf(text)) yield* splitParagraph(paragraph);
}

/** A line break ends a sentence unless the next line begins in lower case. */
function* paragraphsOf(text: string): Generator<string> {
  const joined = text.replace(/([^.!?:\s])[^\S\n]*\r?\n[^\S\n]*(?=\p{Ll}(?![.)]))/gu, "$1 ");
  for (const line of matchesOf(joined, /[^\r\n\u2028\u2029]+/g)) {
    const paragraph = spacedOnce(line).trim();
    if (paragraph !== "") yield paragraph.replace(/^[•●▪◦‣*–-] /u, "");
  }
}

function* splitParagraph(paragraph: string): Generator<string> {
  const text = withMissingSpaces(paragraph);
  let start = 0;
  const depth = new BracketDepth(text);
  for (const match of text.matchAll(/(?<![.!?…])([.!?…]+)(["'”’»)\]]*) /gu)) {
    const end = match.index + match[0].length;
    const rest = text.slice(end, end + maxBracketLength);
    if (depth.at(end) > 0 && closes(rest, depth.at(end))) continue;
    if (!isEnd(text.slice(start, match.index), match[1]!, rest)) continue;
    const sentence = text.slice(start, end).trim();
    if (hasWords(sentence)) yield sentence;
    start = end;
    depth.restart();
  }
  const last = text.slice(start).trim();
  if (hasWords(last)) yield last;
}

function hasWords(sentence: string): boolean {
  return /[\p{L}\p{N}]/u.test(sentence);
}

/** Adds the space missing in `in the oven.Remove`, but not in addresses as `www.example.com`. */
function withMissingSpaces(text: string): string {
  if (/:\/\/|www\.|@/.test(text)) return text;
  return text.replace(/(\p{Ll}{3}[.!?])(?=\p{Lu}\p{Ll})/gu, "$1 ");
}

/** How far to look ahead for a closing bracket and for the words after a sentence. */
const maxBracketLength = 400;

/** Counts the open round brackets of a sentence, from its start. */
class BracketDepth {
  readonly #text: string;
  #depth = 0;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** @param end at least that of the previous call. */
  at(end: number): number {
    for (; this.#at < end; this.#at++) {
      if (this.#text[this.#at] === "(") this.#depth++;
      else if (this.#text[this.#at] === ")" && this.#depth > 0) this.#depth--;
    }
    return this.#depth;
  }

  /** A new sentence begins at the last `end`. */
  restart(): void {
    this.#depth = 0;
  }
}

/** True if `rest` closes this many open brackets. */
function closes(rest: string, open: number): boolean {
  let depth = open;
  for (let at = rest.includes(")") ? 0 : rest.length; at < rest.length; at++) {
    if (rest[at] === "(") depth++;
    else if (rest[at] === ")" && --depth === 0) return true;
  }
  return false;
}

/** Whether `before` + `marks` is a whole sentence if `rest` follows. */
function isEnd(before: string, marks: string, rest: string): boolean {
  const next = rest.replace(/^["'“‘«([]+/u, "");
  const goesOnLower = /^\p{Ll}/u.test(next);
  if (/[!?]/.test(marks)) return !goesOnLower;
  if (marks !== ".") return /^\p{Lu}/u.test(next);
  return !isListMarker(before) && endsAtPeriod(before.slice(-maxWordLength), next, goesOnLower);
}

const maxMarkerLength = 64;

/** Whether it is a list marker, as in `1. Heat`, `a. Heat`, `Step 3. Heat`. */
function isListMarker(before: string): boolean {
  if (before.length > maxMarkerLength) return false;
  return /^\W*(?:(?:step|note) )?(?:\d{1,2}|[a-hA-H])$/iu.test(before.trim());
}

/** Of a longer last word, only the end is looked at. */
const maxWordLength = 100;

function endsAtPeriod(before: string, next: string, goesOnLower: boolean): boolean {
  const word = /[^\s("'“‘[]*$/u.exec(before)![0];
  const key = word.toLowerCase();
  if (leading.has(key)) return false;
  if (/^nos?$/.test(key) && /^\d/.test(next)) return false;
  if (closing.has(key) || isTemperature(before, word)) return !goesOnLower;
  if (measuring.has(key.replace(/^[\d./-]*\d-?/, ""))) {
    return /^\p{Lu}/u.test(next) && beginning.has(/^[\p{L}'’]*/u.exec(next)![0].toLowerCase());
  }
  if (/^\p{L}$/u.test(word)) return word === "I" && !goesOnLower;
  if (/^(?:\p{L}\.)+\p{L}$/u.test(word)) return beginning.has(/^\S*/.exec(next)![0].toLowerCase());
  // Careless text continues in lower case after a full stop; an unknown abbreviation is short.
  return !goesOnLower || /(?:\p{L}{3}|\d|[)\]])$/u.test(word);
}

/** Whether it ends in a temperature: `350 F`, `350°F`, `350 degrees C`, `350F`. */
function isTemperature(before: string, word: string): boolean {
  if (/^[\d–-]*\d[°º˚]?[FC]$/iu.test(word)) return true;
  return /^[FC]$/u.test(word) && /(?:\d|[°º˚]|degrees?|deg\.?) ?[FC]$/iu.test(before);
}
