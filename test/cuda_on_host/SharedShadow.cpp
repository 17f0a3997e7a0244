//===- SharedShadow.cpp - Accesses of shared memory -------------*- C++ -*-===//
#include "test/cuda_on_host/SharedShadow.h"
#include "test/cuda_on_host/Grid.h"

#include <cstdlib>
#include <cstring>
#include <mutex>

namespace ciuic::onhost {

namespace {

struct Sections {
  std::mutex mutex;
  std::vector<std::pair<uintptr_t, size_t>> all;
};

Sections &sectionsOfLibraries() {
  static Sections *one = new Sections;
  return *one;
}

} // namespace

SharedSection::SharedSection(const char *begin, const char *end) {
  if (begin && end > begin)
    SharedShadow::addSection(begin, end);
}

void SharedShadow::addSection(const char *begin, const char *end) {
  Sections &known = sectionsOfLibraries();
  std::lock_guard lock(known.mutex);
  std::pair<uintptr_t, size_t> one{reinterpret_cast<uintptr_t>(begin),
                                   static_cast<size_t>(end - begin)};
  for (auto &other : known.all)
    if (other == one)
      return; // Each source of a library tells of the library's section.
  known.all.push_back(one);
}

SharedShadow::SharedShadow() {
  // 16 bytes past a rounder address: no more alignment than is promised.
  auto *memory =
      static_cast<char *>(std::aligned_alloc(1024, kMostDynamicShared + 1024));
  dynamic = memory + 16;
  Section one;
  one.begin = reinterpret_cast<uintptr_t>(dynamic);
  one.bytes = kMostDynamicShared;
  one.cells = std::make_unique<Cell[]>(one.bytes / 2 + 1);
  sections.push_back(std::move(one));
}

void SharedShadow::startBlock(size_t bytes) {
  dynamicBytes = bytes;
  std::memset(dynamic, 0xff, bytes);
  Sections &known = sectionsOfLibraries();
  std::lock_guard lock(known.mutex);
  for (; knownSections < known.all.size(); ++knownSections) {
    Section one;
    one.begin = known.all[knownSections].first;
    one.bytes = known.all[knownSections].second;
    one.cells = std::make_unique<Cell[]>(one.bytes / 2 + 2);
    // A library that was unloaded may have left its place to this one.
    std::erase_if(sections, [&](const Section &other) {
      return other.begin != sections[0].begin &&
             other.begin < one.begin + one.bytes &&
             one.begin < other.begin + other.bytes;
    });
    sections.push_back(std::move(one));
    last = nullptr;
  }
}

SharedShadow::Section *SharedShadow::find(uintptr_t address) {
  if (last && address - last->begin < last->bytes)
    return last;
  for (Section &one : sections)
    if (address - one.begin < one.bytes)
      return last = &one;
  return nullptr;
}

bool SharedShadow::unordered(const Moment &then, const Moment &now) {
  if (then.block != now.block || then.barrier != now.barrier ||
      then.thread == now.thread)
    return false;
  if (then.thread / kLanes == now.thread / kLanes && then.sync != now.sync)
    return false;
  otherThread = then.thread;
  return true;
}

SharedShadow::Verdict SharedShadow::probe(uintptr_t address, size_t bytes,
                                          const Moment &now) {
  Section *section = find(address);
  if (!section)
    return Verdict::NotShared;
  if (section == &sections[0] &&
      address - section->begin + bytes > dynamicBytes)
    return Verdict::Outside;
  size_t end = (address + bytes - 1) / 2 - section->begin / 2;
  for (size_t i = address / 2 - section->begin / 2; i <= end; ++i) {
    Cell &cell = section->cells[i];
    if (unordered(cell.write, now))
      return Verdict::Race;
    if (cell.read.block != now.block || cell.read.barrier != now.barrier)
      continue;
    if (cell.manyReaders) {
      otherThread = cell.read.thread;
      return Verdict::Race;
    }
    bool sameWarp = cell.read.thread / kLanes == now.thread / kLanes;
    if (cell.warpReaders ? !sameWarp || cell.read.sync == now.sync
                         : unordered(cell.read, now)) {
      otherThread = cell.read.thread;
      return Verdict::Race;
    }
  }
  return Verdict::Fine;
}

SharedShadow::Verdict SharedShadow::access(uintptr_t address, size_t bytes,
                                           bool isWrite, const Moment &now) {
  if (isWrite) {
    Verdict verdict = probe(address, bytes, now);
    if (verdict == Verdict::NotShared || verdict == Verdict::Outside)
      return verdict;
    size_t end = (address + bytes - 1) / 2 - last->begin / 2;
    for (size_t i = address / 2 - last->begin / 2; i <= end; ++i) {
      Cell &cell = last->cells[i];
      cell.write = now;
      cell.read.block = 0;
    }
    return verdict;
  }
  Section *section = find(address);
  if (!section)
    return Verdict::NotShared;
  if (section == &sections[0] &&
      address - section->begin + bytes > dynamicBytes)
    return Verdict::Outside;
  Verdict verdict = Verdict::Fine;
  size_t end = (address + bytes - 1) / 2 - section->begin / 2;
  for (size_t i = address / 2 - section->begin / 2; i <= end; ++i) {
    Cell &cell = section->cells[i];
    if (cell.write.block != now.block)
      verdict = Verdict::Unwritten;
    else if (unordered(cell.write, now))
      verdict = Verdict::Race;
    bool isSameSpan =
        cell.read.block == now.block && cell.read.barrier == now.barrier;
    if (!isSameSpan) {
      cell.read = now;
      cell.manyReaders = cell.warpReaders = false;
      continue;
    }
    if (cell.read.thread / kLanes != now.thread / kLanes)
      cell.manyReaders = true;
    else if (cell.read.sync != now.sync)
      cell.warpReaders = false; // The __syncwarp orders the earlier ones.
    else if (cell.read.thread != now.thread)
      cell.warpReaders = true;
    cell.read = now;
  }
  return verdict;
}

} // namespace ciuic::onhost
