"""A lean T5 for training: the layers' weights stacked, one position bias a batch, bfloat16.

Same maths as transformers' `T5ForConditionalGeneration` (T5 1.0: ReLU, tied embeddings), to and
from which `to_t5` and `from_t5` convert. Queries are scaled by 1/√head here and by nothing there.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import T5Config, T5ForConditionalGeneration

from assets.recipes.translate_data import END, PAD

BUCKETS, FAR, EPSILON = 32, 128, 1e-6
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """Sizes of a model. `guided`: the decoder layer whose first head learns the alignment."""

    vocabulary: int
    width: int
    hidden: int
    heads: int
    encoder: int
    decoder: int
    guided: int = 1

    def config(self) -> T5Config:
        """The same in transformers' words."""
        return T5Config(
            vocab_size=self.vocabulary,
            d_model=self.width,
            d_kv=self.width // self.heads,
            d_ff=self.hidden,
            num_layers=self.encoder,
            num_decoder_layers=self.decoder,
            num_heads=self.heads,
            relative_attention_num_buckets=BUCKETS,
            relative_attention_max_distance=FAR,
            dropout_rate=0.0,
            layer_norm_epsilon=EPSILON,
            feed_forward_proj="relu",
            tie_word_embeddings=True,
            pad_token_id=PAD,
            eos_token_id=END,
            decoder_start_token_id=PAD,
        )


def new_weights(shape: Shape, embeddings: Tensor, seed: int) -> Weights:
    """First weights: every layer adds nothing yet, but the guided one, which copies what it sees.

    So an untrained model says the mean of the source pieces' neighbours, i.e. of translations.
    """
    generator = torch.Generator().manual_seed(seed)
    d, f = shape.width, shape.hidden
    weights = {"embed": embeddings.clone()}
    for side, layers, blocks in (("enc", shape.encoder, 1), ("dec", shape.decoder, 2)):
        attention = torch.randn(layers, blocks, 4, d, d, generator=generator) * d**-0.5
        attention[:, :, :2] *= 0.6
        attention[:, :, 3] = 0
        if side == "dec":
            attention[shape.guided, 1, 2:] = torch.eye(d)
        weights |= {
            f"{side}.attention": attention,
            f"{side}.wi": torch.randn(layers, f, d, generator=generator) * d**-0.5,
            f"{side}.wo": torch.zeros(layers, d, f),
            f"{side}.norms": torch.ones(layers, blocks + 1, d),
            f"{side}.norm": torch.ones(d),
            f"{side}.bias": torch.zeros(BUCKETS, shape.heads),
        }
    return weights


def grow(weights: Weights, order: list[int]) -> Weights:
    """A deeper model that computes the same: layer i becomes a copy of layer order[i].

    Copies beyond the first of a layer start with outputs of zero.
    """
    grown = dict(weights)
    for side in ("enc", "dec"):
        for name in ("attention", "wi", "wo", "norms"):
            grown[f"{side}.{name}"] = weights[f"{side}.{name}"][order].clone()
        for place, source in enumerate(order):
            if source in order[:place]:
                grown[f"{side}.attention"][place, :, 3] = 0
                grown[f"{side}.wo"][place] = 0
    return grown


# ---------------------------------------------------------------------------- forward


def position_bias(table: Tensor, queries: int, keys: int, both_ways: bool) -> Tensor:
    """T5's bucketed relative position bias [H, queries, keys] from its table [buckets, H]."""
    distance = torch.arange(keys)[None] - torch.arange(queries)[:, None]
    half = BUCKETS // 2 if both_ways else BUCKETS
    bucket = (distance > 0).long() * half if both_ways else torch.zeros_like(distance)
    distance = distance.abs() if both_ways else -distance.clamp(max=0)
    exact = half // 2
    far = torch.log(distance.float().clamp(min=1) / exact) / torch.log(torch.tensor(FAR / exact))
    large = (exact + (far * (half - exact)).long()).clamp(max=half - 1)
    return table[bucket + torch.where(distance < exact, distance, large)].permute(2, 0, 1)


