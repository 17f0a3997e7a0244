//===- Gemm.cpp - Matrix products on the CPU ------------------------------===//
#include "runtime/blas/Gemm.h"

#include "runtime/abi/Sizes.h"
#include "runtime/abi/Staging.h"
#include "runtime/base/HeldSignals.h"
#include "runtime/kernels/host/HostKernels.h"
#include "runtime/kernels/host/Parallel.h"
#include "runtime/kernels/host/Workspace.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <atomic>
#include <chrono>
#include <unordered_map>

namespace ciuic::rt {
namespace {

int64_t mostTileRows(abi::DType dtype, int64_t m, int64_t n) {
  bool enough =
      chunkCount(m, gemmTallTileRows) * chunkCount(n, gemmTileColumns) >=
      gemmEnoughTiles;
  return dtype == abi::DType::BF16 && hasNativeBf16() && enough
             ? gemmTallTileRows
             : gemmTileRows;
}

/// Debian's oneDNN is threaded by OpenMP, whose number of threads each thread
/// sets for itself. TBB divides our work: one is enough.
void useOneOmpThread() {
  using SetThreads = void (*)(int);
  static const auto set = [] {
    void *library = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found =
        dlsym(library ? library : RTLD_DEFAULT, "omp_set_num_threads");
    return reinterpret_cast<SetThreads>(found);
  }();
  thread_local bool done = false;
  if (!done && set)
    set(1);
  done = true;
}

const dnnl::engine &engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::memory::data_type typeOf(abi::DType dtype) {
  return dtype == abi::DType::F32 ? dnnl::memory::data_type::f32
                                  : dnnl::memory::data_type::bf16;
}

} // namespace

bool hasNativeBf16() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") &&
         __builtin_cpu_supports("avx512vl");
}

//===----------------------------------------------------------------------===//
// Primitives
//===----------------------------------------------------------------------===//

/// A oneDNN product, with memory objects for each thread: their addresses are
/// set before each call.
class TilePrimitive {
public:
  TilePrimitive(const TileKey &key, int threads, Workspace &workspace)
      : workspace(workspace) {
    using Dims = dnnl::memory::dims;
    auto in = typeOf(key.in), out = typeOf(key.out);
    dnnl::memory::desc a({key.m, key.k}, in, Dims{key.aRow, key.aColumn});
    dnnl::memory::desc b({key.k, key.n}, in, Dims{key.bRow, key.bColumn});
    dnnl::memory::desc c({key.m, key.n}, out, Dims{key.cRow, 1});
    dnnl::memory::desc bias;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (key.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    if (key.hasBias)
      bias =
          dnnl::memory::desc({1, key.n}, typeOf(key.biasType), Dims{key.n, 1});
    auto description = key.hasBias ? dnnl::matmul::desc(a, b, bias, c)
                                   : dnnl::matmul::desc(a, b, c);
    dnnl::matmul::primitive_desc primitiveDesc(description, attributes,
                                               engine());
    primitive = dnnl::matmul(primitiveDesc);
    dnnl::memory::desc scratch = primitiveDesc.scratchpad_desc();
    // Plans count with no more.
    if (scratch.get_size() > uint64_t{gemmMostScratch})
      throw dnnl::error(dnnl_unimplemented, "needs too much scratch");
    workspace.reserve(scratch.get_size());
    for (int i = 0; i < threads; ++i) {
      calls.emplace_back(new Call{dnnl::stream(engine()), {}});
      auto add = [&](int argument, const dnnl::memory::desc &desc) {
        calls.back()->arguments.emplace(argument,
                                        dnnl::memory(desc, engine(), nullptr));
      };
      add(DNNL_ARG_SRC, a);
      add(DNNL_ARG_WEIGHTS, b);
      add(DNNL_ARG_DST, c);
      add(DNNL_ARG_SCRATCHPAD, scratch);
      if (key.hasBias)
        add(DNNL_ARG_BIAS, bias);
    }
  }

  void run(const void *a, const void *b, void *c, const void *bias) {
    int slot = tbb::this_task_arena::current_thread_index();
    auto index = static_cast<size_t>(slot < 0 ? 0 : slot);
    Call &call = *calls[index < calls.size() ? index : 0];
    auto set = [&](int argument, const void *data) {
      call.arguments.at(argument).set_data_handle(const_cast<void *>(data));
    };
    set(DNNL_ARG_SRC, a);
    set(DNNL_ARG_WEIGHTS, b);
    set(DNNL_ARG_DST, c);
    set(DNNL_ARG_SCRATCHPAD, workspace.local());
    if (bias)
      set(DNNL_ARG_BIAS, bias);
    // Some of oneDNN's kernels keep their buffer on the heap and its address in
    // the stack pointer: a signal's frame would be written over what lies
    // below.
    HeldSignals held;
    primitive.execute(call.stream, call.arguments);
  }

private:
  struct Call {
    dnnl::stream stream;
    std::unordered_map<int, dnnl::memory> arguments;
  };
  Workspace &workspace;
  dnnl::matmul primitive;
  std::vector<std::unique_ptr<Call>> calls;
};

GemmCache::GemmCache(int threads) : threads(threads) {}
GemmCache::~GemmCache() = default;

Result<TilePrimitive *> GemmCache::find(const TileKey &key,
                                        Workspace &workspace) {
  auto found = primitives.find(key);
  if (found != primitives.end())
    return found->second.get();
  useOneOmpThread();
  std::unique_ptr<TilePrimitive> made;
  try {
    made = std::make_unique<TilePrimitive>(key, threads, workspace);
  } catch (const dnnl::error &error) {
    // It has no such product: the packed one takes its place.
    if (error.status != dnnl_unimplemented)
      return Status::machine("oneDNN: " + std::string(error.what()));
  } catch (const std::exception &error) {
    return Status::machine("oneDNN: " + std::string(error.what()));
  }
  return primitives.emplace(key, std::move(made)).first->second.get();
}

//===----------------------------------------------------------------------===//
// The task
//===----------------------------------------------------------------------===//

namespace {

class GemmOperation final : public Operation {
public:
  /// One matrix: element (i, j) is at data + (i * row + j * column) elements.
  struct Matrix {
    void *data = nullptr;
    abi::DType dtype = abi::DType::F32;
    int64_t row = 0, column = 1;

