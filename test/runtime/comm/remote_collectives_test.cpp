//===- remote_collectives_test.cpp - The same bits in any processes -------===//
#include "runtime/abi/Sizes.h"
#include "runtime/base/HalfFloat.h"
#include "runtime/base/Philox.h"
#include "runtime/comm/local/LocalCollectives.h"
#include "runtime/comm/remote/RemoteCollectives.h"
#include "runtime/comm/tcp/TcpGroup.h"
#include "test/runtime/comm/OwnHost.h"

#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace ciuic::rt::test {
namespace {

using abi::DType;
using abi::TaskKind;

/// A collective over some ranks, with memory for each of them.
struct Problem {
  TaskKind kind;
  DType dtype;
  uint32_t ranks;
  int64_t part; ///< Elements of a chunk, or of an all-reduce.
  bool mean;
  bool inPlace;

  int64_t inElements() const {
    return kind == TaskKind::ReduceScatter ? part * ranks : part;
  }
  int64_t outElements() const {
    return kind == TaskKind::AllGather ? part * ranks : part;
  }
};

/// The memory of one rank: its values depend on the rank alone.
struct RankMemory {
  RankMemory(const Problem &problem, uint32_t rank) {
    auto width = static_cast<int64_t>(byteSize(problem.dtype));
    int64_t most = std::max(problem.inElements(), problem.outElements());
    bytes.resize(static_cast<size_t>(2 * most * width));
    std::vector<float> values(static_cast<size_t>(most));
    fillNormal(rank + 1, 7, 0, values.size(), 0, 100, values.data());
    // In place: the chunk of a gather lies in the whole, a sum replaces it.
    int64_t shift =
        problem.kind == TaskKind::AllGather ? rank * problem.part : 0;
    in.data = bytes.data() + (problem.inPlace ? shift * width : most * width);
    out.data = bytes.data();
    if (problem.kind == TaskKind::ReduceScatter && problem.inPlace)
      out.data = in.as<std::byte>() + rank * problem.part * width;
    in.dtype = out.dtype = problem.dtype;
    in.rank = out.rank = 1;
    in.shape[1] = in.strides[0] = problem.inElements();
    out.shape[1] = out.strides[0] = problem.outElements();
    for (int64_t i = 0; i < problem.inElements(); ++i)
      store(in, i, values[static_cast<size_t>(i)]);
  }

  static void store(const Tensor &tensor, int64_t i, float value) {
    switch (tensor.dtype) {
    case DType::F64:
      tensor.as<double>()[i] = value;
      return;
    case DType::F16:
      tensor.as<uint16_t>()[i] = f16FromFloat(value);
      return;
    case DType::BF16:
      tensor.as<uint16_t>()[i] = bf16FromFloat(value);
      return;
    default:
      tensor.as<float>()[i] = value;
    }
  }

  std::vector<std::byte> result() const {
    auto *begin = out.as<std::byte>();
    return {begin,
            begin + static_cast<size_t>(out.shape[1]) * byteSize(out.dtype)};
  }

