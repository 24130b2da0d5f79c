"""Tells the language of texts by how often each three letters follow one another.

A stand-in for a model of yours: `load` makes it once, `predict` answers a batch at a time.
"""

import math
from collections import Counter

from sluice_predictor import Unanswered, serve

SAMPLES = {
    "English": "the house on the hill is old and the people who live there know each other "
    "well. in the morning they open the windows, and when the weather is good they have their "
    "meals outside with the children and whoever comes along the road",
    "German": "das haus auf dem hügel ist alt und die leute, die dort wohnen, kennen einander gut. "
    "am morgen öffnen sie die fenster, und wenn das wetter schön ist, essen sie draußen mit den "
    "kindern und mit jedem, der auf der straße vorbeikommt",
    "French": "où est la maison la plus vieille ? elle est sur la colline, et les gens qui "
    "y habitent se connaissent bien. "
    "le matin ils ouvrent les fenêtres, et quand le temps est beau, ils mangent dehors avec les "
    "enfants et avec tous ceux qui passent sur la route",
    "Italian": "la casa sulla collina è vecchia e la gente che ci abita si conosce bene. la "
    "mattina aprono le finestre, e quando il tempo è bello mangiano fuori con i bambini e con "
    "chiunque passi per la strada",
}


def trigrams(text):
    padded = f" {text.lower().strip()} "
    return [padded[at : at + 3] for at in range(len(padded) - 2)]


def load(context):
    print(f"learning {len(SAMPLES)} languages on {context.device}")
    return {language: Counter(trigrams(sample)) for language, sample in SAMPLES.items()}


def identify(text, model):
    if not text.strip():
        return Unanswered("the text is empty")
    scores = {
        language: sum(
            math.log((counts[each] + 0.1) / sum(counts.values())) for each in trigrams(text)
        )
        for language, counts in model.items()
    }
    best = max(scores, key=scores.get)
    weights = {language: math.exp(score - scores[best]) for language, score in scores.items()}
    return {"language": best, "probability": round(1 / sum(weights.values()), 3)}


def predict(items, model):
    return [identify(item.row["text"], model) for item in items]


serve(predict, load, name="trigrams")
