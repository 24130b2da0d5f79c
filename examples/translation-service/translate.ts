import type { PredictorItem } from "sluice";

interface Row {
  src_lang: string;
  src_text: string;
  tgt_lang: string;
}

/** The same sentence in each language: all that this model knows. */
const sentences: readonly Readonly<Record<string, string>>[] = [
  {
    ...{ ko: "안녕하세요", en: "Hello", zh: "你好", es: "Hola", fr: "Bonjour", ru: "Здравствуйте" },
    ...{ id: "Halo", ja: "こんにちは", vi: "Xin chào", de: "Hallo", it: "Ciao", hi: "नमस्ते" },
    ...{ ar: "مرحبا", pt: "Olá" },
  },
  {
    ...{ ko: "감사합니다", en: "Thank you", zh: "谢谢", es: "Gracias", fr: "Merci", ru: "Спасибо" },
    ...{ id: "Terima kasih", ja: "ありがとう", vi: "Cảm ơn", de: "Danke", it: "Grazie" },
    ...{ hi: "धन्यवाद", ar: "شكرا", pt: "Obrigado" },
  },
];

/** Rows of any languages share a batch: each names its own. */
export function predict(batch: readonly PredictorItem<Row>[]) {
  return batch.map(({ row: { src_lang, src_text, tgt_lang } }) => {
    const sentence = sentences.find((each) => each[src_lang] === src_text);
    const translated = sentence?.[tgt_lang];
    if (translated === undefined) return new Error(`it cannot translate ${src_text}`);
    return { translated, src_lang, tgt_lang, batch: batch.length };
  });
}
