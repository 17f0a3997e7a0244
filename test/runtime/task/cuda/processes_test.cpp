//===- processes_test.cpp - GPUs of several processes ---------------------===//
#include "runtime/comm/tcp/TcpGroup.h"
#include "test/runtime/comm/OwnHost.h"
#include "test/runtime/task/cuda/GpuTest.h"

#include <thread>

namespace ciuic::rt::test {
namespace {

using abi::Stream;
using abi::TaskKind;

// A process that fails before a collective is heard of by who waits in it, long
// before the collective's own timeout: with its message, by its number.
TEST(CudaProcessTest, FailureOfAnotherEndsTheWait) {
  TestBundle test(2);
  abi::View x = test.view("x", 1, 4);
  auto &p = test.program("p");
  add(p, "sum", TaskKind::AllReduce, {x, x},
      {.stream = Stream::Reduce, .ints = {0}});
  forCuda(test);
  const abi::Bundle &bundle = test.finish();
  onhost::configure(devicesOf(2, 3));
  uint16_t port = freePort();
  Status result;
  auto work = [&](uint32_t process) {
    auto group = tcp::joinByTcp({process, 2, ownHost(), port}, {20, 20});
    ASSERT_TRUE(group.ok()) << group.takeStatus().str();
    MachineOptions options;
    options.threads = 1;
    options.group = group->get();
    CudaSettings settings;
    settings.firstDevice = static_cast<int>(process);
    auto made = CudaMachine::create(bundle, options, settings);
    ASSERT_TRUE(made.ok()) << made.takeStatus().str();
    if (process == 1) {
      (*group)->abort(Status::invalid("the data is wrong"));
      return;
    }
    ASSERT_TRUE((*made)->run("p").ok());
    result = (*made)->wait();
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(result.code(), Code::Invalid) << result.str();
  EXPECT_NE(result.str().find("process 1 failed: the data is wrong"),
            std::string::npos)
      << result.str();
  // That a collective was never entered by all is as it was meant.
  (void)onhost::takeReports();
}

} // namespace
} // namespace ciuic::rt::test
