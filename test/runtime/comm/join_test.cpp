//===- join_test.cpp - What the environment says of processes -------------===//
#include "runtime/comm/ProcessGroup.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <string>

namespace ciuic::rt::test {
namespace {

constexpr const char *names[] = {
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "RANK",
    "WORLD_SIZE",           "MASTER_ADDR",          "MASTER_PORT",
    "LOCAL_RANK",           "LOCAL_WORLD_SIZE"};

/// Joins with these variables and no other of a launcher.
Result<std::unique_ptr<ProcessGroup>>
joinWith(const std::map<std::string, std::string> &variables) {
  for (const char *name : names)
    unsetenv(name);
  for (const auto &[name, value] : variables)
    setenv(name.c_str(), value.c_str(), 1);
  auto group = joinProcessGroup({0.2, 1});
  for (const char *name : names)
    unsetenv(name);
  return group;
}

// Without a launcher, and by one that starts one process, it is alone.
TEST(JoinTest, Alone) {
  for (const std::map<std::string, std::string> &variables :
       {std::map<std::string, std::string>{},
        {{"MASTER_ADDR", "somewhere"}, {"MASTER_PORT", "x"}},
        {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
        {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}}) {
    auto group = joinWith(variables);
    ASSERT_TRUE(group.ok()) << group.takeStatus().str();
    EXPECT_EQ((*group)->processes(), 1u);
    uint32_t mine = 7, all = 0;
    EXPECT_TRUE((*group)
                    ->gather(std::as_bytes(std::span(&mine, 1)),
                             std::as_writable_bytes(std::span(&all, 1)))
                    .ok());
    EXPECT_EQ(all, 7u);
    EXPECT_TRUE((*group)->barrier().ok());
  }
}

// An environment that contradicts itself is refused with what it says.
TEST(JoinTest, RefusesContradictions) {
  struct Case {
    std::map<std::string, std::string> variables;
    std::string says;
  };
  const std::map<std::string, std::string> two = {{"RANK", "1"},
                                                  {"WORLD_SIZE", "2"}};
  auto with = [](std::map<std::string, std::string> all,
                 const std::map<std::string, std::string> &more) {
    all.insert(more.begin(), more.end());
    return all;
  };
  for (const Case &wrong : {
           Case{{{"RANK", "1"}}, "has RANK but no WORLD_SIZE"},
           Case{{{"WORLD_SIZE", "2"}}, "has WORLD_SIZE but no RANK"},
           Case{{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK is 2, expected"},
           Case{{{"RANK", "one"}, {"WORLD_SIZE", "2"}}, "RANK is \"one\""},
           Case{{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE is \"0\""},
           Case{{{"RANK", "0"}, {"WORLD_SIZE", "99999999999999"}},
                "WORLD_SIZE is \"99999999999999\""},
           Case{two, "no MASTER_ADDR"},
           Case{with(two, {{"MASTER_ADDR", "127.0.0.1"}}), "no MASTER_PORT"},
           Case{with(two,
                     {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "99999"}}),
                "MASTER_PORT is \"99999\""},
           Case{with(two, {{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
                "LOCAL_RANK is 2"},
           Case{with(two, {{"LOCAL_RANK", "5"}}), "at most RANK"},
           Case{with(two, {{"OMPI_COMM_WORLD_RANK", "0"},
                           {"OMPI_COMM_WORLD_SIZE", "2"}}),
                "mpirun says process 0 of 2, RANK and WORLD_SIZE say process "
                "1 of 2"},
       }) {
    auto group = joinWith(wrong.variables);
    ASSERT_FALSE(group.ok()) << wrong.says;
    Status status = group.takeStatus();
    EXPECT_EQ(status.code(), Code::Invalid) << status.str();
    EXPECT_NE(status.str().find(wrong.says), std::string::npos) << status.str();
  }
}

// Where one process drives a machine's devices a second one is refused, by
// either launcher.
TEST(JoinTest, OneProcessAMachine) {
  for (const char *name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE"}) {
    setenv(name, "1", 1);
    EXPECT_TRUE(checkOneProcessHere().ok());
    setenv(name, "8", 1);
    Status status = checkOneProcessHere();
    unsetenv(name);
    EXPECT_EQ(status.code(), Code::Invalid);
    EXPECT_NE(status.str().find(std::string(name) + " is 8, expected 1"),
              std::string::npos)
        << status.str();
  }
  EXPECT_TRUE(checkOneProcessHere().ok());
}

} // namespace
} // namespace ciuic::rt::test