def split(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attend(scores: Tensor, values: Tensor) -> Tensor:
    """[B, H, m, n] scores and [B, H, n, D] values to [B, m, H·D]."""
    return (scores.softmax(-1) @ values).transpose(1, 2).flatten(2)


class Dropout:
    """Dropout whose masks are slices of one pool at random places: drawing bits is dear here."""

    def __init__(self, rate: float, seed: int, size: int = 1 << 22) -> None:
        generator = torch.Generator().manual_seed(seed)
        kept = torch.rand(size, generator=generator) >= rate
        self.pool = kept.bfloat16() / (1 - rate)
        self.places = random.Random(seed)

    def __call__(self, x: Tensor) -> Tensor:
        start = self.places.randrange(len(self.pool) - x.numel())
        return x * self.pool[start : start + x.numel()].view_as(x)


def untouched(x: Tensor) -> Tensor:
    return x


Drop = Callable[[Tensor], Tensor]


def encode(w: Weights, heads: int, source: Tensor, drop: Drop = untouched) -> Tensor:
    """Encoder states [B, n, d] of ids [B, n]."""
    x = drop(F.embedding(source, w["embed"]))
    d = x.shape[-1]
    scale = (d // heads) ** -0.5
    bias = position_bias(w["enc.bias"], source.shape[1], source.shape[1], True)
    bias = bias + ((source == PAD)[:, None, None] * -1e4).to(bias.dtype)
    for attention, wi, wo, norms in zip(
        *(w[f"enc.{k}"].unbind(0) for k in ("attention", "wi", "wo", "norms")), strict=True
    ):
        h = F.rms_norm(x, (d,), norms[0], EPSILON)
        q, k, v = F.linear(h, attention[0, :3].flatten(0, 1)).chunk(3, -1)
        scores = (split(q, heads) * scale) @ split(k, heads).transpose(-1, -2) + bias
        x = x + drop(F.linear(attend(scores, split(v, heads)), attention[0, 3]))
        h = F.rms_norm(x, (d,), norms[1], EPSILON)
        x = x + drop(F.linear(F.relu(F.linear(h, wi)), wo))
    return F.rms_norm(x, (d,), w["enc.norm"], EPSILON)


def decode(
    w: Weights,
    heads: int,
    states: Tensor,
    source: Tensor,
    target: Tensor,
    drop: Drop = untouched,
    guided: int | None = None,
    kept: list[Tensor] | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Normed last states [B, m, d] when predicting target [B, m] (shifted right here), and the
    logarithm of the guided head's attention [B, m, n]. `kept` takes the hidden states before every
    layer and the last ones, none of them normed."""
    shifted = F.pad(target, (1, -1), value=PAD)
    x = drop(F.embedding(shifted, w["embed"]))
    d, m = x.shape[-1], target.shape[1]
    scale = (d // heads) ** -0.5
    bias = position_bias(w["dec.bias"], m, m, False)
    bias = bias + torch.full((m, m), -1e4, dtype=bias.dtype).triu(1)
    hidden = ((source == PAD)[:, None, None] * -1e4).to(bias.dtype)
    seen = None
    for i in range(len(w["dec.wi"])):
        if kept is not None:
            kept.append(x)
        attention, norms = w["dec.attention"][i], w["dec.norms"][i]
        h = F.rms_norm(x, (d,), norms[0], EPSILON)
        q, k, v = F.linear(h, attention[0, :3].flatten(0, 1)).chunk(3, -1)
        scores = (split(q, heads) * scale) @ split(k, heads).transpose(-1, -2) + bias
        x = x + drop(F.linear(attend(scores, split(v, heads)), attention[0, 3]))
        keys, values = read_by(attention, heads, states)
        x, scores = after_own(w, i, x, keys, values, hidden, drop)
        if i == guided:
            seen = scores[:, 0].float().log_softmax(-1)
    if kept is not None:
        kept.append(x)
    return F.rms_norm(x, (d,), w["dec.norm"], EPSILON), seen


def read_by(attention: Tensor, heads: int, states: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values [B, H, n, D] that a decoder layer makes of the encoder's states."""
    keys, values = F.linear(states, attention[1, 1:3].flatten(0, 1)).chunk(2, -1)
    return split(keys, heads), split(values, heads)


def after_own(
    w: Weights,
    layer: int,
    x: Tensor,
    keys: Tensor,
    values: Tensor,
    hidden: Tensor,
    drop: Drop = untouched,
) -> tuple[Tensor, Tensor]:
    """What a decoder layer adds after its attention to itself: x [B, m, d], and the scores
    [B, H, m, n] of the source."""
    (d, heads), norms = (x.shape[-1], keys.shape[1]), w["dec.norms"][layer]
    q = F.linear(F.rms_norm(x, (d,), norms[1], EPSILON), w["dec.attention"][layer, 1, 0])
    scores = (split(q, heads) * (d // heads) ** -0.5) @ keys.transpose(-1, -2) + hidden
    x = x + drop(F.linear(attend(scores, values), w["dec.attention"][layer, 1, 3]))
    h = F.rms_norm(x, (d,), norms[2], EPSILON)
    return x + drop(F.linear(F.relu(F.linear(h, w["dec.wi"][layer])), w["dec.wo"][layer])), scores


def logits_of(w: Weights, states: Tensor) -> Tensor:
    """Logits [..., V] of normed states [..., d]."""
    return F.linear(states * states.shape[-1] ** -0.5, w["embed"])


# ---------------------------------------------------------------------------- transformers


def names(shape: Shape) -> dict[str, tuple[str, tuple[int, ...]]]:
    """transformers' name of each matrix: our stacked tensor and the index in it."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {"shared.weight": ("embed", ())}
    sides = (("enc", "encoder", shape.encoder, 1), ("dec", "decoder", shape.decoder, 2))
    for side, theirs, layers, blocks in sides:
        found[f"{theirs}.final_layer_norm.weight"] = (f"{side}.norm", ())
        first = f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        found[first] = (f"{side}.bias", ())
        for i in range(layers):
            for block, kind in enumerate(("SelfAttention", "EncDecAttention")[:blocks]):
                layer = f"{theirs}.block.{i}.layer.{block}"
                for j, letter in enumerate("qkvo"):
                    found[f"{layer}.{kind}.{letter}.weight"] = (f"{side}.attention", (i, block, j))
                found[f"{layer}.layer_norm.weight"] = (f"{side}.norms", (i, block))
            layer = f"{theirs}.block.{i}.layer.{blocks}"
            found[f"{layer}.DenseReluDense.wi.weight"] = (f"{side}.wi", (i,))
            found[f"{layer}.DenseReluDense.wo.weight"] = (f"{side}.wo", (i,))
            found[f"{layer}.layer_norm.weight"] = (f"{side}.norms", (i, blocks))
    return found


def to_t5(shape: Shape, weights: Weights) -> T5ForConditionalGeneration:
    """The same model in transformers, float32."""
    model = T5ForConditionalGeneration(shape.config()).eval()
    scale = (shape.width // shape.heads) ** -0.5
    state = {}
    for name, (ours, index) in names(shape).items():
        tensor = weights[ours][index].detach().float()
        state[name] = tensor * scale if name.endswith(".q.weight") else tensor
    missing, unexpected = model.load_state_dict(state, strict=False)
    tied = {"lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}
    assert not unexpected and set(missing) <= tied
    model.tie_weights()
    return model
