//===- rates_test.cpp - Rates as text and of machines ---------------------===//
#include "dialect/Sched/Rates.h"
#include "tools/ciuicc/MachineRates.h"

#include <gtest/gtest.h>

using namespace ciuic;
using namespace ciuic::sched;

namespace {

// What is printed reads back as it was.
TEST(Rates, TextReadsBack) {
  for (bool cuda : {false, true}) {
    Rates rates = defaultRates(cuda, 8);
    std::string text = printRates(rates), message;
    auto read = parseRates(text, {}, message);
    ASSERT_TRUE(read) << message;
    EXPECT_EQ(*read, rates) << text;
    EXPECT_EQ(printRates(*read), text);
  }
}

// What a text leaves out stays.
TEST(Rates, TextMayLeaveOut) {
  std::string message;
  Rates known = defaultRates(true, 1);
  auto read = parseRates("f16=5", known, message);
  ASSERT_TRUE(read);
  known.f16 = 5;
  EXPECT_EQ(*read, known);
}

// Nothing but known names, each once, with a number above zero.
TEST(Rates, BadTextIsRefused) {
  for (const char *text :
       {"", "f32", "f32=", "f32=0", "f32=-1", "f32=nan", "f32=inf", "f32=1e30",
        "f64=1", "f32=1,", "f32=1,f32=2", "f32=1 ,f16=1"}) {
    std::string message;
    EXPECT_FALSE(parseRates(text, defaultRates(false, 1), message)) << text;
    EXPECT_FALSE(message.empty()) << text;
  }
}

// CPU ranks share the machine's rates.
TEST(Rates, RanksShareAHost) {
  Rates one = defaultRates(false, 1), four = defaultRates(false, 4);
  EXPECT_DOUBLE_EQ(one.f32, 4 * four.f32);
  EXPECT_DOUBLE_EQ(one.memory, 4 * four.memory);
}

machine::Machine monster() {
  auto found = machine::findMachine("ciuic-monster");
  EXPECT_TRUE(found.ok());
  return *found;
}

// The machine that is built in is as what is taken without one.
TEST(MachineRates, BuiltInIsUsual) {
  Rates found = tool::ratesOf(monster(), true, 8);
  Rates usual = defaultRates(true, 8);
  EXPECT_NEAR(found.f32 / usual.f32, 1, 0.02);
  EXPECT_NEAR(found.f16 / usual.f16, 1, 0.02);
  EXPECT_NEAR(found.memory / usual.memory, 1, 0.02);
  EXPECT_NEAR(found.devices / usual.devices, 1, 0.02);
  EXPECT_NEAR(found.link / usual.link, 1, 0.02);
}

// Ranks on several hosts are as fast as the network that links them.
TEST(MachineRates, NetworkBoundsCollectives) {
  machine::Machine machine = monster();
  EXPECT_LT(tool::ratesOf(machine, true, 16).devices,
            tool::ratesOf(machine, true, 8).devices);
  machine.network.reset();
  EXPECT_EQ(tool::ratesOf(machine, true, 16).devices,
            tool::ratesOf(machine, true, 8).devices);
}

// Devices that are CPUs share all that the host has.
TEST(MachineRates, CpuRanksShare) {
  machine::Machine machine;
  machine.shared = true;
  machine.hostBandwidth = 80e9;
  machine.f32Rate = 1e12;
  Rates one = tool::ratesOf(machine, false, 1);
  Rates two = tool::ratesOf(machine, false, 2);
  EXPECT_DOUBLE_EQ(one.memory, 2 * two.memory);
  EXPECT_DOUBLE_EQ(one.f32, 2 * two.f32);
  EXPECT_DOUBLE_EQ(one.f16, one.f32);
}

// A machine that says nothing of rates has those that are usual.
TEST(MachineRates, SilenceIsUsual) {
  machine::Machine machine;
  machine.devices = 2;
  EXPECT_EQ(tool::ratesOf(machine, true, 2), defaultRates(true, 2));
}

} // namespace
