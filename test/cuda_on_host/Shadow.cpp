//===- Shadow.cpp - Who read and wrote every byte ---------------*- C++ -*-===//
#include "test/cuda_on_host/Shadow.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace ciuic::onhost {

namespace {

// Addresses are handed out once, so that memory given back is never valid.
constexpr size_t kPage = size_t(64) << 10;
constexpr size_t kRegion = size_t(4) << 40;
// Fresh memory up to this is filled with garbage; the rest stays zero.
constexpr size_t kGarbage = size_t(16) << 20;
constexpr size_t kMostReports = 100;

void *reserve(size_t bytes, int protection) {
  void *p = mmap(nullptr, bytes, protection,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    std::fprintf(stderr, "cuda_on_host: cannot reserve %zu bytes\n", bytes);
    std::abort();
  }
  return p;
}

size_t cellCount(size_t bytes, uintptr_t begin) {
  return (bytes + begin % 2 + 1) / 2;
}

/// The cell of an address; an allocation at an odd address shares its first.
size_t cellIndex(const Allocation &a, uintptr_t address) {
  return address / 2 - a.begin / 2;
}

} // namespace

void join(Clock &into, const Clock &other) {
  if (into.size() < other.size())
    into.resize(other.size(), 0);
  for (size_t t = 0; t < other.size(); ++t)
    into[t] = std::max(into[t], other[t]);
}

Shadow &shadow() {
  // Never destroyed: callbacks may come while the process ends.
  static Shadow *one = new Shadow;
  return *one;
}

Shadow::Shadow() {
  base = reinterpret_cast<uintptr_t>(reserve(kRegion + kPage, PROT_NONE));
  base = (base + kPage - 1) / kPage * kPage;
  pages = static_cast<uint32_t *>(
      reserve(kRegion / kPage * sizeof(uint32_t), PROT_READ | PROT_WRITE));
  reset(1);
}

void Shadow::reset(uint64_t seed) {
  for (auto &a : allocations)
    if (a)
      release(a.get());
  allocations.clear();
  points.assign(1, Point{0, 0, 0});
  names.assign(1, "nothing");
  nameIndices.clear();
  timelineCount = 0;
  task = 0;
  serial = 0;
  random = seed * 2 + 1;
  reports.clear();
  keys.clear();
}

Allocation *Shadow::allocate(size_t bytes, Memory memory, int device) {
  random = random * 6364136223846793005u + 1442695040888963407u;
  // As aligned as the device promises, and no more.
  size_t lead = ((random >> 33) % (kPage / 256)) * 256;
  size_t count = (lead + bytes + kPage - 1) / kPage;
  // A page without access on both sides.
  if (bytes > kRegion / 2 || (nextPage + count + 1) * kPage > kRegion)
    return nullptr;
  uintptr_t start = base + nextPage * kPage;
  if (mprotect(reinterpret_cast<void *>(start), count * kPage,
               PROT_READ | PROT_WRITE) != 0)
    return nullptr;
  auto a = std::make_unique<Allocation>();
  a->begin = start + lead;
  a->bytes = bytes;
  a->mapped = count * kPage;
  a->memory = memory;
  a->device = device;
  a->serial = serial++;
  size_t cells = cellCount(bytes, a->begin);
  a->cells = static_cast<Cell *>(
      reserve(cells * sizeof(Cell), PROT_READ | PROT_WRITE));
  a->touchers = static_cast<Toucher *>(
      reserve(cells * sizeof(Toucher), PROT_READ | PROT_WRITE));
  allocations.push_back(std::move(a));
  for (size_t i = 0; i < count; ++i)
    pages[nextPage + i] = static_cast<uint32_t>(allocations.size());
  nextPage += count + 1;
  Allocation *made = allocations.back().get();
  if (bytes <= kGarbage)
    // 16-bit and 32-bit floats of this pattern are NaN; as an index it is far.
    std::memset(reinterpret_cast<void *>(made->begin), 0xff - (random >> 62),
                bytes);
  return made;
}

Allocation *Shadow::adopt(void *pointer, size_t bytes) {
  auto a = std::make_unique<Allocation>();
  a->begin = reinterpret_cast<uintptr_t>(pointer);
  a->bytes = bytes;
  a->mapped = 0;
  a->memory = Memory::Pinned;
  a->device = -1;
  a->serial = serial++;
  size_t cells = cellCount(bytes, a->begin);
  a->cells = static_cast<Cell *>(
      reserve(cells * sizeof(Cell), PROT_READ | PROT_WRITE));
  a->touchers = static_cast<Toucher *>(
      reserve(cells * sizeof(Toucher), PROT_READ | PROT_WRITE));
  adopted.push_back(a.get());
  allocations.push_back(std::move(a));
  return adopted.back();
}

