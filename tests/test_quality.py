"""playground/quality.py: sacrebleu's own scores, and intervals that mean what they say."""

from __future__ import annotations

import numpy as np
import pytest
import sacrebleu

from playground.quality import (
    NUM_RESAMPLES,
    interval,
    ratio,
    resamples,
    sentence_scores,
    text_scores,
    tokenizer_for,
)

REFERENCES = [
    "Le chat est sur la table, noire.",
    "Il fait beau aujourd'hui à Paris.",
    "La porte du jardin est ouverte depuis hier soir.",
    "Au commencement, Dieu créa les cieux et la terre.",
]
TEXTS = [
    "Le chat est sur la table.",
    "Il fait très beau ce jour à Paris.",
    "La porte du jardin est fermée depuis ce soir.",
    "",
]


def test_scores_are_those_of_sacrebleu() -> None:
    """Case 90: on plain text, with sacrebleu's own tokenizer and its signature."""
    found = text_scores(TEXTS, REFERENCES, resamples(4))
    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    assert found.bleu[0] == pytest.approx(bleu.corpus_score(TEXTS, [REFERENCES]).score, abs=1e-9)
    assert found.chrf[0] == pytest.approx(chrf.corpus_score(TEXTS, [REFERENCES]).score, abs=1e-9)
    alone = [sacrebleu.sentence_bleu(t, [r]).score for t, r in zip(TEXTS, REFERENCES, strict=True)]
    assert found.sentence_bleu[0] == pytest.approx(np.mean(alone))
    assert found.signatures["bleu"] == str(bleu.get_signature())
    assert found.signatures["chrf"] == str(chrf.get_signature())


def test_a_resample_is_the_corpus_with_prompts_repeated() -> None:
    counts = np.array([[1.0, 1, 1, 1], [0, 3, 1, 0]])
    found = text_scores(TEXTS, REFERENCES, counts)
    order = [1, 1, 1, 2]
    texts, references = ([some[i] for i in order] for some in (TEXTS, REFERENCES))
    expected = sacrebleu.corpus_bleu(texts, [references]).score
    assert found.bleu[1] == pytest.approx(expected, abs=1e-9)


def test_chinese_is_cut_into_characters_punctuation_too() -> None:
    """Case 90. A text that differs in the middle still shares n-grams, which blanks alone would not
    show."""
    references, texts = ["神说:“要有光”,就有了光。"], ["神说:“要有水”,就有了光。"]
    found = text_scores(texts, references, resamples(1))
    assert "tok:zh" in found.signatures["bleu"]
    expected = sacrebleu.corpus_bleu(texts, [references], tokenize="zh").score
    assert found.bleu[0] == pytest.approx(expected) and expected > 30
    assert tokenizer_for(["光があった。"]) == "char"
    assert tokenizer_for(["Let there be 光."]) == tokenizer_for(["1 + 1"]) == "13a"


def test_resamples_begin_with_the_sample_and_repeat_with_their_seed() -> None:
    counts = resamples(5, seed=3)
    assert counts.shape == (1 + NUM_RESAMPLES, 5)
    assert (counts[0] == 1).all() and (counts.sum(axis=1) == 5).all()
    assert (counts == resamples(5, seed=3)).all() and (counts != resamples(5, seed=4)).any()


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Means of 40 normal numbers: the interval holds the true mean in about 95 of 100 samples."""
    generator = np.random.default_rng(0)
    hits = 0
    for trial in range(300):
        values = generator.normal(2.0, 1.0, 40).tolist()
        found = interval(ratio(values, [1.0] * 40, resamples(40, trial)))
        assert found is not None and found.low <= found.value <= found.high
        hits += found.low <= 2.0 <= found.high
    assert 0.89 < hits / 300 < 0.98


def test_a_pair_of_configurations_is_compared_on_the_same_prompts() -> None:
    """Prompts differ much, the two configurations little: only the paired interval sees it."""
    generator = np.random.default_rng(1)
    first = generator.uniform(1, 100, 50)
    second = first * generator.uniform(1.05, 1.15, 50)
    counts = resamples(50)
    a, b = (ratio(x.tolist(), [1.0] * 50, counts) for x in (first, second))
    assert a is not None and b is not None
    paired, alone = interval(b / a), interval(a)
    assert paired is not None and 1.05 < paired.low < paired.value < paired.high < 1.15
    assert alone is not None and alone.high / alone.low > 1.2


def test_sums_leave_out_what_does_not_exist_and_keep_the_infinite() -> None:
    counts = np.array([[1.0, 1, 1], [2, 0, 1], [0, 0, 3]])
    found = ratio([1.0, None, 3.0], [2.0, 5.0, 2.0], counts)
    assert found is not None and found.tolist() == [1.0, 5 / 6, 1.5]
    assert ratio([None], [1.0], counts[:, :1]) is None
    infinite = ratio([1.0, np.inf, 1.0], [1.0, 1.0, 1.0], counts)
    assert infinite is not None and infinite.tolist() == [np.inf, 1.0, 1.0]
    assert interval(infinite) is None
    nothing = ratio([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], counts)
    assert nothing is not None and interval(nothing) is None


def test_one_text_is_scored_as_sacrebleu_does_with_its_language_s_tokenizer() -> None:
    """Case 90: detokenised text, punctuation, Chinese, and the signature."""
    found = sentence_scores(TEXTS[0], REFERENCES[0])
    bleu = sacrebleu.BLEU(effective_order=True)
    assert found["bleu"] == bleu.sentence_score(TEXTS[0], [REFERENCES[0]]).score
    assert found["chrf"] == sacrebleu.CHRF().sentence_score(TEXTS[0], [REFERENCES[0]]).score
    assert "tok:13a" in found["bleu_signature"] and "nc:6" in found["chrf_signature"]
    chinese = sentence_scores("天空是蓝色的，因为光会散射。", "天空是蓝色的，因为阳光会散射。")
    assert "tok:zh" in chinese["bleu_signature"] and 50 < chinese["bleu"] < 100
    assert sentence_scores("", REFERENCES[0])["bleu"] == 0
