"""Small pairs with a feature draft, of both families, its laws computed anew, and one round."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

import playground as pg
from playground.contracts import Draft, Run
from playground.feature_draft import FeatureDraft
from playground.models import ModelPair
from playground.sampling import Draws
from playground.session import prepare
from tests.enumeration import make_run

TAPS = (1, 2)
PROMPT = [3, 4, 5, 1]
SIZE = 32


def peaky(model: Any, dtype: torch.dtype) -> Any:
    """The model with random weights large enough for peaky laws."""
    for parameter in model.to(dtype).eval().parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def llama(layers: int, vocab: int, dtype: torch.dtype) -> Any:
    """A random Llama."""
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=SIZE,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        eos_token_id=2,
        pad_token_id=None,
    )
    return peaky(LlamaForCausalLM(config), dtype)


def t5(layers: int, vocab: int, dtype: torch.dtype) -> Any:
    """A random T5."""
    config = T5Config(
        vocab_size=vocab,
        d_model=SIZE,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_decoder_layers=layers,
        num_heads=4,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
        tie_word_embeddings=True,
    )
    return peaky(T5ForConditionalGeneration(config), dtype)


def projections(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    shapes = (SIZE, SIZE * (len(TAPS) + 1)), (SIZE, SIZE)
    fuse, own = (torch.randn(shape, dtype=dtype) * 0.2 for shape in shapes)
    return fuse, own


def llama_pair(vocab: int = 32, dtype: torch.dtype = torch.float32, **more: Any) -> ModelPair:
    torch.manual_seed(0)
    target, model = llama(3, vocab, dtype), llama(2, vocab, dtype)
    model.model.embed_tokens.weight = target.model.embed_tokens.weight
    model.tie_weights()
    return ModelPair(target, feature=FeatureDraft(model, TAPS, *projections(dtype)), **more)


def t5_pair(vocab: int = 32, dtype: torch.dtype = torch.float32, **more: Any) -> ModelPair:
    torch.manual_seed(1)
    target, model = t5(3, vocab, dtype), t5(1, vocab, dtype)
    model.shared.weight = target.shared.weight
    model.encoder = target.encoder
    model.tie_weights()
    del model.decoder.block[0].layer[0]
    return ModelPair(target, feature=FeatureDraft(model, TAPS, *projections(dtype)), **more)


def run_of(pair: ModelPair, **params: Any) -> Run:
    settings = {"max_new_tokens": 64, "proposer": "feature", "eos_token_id": [], **params}
    return make_run(prepare(pair, PROMPT, "speculative", settings), Draws(0))


def states_of(pair: ModelPair, ids: list[int], prompt: list[int] = PROMPT) -> Tensor:
    """The target's states [n, taps + 1, d] by the model's own forward."""
    assert pair.feature is not None
    rows, taps = torch.tensor([ids]), pair.feature.taps
    if not pair.is_encoder_decoder:
        found = pair.target(rows, output_hidden_states=True).hidden_states
        return torch.stack([found[tap][0] for tap in (*taps, -1)], 1)
    last: list[Tensor] = []  # before the norm
    norm = pair.target.decoder.final_layer_norm
    hook = norm.register_forward_pre_hook(lambda module, args: last.append(args[0]))
    given = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": rows}
    found = pair.target(**given, output_hidden_states=True).decoder_hidden_states
    hook.remove()
    return torch.stack([states[0] for states in (*(found[tap] for tap in taps), *last)], 1)


def unit(x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:])


def naive_logits(
    pair: ModelPair, context: list[int], drafted: list[int], prompt: list[int] = PROMPT
) -> Tensor:
    """The draft's logits [V] after context and drafted ids, everything computed anew."""
    think = _t5_thinks if pair.is_encoder_decoder else _llama_thinks
    assert pair.feature is not None
    feature = pair.feature
    inputs = pair.target.get_input_embeddings()(torch.tensor(context + drafted))
    if len(context) > 1:
        states = unit(states_of(pair, context[:-1], prompt))
        inputs[1 : len(context)] += states.flatten(1) @ feature.fuse.T
    for at in range(len(context), len(inputs)):
        last = think(pair, inputs[:at], prompt)[0]
        inputs[at] += unit(last) @ feature.own.T
    return think(pair, inputs, prompt)[1]


def _llama_thinks(pair: ModelPair, inputs: Tensor, prompt: list[int]) -> tuple[Tensor, Tensor]:
    """Last state [d] and logits [V] of a Llama's draft that reads inputs [n, d]."""
    assert pair.feature is not None
    model = pair.feature.model
    state = model.model(inputs_embeds=inputs[None]).last_hidden_state[0, -1]
    logits = model.lm_head(state)
    kept = getattr(model, "head_ids", slice(None))
    cut = torch.full_like(logits, -torch.inf)
    cut[kept] = logits[kept]
    return state, cut


def _t5_thinks(pair: ModelPair, inputs: Tensor, prompt: list[int]) -> tuple[Tensor, Tensor]:
    """The same of a T5's, whose last state is not normed: attention by plain products."""
    assert pair.feature is not None
    model = pair.feature.model
    encoded = pair.target.encoder(torch.tensor([prompt])).last_hidden_state[0]
    cross, dense = model.decoder.block[0].layer
    heads = cross.EncDecAttention
    config, d = model.config, model.config.d_model
    split = -1, config.num_heads, config.d_kv
    queries, keys, values = (
        side(x).view(split).transpose(0, 1)
        for side, x in (
            (heads.q, cross.layer_norm(inputs[-1:])),
            (heads.k, encoded),
            (heads.v, encoded),
        )
    )
    seen = (queries @ keys.mT).softmax(-1) @ values
    state = inputs[-1] + heads.o(seen.flatten())
    ff = dense.DenseReluDense
    state = state + ff.wo(torch.relu(ff.wi(dense.layer_norm(state))))
    scale = d**-0.5 if config.scale_decoder_outputs else 1.0
    return state, model.lm_head(model.decoder.final_layer_norm(state) * scale)


class Rounds:
    """Plays the loop's part around a proposer: the target reads, tokens are committed."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = run.open(run.pair.target)
        self.proposer = pg.PROPOSERS["feature"](run.parts["proposer"], run)
        self.context = list(run.prefix)
        if not run.pair.is_encoder_decoder:  # else the start token is read with the first draft
            self.state.prefill(run.prefix)
            self.context.append(7)

    def propose(self, num: int) -> Draft:
        return self.proposer.propose(self.context, num)

    def commit(self, draft: Draft, kept: int, token: int) -> None:
        """The target reads the draft, of which `kept` tokens stay, and `token` follows."""
        self.state.forward(torch.tensor([[self.context[-1], *draft.ids]]))
        self.context = [*self.context, *draft.ids[:kept], token]
        self.state.rollback(len(self.context) - 1)

    def expected(self, draft: Draft) -> list[Tensor]:
        laws = []
        for i in range(len(draft.ids)):
            history = self.context + draft.ids[:i]
            logits = naive_logits(
                self.run.pair, self.context, draft.ids[:i], list(self.run.prompt_ids)
            )
            laws.append(self.run.warper.probs(logits[None], history, len(history))[0])
        return laws
