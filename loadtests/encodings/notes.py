"""What is to be said of each family beside its tables."""

from collections.abc import Mapping

from positional.encodings.registry import Family

NOTES: Mapping[Family, str] = {
    "added": """\
A score is told as if the projections to queries and keys were the identity. Two sinusoidal rows
meet by their displacement alone, but content meets the rows themselves, so the whole score does
not.""",
    "rotary": """\
One class turns by every rule of `positional.profile`; what serves a model uses the same numbers.
The pairing is part of a checkpoint: the other one is another encoding. Dynamic NTK and LongRoPE
have frequencies that change as a sequence grows; a request settles the length that they are taken
at before its first key is cached. YaRN and LongRoPE multiply queries and keys by a factor, so that
a score at distance 0 is larger.""",
    "multiplicative": """\
RoPE is the case of coordinate planes. A basis that commutes with what stands between projection and
rotation is folded into the projections. The paper's L = abᵀ − baᵀ turns b towards a; where it finds
RoPE it has the other sign, so that with b = Ja RoPE's θ is ω = −θ here. Mutually orthogonal a with
b = Ja are not enough for planes that commute: each a must be orthogonal to the others' Ja too, or
`Subspaces.spanned` refuses them. The authors' code turns by −θ, which is another encoding for
weights trained by the paper's sign, and normalises after the turn, by weights that must be alike
within a pair for scores to stay exactly relative.""",
    "additive": """\
Each adds a difference of two numbers, one of the query's position and one of the key's, of which
softmax does not see the query's. ALiBi is the constant gate, FoX the one that tokens choose. The
factors are I − ψE: with the sign that an early version of the paper prints, a bias would grow with
the distance. Gates of query and key cannot share one added coordinate, since their generators' sum
is not nilpotent; with a pair of coordinates each they can. What a bf16 key holds is split into
parts whose sum keeps the phase (`positional.encodings.augmented`, which states the bound). The path
integral weighs every step anew for every query, and turns the key's probe alone, so that it is not
exactly relative: it has a stream that costs O(tokens) a step, and no cached key.""",
    "generator": """\
exp(aX) of an age a is a product of turns, decays and powers of the age, each block's in O(width),
without a matrix. It composes in both directions, but what decays with age grows before 0:
`Stability.require` refuses it for bidirectional use, and a badly conditioned basis for any.
Retention holds the same map in a state.""",
    "warp": """\
No position of one token gives these displacements, so that no cached key fits them and none is
served. They are what other papers compare with: `positional.warped_attention` computes them without
a rotation of every pair.""",
}
