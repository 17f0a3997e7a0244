//===- ModelOperations.cpp - Embedding, loss and attention ----------------===//
#include "runtime/abi/Sizes.h"
#include "runtime/kernels/host/HostKernels.h"
#include "runtime/kernels/host/Operations.h"
#include "runtime/kernels/host/Parallel.h"
#include "runtime/kernels/host/Workspace.h"

#include <cstring>

namespace ciuic::rt {
namespace {

/// A label that takes no part in the loss.
constexpr int32_t ignored = -100;

/// Rows that together have about this many elements form a chunk.
int64_t rowGrain(int64_t columns) {
  return std::max<int64_t>(1, 32768 / std::max<int64_t>(1, columns));
}

std::byte *row(const Tensor &tensor, int64_t index, int64_t column = 0) {
  return tensor.as<std::byte>() +
         (index * tensor.strides[0] + column) *
             static_cast<int64_t>(byteSize(tensor.dtype));
}

/// Token or label ids, one for each of `rows` rows.
Status expectIds(const char *what, const Tensor &ids, int64_t rows) {
  if (ids.dtype != abi::DType::I32 || !ids.isDense() || ids.elements() != rows)
    return Status::invalid(std::string(what) + " are " + describe(ids) +
                           ", expected i32 of " + std::to_string(rows) +
                           " elements");
  if (rows > INT32_MAX)
    return Status::invalid(std::to_string(rows) + " rows are too many");
  return {};
}

/// One f32 for each of `rows` rows, without gaps.
Status expectRowValues(const char *what, const Tensor &values, int64_t rows) {
  if (values.dtype != abi::DType::F32 || !values.isDense() ||
      values.elements() != rows)
    return Status::invalid(std::string(what) + " is " + describe(values) +
                           ", expected f32 of " + std::to_string(rows) +
                           " elements");
  return {};
}

/// Every id is in [0, limit), or -100 where that is allowed.
Status checkIds(const char *what, const int32_t *ids, int64_t rows,
                int64_t limit, bool allowIgnored) {
  for (int64_t i = 0; i < rows; ++i) {
    if (ids[i] >= 0 && ids[i] < limit)
      continue;
    if (allowIgnored && ids[i] == ignored)
      continue;
    return Status::invalid(std::string(what) + " of row " + std::to_string(i) +
                           " is " + std::to_string(ids[i]) +
                           ", expected 0 to " + std::to_string(limit - 1) +
                           (allowIgnored ? " or -100" : ""));
  }
  return {};
}

Status sameType(const char *what, const Tensor &a, const Tensor &b) {
  if (a.dtype != b.dtype)
    return Status::invalid(std::string(what) + " is " + describe(a) +
                           ", expected the type of " + describe(b));
  return {};
}

} // namespace

Result<OperationPtr> makeEmbedding(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 3, 0, 0));
  Tensor tokens = a.views[0], table = a.views[1], out = a.views[2];
  CIUIC_TRY(expectFloats("table", table, table.shape[0], table.shape[1]));
  CIUIC_TRY(expectFloats("out", out, out.shape[0], table.shape[1]));
  CIUIC_TRY(sameType("out", out, table));
  CIUIC_TRY(expectIds("tokens", tokens, out.shape[0]));
  return makeLambdaOperation([=]() -> Status {
    const int32_t *ids = tokens.as<int32_t>();
    CIUIC_TRY(checkIds("token", ids, out.rows(), table.rows(), false));
    size_t bytes = static_cast<size_t>(table.columns()) * byteSize(out.dtype);
    parallelChunks(out.rows(), rowGrain(out.columns()),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i)
                       std::memcpy(row(out, i), row(table, ids[i]), bytes);
                   });
    return {};
  });
}

