"""The public Python interface, as design.md words it, on tiny transformers models in memory."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import plotly.graph_objects as go
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import playground as pg
from playground.mentored import Optimum, solve
from playground.session import on_one_core
from playground.types import Beam, DecodeResult, Metrics, ResultEvent, Round, Token

EOS = 63
PROMPT = [5, 9, 2, 7, 5, 9]
LETTERS = "ĠabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"  # 63; Ġ is a blank
METHODS = ["greedy", "sample", "beam", "diverse_beam", "exact", "speculative", "mentored"]
DEFAULT_LABELS = ["sample", "greedy", "beam", "speculative", "mentored"]


def llama(seed: int, num_layers: int = 2) -> LlamaForCausalLM:
    """A random float32 Llama of 64 tokens, with weights large enough for peaked laws."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=num_layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=128,
        bos_token_id=None,
        eos_token_id=EOS,
        pad_token_id=None,
        initializer_range=0.4,
    )
    return LlamaForCausalLM(config).eval()


@cache
def target_and_draft() -> tuple[LlamaForCausalLM, LlamaForCausalLM]:
    """A target, and a draft that is the target with noise on its weights."""
    target, draft = llama(0), llama(0)
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in draft.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    return target, draft


def byte_level_tokenizer(alphabet: str = LETTERS) -> PreTrainedTokenizerFast:
    """A byte-level BPE without merges: one token a byte, and the end token as id 63."""
    vocab = {char: i for i, char in enumerate(alphabet)}
    core = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>")


def many_bytes() -> str:
    """63 characters that stand for the bytes of letters of one to four bytes."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces = byte_level.pre_tokenize_str("é汉字नम🙂")
    wanted = dict.fromkeys("".join(piece for piece, _ in pieces) + LETTERS)
    return "".join(wanted)[:63]


@pytest.fixture(scope="module")
def pair() -> pg.ModelPair:
    target, draft = target_and_draft()
    return pg.ModelPair(target=target, draft=draft)


@pytest.fixture(scope="module")
def text_pair() -> pg.ModelPair:
    target, draft = target_and_draft()
    return pg.ModelPair(target=target, draft=draft, tokenizer=byte_level_tokenizer())


@pytest.fixture
def passes() -> Iterator[tuple[pg.ModelPair, list[str]]]:
    """A pair on the models' own forward, and the list of their forward passes."""
    target, draft = target_and_draft()
    pair = pg.ModelPair(target, draft, byte_level_tokenizer(), lean=False)
    seen: list[str] = []
    hooks = [
        model.register_forward_hook(lambda *_, role=role: seen.append(role))
        for role, model in (("target", target), ("draft", draft))
    ]
    yield pair, seen
    for hook in hooks:
        hook.remove()


def names(cls: type) -> set[str]:
    return {f.name for f in dataclasses.fields(cls)}


def strict(record: Any) -> Any:
    """The record after a trip through strict JSON."""
    return json.loads(json.dumps(record, allow_nan=False))


# --- names and records ----------------------------------------------------------------------------


def test_public_names() -> None:
    assert {"chat"} <= set(pg.PAIRS) and pg.PAIRS["chat"].embedded
    assert set(METHODS) == set(pg.METHODS)
    rules = "exact block mentored lenience ensemble typical top_k relaxed cactus cascade"
    assert set(rules.split()) <= set(pg.VERIFIERS)
    assert {"draft_model", "prompt_lookup"} <= set(pg.PROPOSERS)
    for table in (pg.METHODS, pg.VERIFIERS, pg.PROPOSERS):
        for name, cls in table.items():
            assert cls.name == name and dataclasses.is_dataclass(cls.Params), name


