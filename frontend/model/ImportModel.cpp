//===- ImportModel.cpp - From a configuration to the graph of its loss ----===//
#include "frontend/model/ImportModel.h"

#include "dialect/Train/Train.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

#include <cmath>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::model;
using llvm::Twine;

namespace {

/// Builds one module. Methods append to @forward, in the order of use.
class Importer {
public:
  Importer(MLIRContext &context, const ModelConfig &config, int64_t microBatch,
           int64_t sequence)
      : config(config), sequence(sequence), builder(&context),
        ids(RankedTensorType::get({microBatch, sequence},
                                  builder.getI32Type())),
        rows(microBatch * sequence) {}

  OwningOpRef<ModuleOp> run() {
    OwningOpRef<ModuleOp> module =
        ModuleOp::create(named("model"), StringRef(config.name));
    builder.setInsertionPointToEnd(module->getBody());
    declareStates();
    buildForward();
    return module;
  }

private:
  //===--------------------------------------------------------------------===//
  // Names and types
  //===--------------------------------------------------------------------===//

  Location named(const Twine &name) {
    return NameLoc::get(builder.getStringAttr(name));
  }

  /// The name of a part of the block that is being built.
  Location local(const Twine &name) { return named(Twine(prefix) + name); }

  RankedTensorType f32Tensor(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  }

  /// Starts a block: its label, and what its parts' names begin with.
  void beginBlock(const Twine &label, const Twine &namePrefix) {
    block = builder.getStringAttr(label);
    prefix = namePrefix.str();
  }

  /// Creates an op that carries the block.
  template <typename Op, typename... Args>
  Op make(Location loc, Args &&...args) {
    auto op = Op::create(builder, loc, std::forward<Args>(args)...);
    op->setAttr(train::kBlockAttr, block);
    return op;
  }

  //===--------------------------------------------------------------------===//
  // States
  //===--------------------------------------------------------------------===//

  void declareStates() {
    for (const Parameter &parameter : parameters(config)) {
      Attribute init;
      if (parameter.std > 0.0)
        init = train::NormalInitAttr::get(builder.getContext(), parameter.std);
      else
        init =
            train::ConstantInitAttr::get(builder.getContext(), parameter.fill);
      declare(parameter.name, train::Role::Parameter, /*trainable=*/true,
              f32Tensor(parameter.shape), init);
    }
    declareTable(kCos, train::TablePart::Cos);
    declareTable(kSin, train::TablePart::Sin);
  }

  void declareTable(StringRef name, train::TablePart part) {
    const Rope &rope = config.rope;
    auto scaling = train::RopeScaling::None;
    if (rope.scaling == RopeScaling::Linear)
      scaling = train::RopeScaling::Linear;
    if (rope.scaling == RopeScaling::Llama3)
      scaling = train::RopeScaling::Llama3;
    // What a scaling does not use keeps its default, and is not printed.
    bool isLlama3 = rope.scaling == RopeScaling::Llama3;
    auto init = train::RopeInitAttr::get(
        builder.getContext(), part, config.headDim, rope.theta, scaling,
        rope.factor, isLlama3 ? rope.lowFreqFactor : 1.0,
        isLlama3 ? rope.highFreqFactor : 4.0,
        isLlama3 ? rope.originalLength : 8192);
    declare(name, train::Role::Table, /*trainable=*/false,
            f32Tensor({sequence, config.headDim / 2}), init);
  }

  void declare(StringRef name, train::Role role, bool trainable,
               RankedTensorType type, Attribute init) {
    train::StateOp::create(builder, named(name), trainable, role, name,
                           /*of=*/nullptr, /*slot=*/nullptr, type, init,
                           /*bucket=*/nullptr, /*offset=*/nullptr,
                           /*sharded=*/false, train::Space::Device);
    types[name] = type;
  }

  /// Reads a state; each is read once, where it is first used.
  Value read(const Twine &name) {
    std::string state = name.str();
    return make<train::ReadOp>(named(state), types.at(state), state);
  }

  //===--------------------------------------------------------------------===//
  // Layers
  //===--------------------------------------------------------------------===//

  Value norm(Value x, const Twine &name, const Twine &parameter) {
    Value weight = read(parameter + ".weight");
    auto op =
        make<train::RMSNormOp>(local(name), x.getType(), f32Tensor({rows}), x,
                               weight, builder.getF64FloatAttr(config.normEps));
    return op.getResult();
  }

  Value linear(Value x, const Twine &name, int64_t out, bool hasBias) {
    std::string parameter = (Twine("model.") + prefix + name).str();
    Value weight = read(parameter + ".weight");
    Value bias = hasBias ? read(parameter + ".bias") : Value();
    return make<train::LinearOp>(local(name), f32Tensor({rows, out}), x, weight,
                                 bias);
  }

  Value rotary(Value x, const Twine &name) {
    return make<train::RotaryOp>(local(name), x.getType(), x, cos, sin,
                                 /*inverse=*/false);
  }

