//===- Bigram.h - The smallest job that trains ------------------*- C++ -*-===//
//
// A table of logits: row a holds the scores of what follows token a. It goes
// through embedding, loss, gradients, collectives and Adam as a compiled model
// does, either with whole states on every rank or with chunks.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_RUNTIME_JOB_BIGRAM_H
#define CIUIC_TEST_RUNTIME_JOB_BIGRAM_H

#include "test/runtime/task/TestProgram.h"

namespace ciuic::rt::test {

struct BigramShape {
  uint32_t ranks = 1;
  int64_t microBatch = 4;
  int64_t accumulation = 1;
  bool sharded = false; ///< Chunks of everything, else everything whole.
  bool half = false;    ///< A bf16 parameter with an f32 master.
  double lr = 0.05;
  double lossScale = 0; ///< Of a state that nothing reads; 0: none.
  bool dynamicScale = false;
};

inline constexpr int64_t bigramVocabulary = 259;
inline constexpr int64_t bigramSequence = 8;

class Bigram : public TestBundle {
public:
  explicit Bigram(const BigramShape &shape) : TestBundle(shape.ranks) {
    using abi::DType;
    using abi::Role;
    using abi::Stream;
    using abi::TaskKind;
    constexpr int64_t v = bigramVocabulary;
    const int64_t rows = shape.microBatch * bigramSequence;
    bundle.microBatch = shape.microBatch;
    bundle.sequence = bigramSequence;
    bundle.accumulation = shape.accumulation;
    bundle.vocabulary = v;
    bundle.gemmFlops = 1;
    const DType type = shape.half ? DType::BF16 : DType::F32;

    int64_t align = 128 * shape.ranks;
    int64_t elements = (v * v + align - 1) / align * align;
    int64_t chunk = elements / shape.ranks;
    int64_t held = shape.sharded ? chunk : elements;
    buckets.push_back({"embed", static_cast<uint64_t>(elements),
                       static_cast<uint64_t>(chunk), true});
    members.push_back(
        {"table.weight", 0, 0, 2, {v, v}, {abi::InitKind::Normal, {0.02}, {}}});

    abi::View tokens =
        view("tokens", shape.microBatch, bigramSequence, DType::I32);
    abi::View labels =
        view("labels", shape.microBatch, bigramSequence, DType::I32);
    bundle.tokensBuffer = static_cast<int32_t>(tokens.buffer);
    bundle.labelsBuffer = static_cast<int32_t>(labels.buffer);

    abi::View param = state("embed.param", Role::Parameter, "", held, type);
    abi::View master =
        shape.half ? state("embed.master", Role::Master, "", held) : param;
    abi::View grad = state("embed.grad", Role::Gradient, "", held);
    abi::View m = state("embed.exp_avg", Role::Moment, "exp_avg", held);
    abi::View s = state("embed.exp_avg_sq", Role::Moment, "exp_avg_sq", held);
    abi::View step = scalarState("step", DType::I32);
    abi::View loss = scalarState("metric.loss");
    abi::View count = scalarState("metric.tokens");
    abi::View evalLoss = scalarState("metric.eval_loss");
    abi::View evalCount = scalarState("metric.eval_tokens");
    abi::View reportLoss = scalarState("report.loss");
    abi::View norm = scalarState("report.grad_norm");
    abi::View lr = scalarState("report.lr");
    abi::View skip = scalarState("report.skip");
    abi::View scale = scalarState("one", DType::F32, 1);

    if (shape.lossScale > 0)
      scalarState("loss_scale", DType::F32, shape.lossScale);
    if (shape.dynamicScale)
      scalarState("scaler.iteration", DType::I32);

    // The whole bucket, and the table inside it.
    abi::View whole = shape.sharded ? flat("whole", elements, type) : param;
    abi::View wholeGrad = flat("whole.grad", elements, type);
    auto table = [&](abi::View of) {
      of.rank = 2;
      of.shape[0] = of.shape[1] = v;
      of.strides[0] = v;
      return of;
    };
    abi::View logits = view("logits", rows, v, type);
    abi::View lse = view("lse", 1, rows, DType::F32, 1);
    abi::View seed = scalarState(
        "seed", DType::F32,
        1.0 / static_cast<double>(rows * shape.accumulation), Role::Table);
    abi::View rowLoss = scalar("row.loss"), rowCount = scalar("row.count");
    abi::View chunkGrad =
        shape.sharded ? flat("chunk.grad", chunk, type) : wholeGrad;
    abi::View sum = scalar("sum", DType::F64), coef = scalar("coef");

    auto forward = [&](ProgramTables &p, const abi::View &toLoss,
                       const abi::View &toCount, int64_t addTo) {
      if (shape.sharded)
        add(p, "gather embed", TaskKind::AllGather, {param, whole});
      add(p, "logits", TaskKind::Embedding, {tokens, table(whole), logits});
      add(p, "loss", TaskKind::CrossEntropy,
          {logits, labels, rowLoss, rowCount, lse});
      add(p, "loss sum", TaskKind::Accumulate, {rowLoss, toLoss},
          {.ints = {addTo}});
      add(p, "token sum", TaskKind::Accumulate, {rowCount, toCount},
          {.ints = {addTo}});
    };
    for (int64_t addTo : {0, 1}) {
      auto &p = program(addTo ? "micro_next" : "micro_first");
      forward(p, loss, count, addTo);
      add(p, "dlogits", TaskKind::CrossEntropyGrad,
          {seed, logits, labels, lse, logits});
      // Padding after the table must be zero.
      add(p, "clear", TaskKind::Zero, {wholeGrad});
      add(p, "dtable", TaskKind::EmbeddingGrad,
          {logits, tokens, table(wholeGrad)}, {.ints = {0}});
      if (shape.sharded)
        add(p, "reduce embed", TaskKind::ReduceScatter, {wholeGrad, chunkGrad},
            {.ints = {1}});
      add(p, "accumulate", TaskKind::Accumulate, {chunkGrad, grad},
          {.ints = {addTo}});
    }
    forward(program("eval_first"), evalLoss, evalCount, 0);

    auto &p = program("apply");
    if (!shape.sharded)
      add(p, "reduce embed", TaskKind::AllReduce, {grad, grad}, {.ints = {1}});
    add(p, "loss over ranks", TaskKind::AllReduce, {loss, loss}, {.ints = {0}});
    add(p, "tokens over ranks", TaskKind::AllReduce, {count, count},
        {.ints = {0}});
    add(p, "square sum", TaskKind::SquareSum, {grad, sum});
    if (shape.sharded)
      add(p, "sum over ranks", TaskKind::AllReduce, {sum, sum}, {.ints = {0}});
    double slots = static_cast<double>(rows * shape.accumulation * shape.ranks);
    add(p, "grad scale", TaskKind::GradScale,
        {sum, count, scale, coef, norm, skip},
        {.ints = {1}, .reals = {slots, 0}});
    add(p, "lr", TaskKind::LearningRate, {step, lr},
        {.ints = {0, 0, 0, 0}, .reals = {shape.lr, 0, 0, 0, 0}});
    std::vector<abi::View> adam = {master, grad, m, s, lr, coef, step, skip};
    if (shape.half)
      adam.push_back(param);
    add(p, "adam", TaskKind::Adam, adam,
        {.ints = {1, 1, shape.sharded ? held : 0, 0, 100},
         .reals = {0.9, 0.999, 1e-8, 0.01}});
    add(p, "advance", TaskKind::Advance, {step, skip, step});
    add(p, "mean loss", TaskKind::Launch, {loss, count, reportLoss},
        {.ints = {1, 1}, .kernel = [](int64_t, int64_t, void *const *pointers) {
           float tokens = *static_cast<const float *>(pointers[1]);
           *static_cast<float *>(pointers[2]) =
               *static_cast<const float *>(pointers[0]) /
               (tokens > 1 ? tokens : 1);
         }});
    finish();
  }

private:
  abi::View flat(const char *name, int64_t n, abi::DType dtype) {
    return view(name, 1, n, dtype, 1);
  }

  abi::View state(const char *name, abi::Role role, const char *slot, int64_t n,
                  abi::DType dtype = abi::DType::F32) {
    abi::View storage = flat(name, n, dtype);
    bool sharded = n != static_cast<int64_t>(buckets[0].elements);
    states.push_back({name,
                      role,
                      slot,
                      storage,
                      0,
                      sharded,
                      {abi::InitKind::Constant, {}, {}}});
    return storage;
  }

  abi::View scalarState(const char *name, abi::DType dtype = abi::DType::F32,
                        double value = 0, abi::Role role = abi::Role::Scalar) {
    abi::View storage = scalar(name, dtype);
    states.push_back({name,
                      role,
                      "",
                      storage,
                      -1,
                      false,
                      {abi::InitKind::Constant, {value}, {}}});
    return storage;
  }
};

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_JOB_BIGRAM_H