def test_parameters_have_the_names_of_the_design() -> None:
    limits = "max_new_tokens min_new_tokens repetition_penalty no_repeat_ngram_size"
    limits += " eos_token_id stop seed"
    law = "temperature top_k top_p"
    search = "num_beams num_return_sequences length_penalty early_stopping length_norm"
    for name, cls in pg.METHODS.items():
        assert set(limits.split()) <= names(cls.Params), name
    for name in ("sample", "speculative", "mentored"):
        assert set(law.split()) <= names(pg.METHODS[name].Params), name
    assert set(search.split()) <= names(pg.METHODS["beam"].Params)
    groups = {"num_beam_groups", "diversity_penalty"}
    assert groups <= names(pg.METHODS["diverse_beam"].Params)
    drafted = {"num_draft_tokens", "proposer"}
    assert drafted | {"verifier"} <= names(pg.METHODS["speculative"].Params)
    assert drafted <= names(pg.METHODS["mentored"].Params)
    budget = {"divergence_budget", "divergence", "keep_support"}
    assert budget <= names(pg.VERIFIERS["mentored"].Params)


def test_record_fields() -> None:
    result = "method params prompt_ids token_ids text finish_reason tokens rounds beams metrics"
    token = "token_id text source target_prob draft_prob accept_prob exact_accept_prob divergence"
    token += " alternatives"
    rounds = "draft_ids num_tested num_accepted draft_s target_s"
    beam = "token_ids text score sum_logprob length finished"
    metrics = "num_new_tokens total_s ttft_s tokens_per_s num_target_passes num_draft_passes"
    metrics += " num_drafted num_tested num_accepted acceptance_rate tested_acceptance_rate"
    metrics += " accepted_per_position tokens_per_target_pass draft_s target_s other_s kv_bytes"
    metrics += " kv_bytes_naive target_logprob mean_divergence max_divergence"
    metrics += " mean_reverse_divergence fidelity"
    optimum = "alpha beta acceptance divergence_spent accept_probs residual_probs output_probs"
    assert set(result.split()) <= names(DecodeResult)
    assert set(token.split()) <= names(Token)
    assert set(rounds.split()) <= names(Round)
    assert set(beam.split()) <= names(Beam)
    assert set(metrics.split()) <= names(Metrics)
    assert set(optimum.split()) <= names(Optimum)


def test_solve() -> None:
    found = solve([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], 0.05, divergence="kl", keep_support=True)
    assert found.divergence_spent <= 0.05 < found.divergence_spent + 1e-6
    assert found.output_probs.sum().item() == pytest.approx(1.0)
    assert strict(found.to_dict())["acceptance"] == found.acceptance
    assert solve([0.5, 0.5], [0.5, 0.5], 0.0).acceptance == 1.0


# --- decode and stream ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_decode_without_a_tokenizer(pair: pg.ModelPair, method: str) -> None:
    result = pg.decode(pair, PROMPT, method=method, max_new_tokens=8, seed=3)
    assert result.method == method and list(result.prompt_ids) == PROMPT
    assert [t.token_id for t in result.tokens] == list(result.token_ids)
    assert 1 <= result.metrics.num_new_tokens == len(result.token_ids) <= 8
    assert result.text is None and {t.text for t in result.tokens} == {None}
    assert {b.text for b in result.beams} <= {None}
    assert result.finish_reason in ("eos", "length")
    assert result.metrics.total_s > 0 and result.metrics.tokens_per_s is not None
    assert strict(result.to_dict()) == result.to_dict()


@pytest.mark.parametrize("method", METHODS)
def test_decode_with_a_tokenizer(text_pair: pg.ModelPair, method: str) -> None:
    result = pg.decode(text_pair, "abc abc", method=method, max_new_tokens=8, seed=3)
    assert list(result.prompt_ids) == text_pair.tokenizer.encode("abc abc")
    assert result.text == text_pair.tokenizer.decode(result.token_ids, skip_special_tokens=True)
    assert "".join(t.text or "" for t in result.tokens) == result.text
    assert strict(result.to_dict()) == result.to_dict()