  Value attention(Value x) {
    int64_t queries = config.heads * config.headDim;
    int64_t keys = config.kvHeads * config.headDim;
    Value q = linear(x, "self_attn.q_proj", queries, config.qkvBias);
    Value k = linear(x, "self_attn.k_proj", keys, config.qkvBias);
    Value v = linear(x, "self_attn.v_proj", keys, config.qkvBias);
    q = rotary(q, "self_attn.q_rotary");
    k = rotary(k, "self_attn.k_rotary");
    double scale = 1.0 / std::sqrt(static_cast<double>(config.headDim));
    auto op =
        make<train::AttentionOp>(local("self_attn.attention"), q.getType(),
                                 f32Tensor({rows, config.heads}), q, k, v,
                                 builder.getI64IntegerAttr(sequence),
                                 builder.getI64IntegerAttr(config.heads),
                                 builder.getI64IntegerAttr(config.kvHeads),
                                 builder.getF64FloatAttr(scale));
    return linear(op.getResult(), "self_attn.o_proj", config.hidden,
                  config.outputBias);
  }

  /// down(silu(gate(x)) * up(x)), silu(y) being y * sigmoid(y).
  Value mlp(Value x) {
    Value gate =
        linear(x, "mlp.gate_proj", config.intermediate, config.mlpBias);
    Value up = linear(x, "mlp.up_proj", config.intermediate, config.mlpBias);
    Value sigmoid = make<train::SigmoidOp>(local("mlp.sigmoid"), gate);
    Value silu = make<arith::MulFOp>(local("mlp.silu"), gate, sigmoid);
    Value product = make<arith::MulFOp>(local("mlp.product"), silu, up);
    return linear(product, "mlp.down_proj", config.hidden, config.mlpBias);
  }

  Value layer(Value x, int64_t index) {
    beginBlock("layers." + Twine(index), "layers." + Twine(index) + ".");
    std::string parameter = "model." + prefix;
    Value normed =
        norm(x, "input_layernorm", Twine(parameter) + "input_layernorm");
    Value attended = attention(normed);
    x = make<arith::AddFOp>(local("attention_residual"), x, attended);
    normed = norm(x, "post_attention_layernorm",
                  Twine(parameter) + "post_attention_layernorm");
    Value transformed = mlp(normed);
    return make<arith::AddFOp>(local("mlp_residual"), x, transformed);
  }

  //===--------------------------------------------------------------------===//
  // The whole
  //===--------------------------------------------------------------------===//

  void buildForward() {
    RankedTensorType scalar = f32Tensor({});
    auto forward = func::FuncOp::create(
        builder, named(train::kForward), train::kForward,
        builder.getFunctionType({ids, ids}, {scalar, scalar}));
    Block *body = builder.createBlock(&forward.getBody(), {}, {ids, ids},
                                      {named("tokens"), named("labels")});
    Value tokens = body->getArgument(0), labels = body->getArgument(1);

    beginBlock("embed", "");
    cos = read(kCos);
    sin = read(kSin);
    Value table = read("model.embed_tokens.weight");
    Value x = make<train::EmbeddingOp>(
        local("embed_tokens"), f32Tensor({rows, config.hidden}), tokens, table);
    for (int64_t i = 0; i < config.layers; ++i)
      x = layer(x, i);

    beginBlock("head", "");
    x = norm(x, "norm", "model.norm");
    Value head = config.tied ? table : read("lm_head.weight");
    Value logits = make<train::LinearOp>(
        local("logits"), f32Tensor({rows, config.vocab}), x, head, Value());
    auto loss = make<train::CrossEntropyOp>(local("loss"), scalar, scalar,
                                            f32Tensor({rows}), logits, labels);
    func::ReturnOp::create(builder, named(train::kForward),
                           ValueRange{loss.getLoss(), loss.getCount()});
  }

  static constexpr StringLiteral kCos = "rope.cos";
  static constexpr StringLiteral kSin = "rope.sin";

  const ModelConfig &config;
  int64_t sequence;
  OpBuilder builder;
  RankedTensorType ids;
  int64_t rows; ///< Tokens of a micro-batch.
  llvm::StringMap<RankedTensorType> types;
  StringAttr block;
  std::string prefix;
  Value cos, sin;
};

} // namespace

void model::registerImportDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  train::TrainDialect>();
}

OwningOpRef<ModuleOp> model::importModel(MLIRContext &context,
                                         const ModelConfig &config,
                                         int64_t microBatch, int64_t sequence) {
  if (rt::Status status = checkBatch(config, microBatch, sequence);
      !status.ok()) {
    emitError(UnknownLoc::get(&context)) << status.str();
    return nullptr;
  }
  context.loadDialect<arith::ArithDialect, func::FuncDialect,
                      train::TrainDialect>();
  return Importer(context, config, microBatch, sequence).run();
}