void Shadow::release(Allocation *a) {
  size_t cells = cellCount(a->bytes, a->begin);
  munmap(a->cells, cells * sizeof(Cell));
  munmap(a->touchers, cells * sizeof(Toucher));
  if (a->mapped) {
    uintptr_t start = a->begin / kPage * kPage;
    // Back to a reservation without pages.
    mmap(reinterpret_cast<void *>(start), a->mapped, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (size_t i = 0; i < a->mapped / kPage; ++i)
      pages[(start - base) / kPage + i] = 0;
  }
  std::erase(adopted, a);
  if (last == a)
    last = nullptr;
  for (auto &one : allocations)
    if (one.get() == a) {
      one.reset();
      break;
    }
}

Allocation *Shadow::find(uintptr_t address) const {
  if (last && address - last->begin < last->bytes)
    return last;
  if (address - base < kRegion) {
    uint32_t index = pages[(address - base) / kPage];
    if (index == 0)
      return nullptr;
    Allocation *a = allocations[index - 1].get();
    if (address - a->begin >= a->bytes)
      return nullptr;
    return last = a;
  }
  for (Allocation *a : adopted)
    if (address - a->begin < a->bytes)
      return last = a;
  return nullptr;
}

bool Shadow::inRegion(uintptr_t address) const {
  return address - base < kRegion;
}

Allocation *Shadow::findStart(const void *pointer) const {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  Allocation *a = find(address);
  return a && a->begin == address ? a : nullptr;
}

uint32_t Shadow::newTimeline() { return timelineCount++; }

uint32_t Shadow::nameIndex(const std::string &name) {
  auto [at, isNew] =
      nameIndices.try_emplace(name, static_cast<uint32_t>(names.size()));
  if (isNew)
    names.push_back(name);
  return at->second;
}

void Shadow::begin(uint32_t timeline, Clock &clock, const std::string &name,
                   int device) {
  // Without bounds checks in `isBefore`.
  if (clock.size() < timelineCount)
    clock.resize(timelineCount, 0);
  ++clock[timeline];
  points.push_back({timeline, clock[timeline], nameIndex(name)});
  task = static_cast<TaskId>(points.size() - 1);
  taskDevice = device;
  currentClock = clock.data();
  compareBlocks = true;
}

void Shadow::resume(TaskId earlier, Clock &clock, int device) {
  if (clock.size() < timelineCount)
    clock.resize(timelineCount, 0);
  task = earlier;
  taskDevice = device;
  currentClock = clock.data();
  compareBlocks = true;
}

void Shadow::end() {
  task = 0;
  currentClock = nullptr;
}

const std::string &Shadow::nameOf(TaskId id) const {
  return names[points[id].name];
}

std::string Shadow::describe(uintptr_t address) const {
  // Also where an allocation nearby was missed by little.
  const Allocation *near = find(address);
  if (!near && address - base < kRegion)
    for (auto &a : allocations)
      if (a && address + kPage > a->begin &&
          address < a->begin + a->bytes + kPage)
        near = a.get();
  char text[160];
  if (!near) {
    std::snprintf(text, sizeof text, "address 0x%zx, in no allocation",
                  static_cast<size_t>(address));
    return text;
  }
  char place[48] = "pinned memory";
  if (near->memory == Memory::Device)
    std::snprintf(place, sizeof place, "device %d", near->device);
  std::snprintf(text, sizeof text, "allocation %zu of %s (%zu bytes) %c %zd",
                static_cast<size_t>(near->serial), place, near->bytes,
                address < near->begin ? '-' : '+',
                address < near->begin
                    ? static_cast<ssize_t>(near->begin - address)
                    : static_cast<ssize_t>(address - near->begin));
  return text;
}

bool Shadow::check(uintptr_t address, size_t bytes, bool isWrite,
                   Allocation *&found) {
  Allocation *a = find(address);
  found = a;
  if (a && bytes <= a->begin + a->bytes - address &&
      (a->memory == Memory::Pinned || taskDevice < 0 ||
       a->device == taskDevice)) [[likely]]
    return true;
  const char *verb = isWrite ? "writes" : "reads";
  if (a && a->memory == Memory::Device && a->device != taskDevice &&
      taskDevice >= 0)
    report(nameOf(task) + " on device " + std::to_string(taskDevice) + " " +
               verb + " memory of another device: " + describe(address),
           "device" + nameOf(task) + verb);
  else
    report(nameOf(task) + " " + verb + " " + std::to_string(bytes) +
               " bytes outside of any allocation: " + describe(address),
           "outside" + nameOf(task) + verb);
  return false;
}

void Shadow::onConflict(TaskId other, bool otherWrites, bool thisWrites,
                        uintptr_t address) {
  std::string text =
      "race: " + nameOf(task) + (thisWrites ? " writes " : " reads ") +
      describe(address) + " which " + nameOf(other) +
      (otherWrites ? " writes" : " reads") + "; nothing orders the two";
  report(text, "race" + nameOf(task) + "|" + nameOf(other) +
                   (thisWrites ? "w" : "r") + (otherWrites ? "w" : "r"));
}

void Shadow::onRead(Cell &cell, uintptr_t address) {
  // Nothing but this task itself came between.
  if (cell.reads[0] == task)
    return;
  if (cell.write == 0) [[unlikely]]
    report(nameOf(task) + " reads bytes never written: " + describe(address),
           "unwritten" + nameOf(task));
  else if (cell.write != task && !isBefore(cell.write)) [[unlikely]]
    onConflict(cell.write, true, false, address);
  // The newest reader comes first; ordered ones make room.
  if (cell.reads[0] != 0 && !isBefore(cell.reads[0])) {
    if (cell.reads[1] != 0 && cell.reads[1] != task && !isBefore(cell.reads[1]))
      cell.reads[2] = cell.reads[1];
    cell.reads[1] = cell.reads[0];
  }
  cell.reads[0] = task;
}

void Shadow::onWrite(Cell &cell, uintptr_t address) {
  if (cell.write == task && (cell.reads[0] == 0 || cell.reads[0] == task) &&
      cell.reads[1] == 0)
    return;
  if (cell.write != 0 && cell.write != task && !isBefore(cell.write))
      [[unlikely]]
    onConflict(cell.write, true, true, address);
  for (TaskId reader : cell.reads)
    if (reader != 0 && reader != task && !isBefore(reader)) [[unlikely]]
      onConflict(reader, false, true, address);
  cell = Cell{task, {0, 0, 0}};
}

bool Shadow::read(const void *pointer, size_t bytes) {
  if (bytes == 0)
    return true;
  auto address = reinterpret_cast<uintptr_t>(pointer);
  Allocation *a;
  if (!check(address, bytes, false, a))
    return false;
  size_t end = cellIndex(*a, address + bytes - 1);
  for (size_t i = cellIndex(*a, address); i <= end; ++i)
    onRead(a->cells[i], a->begin + 2 * i);
  return true;
}

bool Shadow::write(const void *pointer, size_t bytes) {
  if (bytes == 0)
    return true;
  auto address = reinterpret_cast<uintptr_t>(pointer);
  Allocation *a;
  if (!check(address, bytes, true, a))
    return false;
  size_t end = cellIndex(*a, address + bytes - 1);
  for (size_t i = cellIndex(*a, address); i <= end; ++i)
    onWrite(a->cells[i], a->begin + 2 * i);
  return true;
}

void Shadow::onBlocks(bool otherWrites, bool thisWrites, uintptr_t address) {
  report("race: two blocks of " + nameOf(task) +
             (otherWrites && thisWrites ? " write " : " read and write ") +
             describe(address),
         "blocks" + nameOf(task));
}

bool Shadow::readInKernel(uintptr_t address, size_t bytes, uint32_t block) {
  Allocation *a;
  if (!check(address, bytes, false, a)) [[unlikely]]
    return false;
  size_t end = cellIndex(*a, address + bytes - 1);
  for (size_t i = cellIndex(*a, address); i <= end; ++i) {
    onRead(a->cells[i], a->begin + 2 * i);
    Toucher &t = a->touchers[i];
    if (t.task != task)
      t = Toucher{0, block, task};
    else {
      if (t.writer != 0 && t.writer != block && compareBlocks) [[unlikely]]
        onBlocks(true, false, a->begin + 2 * i);
      t.reader = block;
    }
  }
  return true;
}

bool Shadow::writeInKernel(uintptr_t address, size_t bytes, uint32_t block) {
  Allocation *a;
  if (!check(address, bytes, true, a)) [[unlikely]]
    return false;
  size_t end = cellIndex(*a, address + bytes - 1);
  for (size_t i = cellIndex(*a, address); i <= end; ++i) {
    onWrite(a->cells[i], a->begin + 2 * i);
    Toucher &t = a->touchers[i];
    if (t.task != task)
      t = Toucher{block, 0, task};
    else {
      if (compareBlocks && ((t.writer != 0 && t.writer != block) ||
                            (t.reader != 0 && t.reader != block))) [[unlikely]]
        onBlocks(t.writer != 0 && t.writer != block, true, a->begin + 2 * i);
      t.writer = block;
    }
  }
  return true;
}

bool Shadow::touch(const void *pointer, size_t bytes) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  Allocation *a;
  if (!check(address, bytes, true, a))
    return false;
  size_t end = cellIndex(*a, address + bytes - 1);
  for (size_t i = cellIndex(*a, address); i <= end; ++i)
    if (a->cells[i].write == 0)
      a->cells[i].write = task;
  return true;
}

void Shadow::forget(const void *pointer, size_t bytes) {
  if (bytes == 0)
    return;
  auto address = reinterpret_cast<uintptr_t>(pointer);
  Allocation *a = find(address);
  if (!a)
    return;
  size_t end =
      cellIndex(*a, std::min(address + bytes - 1, a->begin + a->bytes - 1));
  for (size_t i = cellIndex(*a, address); i <= end; ++i)
    a->cells[i] = Cell{0, {0, 0, 0}};
}

void Shadow::report(const std::string &text, const std::string &key) {
  if (reports.size() >= kMostReports ||
      !keys.insert(key.empty() ? text : key).second)
    return;
  reports.push_back(text);
}

std::vector<std::string> Shadow::takeReports() {
  keys.clear();
  return std::exchange(reports, {});
}

} // namespace ciuic::onhost