@pytest.mark.parametrize("method", ["sample", "beam", "mentored"])
def test_pieces_join_to_text_of_split_characters(method: str) -> None:
    target, draft = target_and_draft()
    tokenizer = byte_level_tokenizer(many_bytes())
    pair = pg.ModelPair(target, draft, tokenizer)
    for seed in range(5):
        *events, last = pg.stream(
            pair, PROMPT, method=method, max_new_tokens=24, eos_token_id=[], seed=seed
        )
        assert last.result is not None
        text = tokenizer.decode(last.result.token_ids, skip_special_tokens=True)
        assert "".join(t.text or "" for t in last.result.tokens) == last.result.text == text
        for event in events:
            if event.kind == "tokens":  # what is shown while it runs stays
                assert event.text is not None and text.startswith(event.text)


def test_decode_is_speculative_unless_told_otherwise(pair: pg.ModelPair) -> None:
    result = pg.decode(pair, PROMPT, max_new_tokens=4)
    assert result.method == "speculative" and result.params["verifier"] == "exact"
    assert result.params["max_new_tokens"] == 4 and result.params["temperature"] == 1.0


@pytest.mark.parametrize("method", METHODS)
def test_only_the_last_event_carries_the_result(text_pair: pg.ModelPair, method: str) -> None:
    *events, last = pg.stream(text_pair, "abc", method=method, max_new_tokens=6, seed=0)
    assert isinstance(last, ResultEvent) and isinstance(last.result, DecodeResult)
    assert events and all(event.result is None for event in events)
    streamed = [t.token_id for e in events if e.kind == "tokens" for t in e.tokens]
    if streamed:
        assert streamed == list(last.result.token_ids)
    else:  # a search: every step's candidates, kept and pruned
        steps = [event.candidates for event in events if event.kind == "beam"]
        assert all(steps) and {c.kept for step in steps for c in step} >= {True}


def test_rounds_beams_and_sources(pair: pg.ModelPair) -> None:
    result = pg.decode(pair, PROMPT, "speculative", max_new_tokens=24, eos_token_id=[], seed=1)
    assert result.tokens[0].source == "prefill"
    assert {t.source for t in result.tokens[1:]} <= {"accepted", "residual", "bonus", "sampled"}
    accepted = sum(t.source == "accepted" for t in result.tokens)
    assert accepted == sum(r.num_accepted for r in result.rounds) == result.metrics.num_accepted
    beams = pg.decode(pair, PROMPT, "beam", num_beams=3, num_return_sequences=3, max_new_tokens=5)
    assert len(beams.beams) == 3 and list(beams.beams[0].token_ids) == list(beams.token_ids)
    assert {t.source for t in beams.tokens} == {"beam"}
    scores = [b.score for b in beams.beams]
    assert scores == sorted(scores, reverse=True)


def test_a_target_alone(pair: pg.ModelPair) -> None:
    alone = pg.ModelPair(target=target_and_draft()[0], draft=None)
    options: dict[str, Any] = {"max_new_tokens": 8, "seed": 2}
    for method in ("greedy", "sample", "beam"):
        same = pg.decode(pair, PROMPT, method, **options).token_ids
        assert pg.decode(alone, PROMPT, method, **options).token_ids == same
    with pytest.raises(ValueError, match=r"proposer.*draft_model.*prompt_lookup"):
        pg.decode(alone, PROMPT, "speculative")
    assert pg.decode(alone, PROMPT, "mentored", proposer="prompt_lookup", max_new_tokens=4).rounds
    assert list(pg.compare(alone, PROMPT, max_new_tokens=4).results) == DEFAULT_LABELS


def test_chat_template_unless_raw() -> None:
    target, draft = target_and_draft()
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}Q {{ m['content'] }} A{% endfor %}"
    pair = pg.ModelPair(target, draft, tokenizer)
    chat = pg.decode(pair, "ab", "greedy", max_new_tokens=2)
    raw = pg.decode(pair, "ab", "greedy", max_new_tokens=2, raw=True)
    assert tokenizer.decode(chat.prompt_ids) == "Q ab A"
    assert tokenizer.decode(raw.prompt_ids) == "ab"
    ids = pg.decode(pair, PROMPT, "greedy", max_new_tokens=2)
    assert list(ids.prompt_ids) == PROMPT


# --- how a run ends -------------------------------------------------------------------------------