    std::byte *at(int64_t i, int64_t j) const {
      return static_cast<std::byte *>(data) +
             (i * row + j * column) * static_cast<int64_t>(byteSize(dtype));
    }
  };

  Status prepare(const TaskArguments &args) {
    bool hasBias = args.views.size() == 4;
    CIUIC_TRY(expectCounts(args, hasBias ? 4 : 3, 3, 0));
    const Tensor &ta = args.views[0], &tb = args.views[1], &tc = args.views[2];
    CIUIC_TRY(expectFloats("C", tc, tc.shape[0], tc.shape[1]));
    m = tc.shape[0];
    n = tc.shape[1];
    bool transposeA = args.ints[0] != 0, transposeB = args.ints[1] != 0;
    accumulate = args.ints[2] != 0;
    k = ta.shape[transposeA ? 0 : 1];
    CIUIC_TRY(expectFloats("A", ta, transposeA ? k : m, transposeA ? m : k));
    CIUIC_TRY(expectFloats("B", tb, transposeB ? n : k, transposeB ? k : n));
    if (overlap(tc, ta) || overlap(tc, tb))
      return Status::invalid("C overlaps A or B");
    a = {ta.data, ta.dtype, ta.strides[0], 1};
    b = {tb.data, tb.dtype, tb.strides[0], 1};
    c = {tc.data, tc.dtype, tc.strides[0], 1};
    // One row has no stride worth the name, but oneDNN asks for one.
    a.row = std::max(a.row, ta.shape[1]);
    b.row = std::max(b.row, tb.shape[1]);
    c.row = std::max(c.row, tc.shape[1]);
    if (transposeA)
      std::swap(a.row, a.column);
    if (transposeB)
      std::swap(b.row, b.column);
    if (hasBias) {
      const Tensor &tbias = args.views[3];
      CIUIC_TRY(expectFloats("bias", tbias, 1, n));
      bias = {tbias.data, tbias.dtype, 0, 1};
    }
    tileRows = gemmTileSize(m, mostTileRows(a.dtype, m, n));
    tileColumns = gemmTileSize(n, gemmTileColumns);
    workspace = args.workspace;
    return choose(*args.gemms);
  }