Result<OperationPtr> makeEmbeddingGrad(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 3, 1, 0));
  Tensor dy = a.views[0], tokens = a.views[1], out = a.views[2];
  bool add = a.ints[0] != 0;
  CIUIC_TRY(expectFloats("dy", dy, dy.shape[0], dy.shape[1]));
  CIUIC_TRY(expectFloats("out", out, out.shape[0], dy.shape[1]));
  CIUIC_TRY(sameType("out", out, dy));
  CIUIC_TRY(expectIds("tokens", tokens, dy.shape[0]));
  // The rows of each token as a linked list in rising order: so that each row
  // of the table has one writer, which adds in a fixed order.
  std::vector<int32_t> first(static_cast<size_t>(out.shape[0]));
  std::vector<int32_t> next(static_cast<size_t>(dy.shape[0]));
  return makeLambdaOperation([=, first = std::move(first),
                              next = std::move(next)]() mutable -> Status {
    const int32_t *ids = tokens.as<int32_t>();
    CIUIC_TRY(checkIds("token", ids, dy.rows(), out.rows(), false));
    std::fill(first.begin(), first.end(), -1);
    for (int64_t i = dy.rows() - 1; i >= 0; --i) {
      int32_t &head = first[static_cast<size_t>(ids[i])];
      next[static_cast<size_t>(i)] = head;
      head = static_cast<int32_t>(i);
    }
    size_t bytes = static_cast<size_t>(out.columns()) * byteSize(out.dtype);
    parallelChunks(
        out.rows(), rowGrain(out.columns()), [&](int64_t begin, int64_t end) {
          for (int64_t id = begin; id < end; ++id) {
            int32_t head = first[static_cast<size_t>(id)];
            if (head >= 0)
              hostKernels().sumListedRows(dy.dtype, dy.data, dy.strides[0],
                                          next.data(), head, row(out, id),
                                          out.columns(), add);
            else if (!add)
              std::memset(row(out, id), 0, bytes);
          }
        });
    return {};
  });
}

Result<OperationPtr> makeCrossEntropy(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 5, 0, 0));
  Tensor logits = a.views[0], labels = a.views[1], loss = a.views[2],
         count = a.views[3], lse = a.views[4];
  CIUIC_TRY(expectFloats("logits", logits, logits.shape[0], logits.shape[1]));
  CIUIC_TRY(expectIds("labels", labels, logits.shape[0]));
  CIUIC_TRY(expectTensor("loss", loss, abi::DType::F32, 1, 1));
  CIUIC_TRY(expectTensor("count", count, abi::DType::F32, 1, 1));
  CIUIC_TRY(expectRowValues("lse", lse, logits.shape[0]));
  return makeLambdaOperation([=]() -> Status {
    const int32_t *ids = labels.as<int32_t>();
    int64_t rows = logits.rows();
    CIUIC_TRY(checkIds("label", ids, rows, logits.columns(), true));
    parallelChunks(rows, rowGrain(logits.columns()),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i)
                       lse.as<float>()[i] = hostKernels().logSumExp(
                           logits.dtype, row(logits, i), logits.columns());
                   });
    double sum = 0;
    int64_t counted = 0;
    for (int64_t i = 0; i < rows; ++i) {
      if (ids[i] == ignored)
        continue;
      float logit = 0;
      hostKernels().convert(logits.dtype, row(logits, i, ids[i]),
                            abi::DType::F32, &logit, 1);
      sum += static_cast<double>(lse.as<float>()[i]) - logit;
      ++counted;
    }
    *loss.as<float>() = static_cast<float>(sum);
    *count.as<float>() = static_cast<float>(counted);
    return {};
  });
}

Result<OperationPtr> makeCrossEntropyGrad(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 5, 0, 0));
  Tensor seed = a.views[0], logits = a.views[1], labels = a.views[2],
         lse = a.views[3], out = a.views[4];
  CIUIC_TRY(expectTensor("seed", seed, abi::DType::F32, 1, 1));
  CIUIC_TRY(expectFloats("logits", logits, logits.shape[0], logits.shape[1]));
  CIUIC_TRY(expectFloats("out", out, logits.shape[0], logits.shape[1]));
  CIUIC_TRY(sameType("out", out, logits));
  CIUIC_TRY(expectIds("labels", labels, logits.shape[0]));
  CIUIC_TRY(expectRowValues("lse", lse, logits.shape[0]));
  return makeLambdaOperation([=]() -> Status {
    const int32_t *ids = labels.as<int32_t>();
    CIUIC_TRY(checkIds("label", ids, logits.rows(), logits.columns(), true));
    float scale = *seed.as<float>();
    size_t bytes = static_cast<size_t>(out.columns()) * byteSize(out.dtype);
    parallelChunks(logits.rows(), rowGrain(logits.columns()),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       if (ids[i] == ignored)
                         std::memset(row(out, i), 0, bytes);
                       else
                         hostKernels().softmaxGrad(
                             logits.dtype, row(logits, i), lse.as<float>()[i],
                             scale, ids[i], row(out, i), out.columns());
                     }
                   });
    return {};
  });
}

