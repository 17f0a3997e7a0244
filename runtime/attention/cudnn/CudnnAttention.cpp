//===- CudnnAttention.cpp - Attention by cuDNN's fused engines ------------===//
//
// The graphs are those that cuDNN's documentation gives for scaled dot-product
// attention ("Scaled Dot Product Attention Forward" and "... Backward"): its
// fused engines recognise these chains of operations. q is batch x heads x
// rows x dim, its key counterpart transposed; heads of k and v are broadcast
// over their group of query heads.
//
//===----------------------------------------------------------------------===//

#include "runtime/attention/cudnn/CudnnAttention.h"

#include <bit>
#include <limits>

namespace ciuic::rt {

using namespace cudnn;

/// What all tasks of one shape share.
struct CudnnTask::Shared {
  std::shared_ptr<const Library> library;
  Handle handle = nullptr;
  Plan plan;
  /// Tensors by the view that holds them.
  std::vector<std::pair<Graph::Tensor, uint32_t>> views;
  /// Numbers read from here while the plan runs.
  std::vector<std::pair<Graph::Tensor, float>> numbers;
  /// A tensor in scratch, before the plan's workspace; or none.
  Graph::Tensor inScratch = Graph::none;
  uint64_t inScratchBytes = 0;

  uint64_t scratchBytes() const { return inScratchBytes + plan.workspaceBytes; }
};

namespace {

/// The numbers of a task, checked.
struct Shape {
  bool forward;
  DataType type;
  int64_t sequences, seq, heads, kvHeads, dim;
  float scale;
};

constexpr int64_t blockRows = 64; ///< Sequences are whole blocks of these.

Status readShape(abi::TaskKind kind, const abi::CudaLaunch &task,
                 Shape &shape) {
  shape.forward = kind == abi::TaskKind::AttentionForward;
  const uint32_t views = shape.forward ? 5 : 9, q = shape.forward ? 0 : 1;
  if (!shape.forward && kind != abi::TaskKind::AttentionBackward)
    return Status::machine("cuDNN serves attention only");
  if (task.viewCount != views || task.intCount != 3 || task.realCount != 1)
    return Status::machine("an attention task has " + std::to_string(views) +
                           " views, 3 integers and 1 real, found " +
                           std::to_string(task.viewCount) + ", " +
                           std::to_string(task.intCount) + " and " +
                           std::to_string(task.realCount));
  if (task.skip)
    return Status::machine("cuDNN cannot skip a task by a flag");
  const abi::View &queries = task.views[q];
  switch (queries.dtype) {
  case abi::DType::F16:
    shape.type = DataType::Half;
    break;
  case abi::DType::BF16:
    shape.type = DataType::BFloat16;
    break;
  default:
    return Status::machine("cuDNN's fused attention takes f16 and bf16 only");
  }
  const int64_t rows = queries.shape[0];
  shape.seq = task.ints[0];
  shape.heads = task.ints[1];
  shape.kvHeads = task.ints[2];
  shape.scale = static_cast<float>(task.reals[0]);
  if (shape.seq < 1 || shape.heads < 1 || shape.kvHeads < 1 || rows < 1 ||
      rows % shape.seq != 0 || shape.heads % shape.kvHeads != 0 ||
      queries.shape[1] % shape.heads != 0)
    return Status::machine("attention of " + std::to_string(rows) + " x " +
                           std::to_string(queries.shape[1]) +
                           " does not divide into sequences and heads");
  if (shape.seq % blockRows != 0)
    return Status::machine("a sequence of " + std::to_string(shape.seq) +
                           " is not a multiple of " +
                           std::to_string(blockRows));
  shape.sequences = rows / shape.seq;
  shape.dim = queries.shape[1] / shape.heads;
  if (shape.dim % 8 != 0)
    return Status::machine("a head size of " + std::to_string(shape.dim) +
                           " is not a multiple of 8");
  for (uint32_t i = 0; i < task.viewCount; ++i) {
    const abi::View &view = task.views[i];
    if (view.shape[0] != rows || (view.shape[1] > 1 && view.strides[1] != 1))
      return Status::machine("view " + std::to_string(i) +
                             " is not made of dense rows");
    const bool isStatistics = view.dtype == abi::DType::F32;
    if (!isStatistics && (view.strides[0] % 8 != 0 ||
                          std::bit_cast<uintptr_t>(task.pointers[i]) % 16 != 0))
      return Status::machine("rows of view " + std::to_string(i) +
                             " are not at multiples of 16 bytes");
  }
  return Status();
}

/// The operations that both directions share, on graphs of one shape.
struct Builder {
  Graph &graph;
  const Shape &shape;
  const abi::CudaLaunch &task;
  CudnnTask::Shared &shared;