  std::vector<std::byte> bytes;
  Tensor in, out;
};

using Make = std::function<Result<OperationPtr>(const TaskArguments &)>;

/// The results of `local` ranks.
std::vector<std::vector<std::byte>>
runRanks(const Problem &problem, RankRange local, const Make &make,
         const std::function<Status()> &commit) {
  std::vector<std::unique_ptr<RankMemory>> memory;
  std::vector<Tensor> views;
  for (uint32_t rank = local.first; rank < local.end(); ++rank) {
    memory.push_back(std::make_unique<RankMemory>(problem, rank));
    views.push_back(memory.back()->in);
    views.push_back(memory.back()->out);
  }
  const int64_t ints[] = {problem.mean};
  TaskArguments arguments;
  arguments.kind = problem.kind;
  arguments.views = views;
  arguments.ints = ints;
  arguments.ranks = problem.ranks;
  auto operation = make(arguments);
  EXPECT_TRUE(operation.ok()) << operation.takeStatus().str();
  EXPECT_TRUE(commit().ok());
  // Twice, for what a first run leaves behind: gathers are as before then.
  int runs = problem.kind == TaskKind::AllGather ? 2 : 1;
  for (int i = 0; i < runs; ++i) {
    Status status = (*operation)->run();
    EXPECT_TRUE(status.ok()) << status.str();
  }
  std::vector<std::vector<std::byte>> results;
  for (const auto &rank : memory)
    results.push_back(rank->result());
  return results;
}

std::vector<std::vector<std::byte>> runLocally(const Problem &problem) {
  Make make = problem.kind == TaskKind::AllGather       ? makeAllGather
              : problem.kind == TaskKind::ReduceScatter ? makeReduceScatter
                                                        : makeAllReduce;
  return runRanks(problem, {0, problem.ranks}, make, [] { return Status(); });
}

std::vector<std::vector<std::byte>> runRemotely(const Problem &problem,
                                                uint32_t processes) {
  uint16_t port = freePort();
  std::vector<std::vector<std::vector<std::byte>>> results(processes);
  std::vector<std::thread> threads;
  for (uint32_t p = 0; p < processes; ++p)
    threads.emplace_back([&, p] {
      auto group = tcp::joinByTcp({p, processes, ownHost(), port}, {20, 20});
      ASSERT_TRUE(group.ok()) << group.takeStatus().str();
      RemoteWorld world(**group, problem.ranks);
      results[p] = runRanks(
          problem, world.local,
          [&](const TaskArguments &a) {
            return makeRemoteCollective(a, world);
          },
          [&] { return world.commit(); });
    });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<std::vector<std::byte>> all;
  for (auto &part : results)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::string describe(const Problem &p, uint32_t processes) {
  return "kind " + std::to_string(static_cast<int>(p.kind)) + " dtype " +
         std::to_string(static_cast<int>(p.dtype)) + " ranks " +
         std::to_string(p.ranks) + " part " + std::to_string(p.part) +
         " in place " + std::to_string(p.inPlace) + " processes " +
         std::to_string(processes);
}

// Every kind and type, sizes from nothing to more than a piece, in place and
// not, even and uneven divisions: the bits of one process.
TEST(RemoteCollectivesTest, SameBitsAsOneProcess) {
  const std::pair<uint32_t, uint32_t> divisions[] = {
      {2, 2}, {8, 2}, {7, 6}, {5, 3}};
  for (TaskKind kind :
       {TaskKind::AllGather, TaskKind::ReduceScatter, TaskKind::AllReduce})
    for (auto [ranks, processes] : divisions)
      for (auto [dtype, part] : {std::pair(DType::F32, int64_t{1}),
                                 {DType::F32, 70001},
                                 {DType::BF16, 33},
                                 {DType::F16, 129},
                                 {DType::F64, 1},
                                 {DType::F64, 1023},
                                 {DType::F16, 0}})
        for (bool inPlace : {false, true}) {
          Problem problem{kind, dtype, ranks, part, part % 2 == 1, inPlace};
          EXPECT_EQ(runRemotely(problem, processes), runLocally(problem))
              << describe(problem, processes);
        }
}

// Views that are not of this process's ranks, or do not fit each other, are
// refused.
TEST(RemoteCollectivesTest, RefusesViews) {
  auto single = makeSingleProcess();
  RemoteWorld world(*single, 2);
  float memory[8] = {};
  auto make = [&](std::vector<int64_t> shapes, DType dtype) {
    std::vector<Tensor> views;
    for (int64_t n : shapes)
      views.push_back({memory, dtype, 1, {1, n}, {n, 1}});
    TaskArguments a;
    a.kind = TaskKind::AllGather;
    a.views = views;
    a.ranks = 2;
    return makeRemoteCollective(a, world).takeStatus().str();
  };
  EXPECT_NE(make({2, 4}, DType::F32).find("2 of each of 2 ranks"),
            std::string::npos);
  EXPECT_NE(make({2, 4, 2, 3}, DType::F32).find("one type and size"),
            std::string::npos);
  EXPECT_NE(make({2, 5, 2, 5}, DType::F32).find("5 elements, expected 4"),
            std::string::npos);
  EXPECT_NE(make({2, 4, 2, 4}, DType::I32).find("i32"), std::string::npos);
}

} // namespace
} // namespace ciuic::rt::test
