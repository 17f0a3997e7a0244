"""Prints a module whose lowering has every kind of emitted kernel.

make_kernels.py DTYPE ROWSxCOLUMNS... : for each shape an elementwise chain, one
with two results, a sum of three, a norm and its gradient, alone and joined with
sums, and a rotary embedding and its inverse where columns are whole heads of 4.
Last, elementwise kernels of one dimension and of none.
"""
import sys

dtype, shapes = sys.argv[1], sys.argv[2:]
states, body = [], []


def state(role, name, type_, value="0.0"):
    states.append(f"train.state {role} @{name} : tensor<{type_}> "
                  f"init #train.constant<{value}>")


def read(name, type_):
    state("scalar", name, type_)
    body.append(f"%{name} = train.read @{name} : tensor<{type_}>")
    return f"%{name}"


def keep(value, type_):
    """Adds a value to a metric, so that it is stored."""
    name = "sum_" + value[1:]
    wide = type_.rsplit("x", 1)
    state("metric", name, "x".join(wide[:-1] + ["f32"]))
    body.append(f"train.accumulate {value}, @{name} : tensor<{type_}>")


def op(result, text):
    body.append(f"%{result} = {text}")
    return f"%{result}"


def elementwise(tag, type_):
    """A gated activation, its gradient with two results, and a sum."""
    t = f"tensor<{type_}>"
    g, u, d = (read(f"{n}{tag}", type_) for n in ("g", "u", "d"))
    s = op(f"s{tag}", f"train.sigmoid {g} : {t}")
    a = op(f"a{tag}", f"arith.mulf {g}, {s} : {t}")
    keep(op(f"h{tag}", f"arith.mulf {a}, {u} : {t}"), type_)
    keep(op(f"du{tag}", f"arith.mulf {d}, {a} : {t}"), type_)
    e = op(f"e{tag}", f"arith.mulf {d}, {u} : {t}")
    keep(op(f"dg{tag}", f"arith.mulf {e}, {s} : {t}"), type_)
    first = op(f"p{tag}", f"arith.addf {g}, {u} : {t}")
    keep(op(f"q{tag}", f"arith.addf {first}, {d} : {t}"), type_)
    m = op(f"m{tag}", f"arith.maximumf {g}, {u} : {t}")
    keep(op(f"r{tag}", f"arith.divf {m}, {d} : {t}"), type_)


def norm(tag, rows, columns):
    x_type, w_type = f"{rows}x{columns}x{dtype}", f"{columns}x{dtype}"
    x, dy = read(f"x{tag}", x_type), read(f"dy{tag}", x_type)
    w = read(f"w{tag}", w_type)
    body.append(f"%n{tag}, %rstd{tag} = train.rms_norm {x}, {w} eps 1.0e-05 : "
                f"(tensor<{x_type}>, tensor<{w_type}>) -> "
                f"(tensor<{x_type}>, tensor<{rows}xf32>)")
    keep(f"%n{tag}", x_type)
    body.append(f"%dx{tag}, %dw{tag} = train.rms_norm_grad {dy}, {x}, {w}, "
                f"%rstd{tag} : (tensor<{x_type}>, tensor<{x_type}>, "
                f"tensor<{w_type}>, tensor<{rows}xf32>) -> "
                f"(tensor<{x_type}>, tensor<{w_type}>)")
    keep(f"%dx{tag}", x_type)


def joined(tag, rows, columns):
    """A norm of a sum, and its gradient between two sums: a kernel each."""
    x_type, w_type = f"{rows}x{columns}x{dtype}", f"{columns}x{dtype}"
    t, w_t = f"tensor<{x_type}>", f"tensor<{w_type}>"
    a, b, c = (read(f"j{n}{tag}", x_type) for n in "abc")
    w = read(f"jw{tag}", w_type)
    h = op(f"jh{tag}", f"arith.addf {a}, {b} : {t}")
    body.append(f"%jn{tag}, %jrstd{tag} = train.rms_norm {h}, {w} eps 1.0e-05 "
                f": ({t}, {w_t}) -> ({t}, tensor<{rows}xf32>)")
    keep(f"%jn{tag}", x_type)
    dy = op(f"jdy{tag}", f"arith.addf {b}, {c} : {t}")
    body.append(f"%jdx{tag}, %jdw{tag} = train.rms_norm_grad {dy}, {h}, {w}, "
                f"%jrstd{tag} : ({t}, {t}, {w_t}, tensor<{rows}xf32>) -> "
                f"({t}, {w_t})")
    keep(op(f"js{tag}", f"arith.addf %jdx{tag}, {a} : {t}"), x_type)


def rotary(tag, rows, columns, half):
    x_type = f"{rows}x{columns}x{dtype}"
    # Two sequences, or one if rows are odd.
    angle_type = f"{rows // 2 if rows % 2 == 0 else rows}x{half}xf32"
    x, cos, sin = (read(f"rx{tag}", x_type), read(f"cos{tag}", angle_type),
                   read(f"sin{tag}", angle_type))
    types = (f"(tensor<{x_type}>, tensor<{angle_type}>, "
             f"tensor<{angle_type}>) -> tensor<{x_type}>")
    keep(op(f"ry{tag}", f"train.rotary {x}, {cos}, {sin} : {types}"), x_type)
    keep(op(f"ri{tag}", f"train.rotary inverse {x}, {cos}, {sin} : {types}"),
         x_type)


for shape in shapes:
    rows, columns = (int(n) for n in shape.split("x"))
    tag = f"_{rows}_{columns}"
    elementwise(tag, f"{rows}x{columns}x{dtype}")
    norm(tag, rows, columns)
    joined(tag, rows, columns)
    for half in (64, 24, 2):
        if columns % (2 * half) == 0:
            rotary(f"{tag}_{half}", rows, columns, half)
for size in (1, 31, 4096, 4099, 12291):
    elementwise(f"_{size}", f"{size}x{dtype}")
elementwise("_scalar", "f32")

print("module @kernels {")
print("\n".join(states))
print("func.func @eval_step(%tokens: tensor<1x4xi32>, "
      "%labels: tensor<1x4xi32>) {")
print("\n".join(body))
print("return\n}\n}")