  Sizes scoreSizes() const {
    return {shape.sequences, shape.heads, shape.seq, shape.seq};
  }
  Sizes rowSizes() const {
    return {shape.sequences, shape.heads, shape.seq, 1};
  }

  /// A view as batch x heads x rows x dim, or with the last two exchanged.
  Graph::Tensor heads(uint32_t view, int64_t count, bool transposed = false) {
    const int64_t stride = task.views[view].strides[0];
    Sizes sizes = {shape.sequences, count, shape.seq, shape.dim};
    Sizes strides = {shape.seq * stride, shape.dim, stride, 1};
    if (transposed) {
      std::swap(sizes[2], sizes[3]);
      std::swap(strides[2], strides[3]);
    }
    return bound(graph.stored(shape.type, sizes, strides), view);
  }

  /// The view of lse: rows x heads.
  Graph::Tensor statistics(uint32_t view) {
    const int64_t stride = task.views[view].strides[0];
    return bound(graph.stored(DataType::Float, rowSizes(),
                              {shape.seq * stride, 1, stride, 1}),
                 view);
  }

  Graph::Tensor bound(Graph::Tensor tensor, uint32_t view) {
    shared.views.emplace_back(tensor, view);
    return tensor;
  }

  Graph::Tensor number(float value) {
    Graph::Tensor tensor = graph.number();
    shared.numbers.emplace_back(tensor, value);
    return tensor;
  }

  Graph::Tensor apply(Pointwise mode, Graph::Tensor x, Graph::Tensor b,
                      const Sizes &sizes) {
    Graph::Tensor y = graph.passing(DataType::Float, sizes);
    graph.pointwise(mode, x, b, y);
    return y;
  }

  /// q kᵀ * scale.
  Graph::Tensor scores(Graph::Tensor q, Graph::Tensor kTransposed,
                       Graph::Tensor scale) {
    Graph::Tensor products = graph.passing(DataType::Float, scoreSizes());
    graph.matmul(q, kTransposed, products);
    return apply(Pointwise::Mul, products, scale, scoreSizes());
  }

  /// x where the query is not before the key, else minus infinity.
  Graph::Tensor causal(Graph::Tensor x) {
    // Before 9.10 the engines know the mask by the lowest number.
    const float masked = shared.library->version() < 91000
                             ? std::numeric_limits<float>::lowest()
                             : -std::numeric_limits<float>::infinity();
    Graph::Tensor row = graph.passing(DataType::Int32, scoreSizes());
    Graph::Tensor column = graph.passing(DataType::Int32, scoreSizes());
    graph.index(x, 2, row);
    graph.index(x, 3, column);
    Graph::Tensor seen = graph.passing(DataType::Boolean, scoreSizes());
    graph.pointwise(Pointwise::GreaterOrEqual, row, column, seen,
                    DataType::Boolean);
    Graph::Tensor y = graph.passing(DataType::Float, scoreSizes());
    graph.select(x, number(masked), seen, y);
    return y;
  }