Result<OperationPtr> makeCrossEntropyWithGrad(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 6, 0, 0));
  Tensor seed = a.views[0], logits = a.views[1], labels = a.views[2],
         loss = a.views[3], count = a.views[4], out = a.views[5];
  CIUIC_TRY(expectTensor("seed", seed, abi::DType::F32, 1, 1));
  CIUIC_TRY(expectFloats("logits", logits, logits.shape[0], logits.shape[1]));
  CIUIC_TRY(expectFloats("out", out, logits.shape[0], logits.shape[1]));
  CIUIC_TRY(sameType("out", out, logits));
  CIUIC_TRY(expectIds("labels", labels, logits.shape[0]));
  CIUIC_TRY(expectTensor("loss", loss, abi::DType::F32, 1, 1));
  CIUIC_TRY(expectTensor("count", count, abi::DType::F32, 1, 1));
  std::vector<double> losses(static_cast<size_t>(logits.shape[0]));
  return makeLambdaOperation([=,
                              losses = std::move(losses)]() mutable -> Status {
    const int32_t *ids = labels.as<int32_t>();
    int64_t rows = logits.rows();
    CIUIC_TRY(checkIds("label", ids, rows, logits.columns(), true));
    float scale = *seed.as<float>();
    size_t bytes = static_cast<size_t>(out.columns()) * byteSize(out.dtype);
    // A row is still in the cache when its gradient takes its place.
    parallelChunks(
        rows, rowGrain(logits.columns()), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            if (ids[i] == ignored) {
              std::memset(row(out, i), 0, bytes);
              continue;
            }
            float lse = hostKernels().logSumExp(logits.dtype, row(logits, i),
                                                logits.columns());
            float logit = 0;
            hostKernels().convert(logits.dtype, row(logits, i, ids[i]),
                                  abi::DType::F32, &logit, 1);
            losses[static_cast<size_t>(i)] = static_cast<double>(lse) - logit;
            hostKernels().softmaxGrad(logits.dtype, row(logits, i), lse, scale,
                                      ids[i], row(out, i), out.columns());
          }
        });
    double sum = 0;
    int64_t counted = 0;
    for (int64_t i = 0; i < rows; ++i)
      if (ids[i] != ignored) {
        sum += losses[static_cast<size_t>(i)];
        ++counted;
      }
    *loss.as<float>() = static_cast<float>(sum);
    *count.as<float>() = static_cast<float>(counted);
    return {};
  });
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {

struct AttentionTask {
  AttentionShape shape{};
  int64_t sequences = 0, heads = 0, kvHeads = 0;
  abi::DType type = abi::DType::F32;
};

/// What both directions have in common: `q` rows x heads*dim, `k` likewise.
Result<AttentionTask> checkAttention(const TaskArguments &a, const Tensor &q,
                                     const Tensor &k) {
  AttentionTask task;
  int64_t seq = a.ints[0], heads = a.ints[1], kvHeads = a.ints[2];
  int64_t rows = q.shape[0];
  if (seq <= 0 || heads <= 0 || kvHeads <= 0 || rows % seq != 0 ||
      heads % kvHeads != 0 || q.shape[1] % heads != 0)
    return Status::invalid("cannot divide " + describe(q) +
                           " into sequences of " + std::to_string(seq) +
                           " with " + std::to_string(heads) + " heads of " +
                           std::to_string(kvHeads));
  int64_t dim = q.shape[1] / heads;
  if (dim < 1 || dim > 1024)
    return Status::invalid("a head has " + std::to_string(dim) +
                           " features, expected 1 to 1024");
  CIUIC_TRY(expectFloats("q", q, rows, heads * dim));
  CIUIC_TRY(expectFloats("k", k, rows, kvHeads * dim));
  CIUIC_TRY(sameType("k", k, q));
  task.shape = {seq, dim, heads / kvHeads, static_cast<float>(a.reals[0])};
  task.sequences = rows / seq;
  task.heads = heads;
  task.kvHeads = kvHeads;
  task.type = q.dtype;
  return task;
}

Status expectAlike(const char *what, const Tensor &tensor, const Tensor &to) {
  CIUIC_TRY(expectFloats(what, tensor, to.shape[0], to.shape[1]));
  return sameType(what, tensor, to);
}

/// lse: a row a token, a column a head.
Status expectLse(const Tensor &lse, int64_t rows, int64_t heads) {
  return expectTensor("lse", lse, abi::DType::F32, rows, heads);
}

HeadView headOf(const Tensor &tensor, int64_t sequence, int64_t seq,
                int64_t head, int64_t dim) {
  return {row(tensor, sequence * seq, head * dim), tensor.strides[0]};
}

} // namespace

