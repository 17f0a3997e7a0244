//===- machine_test.cpp - Machine files, built in and at hand -------------===//
#include "frontend/machine/Machine.h"
#include "frontend/machine/MeasureLinks.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace ciuic;
using namespace ciuic::machine;

namespace {

constexpr const char *smallMachine = R"({
  "name": "two",
  "devices": {"count": 2, "memory": "4GiB"},
  "host": {"cores": 8, "memory": 16000000000},
  "links": {"network": "100Gb/s", "devices": "600GB/s"},
  "reserve": [
    {"name": "context", "where": "device", "bytes": "1GiB", "source": "me"},
    {"name": "system", "where": "host", "bytes": "1GB", "source": "me"}]
})";

/// `text` with `from` replaced.
std::string with(const std::string &from, const std::string &to) {
  std::string text = smallMachine;
  size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

std::string errorOf(const std::string &text) {
  auto machine = parseMachine(text, "m.json");
  return machine.ok() ? "fine" : machine.takeStatus().str();
}

// Sizes in words or bytes, rates in bytes or bits, and what is left for a job.
TEST(Machine, readsAFile) {
  auto machine = parseMachine(smallMachine, "m.json");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->devices, 2);
  EXPECT_EQ(machine->deviceMemory, int64_t(4) << 30);
  EXPECT_EQ(machine->deviceLimit(), int64_t(3) << 30);
  EXPECT_EQ(machine->hostLimit(), 15000000000);
  EXPECT_DOUBLE_EQ(*machine->network, 12.5e9);
  EXPECT_DOUBLE_EQ(*machine->devicesLink, 600e9);
  EXPECT_FALSE(machine->disk);
}

// The machine built in has what its name says, and says who needs what of it.
TEST(Machine, hasOneBuiltIn) {
  auto machine = findMachine("ciuic-monster");
  ASSERT_TRUE(machine.ok()) << machine.takeStatus().str();
  EXPECT_EQ(machine->devices, 8);
  EXPECT_EQ(machine->deviceMemory, 40000000000);
  EXPECT_EQ(machine->hostMemory, 512000000000);
  EXPECT_EQ(machine->cores, 128);
  EXPECT_DOUBLE_EQ(*machine->disk, 3.5e9);
  EXPECT_LT(machine->deviceLimit(), machine->deviceMemory);
  EXPECT_GE(machine->reserve.size(), 3u);
  for (const Reserve &entry : machine->reserve)
    EXPECT_FALSE(entry.source.empty()) << entry.name;
}

// Each message says the file, the place, what is there and what should be.
TEST(Machine, refusesWhatIsWrong) {
  EXPECT_EQ(errorOf("[]"), "m.json: found an array of 0 values, expected an "
                           "object");
  EXPECT_EQ(errorOf(with("\"4GiB\"", "\"4 apples\"")),
            "m.json: devices.memory: found \"4 apples\", expected a size such "
            "as \"40GB\"");
  EXPECT_EQ(errorOf(with("\"4GiB\"", "-5")),
            "m.json: devices.memory: found -5, expected a size such as "
            "\"40GB\"");
  EXPECT_EQ(errorOf(with("\"4GiB\"", "1e300")),
            "m.json: devices.memory: found 1e+300, expected a size such as "
            "\"40GB\"");
  EXPECT_EQ(errorOf(with("\"count\": 2", "\"count\": 0")),
            "m.json: devices.count: found 0, expected an integer from 1 to "
            "1024");
  EXPECT_EQ(errorOf(with("\"cores\"", "\"kores\"")),
            "m.json: host.kores: no such key; expected one of cores, kind, "
            "memory, bandwidth, disk_space");
  EXPECT_EQ(errorOf(with("\"600GB/s\"", "\"600GB\"")),
            "m.json: links.devices: found \"600GB\", expected a rate such as "
            "\"600GB/s\"");
  EXPECT_EQ(errorOf(with("\"where\": \"host\"", "\"where\": \"disk\"")),
            "m.json: reserve[1].where: found \"disk\", expected \"device\", "
            "\"host\", \"process\" or \"thread\"");
  EXPECT_EQ(
      errorOf(with(", \"source\": \"me\"}]", "}]")),
      "m.json: reserve[1].source: found nothing, expected who says how much "
      "that is");
}

