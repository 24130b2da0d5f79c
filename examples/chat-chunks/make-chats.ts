// Writes 1,000 conversations in the shape of LMSYS-Chat-1M to stdout, a JSON object a line. All
// texts are made up here. chats.parquet is what `sluice shard --format parquet` makes of them.

// 13 things, 11 places and 7 questions: no two of 1,001 conversations begin alike.
const things = [
  ...["a bread oven", "a rain barrel", "a paper kite", "a night train", "a bicycle bell"],
  ...["a window box", "a wool blanket", "a street piano", "a hand drill", "a sundial"],
  ...["a fountain pen", "a rowing boat", "a chess clock"],
];
const places = [
  ...["in a small flat", "by the sea", "in the mountains", "at a school", "on a boat"],
  ...["in winter", "in a noisy street", "for a month", "in the desert", "at a market"],
  "among friends",
];
const questions = [
  (thing: string, place: string) => `How do I keep ${thing} ${place}?`,
  (thing: string, place: string) =>
    `Tell me something about ${thing} ${place}, in three sentences.`,
  (thing: string, place: string) => `Is ${thing} worth its money ${place}, and what would you buy?`,
  (thing: string, place: string) => `Write a poem on ${thing} ${place}. It need not rhyme.`,
  (thing: string, place: string) => `What breaks first when one uses ${thing} ${place}?`,
  (thing: string, place: string) => `Who invented ${thing}, and would they have used it ${place}?`,
  (thing: string, place: string) => `Make a plan for a day with ${thing} ${place}. Be brief.`,
];

const pick = <T>(values: readonly T[], number: number): T => values[number % values.length]!;

function conversationOf(number: number) {
  const thing = pick(things, number);
  const question = pick(questions, number)(thing, pick(places, number));
  // One question in a hundred has a whole story before it.
  const story =
    number % 100 === 7 ? `We have had ${thing} for years, and like it. `.repeat(60) : "";
  const turns = [
    { role: "user", content: story + question },
    { role: "assistant", content: `Much can be said of ${thing}.` },
  ];
  if (number % 3 > 0) return turns;
  const again = { role: "user", content: "Could you say that in other words?" };
  return [...turns, again, { role: "assistant", content: `Of ${thing}, much can be said.` }];
}

for (let number = 0; number < 1000; number++) {
  const conversation = conversationOf(number);
  const chat = {
    conversation_id: `chat-${String(number).padStart(4, "0")}`,
    model: pick(["heron-7b", "marten-13b"], number),
    conversation,
    turn: conversation.length / 2,
    language: "English",
    redacted: false,
  };
  console.log(JSON.stringify(chat));
}