Result<OperationPtr> makeAttentionForward(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 5, 3, 1));
  Tensor q = a.views[0], k = a.views[1], v = a.views[2], out = a.views[3],
         lse = a.views[4];
  CIUIC_TRY_ASSIGN(AttentionTask task, checkAttention(a, q, k));
  CIUIC_TRY(expectAlike("v", v, k));
  CIUIC_TRY(expectAlike("out", out, q));
  CIUIC_TRY(expectLse(lse, q.shape[0], task.heads));
  a.workspace->reserve(
      static_cast<uint64_t>(attentionForwardScratch(task.shape.dim)) * 4);
  Workspace *workspace = a.workspace;
  return makeLambdaOperation([=]() -> Status {
    int64_t seq = task.shape.seq, dim = task.shape.dim;
    int64_t blocks = chunkCount(seq, attentionQueryRows);
    // Blocks of one head are neighbours: they read the same keys and values.
    parallelFor(task.sequences * task.heads * blocks, [&](int64_t chunk) {
      // The last block has the most keys to see; it goes first.
      int64_t block = blocks - 1 - chunk % blocks;
      int64_t head = chunk / blocks % task.heads;
      int64_t sequence = chunk / blocks / task.heads;
      int64_t kvHead = head / task.shape.queryHeads;
      int64_t begin = block * attentionQueryRows;
      hostKernels().attentionForward(
          task.shape, task.type, begin,
          std::min(seq, begin + attentionQueryRows),
          headOf(q, sequence, seq, head, dim),
          headOf(k, sequence, seq, kvHead, dim),
          headOf(v, sequence, seq, kvHead, dim),
          headOf(out, sequence, seq, head, dim),
          lse.as<float>() + sequence * seq * task.heads + head, task.heads,
          reinterpret_cast<float *>(workspace->local()));
    });
    return {};
  });
}

Result<OperationPtr> makeAttentionBackward(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 9, 3, 1));
  Tensor dy = a.views[0], q = a.views[1], k = a.views[2], v = a.views[3],
         y = a.views[4], lse = a.views[5], dq = a.views[6], dk = a.views[7],
         dv = a.views[8];
  CIUIC_TRY_ASSIGN(AttentionTask task, checkAttention(a, q, k));
  CIUIC_TRY(expectAlike("v", v, k));
  CIUIC_TRY(expectAlike("dy", dy, q));
  CIUIC_TRY(expectAlike("y", y, q));
  CIUIC_TRY(expectAlike("dq", dq, q));
  CIUIC_TRY(expectAlike("dk", dk, k));
  CIUIC_TRY(expectAlike("dv", dv, k));
  CIUIC_TRY(expectLse(lse, q.shape[0], task.heads));
  a.workspace->reserve(static_cast<uint64_t>(attentionBackwardScratch(
                           task.shape.seq, task.shape.dim)) *
                       4);
  Workspace *workspace = a.workspace;
  return makeLambdaOperation([=]() -> Status {
    int64_t seq = task.shape.seq, dim = task.shape.dim;
    parallelFor(task.sequences * task.kvHeads, [&](int64_t chunk) {
      int64_t kvHead = chunk % task.kvHeads, sequence = chunk / task.kvHeads;
      int64_t head = kvHead * task.shape.queryHeads;
      hostKernels().attentionBackward(
          task.shape, task.type, headOf(dy, sequence, seq, head, dim),
          headOf(q, sequence, seq, head, dim),
          headOf(k, sequence, seq, kvHead, dim),
          headOf(v, sequence, seq, kvHead, dim),
          headOf(y, sequence, seq, head, dim),
          lse.as<float>() + sequence * seq * task.heads + head, task.heads,
          headOf(dq, sequence, seq, head, dim),
          headOf(dk, sequence, seq, kvHead, dim),
          headOf(dv, sequence, seq, kvHead, dim),
          reinterpret_cast<float *>(workspace->local()));
    });
    return {};
  });
}

} // namespace ciuic::rt