  void forward();
  void backward();
};

void Builder::forward() {
  Graph::Tensor q = heads(0, shape.heads);
  Graph::Tensor k = heads(1, shape.kvHeads, /*transposed=*/true);
  Graph::Tensor v = heads(2, shape.kvHeads);
  Graph::Tensor out = heads(3, shape.heads);
  Graph::Tensor lse = statistics(4);

  Graph::Tensor s = causal(scores(q, k, number(shape.scale)));
  Graph::Tensor top = graph.passing(DataType::Float, rowSizes());
  graph.reduce(Reduce::Max, s, top);
  Graph::Tensor less = apply(Pointwise::Sub, s, top, scoreSizes());
  Graph::Tensor e = apply(Pointwise::Exp, less, Graph::none, scoreSizes());
  Graph::Tensor sum = graph.passing(DataType::Float, rowSizes());
  graph.reduce(Reduce::Add, e, sum);
  Graph::Tensor log = apply(Pointwise::Log, sum, Graph::none, rowSizes());
  graph.pointwise(Pointwise::Add, top, log, lse);
  Graph::Tensor p = graph.passing(shape.type, scoreSizes());
  graph.pointwise(Pointwise::Div, e, sum, p);
  graph.matmul(p, v, out);
}

void Builder::backward() {
  Graph::Tensor dy = heads(0, shape.heads);
  Graph::Tensor q = heads(1, shape.heads);
  Graph::Tensor k = heads(2, shape.kvHeads, /*transposed=*/true);
  Graph::Tensor v = heads(3, shape.kvHeads, /*transposed=*/true);
  Graph::Tensor y = heads(4, shape.heads);
  Graph::Tensor lse = statistics(5);
  Graph::Tensor dq = heads(6, shape.heads);
  Graph::Tensor dk = heads(7, shape.kvHeads);
  Graph::Tensor dv = heads(8, shape.kvHeads);
  Graph::Tensor scale = number(shape.scale), one = number(1.0f);

  // delta = the sum over a row of dy * y, kept in scratch.
  const Sizes rows = {shape.sequences, shape.heads, shape.seq, shape.dim};
  const Sizes rowStrides = {shape.seq * shape.heads * shape.dim,
                            shape.seq * shape.dim, shape.heads * shape.dim, 1};
  Graph::Tensor products = graph.passing(DataType::Float, rows, rowStrides);
  graph.pointwise(Pointwise::Mul, dy, y, products);
  Graph::Tensor sums = graph.passing(DataType::Float, rowSizes());
  graph.reduce(Reduce::Add, products, sums);
  Graph::Tensor delta =
      graph.stored(DataType::Float, rowSizes(), denseStrides(rowSizes()));
  graph.pointwise(Pointwise::Mul, sums, one, delta);
  shared.inScratch = delta;
  const uint64_t deltaBytes =
      static_cast<uint64_t>(shape.sequences) * shape.heads * shape.seq * 4;
  shared.inScratchBytes = (deltaBytes + 255) / 256 * 256;

  // p = exp(scores - lse), and what is summed over queries.
  Graph::Tensor s = scores(q, k, scale);
  Graph::Tensor less = apply(Pointwise::Sub, s, lse, scoreSizes());
  Graph::Tensor p =
      apply(Pointwise::Exp, causal(less), Graph::none, scoreSizes());
  const Sizes transposed = {shape.seq * shape.seq * shape.heads,
                            shape.seq * shape.seq, 1, shape.seq};
  auto overQueries = [&](Graph::Tensor weights, Graph::Tensor right,
                         Graph::Tensor result) {
    Graph::Tensor turned = graph.passing(shape.type, scoreSizes(), transposed);
    graph.reshape(weights, turned);
    if (shape.heads == shape.kvHeads) {
      graph.matmul(turned, right, result);
      return;
    }
    Graph::Tensor whole = graph.passing(shape.type, rows);
    graph.matmul(turned, right, whole);
    graph.reduce(Reduce::Add, whole, result);
  };
  overQueries(p, dy, dv);

  // ds = p * (dy vᵀ - delta) * scale.
  Graph::Tensor dp = graph.passing(DataType::Float, scoreSizes());
  graph.matmul(dy, v, dp);
  Graph::Tensor dpLess = apply(Pointwise::Sub, dp, delta, scoreSizes());
  Graph::Tensor dsUnscaled = apply(Pointwise::Mul, dpLess, p, scoreSizes());
  Graph::Tensor ds = apply(Pointwise::Mul, dsUnscaled, scale, scoreSizes());
  overQueries(ds, q, dk);

  // dq = ds k, with k as it lies.
  const int64_t kStride = task.views[2].strides[0];
  Graph::Tensor kRows = graph.passing(
      shape.type, {shape.sequences, shape.kvHeads, shape.seq, shape.dim},
      {shape.seq * kStride, shape.dim, kStride, 1});
  graph.reshape(k, kRows);
  graph.matmul(ds, kRows, dq);
}

/// All that a plan depends on, besides the device.
std::vector<int64_t> keyOf(abi::TaskKind kind, const abi::CudaLaunch &task) {
  std::vector<int64_t> key = {static_cast<int64_t>(kind),
                              static_cast<int64_t>(task.scratchBytes),
                              task.skip != nullptr};
  key.insert(key.end(), task.ints, task.ints + task.intCount);
  for (uint32_t i = 0; i < task.realCount; ++i)
    key.push_back(std::bit_cast<int64_t>(task.reals[i]));
  for (uint32_t i = 0; i < task.viewCount; ++i) {
    const abi::View &view = task.views[i];
    key.insert(key.end(), {static_cast<int64_t>(view.dtype), view.shape[0],
                           view.shape[1], view.strides[0], view.strides[1],
                           std::bit_cast<intptr_t>(task.pointers[i]) % 16});
  }
  return key;
}

} // namespace

Status CudnnTask::run(void *stream) const {
  if (!shared->handle)
    return Status::machine("cuDNN was opened without a device");
  const Functions &functions = shared->library->functions();
  CIUIC_TRY(shared->library->toStatus(
      functions.cudnnSetStream(shared->handle, stream), "cudnnSetStream"));
  return shared->library->toStatus(
      functions.cudnnBackendExecute(shared->handle,
                                    shared->plan.descriptor.get(), pack.get()),
      "cudnnBackendExecute");
}

uint64_t CudnnTask::scratchBytes() const { return shared->scratchBytes(); }

Result<std::unique_ptr<Cudnn>> Cudnn::open(const std::string &name) {
  CIUIC_TRY_ASSIGN(std::shared_ptr<const Library> library, Library::open(name));
  std::unique_ptr<Cudnn> opened(new Cudnn(library));
  CIUIC_TRY(library->toStatus(
      library->functions().cudnnCreate(&opened->device.handle), "cudnnCreate"));
  return opened;
}

Result<std::unique_ptr<Cudnn>>
Cudnn::openWithoutDevice(const std::string &json, const std::string &name) {
  CIUIC_TRY_ASSIGN(std::shared_ptr<const Library> library, Library::open(name));
  std::unique_ptr<Cudnn> opened(new Cudnn(library));
  CIUIC_TRY_ASSIGN(opened->properties,
                   OwnedDescriptor::make(library, kind::deviceProperties));
  CIUIC_TRY(opened->properties.set(attribute::deviceJson, type::character,
                                   static_cast<int64_t>(json.size()),
                                   json.data()));
  CIUIC_TRY(opened->properties.finalize());
  opened->device.properties = opened->properties.get();
  return opened;
}

Cudnn::~Cudnn() {
  plans.clear();
  if (device.handle)
    library->functions().cudnnDestroy(device.handle);
}

Result<std::shared_ptr<const CudnnTask::Shared>>
Cudnn::plan(abi::TaskKind kind, const abi::CudaLaunch &task) {
  Shape shape;
  CIUIC_TRY(readShape(kind, task, shape));
  auto shared = std::make_shared<CudnnTask::Shared>();
  shared->library = library;
  shared->handle = device.handle;
  Graph graph(library);
  Builder builder{graph, shape, task, *shared};
  if (shape.forward)
    builder.forward();
  else
    builder.backward();
  if (task.scratchBytes < shared->inScratchBytes)
    return Status::machine(std::to_string(task.scratchBytes) +
                           " bytes of scratch, needs " +
                           std::to_string(shared->inScratchBytes));
  // Known to be too little: no engine has to compile kernels to say so.
  const uint64_t leastBytes = shape.forward
                                  ? 0
                                  : static_cast<uint64_t>(shape.sequences) *
                                        shape.heads * shape.seq * shape.seq * 2;
  if (task.scratchBytes - shared->inScratchBytes < leastBytes)
    return Status::machine(
        std::to_string(task.scratchBytes) + " bytes of scratch, needs " +
        std::to_string(shared->inScratchBytes + leastBytes) + " at least");
  CIUIC_TRY_ASSIGN(shared->plan,
                   graph.plan(device, /*deterministic=*/true,
                              task.scratchBytes - shared->inScratchBytes));
  return std::shared_ptr<const CudnnTask::Shared>(std::move(shared));
}

Result<std::unique_ptr<CudnnTask>>
Cudnn::attention(abi::TaskKind kind, const abi::CudaLaunch &task) {
  auto [place, isNew] = plans.try_emplace(keyOf(kind, task));
  Entry &entry = place->second;
  if (isNew) {
    Result<std::shared_ptr<const CudnnTask::Shared>> made = plan(kind, task);
    if (made.ok())
      entry.plan = *made;
    else
      entry.refusal = made.takeStatus().str();
  }
  if (!entry.plan)
    return Status::machine(entry.refusal);
  const CudnnTask::Shared &shared = *entry.plan;

  std::vector<int64_t> ids;
  std::vector<const void *> addresses;
  for (auto [tensor, view] : shared.views) {
    ids.push_back(tensor);
    addresses.push_back(task.pointers[view]);
  }
  for (const auto &[tensor, value] : shared.numbers) {
    ids.push_back(tensor);
    addresses.push_back(&value);
  }
  if (shared.inScratch != Graph::none) {
    ids.push_back(shared.inScratch);
    addresses.push_back(task.scratch);
  }
  void *workspace =
      shared.plan.workspaceBytes > 0
          ? static_cast<char *>(task.scratch) + shared.inScratchBytes
          : nullptr;
  CIUIC_TRY_ASSIGN(OwnedDescriptor pack,
                   OwnedDescriptor::make(library, kind::variantPack));
  const int64_t count = static_cast<int64_t>(ids.size());
  CIUIC_TRY(pack.set(attribute::packIds, type::int64, count, ids.data()));
  CIUIC_TRY(pack.set(attribute::packPointers, type::pointer, count,
                     addresses.data()));
  CIUIC_TRY(pack.set(attribute::packWorkspace, type::pointer, 1, &workspace));
  CIUIC_TRY(pack.finalize());
  return std::unique_ptr<CudnnTask>(new CudnnTask(entry.plan, std::move(pack)));
}

} // namespace ciuic::rt