// No more may be reserved than there is.
TEST(Machine, refusesToReserveAll) {
  EXPECT_EQ(errorOf(with("\"1GiB\"", "\"4GiB\"")),
            "m.json: reserve: 4294967296 bytes of each device, which has "
            "4294967296");
}

// What is missing, cut off or twice there is told, and nothing crashes.
TEST(Machine, survivesAnyPrefixOfAFile) {
  std::string text = smallMachine;
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(errorOf(text.substr(0, size)), "fine") << size;
  EXPECT_NE(errorOf(with("\"name\": \"two\",", "")), "fine");
  EXPECT_NE(errorOf(with("\"name\": \"two\",",
                         "\"name\": \"two\", \"name\": \"three\",")),
            "fine");
}

// Devices that share the host's memory have none of their own.
TEST(Machine, sharesMemory) {
  std::string text =
      with("\"name\": \"two\",", "\"name\": \"two\", \"shared_memory\": true,");
  EXPECT_NE(errorOf(text), "fine");
  size_t at = text.find(", \"memory\": \"4GiB\"");
  auto machine = parseMachine(text.erase(at, 18), "m.json");
  ASSERT_TRUE(machine.ok()) << machine.takeStatus().str();
  EXPECT_EQ(machine->deviceLimit(), 15000000000);
}

// A name that is no machine is told with those that are; so is a file.
TEST(Machine, namesTheOnesThatThereAre) {
  EXPECT_EQ(findMachine("monster").takeStatus().str(),
            "no machine \"monster\"; built in are ciuic-monster and host, all "
            "others are files");
  std::string missing = findMachine("no/such.json").takeStatus().str();
  EXPECT_NE(missing.find("no/such.json"), missing.npos);
}

TEST(Quantity, readsUnits) {
  EXPECT_EQ(parseQuantity("40GB", "B"), 40e9);
  EXPECT_EQ(parseQuantity("40 GiB", "B"), 40 * 0x1p30);
  EXPECT_EQ(parseQuantity("4096", "B"), 4096.0);
  EXPECT_EQ(parseQuantity("100Gb/s", "B/s"), 12.5e9);
  EXPECT_EQ(parseQuantity("312TFLOP/s", "FLOP/s"), 312e12);
  for (const char *wrong :
       {"", "GB", "40GBs", "-1GB", "nan", "inf", "4 4GB", "40GB/s", "1e400"})
    EXPECT_FALSE(parseQuantity(wrong, "B")) << wrong;
}

/// A folder with what Linux would say of a machine.
class FakeSystem {
public:
  FakeSystem(const std::string &meminfo, const std::string &limit) {
    std::string pattern = testing::TempDir() + "ciuic-machine-XXXXXX";
    root = mkdtemp(pattern.data());
    std::filesystem::create_directories(root + "/proc");
    std::filesystem::create_directories(root + "/sys/fs/cgroup");
    std::ofstream(root + "/proc/meminfo") << meminfo;
    if (!limit.empty())
      std::ofstream(root + "/sys/fs/cgroup/memory.max") << limit;
  }
  ~FakeSystem() { std::filesystem::remove_all(root); }

  std::string root;
};

// What others use of the memory is reserved, with its source.
TEST(Host, reservesWhatIsInUse) {
  FakeSystem system("MemTotal:    1000 kB\nMemFree:  100 kB\n"
                    "MemAvailable:    600 kB\n",
                    "max\n");
  auto machine = measureHost(system.root, "no-such-library.so");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->hostMemory, 1024000);
  EXPECT_EQ(machine->hostLimit(), 614400);
  EXPECT_EQ(machine->deviceLimit(), 614400);
  EXPECT_TRUE(machine->shared);
  EXPECT_GE(machine->cores, 1);
}