def test_finish_by_length_and_eos(pair: pg.ModelPair) -> None:
    full = pg.decode(pair, PROMPT, "greedy", max_new_tokens=12, eos_token_id=[])
    assert full.finish_reason == "length" and len(full.token_ids) == 12
    end = full.token_ids[4]
    where = list(full.token_ids).index(end) + 1
    for eos in (end, [end], [end, end]):
        found = pg.decode(pair, PROMPT, "greedy", max_new_tokens=12, eos_token_id=eos)
        assert found.finish_reason == "eos"
        assert found.token_ids == full.token_ids[:where]  # the end token is included


def test_the_models_own_end_token_and_none() -> None:
    target, draft = llama(0), target_and_draft()[1]
    with torch.no_grad():  # every hidden state prefers the end token
        target.lm_head.weight[EOS] = 50 * target.lm_head.weight[EOS].sign()
        target.model.norm.weight.copy_(target.lm_head.weight[EOS].sign())
        target.model.embed_tokens.weight.abs_()
    pair = pg.ModelPair(target, draft, byte_level_tokenizer())
    ended = pg.decode(pair, PROMPT, "sample", max_new_tokens=50, seed=0)
    endless = pg.decode(pair, PROMPT, "sample", max_new_tokens=5, eos_token_id=[], seed=0)
    assert ended.finish_reason == "eos" and ended.token_ids[-1] == EOS
    assert ended.tokens[-1].text == "" and ended.tokens[-1].special == "</s>"
    assert endless.finish_reason == "length" and len(endless.token_ids) == 5


@pytest.mark.parametrize("method", ["greedy", "sample", "speculative", "mentored"])
def test_finish_by_stop_string(text_pair: pg.ModelPair, method: str) -> None:
    options: dict[str, Any] = {"max_new_tokens": 16, "eos_token_id": [], "seed": 5}
    full = pg.decode(text_pair, "abc", method, **options).text
    assert full is not None
    stop = full[6:9]
    for value in (stop, [stop, "never said"]):
        found = pg.decode(text_pair, "abc", method, stop=value, **options)
        assert found.finish_reason == "stop" and found.text == full[: full.index(stop)]
        assert "".join(t.text or "" for t in found.tokens) == found.text


@pytest.mark.parametrize("method", METHODS)
def test_cancelled_and_deadline(pair: pg.ModelPair, method: str) -> None:
    assert pg.decode(pair, PROMPT, method, cancelled=lambda: True).finish_reason == "cancelled"
    assert pg.decode(pair, PROMPT, method, deadline_s=0.0).finish_reason == "deadline"
    calls: list[None] = []

    def third_time() -> bool:
        calls.append(None)
        return len(calls) > 2

    found = pg.decode(
        pair, PROMPT, method, cancelled=third_time, max_new_tokens=60, eos_token_id=[]
    )
    assert found.finish_reason == "cancelled" and len(calls) == 3
    assert 1 <= len(found.token_ids) <= 11
    assert strict(found.to_dict()) == found.to_dict()


# --- seeds and threads ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["sample", "speculative", "mentored"])
def test_same_seed_same_ids(pair: pg.ModelPair, method: str) -> None:
    options: dict[str, Any] = {"max_new_tokens": 16, "eos_token_id": []}
    torch.manual_seed(0)
    once = pg.decode(pair, PROMPT, method, seed=11, **options)
    torch.manual_seed(1)  # the global seed has no say
    again = pg.decode(pair, PROMPT, method, seed=11, **options)
    other = pg.decode(pair, PROMPT, method, seed=12, **options)
    assert once.token_ids == again.token_ids != other.token_ids


def test_unseeded_runs_differ_and_record_their_seed(pair: pg.ModelPair) -> None:
    options: dict[str, Any] = {"max_new_tokens": 16, "eos_token_id": [], "temperature": 5.0}
    torch.manual_seed(0)
    first = pg.decode(pair, PROMPT, "sample", **options)
    torch.manual_seed(0)
    second = pg.decode(pair, PROMPT, "sample", **options)
    assert first.params["seed"] != second.params["seed"]
    assert first.token_ids != second.token_ids
    again = pg.decode(pair, PROMPT, "sample", seed=first.params["seed"], **options)
    assert again.token_ids == first.token_ids