  Status run() override {
    if (m == 0 || n == 0)
      return {};
    int64_t across = chunkCount(n, tileColumns);
    std::atomic<bool> failed{false};
    parallelFor(chunkCount(m, tileRows) * across, [&](int64_t tile) {
      if (!runTile(tile / across, tile % across))
        failed.store(true, std::memory_order_relaxed);
    });
    if (failed.load())
      return Status::machine("oneDNN could not run a matrix product");
    return {};
  }

private:
  /// The four shapes of tile: inner, last column, last row, corner.
  Status choose(GemmCache &cache) {
    if (m == 0 || n == 0)
      return {};
    bool library =
        k > 0 && a.dtype == b.dtype && (!bias.data || bias.dtype == c.dtype) &&
        ((a.dtype == abi::DType::F32 && c.dtype == abi::DType::F32) ||
         (a.dtype == abi::DType::BF16 && hasNativeBf16() &&
          c.dtype != abi::DType::F16));
    bool packed = !library;
    for (int64_t i : {int64_t(0), chunkCount(m, tileRows) - 1})
      for (int64_t j : {int64_t(0), chunkCount(n, tileColumns) - 1}) {
        if (!library)
          continue;
        int64_t rows = rowsOf(i), columns = columnsOf(j);
        TileKey key{rows,      columns, k,          a.row,
                    a.column,  b.row,   b.column,   c.row,
                    a.dtype,   c.dtype, bias.dtype, bias.data != nullptr,
                    accumulate};
        CIUIC_TRY_ASSIGN(TilePrimitive * found, cache.find(key, *workspace));
        primitives[i > 0][j > 0] = found;
        packed |= !found;
      }
    if (packed)
      workspace->reserve(
          static_cast<uint64_t>(gemmScratchFloats(tileRows, tileColumns)) * 4);
    return {};
  }

  int64_t rowsOf(int64_t i) const {
    return std::min(tileRows, m - i * tileRows);
  }
  int64_t columnsOf(int64_t j) const {
    return std::min(tileColumns, n - j * tileColumns);
  }

  bool runTile(int64_t i, int64_t j) {
    int64_t row = i * tileRows, column = j * tileColumns;
    void *out = c.at(row, column);
    const void *left = a.at(row, 0), *right = b.at(0, column);
    const void *added = bias.data ? bias.at(0, column) : nullptr;
    bool lastRow = i > 0 && (i + 1) * tileRows >= m;
    bool lastColumn = j > 0 && (j + 1) * tileColumns >= n;
    if (TilePrimitive *primitive = primitives[lastRow][lastColumn]) {
      useOneOmpThread();
      try {
        primitive->run(left, right, out, added);
      } catch (const std::exception &) {
        return false;
      }
      return true;
    }
    GemmBlock block;
    block.m = rowsOf(i);
    block.n = columnsOf(j);
    block.k = k;
    block.a = left;
    block.aRow = a.row;
    block.aColumn = a.column;
    block.aType = a.dtype;
    block.b = right;
    block.bRow = b.row;
    block.bColumn = b.column;
    block.bType = b.dtype;
    block.c = out;
    block.cRow = c.row;
    block.cType = c.dtype;
    block.bias = added;
    block.biasType = bias.dtype;
    block.accumulate = accumulate;
    block.scratch = reinterpret_cast<float *>(workspace->local());
    hostKernels().gemm(block);
    return true;
  }

  Matrix a, b, c, bias;
  int64_t m = 0, n = 0, k = 0;
  int64_t tileRows = 1, tileColumns = 1;
  bool accumulate = false;
  TilePrimitive *primitives[2][2] = {};
  Workspace *workspace = nullptr;
};

} // namespace

Result<OperationPtr> makeGemm(const TaskArguments &arguments) {
  auto operation = std::make_unique<GemmOperation>();
  CIUIC_TRY(operation->prepare(arguments));
  return OperationPtr(std::move(operation));
}

double measureGemmPeak(abi::DType dtype, int threads) {
  constexpr int64_t size = abi::kMeasuredProduct;
  tbb::task_arena arena(threads);
  Workspace workspace;
  GemmCache cache(threads);
  auto memory =
      HostArena::allocate(3 * size * size * 4, "the GEMM measurement", false);
  if (!memory.ok())
    return 0;
  std::vector<Tensor> views(3);
  for (size_t i = 0; i < 3; ++i) {
    views[i].data = memory->base() + i * size * size * 4;
    views[i].dtype = dtype;
    views[i].rank = 2;
    views[i].shape[0] = views[i].shape[1] = size;
    views[i].strides[0] = size;
  }
  int64_t ints[3] = {0, 1, 0};
  TaskArguments arguments;
  arguments.kind = abi::TaskKind::Gemm;
  arguments.views = views;
  arguments.ints = ints;
  arguments.workspace = &workspace;
  arguments.gemms = &cache;
  auto operation = makeGemm(arguments);
  if (!operation.ok() || !workspace.commit(threads).ok())
    return 0;
  using Clock = std::chrono::steady_clock;
  double best = 0;
  bool failed = false;
  arena.execute([&] {
    Clock::time_point begin = Clock::now();
    while (Clock::now() - begin < std::chrono::milliseconds(100) && !failed) {
      Clock::time_point start = Clock::now();
      failed = !(*operation)->run().ok();
      double seconds =
          std::chrono::duration<double>(Clock::now() - start).count();
      best = std::max(best, 2.0 * size * size * size / seconds);
    }
  });
  return failed ? 0 : best;
}

} // namespace ciuic::rt
