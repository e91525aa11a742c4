"""Generate smoke.txt: short stories from a small grammar that a tiny model can learn.

python recipes/smoke_text.py > recipes/smoke.txt
"""

import random
import sys

NAMES = {"Ada": "she", "Ben": "he", "Cleo": "she", "Dan": "he", "Eva": "she", "Finn": "he"}
ANIMALS = ["cat", "dog", "hen", "goat", "duck", "fox", "wolf", "pony"]
COLOURS = ["red", "blue", "green", "white", "black", "grey", "golden"]
THINGS = ["ball", "kite", "boat", "lamp", "drum", "book", "hat", "bell"]
PLACES = ["the garden", "the barn", "the river", "the hill", "the market", "the kitchen"]
TIMES = ["One morning", "One evening", "On a rainy day", "Last winter", "After lunch"]
MOODS = {"happy": "smiled", "sad": "cried", "tired": "yawned", "proud": "laughed"}


def story(rng: random.Random) -> str:
    """Return a story of four to seven sentences that is consistent with itself."""
    name, other = rng.sample(list(NAMES), 2)
    pronoun = NAMES[name]
    animal, colour, thing = rng.choice(ANIMALS), rng.choice(COLOURS), rng.choice(THINGS)
    place, far = rng.sample(PLACES, 2)
    mood, deed = rng.choice(list(MOODS.items()))
    lines = [f"{rng.choice(TIMES)}, {name} went to {place} with a {colour} {thing}."]
    lines += [f"A {animal} was there, and it wanted the {thing}."]
    if rng.random() < 0.5:
        lines += [f'"Is this {thing} yours?" asked the {animal}.']
        lines += [f'"Yes," said {name}, "but {other} gave it to me."']
    else:
        lines += [f"The {animal} took the {colour} {thing} and ran to {far}."]
        lines += [f"{name} ran after the {animal}, and {other} ran too."]
    if rng.random() < 0.6:
        lines += [f"On the way they met a {rng.choice(ANIMALS)}, who had a {thing} too."]
    lines += [f"{name} was {mood}, so {pronoun} {deed}."]
    lines += [f"Then {name}, {other} and the {animal} played with the {thing} until dark."]
    return " ".join(lines)


if __name__ == "__main__":
    rng = random.Random(7)
    sys.stdout.write("\n\n".join(story(rng) for _ in range(1000)) + "\n")