// A control group's limit counts, not what the machine has.
TEST(Host, keepsToItsControlGroup) {
  FakeSystem system("MemTotal: 1000 kB\nMemAvailable: 900 kB\n", "512000\n");
  auto machine = measureHost(system.root, "no-such-library.so");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->hostMemory, 512000);
  EXPECT_EQ(machine->hostLimit(), 512000 - 102400);
}

// GPUs are the devices where there are some: as many as answer, each with the
// memory of the smallest, less what is in use on the fullest and what CUDA
// needs.
TEST(Host, findsItsGpus) {
  FakeSystem system("MemTotal: 1000 kB\nMemAvailable: 600 kB\n", "");
  auto machine = measureHost(system.root, FAKE_NVML);
  ASSERT_TRUE(machine.ok());
  EXPECT_FALSE(machine->shared);
  EXPECT_EQ(machine->devices, 2);
  EXPECT_EQ(machine->deviceKind, "Fake GPU");
  EXPECT_EQ(machine->deviceMemory, 38000000000);
  EXPECT_EQ(machine->hostLimit(), 614400);
  auto monster = findMachine("ciuic-monster");
  ASSERT_TRUE(monster.ok());
  EXPECT_EQ(machine->deviceLimit(),
            38000000000 - 1000000000 - monster->reserved(Where::Device));
}

// The fastest network that is connected counts; what is down, or has no speed,
// does not.
TEST(Host, findsItsNetwork) {
  FakeSystem system("MemTotal: 1000 kB\nMemAvailable: 600 kB\n", "");
  EXPECT_FALSE(networkRate(system.root));
  auto add = [&](const char *name, const char *state, const char *speed) {
    std::filesystem::path folder = system.root + "/sys/class/net/";
    folder /= name;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "operstate") << state << "\n";
    std::ofstream(folder / "speed") << speed << "\n";
  };
  add("eth0", "up", "10000");
  add("eth1", "down", "100000");
  add("veth", "up", "-1");
  add("lo", "unknown", "");
  add("odd", "up", "99999999999999");
  EXPECT_EQ(networkRate(system.root), 1.25e9);
  auto machine = measureHost(system.root, "no-such-library.so");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->network, 1.25e9);
}

// A folder that is not there has no disk and no room; one that is has room, and
// measuring it leaves nothing behind.
TEST(Host, measuresItsDisk) {
  EXPECT_FALSE(measureDisk("/nonexistent"));
  EXPECT_FALSE(freeSpace("/nonexistent"));
  FakeSystem system("MemTotal: 1000 kB\nMemAvailable: 600 kB\n", "");
  std::string folder = system.root + "/disk";
  std::filesystem::create_directories(folder);
  EXPECT_GE(freeSpace(folder).value_or(-1), 0);
  if (auto rate = measureDisk(folder))
    EXPECT_GT(*rate, 1e5);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

// A folder that is to be made later is measured where it will be.
TEST(Host, measuresAboveAMissingFolder) {
  FakeSystem system("MemTotal: 1000 kB\nMemAvailable: 600 kB\n", "");
  EXPECT_EQ(existingFolder(system.root), system.root);
  EXPECT_EQ(existingFolder(system.root + "/a//b/../c/"), system.root);
  EXPECT_EQ(existingFolder("/nonexistent/a"), "/");
  EXPECT_EQ(existingFolder("nonexistent/a"), ".");
  EXPECT_EQ(existingFolder(""), ".");
}

// A system that says nothing is told.
TEST(Host, refusesASystemWithoutFacts) {
  FakeSystem system("MemTotal: many kB\n", "");
  EXPECT_EQ(measureHost(system.root, "no-such-library.so").takeStatus().str(),
            system.root + "/proc/meminfo says no MemTotal and MemAvailable");
}

// The machine that this runs on has memory, cores and a rate of copying.
TEST(Host, measuresTheMachineAtHand) {
  auto machine = findMachine("host");
  ASSERT_TRUE(machine.ok());
  EXPECT_GT(machine->hostLimit(), 0);
  EXPECT_GT(*machine->hostBandwidth, 1e6);
  std::string text = printMachine(*machine);
  EXPECT_NE(text.find("memory of the host"), text.npos);
}

} // namespace
