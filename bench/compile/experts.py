#!/usr/bin/env python3
"""Writes a graph of DeepSeek-V3's size as plain IR, for `compile.py`.

Every expert of every layer is three products and what is between them, and the
experts of a layer are added up: what routing would choose from is all computed.
So the graph is as large as with routing, and no op of it is new. Attention has
as many heads, without the latent projections.
"""

HIDDEN, EXPERT, DENSE, VOCAB = 7168, 2048, 18432, 129280
HEADS, KV_HEADS, HEAD = 128, 128, 128
DENSE_LAYERS = 3


class Graph:
    """Writes a module of states and one @forward over a sequence."""

    def __init__(self, sequence):
        self.rows = sequence
        self.states, self.ops, self.block = [], [], "embed"

    def state(self, name, shape, init="#train.normal<std = 2.000000e-02>",
              kind="trainable parameter"):
        type_ = f"tensor<{'x'.join(map(str, shape))}xf32>"
        self.states.append(f"  train.state {kind} @{name} : {type_} "
                           f"init {init} loc(\"{name}\")")
        self.ops.append(f"    %{name} = train.read @{name} "
                        f"{{train.block = \"{self.block}\"}} : {type_} "
                        f"loc(\"{name}\")")
        return f"%{name}", type_

    def rows_of(self, columns):
        return f"tensor<{self.rows}x{columns}xf32>"

    def op(self, name, text, types, results=1):
        self.ops.append(f"    %{name}{f':{results}' if results > 1 else ''} = "
                        f"{text} {{train.block = \"{self.block}\"}} : {types} "
                        f"loc(\"{name}\")")
        return f"%{name}" + ("#0" if results > 1 else "")

    def linear(self, x, name, inner, outer):
        weight, type_ = self.state(f"model.{name}.weight", (outer, inner))
        return self.op(name, f"train.linear {x}, {weight}",
                       f"({self.rows_of(inner)}, {type_}) -> "
                       f"{self.rows_of(outer)}")

    def norm(self, x, name):
        weight, type_ = self.state(f"model.{name}.weight", (HIDDEN,),
                                   "#train.constant<1.000000e+00>")
        rows = self.rows_of(HIDDEN)
        return self.op(name, f"train.rms_norm {x}, {weight} eps 1.0E-6",
                       f"({rows}, {type_}) -> ({rows}, "
                       f"tensor<{self.rows}xf32>)", results=2)

    def pointwise(self, op, name, columns, *operands):
        return self.op(name, f"{op} {', '.join(operands)}",
                       self.rows_of(columns))

    def mlp(self, x, name, inner):
        gate = self.linear(x, f"{name}.gate_proj", HIDDEN, inner)
        up = self.linear(x, f"{name}.up_proj", HIDDEN, inner)
        sigmoid = self.pointwise("train.sigmoid", f"{name}.sigmoid", inner,
                                 gate)
        silu = self.pointwise("arith.mulf", f"{name}.silu", inner, gate,
                              sigmoid)
        product = self.pointwise("arith.mulf", f"{name}.product", inner, silu,
                                 up)
        return self.linear(product, f"{name}.down_proj", inner, HIDDEN)

    def attention(self, x, name, tables):
        q, k = (self.linear(x, f"{name}.{part}_proj", HIDDEN, heads * HEAD)
                for part, heads in (("q", HEADS), ("k", KV_HEADS)))
        v = self.linear(x, f"{name}.v_proj", HIDDEN, KV_HEADS * HEAD)
        types = [self.rows_of(heads * HEAD)
                 for heads in (HEADS, KV_HEADS, KV_HEADS)]
        table = f"tensor<{self.rows}x{HEAD // 2}xf32>"
        q, k = (self.op(f"{name}.{part}_rotary",
                        f"train.rotary {x}, {', '.join(tables)}",
                        f"({type_}, {table}, {table}) -> {type_}")
                for part, x, type_ in (("q", q, types[0]), ("k", k, types[1])))
        mixed = self.op(
            f"{name}.attention",
            f"train.attention {q}, {k}, {v} seq {self.rows} heads {HEADS} of "
            f"{KV_HEADS} scale {HEAD ** -0.5:.17f}",
            f"({', '.join(types)}) -> ({types[0]}, "
            f"tensor<{self.rows}x{HEADS}xf32>)", results=2)
        return self.linear(mixed, f"{name}.o_proj", HEADS * HEAD, HIDDEN)


def write_experts(path, layers=61, experts=256, sequence=512):
    """Writes it to `path`: about 670 B parameters by default."""
    graph = Graph(sequence)
    tables = [graph.state(
        f"rope.{part}", (sequence, HEAD // 2),
        f"#train.rope<part = {part}, dim = {HEAD}, theta = 1.000000e+04, "
        "scaling = none>", kind="table")[0] for part in ("cos", "sin")]
    table, type_ = graph.state("model.embed_tokens.weight", (VOCAB, HIDDEN))
    x = graph.op("embed_tokens", f"train.embedding %tokens in {table}",
                 f"(tensor<1x{sequence}xi32>, {type_}) -> "
                 f"{graph.rows_of(HIDDEN)}")
    for i in range(layers):
        name = graph.block = f"layers.{i}"
        normed = graph.norm(x, f"{name}.input_layernorm")
        x = graph.pointwise("arith.addf", f"{name}.attention_residual", HIDDEN,
                            x, graph.attention(normed, f"{name}.self_attn",
                                               tables))
        normed = graph.norm(x, f"{name}.post_attention_layernorm")
        if i < DENSE_LAYERS:
            parts = [graph.mlp(normed, f"{name}.mlp", DENSE)]
        else:
            parts = [graph.mlp(normed, f"{name}.mlp.experts.{e}", EXPERT)
                     for e in range(experts)]
        for e, part in enumerate(parts):
            x = graph.pointwise("arith.addf", f"{name}.sum.{e}", HIDDEN, x,
                                part)
    graph.block = "head"
    x = graph.norm(x, "norm")
    logits = graph.linear(x, "lm_head", HIDDEN, VOCAB)
    graph.op("loss", f"train.cross_entropy {logits}, %labels",
             f"({graph.rows_of(VOCAB)}, tensor<1x{sequence}xi32>) -> "
             f"(tensor<f32>, tensor<f32>, tensor<{sequence}xf32>)", results=3)
    ids = f"tensor<1x{sequence}xi32>"
    with open(path, "w") as file:
        file.write(f"module @experts {{\n" + "\n".join(graph.states))
        file.write(f"\n  func.func @forward(%tokens: {ids}, %labels: {ids}) "
                   "-> (tensor<f32>, tensor<f32>) {\n")
        file.write("\n".join(graph.ops))
        file.write("\n    return %loss#0, %loss#1 : tensor<f32>, tensor<f32>\n"
                   "  }\n}\n")