def test_threads_do_not_disturb_each_other(pair: pg.ModelPair) -> None:
    jobs = [(m, seed) for m in ("sample", "speculative", "mentored", "beam") for seed in (0, 1)]

    def ids(job: tuple[str, int]) -> list[int]:
        method, seed = job
        run = pg.decode(pair, PROMPT, method, seed=seed, max_new_tokens=24, eos_token_id=[])
        return list(run.token_ids)

    alone = {job: ids(job) for job in jobs}
    together: dict[tuple[str, int], list[int]] = {}
    threads = [threading.Thread(target=lambda j=j: together.update({j: ids(j)})) for j in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


# --- bad input ------------------------------------------------------------------------------------

NAN = float("nan")
BAD = [
    ("greedy", {"max_new_tokens": 0}, "max_new_tokens", "0", "from 1"),
    ("greedy", {"max_new_tokens": 2.5}, "max_new_tokens", "2.5", "whole number"),
    ("greedy", {"max_new_tokens": True}, "max_new_tokens", "True", "whole number"),
    ("greedy", {"max_new_tokens": 500}, "max_new_tokens", "500", "at most 122"),
    ("greedy", {"min_new_tokens": 9, "max_new_tokens": 8}, "min_new_tokens", "9", "at most"),
    ("greedy", {"temperature": 0.5}, "temperature", "0.5", "no such parameter"),
    ("sample", {"temperature": NAN}, "temperature", "nan", "from 0.0 to 10.0"),
    ("sample", {"temperature": -0.1}, "temperature", "-0.1", "from 0.0 to 10.0"),
    ("sample", {"temperature": "hot"}, "temperature", "hot", "from 0.0 to 10.0"),
    ("sample", {"top_p": 1.5}, "top_p", "1.5", "from 0.0 to 1.0"),
    ("sample", {"top_k": -1}, "top_k", "-1", "from 0"),
    ("sample", {"seed": -1}, "seed", "-1", "from 0"),
    ("sample", {"tempratur": 1.0}, "tempratur", "1.0", "Did you mean temperature"),
    ("sample", {"eos_token_id": 64}, "eos_token_id", "64", "from 0 to 63"),
    ("sample", {"eos_token_id": {5}}, "eos_token_id", "{5}", "from 0 to 63"),
    ("sample", {"eos_token_id": [1, "x"]}, "eos_token_id", "x", "from 0 to 63"),
    ("sample", {"stop": ""}, "stop", "''", "1 to 200 characters"),
    ("beam", {"num_beams": 0}, "num_beams", "0", "from 1 to 64"),
    ("beam", {"num_beams": 1000}, "num_beams", "1000", "from 1 to 64"),
    ("beam", {"num_return_sequences": 5}, "num_return_sequences", "5", "num_beams"),
    ("beam", {"early_stopping": "maybe"}, "early_stopping", "maybe", "never"),
    ("beam", {"early_stopping": 1}, "early_stopping", "1", "never"),
    ("beam", {"length_norm": "x"}, "length_norm", "x", "gnmt"),
    ("diverse_beam", {"num_beam_groups": 3}, "num_beam_groups", "3", "divisor"),
    ("diverse_beam", {"diversity_penalty": 0}, "diversity_penalty", "0", "above 0"),
    ("speculative", {"verifier": "magic"}, "verifier", "magic", "exact"),
    ("speculative", {"proposer": "magic"}, "proposer", "magic", "draft_model"),
    ("speculative", {"num_draft_tokens": 33}, "num_draft_tokens", "33", "from 1 to 32"),
    ("speculative", {"divergence_budget": 0.1}, "divergence_budget", "0.1", "no such parameter"),
    ("mentored", {"verifier": "exact"}, "verifier", "exact", "no such parameter"),
    ("mentored", {"divergence_budget": NAN}, "divergence_budget", "nan", "from 0.0"),
    ("mentored", {"divergence": "l2"}, "divergence", "l2", "hellinger"),
    ("mentored", {"keep_support": "yes"}, "keep_support", "yes", "true or false"),
    ("magic", {}, "method", "magic", "speculative"),
    ("greedy", {"deadline_s": NAN}, "deadline_s", "nan", "at least 0"),
    ("greedy", {"deadline_s": -1}, "deadline_s", "-1", "at least 0"),
]


@pytest.mark.parametrize(("method", "params", "name", "value", "allowed"), BAD)
def test_bad_parameters_are_named_before_any_forward_pass(
    passes: tuple[pg.ModelPair, list[str]],
    method: str,
    params: dict[str, Any],
    name: str,
    value: str,
    allowed: str,
) -> None:
    pair, seen = passes
    own = {key: v for key, v in params.items() if key != "deadline_s"}
    runs = {"good": {"method": "greedy"}, "bad": {"method": method, **own}}
    deadline = {key: v for key, v in params.items() if key == "deadline_s"}
    for run in (
        lambda: pg.decode(pair, PROMPT, method, **params),
        lambda: pg.stream(pair, PROMPT, method, **params),  # raises at once, not at the first event
        lambda: pg.compare(pair, PROMPT, runs, **deadline),
    ):
        with pytest.raises(ValueError) as error:
            run()
        message = str(error.value)
        assert message.startswith(f"{name}: ") and value in message and allowed in message
        assert "\n" not in message
    assert seen == []
    pg.decode(pair, PROMPT, "speculative", max_new_tokens=4, eos_token_id=[])
    assert set(seen) == {"target", "draft"}  # the count does count, and the next run works


@pytest.mark.parametrize(
    "prompt", ["", "  \n", [], [64], [-1], [True], [1.0], [1] * 129, "a" * 129, "\ud800"]
)
def test_bad_prompts(passes: tuple[pg.ModelPair, list[str]], prompt: Any) -> None:
    pair, seen = passes
    for run in (pg.decode, pg.stream, pg.compare):
        with pytest.raises(ValueError, match=r"^prompt: "):
            run(pair, prompt)
    assert seen == []


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"pair": "magic"}, "pair"),
        ({"pair": "chat", "device": "toaster"}, "device"),
        ({"pair": "chat", "precision": "fp7"}, "precision"),
    ],
)
def test_bad_pairs_are_named_before_anything_is_loaded(
    arguments: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loader in ("AutoTokenizer", "AutoConfig", "AutoModelForCausalLM"):
        cls = getattr(transformers, loader)
        monkeypatch.setattr(cls, "from_pretrained", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(ValueError, match=rf"^{name}: .*{arguments[name]}.* use "):
        pg.load_pair(**arguments)


def test_text_needs_a_tokenizer(pair: pg.ModelPair) -> None:
    with pytest.raises(ValueError, match=r"^prompt: .*token ids"):
        pg.decode(pair, "abc")
    with pytest.raises(ValueError, match=r"^stop: .*tokenizer"):
        pg.decode(pair, PROMPT, stop="a")


# --- compare --------------------------------------------------------------------------------------


def test_compare_runs_the_five_by_default(text_pair: pg.ModelPair) -> None:
    found = pg.compare(text_pair, "abc abc", max_new_tokens=6)
    assert list(found.results) == DEFAULT_LABELS and found.baseline == "sample"
    assert [r.method for r in found.results.values()] == DEFAULT_LABELS
    record = found.to_dict()
    assert strict(record) == record and list(record["results"]) == DEFAULT_LABELS
    assert record["prompt"] == "abc abc"
    rows = found.rows()
    assert strict(rows) == rows and [row["label"] for row in rows] == DEFAULT_LABELS
    assert rows[0]["speedup"] == 1.0 and {"badge", "tokens_per_s", "fidelity"} <= set(rows[0])
    badges = {row["label"]: row["badge"] for row in rows}
    assert badges["speculative"] == "lossless" and badges["mentored"] == "lossy"
    assert badges["sample"] == "sampled" and badges["greedy"] == badges["beam"] == "search"
    figure = found.figure()
    assert isinstance(figure, go.Figure) and json.loads(figure.to_json())
    alone = pg.decode(text_pair, "abc abc", "sample", max_new_tokens=6, temperature=0.7, seed=0)
    assert found.results["sample"].token_ids == alone.token_ids


def test_compare_keeps_the_order_of_its_runs(pair: pg.ModelPair) -> None:
    runs = {
        "z": {"method": "mentored", "divergence_budget": 0.5},
        "a": {"method": "greedy", "max_new_tokens": 3},
        "<b>": {"method": "beam", "num_beams": 2},
    }
    found = pg.compare(pair, PROMPT, runs, repeats=2, max_new_tokens=5, eos_token_id=[], seed=0)
    assert list(found.results) == list(found.to_dict()["results"]) == ["z", "a", "<b>"]
    assert found.baseline == "z"  # there is no sampling run
    assert {len(seconds) for seconds in found.seconds.values()} == {2}
    lengths = [len(r.token_ids) for r in found.results.values()]
    assert lengths == [5, 3, 5]  # a run's own setting comes before the common one
    assert found.to_dict()["prompt"] is None


def test_common_parameters_go_where_they_belong(pair: pg.ModelPair) -> None:
    found = pg.compare(
        pair,
        PROMPT,
        max_new_tokens=4,
        temperature=0.9,
        num_beams=3,
        num_draft_tokens=2,
        divergence_budget=0.4,
        verifier="typical",
        typical_epsilon=0.2,
    )
    params = {label: result.params for label, result in found.results.items()}
    having = {label for label in params if "temperature" in params[label]}
    assert having == {"sample", "speculative", "mentored"}
    assert params["speculative"]["verifier"] == "typical"
    assert params["speculative"]["typical_epsilon"] == 0.2
    assert "typical_epsilon" not in params["mentored"] and "verifier" not in params["mentored"]
    assert {p["max_new_tokens"] for p in params.values()} == {4}


def test_common_parameters_are_checked(passes: tuple[pg.ModelPair, list[str]]) -> None:
    pair, seen = passes
    greedy = {"g": {"method": "greedy"}}
    with pytest.raises(ValueError, match=r"^tempratur: .*Did you mean temperature"):
        pg.compare(pair, PROMPT, tempratur=1.0)
    with pytest.raises(ValueError, match=r"^num_beams: "):  # no run has it
        pg.compare(pair, PROMPT, greedy, num_beams=2)
    with pytest.raises(ValueError, match=r"^temperature: nan"):  # also where runs have their own
        pg.compare(pair, PROMPT, {"s": {"method": "sample", "temperature": 1.0}}, temperature=NAN)
    for runs in ({}, [], {"g": {}}, {"g": "greedy"}, {1: greedy["g"]}, {" ": greedy["g"]}):
        with pytest.raises(ValueError, match=r"^runs: "):
            pg.compare(pair, PROMPT, runs)  # type: ignore[arg-type]
    for repeats in (0, 101, 1.5, True, "2"):
        with pytest.raises(ValueError, match=r"^repeats: "):
            pg.compare(pair, PROMPT, greedy, repeats=repeats)  # type: ignore[arg-type]
    assert seen == []


def test_the_warm_up_takes_the_runs_own_settings(pair: pg.ModelPair) -> None:
    groups = {"method": "diverse_beam", "num_beams": 3, "num_beam_groups": 3}
    exact = {"method": "exact", "max_nodes": 20}
    found = pg.compare(pair, PROMPT, {"groups": groups, "exact": exact}, max_new_tokens=4)
    assert found.results["groups"].params["num_beam_groups"] == 3


def test_light_torch_work_makes_no_second_team_of_threads() -> None:
    """Beside a running decode, one core; afterwards the thread is as it was."""
    before = torch.get_num_threads()
    assert on_one_core(torch.get_num_threads) == 1
    with pytest.raises(ZeroDivisionError):
        on_one_core(lambda: 1 // 0)
    assert torch.get_num_threads() == before
